//! Finds the Lima files of a scan that is still being written, or whose acquisition was killed.
//! Bliss creates the virtual dataset only at the end of a scan, so the master doesn't refer to the
//! files.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use records::{AbsentKind, Span, Spans};

use super::dataset_cache::{DatasetCache, SharedFrameMap};
use super::detector::ScanDetector;
use super::entry::NexusEntry;
use super::error::DiscoverError;
use super::file_content_cache;
use super::frame_map::FrameMap;
use super::open_files::OpenFiles;
use super::unusable::UnusableError;

/// Reason of a frame whose file is not closed: size and time of the file will still change, which
/// would invalidate the record.
const FILE_OPEN_REASON: &str = "being written";

/// Time without a change after which nobody writes a file any more: whoever did was killed. If frames do
/// follow, the record is out of date, as after any change.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// Path of the frames in a Lima file, which is often a link.
const LIMA_DATASET: &str = "/entry_0000/measurement/data";

/// A Lima file of a detector with its number: `p3_0003.h5` has number 3.
struct LimaFile {
    number: u64,
    file: PathBuf,
}

/// The frames of a detector's Lima files.
pub(super) struct LimaFrames {
    pub frame_map: Result<FrameMap, DiscoverError>,
    /// Files whose number is too large for any scan, with the error of each.
    pub stray_files: Vec<(PathBuf, DiscoverError)>,
}

/// Finds the Lima files of a detector by number: `scan0012/p3_0003.h5`, or the place that the
/// master names.
fn find_files(
    files: &mut OpenFiles,
    entry: &NexusEntry,
    detector: &ScanDetector,
) -> Result<Vec<LimaFile>, DiscoverError> {
    let Some(directory) = entry.file.parent() else { return Ok(Vec::new()) };
    let mut parameter = |name: &str| {
        files.read_text(&entry.group, &format!("{}/acq_parameters/{name}", detector.group))
    };
    let saved = parameter("saving_directory")?.map(PathBuf::from);
    let beside = saved.as_ref().and_then(|saved| Some(directory.join(saved.file_name()?)));
    let by_number = entry.scan_number().map(|number| directory.join(format!("scan{number:04}")));
    let prefix = parameter("saving_prefix")?.unwrap_or_else(|| format!("{}_", detector.name));
    let mut failure = None;
    for place in saved.into_iter().chain(beside).chain(by_number) {
        match list_files(&place, &prefix) {
            Ok(files) if files.is_empty() => (),
            Ok(files) => return Ok(files),
            Err(why) if why.kind() == io::ErrorKind::NotFound => (),
            Err(why) => {
                failure.get_or_insert(DiscoverError::from_io(&place, &why));
            }
        }
    }
    failure.map_or(Ok(Vec::new()), Err)
}

fn list_files(directory: &Path, prefix: &str) -> io::Result<Vec<LimaFile>> {
    let number = |name: OsString| {
        let digits = name.to_str()?.strip_prefix(prefix)?.strip_suffix(".h5")?.to_owned();
        // A number with too many digits for u64 counts as too large for any scan.
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse().unwrap_or(u64::MAX))
    };
    let mut found = Vec::new();
    for file in directory.read_dir()? {
        let file = file?;
        found.extend(number(file.file_name()).map(|number| LimaFile { number, file: file.path() }));
    }
    found.sort_unstable_by(|one, two| (one.number, &one.file).cmp(&(two.number, &two.file)));
    Ok(found)
}

/// Returns the paths of a detector's Lima files.
///
/// # Errors
/// A directory that may hold them can't be read.
pub(super) fn file_paths(
    files: &mut OpenFiles,
    entry: &NexusEntry,
    detector: &ScanDetector,
) -> Result<Vec<PathBuf>, DiscoverError> {
    Ok(find_files(files, entry, detector)?.into_iter().map(|numbered| numbered.file).collect())
}

