//! Statistics of each pixel over the frames of a scan: files that ai-integrate writes with
//! `--pixel-stats`, and which of them gather adds up.
//!
//! The files lie in `OUT/.azpipe/pixels/<scan>`, one per task that was integrated, named by its frames
//! and the values that it left out. All sums are
//! integers, so statistics of the same frames are equal however the scan was cut into tasks. A file
//! can't be divided, so files are chosen that share no frame: the last one that was written first,
//! as its generation says, and of these the one with the most frames. Frames of files that are not
//! chosen count as not done, so that a rerun adds a file with just these, and no frame is ever
//! counted twice. A file is removed once all of its frames are in later files.
//!
//! Statistics belong to a scan, and not to a recipe, because only the values that mean "no
//! measurement" change them. For a recipe, files count that leave out the recipe's own values;
//! `integrator::StatisticsRule` says which these are.

mod file;
mod suggested_mask;
mod sums;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use records::{RawPath, Spans, Task};
use system::atomic;
use system::ownership::{self, OwnershipRule};
use xxhash_rust::xxh3::xxh3_64;

pub use file::{StatisticsError, StatisticsFile, StatisticsMetadata};
pub use suggested_mask::{SuggestedMask, kind};
pub use sums::{StatisticsTotal, StoredPixelSums};

pub use crate::file_states::SourceStates;
use crate::source_fingerprint::SourceFingerprints;

/// Extension of the files.
const EXTENSION: &str = "pixels";

/// Files whose frames can be added up, and what can't be used.
#[derive(Debug, Default)]
pub struct FoundStatistics {
    /// Files that share no frame.
    pub files: Vec<StatisticsFile>,
    /// Reasons why files can't be used, such as damage.
    pub unusable: Vec<StatisticsError>,
    /// Values that other files leave out, which would be added up but for these.
    pub other_rule: Option<InvalidRanges>,
}

/// Values that mean "no measurement": ranges, both ends included.
pub type InvalidRanges = Vec<[i64; 2]>;

impl FoundStatistics {
    /// Returns the frames of all files, in ascending order.
    pub fn frames(&self) -> Spans {
        Spans::union_all(self.files.iter().map(|file| &file.metadata.task.range))
    }
}

/// Finds the statistics of a task's frames that need not be made again, by the values `invalid` that
/// mean "no measurement". Files are left out if the raw data of a frame has changed since. `task`
/// says so of its own frames; files of others that share a file of statistics with them are looked
/// at.
pub fn find_for_task(
    out_root: &Path,
    task: &Task,
    invalid: &[[i64; 2]],
    states: &SourceStates,
) -> FoundStatistics {
    let now = SourceFingerprints::new(&task.acquisition);
    let directory = task.acquisition.file.parent().unwrap_or(Path::new("/"));
    let counts = |file: &StatisticsFile| {
        let then = SourceFingerprints::new(&file.metadata.task.acquisition);
        let (own, others): (Vec<u64>, Vec<u64>) =
            file.frames().iter().partition(|frame| now.get(*frame).is_some());
        let is_same = |frame: &u64| now.is_same_data(&then, *frame);
        let mut seen = HashSet::new();
        let mut sources = others.iter().filter_map(|frame| then.source_of(*frame));
        own.iter().all(is_same)
            && (file.frames().intersection(&task.range).is_empty()
                || !sources.any(|source| {
                    seen.insert(source.name) && states.has_changed(directory, source)
                }))
    };
    find(out_root, task, invalid, counts)
}

/// Finds the statistics that can be added up for a final file, by the values `invalid` that mean "no
/// measurement". `task` is the task of the final file, whose sources are those of its rows: files
/// count whose frames are all among these, from the same raw data.
pub fn find_for_final(out_root: &Path, task: &Task, invalid: &[[i64; 2]]) -> FoundStatistics {
    let rows = SourceFingerprints::new(&task.acquisition);
    let counts = |file: &StatisticsFile| {
        let then = SourceFingerprints::new(&file.metadata.task.acquisition);
        file.frames().iter().all(|frame| rows.is_same_data(&then, frame))
    };
    find(out_root, task, invalid, counts)
}

