//! Parts: the sums of some frames of a scan, as one run of ai-integrate left them.
//!
//! A part is an HDF5 file behind 512 bytes of its own, of which `head -1` shows the one JSON line.
//! Its datasets, with one row a frame in rising order of the frames:
//!
//! | dataset | type | content |
//! |---|---|---|
//! | `task`, `recipe` | text | the task's record; the recipe in TOML |
//! | `radial`, `chi` | f64 | the bins' centres, `@name`, `@units`; `chi` in cakes only |
//! | `norm`, `norm_sq`, `count` | f64 (bins) | the weights that the frames share |
//! | `frames`, `frame_status`, `stored_digest`, `monitor` | u64, u8, u64, f64 | one value a frame |
//! | `signal`, `variance` | f64 (frames, bins) | the sums; NaN where a frame has none |
//! | `intensity`, `intensity_errors` | f32 (frames, bins) | the patterns, which virtual finals show |
//! | `exceptions/frames`, `starts` | u64 | the frames with weights of their own, where their bins start, and the end |
//! | `exceptions/bins`, `norm`, `norm_sq`, `count` | u32, f64 | the bins whose weights differ, and these weights |
//!
//! The bins of a cake are azimuth-major. `variance` and `intensity_errors` are absent without an error
//! model. A pattern whose monitor is divided by its mean over the scan can't be known before all parts
//! are there: such parts have no `intensity`.

mod error;
mod read;
mod rows;
mod user_block;
mod write;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use recipe::Recipe;
use records::{Absent, AbsentKind, Span, Task};

pub use error::PartError;
pub use read::{Part, read_part, read_user_block};
pub(crate) use read::{open_part, read_task};
pub use rows::PartRows;
pub use user_block::PartUserBlock;
pub use write::PartWriter;

/// What a part is about.
#[derive(Clone, Debug, PartialEq)]
pub struct PartMetadata {
    /// The task, with the frames to come and the stamps of their sources.
    pub task: Task,
    /// The recipe that the task names.
    pub recipe: Recipe,
}

/// The names of the datasets.
mod name {
    pub(super) const TASK: &str = "task";
    pub(super) const RECIPE: &str = "recipe";
    pub(super) const RADIAL: &str = "radial";
    pub(super) const CHI: &str = "chi";
    pub(super) const NORM: &str = "norm";
    pub(super) const NORM_SQ: &str = "norm_sq";
    pub(super) const COUNT: &str = "count";
    pub(super) const FRAMES: &str = "frames";
    pub(super) const STATUS: &str = "status";
    pub(super) const STORED_DIGEST: &str = "stored_digest";
    pub(super) const MONITOR: &str = "monitor";
}

/// The datasets that virtual finals map.
pub(crate) mod row_dataset {
    /// f64 sums.
    pub(crate) const SIGNAL: &str = "signal";
    /// f64 sums.
    pub(crate) const VARIANCE: &str = "variance";
    /// f32 patterns.
    pub(crate) const INTENSITY: &str = "intensity";
    /// f32 errors.
    pub(crate) const ERRORS: &str = "intensity_errors";
}

/// Lists the files of a directory that may be parts, and not temporary or other files, in the order of their names. A directory
/// that is not there has none.
///
/// # Errors
/// The directory, or what a name in it leads to, can't be looked at.
pub(crate) fn list_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match directory.read_dir() {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|extension| extension == "h5") && !is_not_file(&path)? {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns the frames that a part holds which can't be read, and why, as far as its first line or its name says which they are.
pub(crate) fn frames_of_unread(path: &Path, why: &PartError) -> Option<Absent> {
    let of_name = path.file_name().and_then(|name| range_in_name(name.as_encoded_bytes()));
    // Frames of a part with gaps lie between the first and the last.
    let of_head = || read_user_block(path).ok().filter(|head| head.count > 0).map(|head| (head.first, head.last));
    let (first, last) = of_name.or_else(of_head)?;
    let kind = if why.is_io_failure() { AbsentKind::Unreadable } else { AbsentKind::NotIntegrated };
    Some(Absent {
        range: Span::new(first, last.saturating_add(1)).into(),
        kind,
        reason: format!("part unreadable: {why}"),
    })
}

/// Whether a path leads to something that is no file, such as a directory. What has gone meanwhile leads nowhere else.
fn is_not_file(path: &Path) -> io::Result<bool> {
    match path.metadata() {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(false),
        metadata => metadata.map(|metadata| !metadata.is_file()),
    }
}

/// Reads the first and the last frame from a name such as `00000500-00000999.h5`, which only a part without gaps has.
pub(crate) fn range_in_name(name: &[u8]) -> Option<(u64, u64)> {
    /// Digests are as long, and may happen to have no letter.
    const SHORTEST_DIGEST: usize = 16;
    let (first, last) = std::str::from_utf8(name).ok()?.strip_suffix(".h5")?.split_once('-')?;
    let number = |text: &str| {
        let is_number = text.len() < SHORTEST_DIGEST && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| is_number)
    };
    number(first).zip(number(last)).filter(|(first, last)| first <= last)
}