/// Builds the frame map of the detector's Lima files, or returns `None` if there are none.
///
/// Lima numbers a scan's files from 0, and each but the last holds as many frames as the first one
/// that can be read. The scan has as many frames as were requested or, if that is unknown, as the
/// files have room for.
///
/// # Errors
/// The metadata in the master can't be read, or give no valid number of frames.
pub(super) fn build_frame_map(
    cache: &mut DatasetCache,
    entry: &NexusEntry,
    detector: &ScanDetector,
) -> Result<Option<LimaFrames>, DiscoverError> {
    let mut files = find_files(&mut cache.files, entry, detector)?;
    cache.files.prefetch(files.iter().map(|numbered| numbered.file.clone()));
    if files.is_empty() {
        return Ok(None);
    }
    let requested = requested_frames(&mut cache.files, entry, detector)?;
    let mut look = |numbered: &LimaFile| {
        let frame_map = cache.trace_source(&numbered.file, LIMA_DATASET);
        let is_closed = if entry.has_ended() || is_abandoned(&numbered.file, &frame_map) {
            Ok(true)
        } else {
            is_closed(&mut cache.files, &numbered.file)
        };
        (frame_map, is_closed)
    };
    let each: Vec<_> = files.iter().map(&mut look).collect();
    let failed = |why| Ok(Some(LimaFrames { frame_map: Err(why), stray_files: Vec::new() }));
    let is_readable = |(frame_map, _): &(SharedFrameMap, _)| frame_map.is_ok();
    let Some((index, Ok(first))) =
        each.iter().position(is_readable).map(|index| (index, &*each[index].0))
    else {
        return failed(first_failure(&each).unwrap_or_else(|| UnusableError::NoLimaFiles.into()));
    };
    let mut frames_per_file = first.frames;
    if index.checked_add(1) == Some(files.len()) && files[index].number > 0 {
        // The last file may hold fewer frames than the others, unless it takes all frames that were
        // requested for it.
        let count = files[index].number.saturating_add(1);
        if requested.is_none() || requested != first.frames.checked_mul(count) {
            let saved = saved_frames_per_file(&mut cache.files, entry, detector)?;
            match (saved, first_failure(&each[..index])) {
                (Some(saved), _) => frames_per_file = saved,
                (None, Some(why)) => return failed(why),
                (None, None) => (),
            }
        }
    }
    let longer = files.iter().zip(&each).find_map(|(numbered, (frame_map, _))| {
        let frames = (**frame_map).as_ref().ok()?.frames;
        (frames > frames_per_file).then(|| (numbered.file.clone(), frames))
    });
    if let Some((file, frames)) = longer {
        return failed(UnusableError::LimaFileTooLong { file, frames, frames_per_file }.into());
    }
    // No scan has more frames than a record may hold.
    let most = Spans::MAX_FRAMES.checked_div(frames_per_file).unwrap_or(Spans::MAX_FRAMES).max(1);
    // First frame of a file. File numbers are below `most`, so that the product is at most
    // `MAX_FRAMES`, or the frames of one file.
    let start = |number: u64| number.saturating_mul(frames_per_file);
    let stray = |numbered: &LimaFile| {
        let (file, number) = (numbered.file.clone(), number_in_name(numbered));
        (file.clone(), UnusableError::LimaFileNumber { file, number, end: most }.into())
    };
    let strays = files.iter().filter(|numbered| numbered.number >= most).map(stray).collect();
    files.retain(|numbered| numbered.number < most);
    let start_of_last = files.last().map_or(0, |last| start(last.number));
    if let Some(requested) = requested
        && let Some(file) = contradicts_numbers(&files, requested, frames_per_file)
    {
        return failed(UnusableError::LimaNumbersContradict { file, requested }.into());
    }
    let total = requested
        .filter(|&requested| requested > start_of_last)
        .unwrap_or(start_of_last.saturating_add(frames_per_file));
    let fill = || {
        let mut all = FrameMap::new(
            &entry.file,
            vec![total, first.shape[0], first.shape[1]],
            first.coding.clone(),
        )?;
        let start = |number: u64| start(number).min(total);
        let mut expected = 0;
        for (numbered, (frame_map, is_closed)) in files.iter().zip(&each) {
            let missing = Spans::from(Span::new(start(expected), start(numbered.number)));
            all.add_absent(
                &missing,
                AbsentKind::Missing,
                &describe_missing(&files, expected, numbered.number),
            )?;
            expected = numbered.number.saturating_add(1);
            let here = Spans::from(Span::new(start(numbered.number), start(expected)));
            all.files.push(numbered.file.clone());
            match (is_closed, &**frame_map) {
                (Ok(false), _) => {
                    all.add_absent(&here, AbsentKind::NeverTaken, FILE_OPEN_REASON)?
                }
                (Ok(true), Ok(frame_map)) => {
                    all.add_mapped_frames(&here, frame_map, &Spans::first_n(here.count()))?
                }
                (Ok(true), Err(why)) => {
                    all.add_absent_for_error(&here, why, &numbered.file, &numbered.file)?
                }
                (Err(why), _) => {
                    all.add_absent_for_error(&here, why, &numbered.file, &numbered.file)?
                }
            }
        }
        if entry.has_ended() {
            let behind = Spans::from(Span::new(start(expected), total));
            let last = expected.saturating_add(behind.count().div_ceil(frames_per_file.max(1)));
            all.add_absent(
                &behind,
                AbsentKind::Missing,
                &describe_missing(&files, expected, last),
            )?;
        }
        Ok(all.complete())
    };
    Ok(Some(LimaFrames { frame_map: fill(), stray_files: strays }))
}

