//! Parts: files with the sums of some frames of a scan, each written by one run of ai-integrate.
//!
//! A part is an HDF5 file that begins with a user block of 512 bytes, whose first line is JSON and
//! can be shown with `head -1`. The datasets of the HDF5 file have one row per frame, in ascending
//! order of the frames:
//!
//! | dataset | type | content |
//! |---|---|---|
//! | `task`, `recipe` | text | record of the task; recipe in TOML |
//! | `radial`, `chi` | f64 | centres of the bins, `@name`, `@units`; `chi` only in cakes |
//! | `norm`, `norm_sq`, `count` | f64 (bins) | weights that the frames have in common |
//! | `frames`, `status`, `stored_digest`, `monitor` | u64, u8, u64, f64 | one value per frame |
//! | `signal`, `variance` | f64 (frames, bins) | sums; NaN for a frame without sums |
//! | `intensity`, `intensity_errors` | f32 (frames, bins) | patterns, which virtual final files show |
//! | `row_digest` | u64 | of each cake, as in the final file |
//! | `exceptions/frames`, `starts` | u64 | frames with a weight override ([`BinWeights`](crate::BinWeights)); index of the first bin of each, and the total |
//! | `exceptions/bins`, `norm`, `norm_sq`, `count` | u32, f64 | bins whose weights differ from the common ones, and their weights |
//! | `sparse` | | pixels that clipping rejected, if they were asked for ([`crate::sparse_pixels`]) |
//!
//! The bins of a cake are azimuth-major. `variance` and `intensity_errors` are absent without an
//! error model. `intensity` is absent if the monitor is divided by its mean over the scan, because
//! the mean is unknown until all frames are integrated. Cakes are compressed as they will be in the
//! final file, which takes their chunks as they are. The sums of cakes are absent unless
//! [`PartStorage`] keeps them, or patterns can't take their place.

mod encoded_row;
mod error;
mod read;
mod rows;
mod user_block;
mod write;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use recipe::Recipe;
use records::{Absent, AbsentKind, Span, Spans, Task};

use crate::Compression;

pub(crate) use encoded_row::EncodedPattern;
pub use encoded_row::{PartRow, PatternBuilder, RowEncoder};
pub use error::PartError;
pub use read::{Part, read_part, read_user_block};
pub(crate) use read::{has_sparse_pixels, open_part, read_task};
pub use rows::PartRows;
pub use user_block::{PartUserBlock, UserBlockError};
pub use write::PartWriter;

/// Description of a part: what its sums are of.
#[derive(Clone, Debug, PartialEq)]
pub struct PartMetadata {
    /// Task of the part, with its range of frames and the sources they are in.
    pub task: Task,
    /// Recipe that the task names.
    pub recipe: Recipe,
}

/// How a part stores its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartStorage {
    /// Compression of cakes.
    pub compression: Compression,
    /// Keeps the sums of cakes, which gather needs for `--keep-sums`. Those of patterns of one
    /// dimension are always kept.
    pub keep_sums: bool,
    /// Holds the sparse pixels of each frame that has sums.
    pub sparse: bool,
}

/// Names of the datasets.
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
    pub(super) const ROW_DIGEST: &str = "row_digest";
}

/// Names of the datasets that virtual final files map.
pub(crate) mod row_dataset {
    /// Sums of the counts, f64.
    pub(crate) const SIGNAL: &str = "signal";
    /// Sums of the variances, f64.
    pub(crate) const VARIANCE: &str = "variance";
    /// Intensities of the patterns, f32.
    pub(crate) const INTENSITY: &str = "intensity";
    /// Errors of the patterns, f32.
    pub(crate) const ERRORS: &str = "intensity_errors";
}

/// Returns the directory of the parts of a scan and recipe; `None` if the names lead out of the
/// output root.
pub(crate) fn parts_dir(out_root: &Path, scan: &str, recipe_digest: &str) -> Option<PathBuf> {
    let path = Task::part_path(scan, recipe_digest, &Spans::default());
    path.is_contained().then(|| out_root.join(path.parent().unwrap_or(Path::new(""))))
}

/// Lists the files that may be parts of a scan and recipe, ordered by name.
///
/// # Errors
/// Fails if the directory exists and can't be read.
pub fn list_parts(out_root: &Path, scan: &str, recipe_digest: &str) -> io::Result<Vec<PathBuf>> {
    parts_dir(out_root, scan, recipe_digest)
        .map_or(Ok(Vec::new()), |directory| list_files(&directory))
}

/// Lists the files of a directory that may be parts, ordered by name. Temporary files and files
/// with another extension are left out. The list is empty if the directory doesn't exist.
///
/// # Errors
/// Fails if the directory, or the metadata of a file in it, can't be read.
pub(crate) fn list_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match directory.read_dir() {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden
            && path.extension().is_some_and(|extension| extension == "h5")
            && !is_not_file(&path)?
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns the frames of a part that can't be read, and the reason. The frames are known from the
/// name of the part or from its user block; `None` if neither is readable.
pub(crate) fn frames_of_unread(path: &Path, why: &PartError) -> Option<Absent> {
    let of_name = path.file_name().and_then(|name| range_in_name(name.as_encoded_bytes()));
    // All frames of a part with gaps lie between the first and the last.
    let of_head = || {
        read_user_block(path).ok().filter(|head| head.count > 0).map(|head| (head.first, head.last))
    };
    let (first, last) = of_name.or_else(of_head)?;
    let kind = if why.is_io_failure() { AbsentKind::Unreadable } else { AbsentKind::NotIntegrated };
    Some(Absent {
        range: Span::new(first, last.saturating_add(1)).into(),
        kind,
        reason: format!("part unreadable: {why}"),
    })
}

/// Returns whether a path leads to something other than a file, such as a directory. False if the
/// path doesn't exist.
fn is_not_file(path: &Path) -> io::Result<bool> {
    match path.metadata() {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(false),
        metadata => metadata.map(|metadata| !metadata.is_file()),
    }
}

/// Parses the first and last frame from a name such as `00000500-00000999.h5`, which only parts
/// without gaps have.
pub(crate) fn range_in_name(name: &[u8]) -> Option<(u64, u64)> {
    /// Minimum length of the digests in other names. A digest may happen to consist of decimal
    /// digits alone.
    const SHORTEST_DIGEST: usize = 16;
    let (first, last) = std::str::from_utf8(name).ok()?.strip_suffix(".h5")?.split_once('-')?;
    let number = |text: &str| {
        let is_number =
            text.len() < SHORTEST_DIGEST && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| is_number)
    };
    number(first).zip(number(last)).filter(|(first, last)| first <= last)
}