/// Finds files of a task's scan that share no frame, by the values `invalid`, among those that
/// `counts` accepts.
fn find(
    out_root: &Path,
    task: &Task,
    invalid: &[[i64; 2]],
    counts: impl Fn(&StatisticsFile) -> bool,
) -> FoundStatistics {
    let mut found = FoundStatistics::default();
    let Some(directory) = statistics_dir(out_root, &task.scan) else { return found };
    // Where all is done, nothing is written to the directory, which would remove them.
    atomic::remove_stale_files_once(&directory);
    let paths = match list(&directory) {
        Ok(paths) => paths,
        Err(why) => {
            found.unusable.push(StatisticsError::Io { path: directory, why });
            return found;
        }
    };
    let mut files = Vec::new();
    for path in paths {
        match StatisticsFile::open(&path) {
            Ok(file) => files.push(file),
            // A run may have replaced it since it was listed.
            Err(error) if error.was_removed() => (),
            Err(error) => found.unusable.push(error),
        }
    }
    files.retain(|file| {
        let of_file = &file.metadata.task;
        // Frames that the scan no longer has are in no image of it.
        let exists = of_file.range.iter().all(|frame| frame < task.acquisition.frames);
        of_file.scan == task.scan
            && of_file.acquisition.shape == task.acquisition.shape
            && exists
            && counts(file)
    });
    let has_rule = |file: &StatisticsFile| file.metadata.invalid == invalid;
    found.other_rule =
        files.iter().find(|file| !has_rule(file)).map(|file| file.metadata.invalid.clone());
    files.retain(has_rule);
    // In equal files, the order of the list, which is that of the names.
    files.sort_by_key(|file| Reverse((file.metadata.generation, file.frames().count())));
    let mut taken = Spans::default();
    for file in files {
        let frames = &file.metadata.task.range;
        if frames.intersection(&taken).is_empty() {
            taken = taken.union(frames);
            found.files.push(file);
        }
    }
    found
}

/// Writes the statistics of `task.range` below `out_root`, by the values `invalid` that mean "no
/// measurement", whole and durable or not at all. `for_each` passes the sums of each pixel, in the
/// order of the pixels. They take the place of earlier statistics of these frames: files all of
/// whose frames are in later ones are removed.
///
/// # Errors
/// Fails if the scan's name leads out of `out_root`, or if a file can't be written, listed or
/// removed.
pub fn write_statistics(
    out_root: &Path,
    task: Task,
    invalid: InvalidRanges,
    for_each: impl FnOnce(&mut dyn FnMut(StoredPixelSums)),
) -> Result<PathBuf, StatisticsError> {
    let directory = statistics_dir(out_root, &task.scan)
        .ok_or_else(|| StatisticsError::Outside { scan: task.scan.clone() })?;
    let of_rule = read_files_of_rule(&directory, &invalid)?;
    let shares_frames =
        |file: &&StatisticsFile| !file.frames().intersection(&task.range).is_empty();
    let earlier = of_rule.iter().filter(shares_frames);
    let latest = earlier.map(|file| file.metadata.generation).max();
    let generation = latest.map_or(0, |latest| latest.saturating_add(1));
    let frames = task.range.clone();
    let metadata = StatisticsMetadata { task, invalid, generation };
    let path = directory.join(file_name(&metadata));
    file::write_file(&path, &metadata, for_each)?;
    let others: Vec<StatisticsFile> =
        of_rule.into_iter().filter(|file| file.path != path).collect();
    for file in others.iter().filter(|file| !file.frames().intersection(&frames).is_empty()) {
        let is_later =
            |other: &&StatisticsFile| other.metadata.generation > file.metadata.generation;
        let later = others.iter().filter(is_later).map(StatisticsFile::frames);
        let later = Spans::union_all(later.chain([&frames]));
        if file.frames().difference(&later).is_empty() {
            let io = |why| StatisticsError::Io { path: file.path.clone(), why };
            ownership::remove(&file.path, &OwnershipRule::in_azpipe_dir()).map_err(io)?;
        }
    }
    Ok(path)
}

/// Opens the files of a scan that leave out the values `invalid`. A damaged file counts for nothing,
/// and is reported by who needs it.
///
/// # Errors
/// Fails if the directory can't be listed, or if the system can't open or read a file: it might be
/// the latest one.
fn read_files_of_rule(
    directory: &Path,
    invalid: &[[i64; 2]],
) -> Result<Vec<StatisticsFile>, StatisticsError> {
    let io = |why| StatisticsError::Io { path: directory.to_owned(), why };
    let mut files = Vec::new();
    for path in list(directory).map_err(io)? {
        match StatisticsFile::open(&path) {
            Ok(file) if file.metadata.invalid == invalid => files.push(file),
            Err(why) if why.is_io_failure() => return Err(why),
            Ok(_) | Err(_) => (),
        }
    }
    Ok(files)
}

/// Returns the directory of a scan's statistics; `None` if the name leads out of the output root.
pub fn statistics_dir(out_root: &Path, scan: &str) -> Option<PathBuf> {
    let path = RawPath::from(PathBuf::from(".azpipe/pixels").join(scan));
    path.is_contained().then(|| out_root.join(path.as_path()))
}

/// Returns the name of a file of statistics, which follows from the frames and from the values that
/// mean "no measurement".
fn file_name(metadata: &StatisticsMetadata) -> OsString {
    let task = &metadata.task;
    let part = Task::part_path(&task.scan, "", &task.range);
    let ends = metadata.invalid.iter().flatten().flat_map(|value| value.to_le_bytes());
    let rule = xxh3_64(&ends.collect::<Vec<_>>()) as u32;
    let mut name = part.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{rule:08x}.{EXTENSION}"));
    name
}

/// Lists the files of a directory, which need not exist, ordered by name.
fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match directory.read_dir() {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if is_statistics(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns whether a path is named as a file of statistics, and not as a temporary file.
pub(crate) fn is_statistics(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    !is_hidden && path.extension().is_some_and(|extension| extension == EXTENSION)
}