/// Returns the first file if the files hold the requested frames only if they are numbered from
/// that file's number, so that it is unknown which frames they have. A step scan may request
/// single frames, of which it takes any number.
fn contradicts_numbers(files: &[LimaFile], requested: u64, per_file: u64) -> Option<PathBuf> {
    let (first, last) = (files.first()?, files.last()?);
    let holds_beyond = |number: u64| number.saturating_mul(per_file) >= requested;
    let is_shifted = first.number > 0
        && requested > 1
        && holds_beyond(last.number)
        && !holds_beyond(last.number.saturating_sub(first.number));
    is_shifted.then(|| first.file.clone())
}

/// Returns the number of frames requested from Lima, or `None` if the master doesn't say or Lima
/// was to run until stopped.
fn requested_frames(
    files: &mut OpenFiles,
    entry: &NexusEntry,
    detector: &ScanDetector,
) -> Result<Option<u64>, DiscoverError> {
    match read_requested_frames(files, entry, detector)? {
        // The conversion saturates.
        Some(count) if count > Spans::MAX_FRAMES as f64 => {
            Err(UnusableError::RequestedFrames(count as u64).into())
        }
        Some(count) if count >= 1.0 => Ok(Some(count as u64)),
        _ => Ok(None),
    }
}

/// Returns the number of frames requested from Lima as the master has it, if it does.
pub(super) fn read_requested_frames(
    files: &mut OpenFiles,
    entry: &NexusEntry,
    detector: &ScanDetector,
) -> Result<Option<f64>, DiscoverError> {
    entry.read_number(files, &format!("{}/acq_parameters/acq_nb_frames", detector.group))
}

/// Returns the number of frames that Lima was to save in each file, or `None` if the master doesn't
/// say.
fn saved_frames_per_file(
    files: &mut OpenFiles,
    entry: &NexusEntry,
    detector: &ScanDetector,
) -> Result<Option<u64>, DiscoverError> {
    let count = entry
        .read_number(files, &format!("{}/ctrl_parameters/saving_frame_per_file", detector.group))?;
    Ok(count
        .filter(|count| (1.0..=Spans::MAX_FRAMES as f64).contains(count))
        .map(|count| count as u64))
}

fn first_failure<T>(each: &[(SharedFrameMap, T)]) -> Option<DiscoverError> {
    DiscoverError::choose_retryable(
        each.iter().filter_map(|(frame_map, _)| frame_map.as_ref().as_ref().err()),
    )
    .cloned()
}

/// Returns the number of a file as it is written in its name.
fn number_in_name(numbered: &LimaFile) -> String {
    let stem = numbered.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let before = stem.trim_end_matches(|digit: char| digit.is_ascii_digit());
    stem[before.len()..].to_owned()
}

/// Lists the missing files, named like those that exist.
fn describe_missing(files: &[LimaFile], from: u64, to: u64) -> String {
    let Some(model) = files.first() else { return "file missing".to_owned() };
    let (digits, shown) = (number_in_name(model), model.file.display().to_string());
    let prefix = shown.strip_suffix(&format!("{digits}.h5")).unwrap_or(&shown).to_owned();
    let file = |number: u64| format!("{prefix}{number:0width$}.h5", width = digits.len());
    match to.saturating_sub(from) {
        0 | 1 => format!("file missing: {}", file(from)),
        count => format!("{count} files missing: {} to {}", file(from), file(to.saturating_sub(1))),
    }
}

/// Returns whether a file has not changed for so long that its writer was killed, and tells which of its
/// frames were written: those of chunks do. A file whose age is unknown, or that can't be read, is not
/// abandoned.
fn is_abandoned(file: &Path, frame_map: &SharedFrameMap) -> bool {
    let tells_frames = (**frame_map).as_ref().is_ok_and(|map| !map.chunk.is_empty());
    let changed = file.metadata().and_then(|metadata| metadata.modified());
    let age = changed.ok().and_then(|changed| SystemTime::now().duration_since(changed).ok());
    tells_frames && age.is_some_and(|age| age >= ABANDONED_AFTER)
}

/// Returns whether a Lima file is complete: Lima writes `end_time` when it closes a file. A file
/// that the HDF5 library can't parse is not complete.
///
/// # Errors
/// The file can't be read.
fn is_closed(files: &mut OpenFiles, file: &Path) -> Result<bool, DiscoverError> {
    if file_content_cache::is_closed(file) {
        return Ok(true);
    }
    match files.root(file).and_then(|root| files.try_resolve(&root, "/entry_0000/end_time")) {
        Ok(Some(_)) => {
            file_content_cache::set_closed(file);
            Ok(true)
        }
        Ok(None) => Ok(false),
        Err(DiscoverError::Damaged(..)) => Ok(false),
        Err(why) if why.is_missing() => Ok(false),
        Err(why) => Err(why),
    }
}
