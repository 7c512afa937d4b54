//! Tasks that only the stand-ins can do.

use std::path::Path;
use std::sync::OnceLock;

use recipe::{Recipe, Settings};
use records::{Acquisition, RawPath, Record, Task};

/// The id of a task.
pub fn id(index: usize) -> String {
    format!("{index:016x}")
}

/// A recipe's file, and its digest.
fn recipe() -> &'static (RawPath, String) {
    static RECIPE: OnceLock<(RawPath, String)> = OnceLock::new();
    RECIPE.get_or_init(|| {
        let geometry = Some("Distance: 0.1\nPoni1: 0\nPoni2: 0\nWavelength: 1e-10\n".to_owned());
        let recipe = Recipe::resolve(&Settings { geometry, ..Settings::default() }).unwrap();
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("recipe.{}.toml", std::process::id()));
        std::fs::write(&path, recipe.to_toml()).unwrap();
        (path.into(), recipe.digest())
    })
}

/// The line of a task of a million bytes; three in a row are of one scan.
pub fn line(index: usize) -> String {
    let (scan, (recipe, recipe_digest)) = (format!("5ca{}", index / 3), recipe().clone());
    let acquisition = Acquisition { file: "/raw/master.h5".into(), ..Acquisition::default() };
    let task = Task {
        id: id(index),
        scan,
        recipe,
        recipe_digest,
        bytes: 1_000_000,
        acquisition,
        ..Task::default()
    };
    Record::from(Task { out: "/out".into(), ..task }).to_line() + "\n"
}

/// The lines of that many tasks.
pub fn lines(count: usize) -> String {
    (0..count).map(line).collect()
}
