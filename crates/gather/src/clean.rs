//! `--clean`: removes what results that were replaced have left.

use std::path::Path;

use filter::{Filter, Stop};
use patterns::output::{self, Leftover, OutputError};
use records::Fail;

/// Removes what is left over below an output root, and tells each file or directory with its bytes; tells them alone where the run
/// is `dry`.
///
/// # Errors
/// Another run is at work there; the directories can't be read.
pub fn clean(root: &Path, dry: bool, filter: &Filter) -> Result<(), Stop> {
    let found = output::leftovers(root).map_err(|why| Stop::fatal("--clean", why))?;
    found.kept.iter().for_each(|kept| filter.warn(&format!("left alone: {kept}")));
    for why in &found.unread {
        fail(root, why, filter)?;
    }
    let (mut files, mut bytes) = (0, 0);
    for leftover in &found.all {
        filter.check_stopped()?;
        if !dry && let Err(why) = leftover.remove() {
            fail(root, &why, filter)?;
            continue;
        }
        files += leftover.count();
        bytes += leftover.bytes;
        say(leftover, dry, filter);
    }
    let verb = if dry { "would remove" } else { "removed" };
    filter.note(0, || format!("{}: {verb} {files} files, {bytes} bytes", root.display()));
    Ok(())
}

fn say(Leftover { path, why, bytes, .. }: &Leftover, dry: bool, filter: &Filter) {
    let verb = if dry { "would remove" } else { "removed" };
    filter.note(0, || format!("{verb} {}: {bytes} bytes: {why}", path.display()));
}

fn fail(root: &Path, why: &OutputError, filter: &Filter) -> Result<(), Stop> {
    let (about, retryable) = (format!("{}: --clean", root.display()), why.io_error().is_some());
    filter.fail(Fail { about, error: why.to_string(), retryable, ..Fail::default() })
}
