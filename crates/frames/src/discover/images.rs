//! Discovers image files: single ones, and numbered series.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use records::{AbsentKind, Acquisition, Source, Span, Spans};

use super::error::DiscoverError;
use super::frame_map::FrameMap;
use super::stored_dataset::{probe_image, source_of_file};
use super::unusable::UnusableError;
use super::{Discovery, DiscoveryKind, ScanFilter, file_content_cache};
use crate::coding::PixelCoding;
use crate::image::ImageHeader;
use crate::open_ahead::open_files_ahead;

/// Characters before the number of a file.
const SEPARATORS: [char; 3] = ['_', '-', '.'];

/// A file name that ends in a number, split at the number: `lab6_0012.tif`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumberedFileName {
    /// Directory and name before the number: `/data/lab6_`.
    pub prefix: OsString,
    /// Name after the number: `.tif`.
    pub suffix: OsString,
    /// The number: 12.
    pub number: u64,
    /// Number of digits as written: 4. A number that has outgrown its leading zeros (`_10000` after
    /// `_9999`) still belongs to the series.
    digits: usize,
}

impl NumberedFileName {
    /// Splits a file name, or returns `None` if its stem doesn't end in a number.
    pub fn parse(path: &Path) -> Option<Self> {
        let (stem, whole) = (path.file_stem()?.as_bytes(), path.as_os_str().as_bytes());
        let digits = stem.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (_, number) = stem.split_at(stem.len().checked_sub(digits)?);
        let suffix_len = path.file_name()?.len().checked_sub(stem.len())?;
        let (before, suffix) = whole.split_at(whole.len().checked_sub(suffix_len)?);
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let number = std::str::from_utf8(number).ok()?.parse().ok()?;
        Some(Self {
            prefix: text(&before[..before.len().checked_sub(digits)?]),
            suffix: text(suffix),
            number,
            digits,
        })
    }

    /// Returns whether two files belong to the same series.
    pub fn is_same_series(&self, other: &Self) -> bool {
        (&self.prefix, &self.suffix) == (&other.prefix, &other.suffix)
    }

    fn file_name_for(&self, number: u64) -> PathBuf {
        let mut name = self.prefix.clone();
        name.push(format!("{number:0digits$}", digits = self.digits));
        name.push(&self.suffix);
        name.into()
    }
}

/// Groups image files into series: files of one directory whose names differ only in their last
/// number, sorted by it. A file without such neighbours is a series of one. Series are sorted by
/// the name of their first file.
pub fn group_series(files: impl IntoIterator<Item = PathBuf>) -> Vec<Vec<PathBuf>> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for file in files {
        let numbered = NumberedFileName::parse(&file);
        let number = numbered.as_ref().map(|numbered| numbered.number);
        let name = || (file.clone().into_os_string(), OsString::new());
        let key = numbered.map_or_else(name, |numbered| (numbered.prefix, numbered.suffix));
        groups.entry(key).or_default().push((number, file));
    }
    let in_order = |mut group: Vec<(Option<u64>, PathBuf)>| {
        group.sort_unstable();
        group.dedup();
        group.into_iter().map(|(_, file)| file).collect()
    };
    let mut all: Vec<Vec<PathBuf>> = groups.into_values().map(in_order).collect();
    all.sort_unstable();
    all
}

/// Returns the scan that image files form, with the frames in the order of the files.
pub(super) fn discover_images(files: &[PathBuf], select: &dyn ScanFilter) -> Discovery {
    let Some(first) = files.first() else {
        return Discovery::failed(Path::new(""), "", &UnusableError::NoImages.into(), None);
    };
    let detector = detector_name(first, files.len());
    if !(select.includes_entry("1.1")
        && select.includes_detector(&detector)
        && select.includes_scan(None, None))
    {
        let what = DiscoveryKind::Excluded { entry: "1.1".to_owned(), detector };
        return Discovery { files: files.to_vec(), ..Discovery::new(first, "", what) };
    }
    match build_frame_map(files) {
        Err(why) => Discovery::failed(first, "", &why, None),
        Ok(frame_map) => {
            let acquisition = Acquisition {
                file: first.into(),
                below: first.file_name().unwrap_or_default().into(),
                entry: "1.1".to_owned(),
                detector,
                complete: frame_map.absent.is_empty(),
                ..frame_map.to_acquisition()
            };
            Discovery {
                files: files.to_vec(),
                ..Discovery::new(first, "", DiscoveryKind::Scan(Box::new(acquisition)))
            }
        }
    }
}

/// Returns the name that the files of a series share, without the number and its separator. A single
/// file has the name of its series, too, as others may follow, unless the number belongs to the
/// name: `lab6_0012` and `lab0012` are numbered, and `LaB6` and `Si640` are not.
fn detector_name(first: &Path, files: usize) -> String {
    let stem = first.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let before = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = before.trim_end_matches(SEPARATORS);
    let digits = stem.len().saturating_sub(before.len());
    let is_numbered = files > 1 || before.ends_with(SEPARATORS) || digits >= 4;
    if name.is_empty() || !is_numbered { stem } else { name.to_owned() }
}

/// Concatenates the frames of the files. A gap in the numbers counts as a missing file.
///
/// # Errors
/// No file can be read that tells how many frames the others have.
fn build_frame_map(files: &[PathBuf]) -> Result<FrameMap, DiscoverError> {
    open_files_ahead(files.iter().filter(|file| !file_content_cache::holds(file)).cloned());
    let headers: Vec<_> = files.iter().map(|file| probe_image(file)).collect();
    let Some((index, first)) =
        headers.iter().enumerate().find_map(|(at, header)| Some((at, &header.as_ref().ok()?.0)))
    else {
        let none = || UnusableError::NoImages.into();
        return Err(headers.into_iter().find_map(Result::err).unwrap_or_else(none));
    };
    // The last file may hold fewer images than the others. If it is the only one that can be read,
    // how many the others hold is unknown, except that damaged files before a single image are
    // taken for single images.
    let before = headers[..index].iter().filter_map(|header| header.as_ref().err());
    if index.checked_add(1) == Some(files.len())
        && let Some(why) = DiscoverError::choose_retryable(before)
        && (why.is_unreadable() || first.frames > 1)
    {
        return Err(why.clone());
    }
    let coding = PixelCoding::native_dtype(first.kind)?;
    let number = |file: &PathBuf| NumberedFileName::parse(file).map(|numbered| numbered.number);
    let pairs = files.iter().zip(&files[1..]);
    let is_same = |(one, other): &(&PathBuf, &PathBuf)| {
        number(one).is_some_and(|one| Some(one) == number(other))
    };
    if let Some((one, other)) = pairs.into_iter().find(is_same) {
        let [one, other] = [one, other].map(|file| file_name(file));
        return Err(UnusableError::SameNumber { one, other }.into());
    }
    let steps = number_step(files);
    let slots = files_by_position(files, steps.as_ref());
    let depth = first.frames as u64;
    let count = |slot: &Option<usize>| match slot.map(|index| &headers[index]) {
        Some(Ok((header, _))) => header.frames as u64,
        _ => depth,
    };
    let total = slots.iter().map(count).fold(0, u64::saturating_add);
    let shape = first.shape.map(|extent| extent as u64);
    let mut frame_map = FrameMap::new(&files[0], vec![total, shape[0], shape[1]], coding)?;
    frame_map.codec = first.format.to_owned();
    let mut start: u64 = 0;
    for (nth, slot) in slots.iter().enumerate() {
        let end = start.saturating_add(count(slot));
        let frames = Spans::from(Span::new(start, end));
        start = end;
        match slot.map(|index| (&files[index], &headers[index])) {
            None => {
                let reason = format!("file missing: {}", missing_file_name(steps.as_ref(), nth));
                frame_map.add_absent(&frames, AbsentKind::Missing, &reason)?;
            }
            Some((file, Err(why))) => {
                frame_map.add_absent_for_error(&frames, why, file, &file_name(file))?
            }
            Some((file, Ok((header, metadata)))) => match find_mismatch(header, first) {
                Some(why) => {
                    frame_map.add_absent_for_error(&frames, &why.into(), file, &file_name(file))?
                }
                None => frame_map.add_source(image_source(file, metadata, frames))?,
            },
        }
    }
    Ok(frame_map.complete())
}

fn image_source(file: &Path, metadata: &Metadata, frames: Spans) -> Source {
    let (rows, bytes) = (Spans::first_n(frames.count()), metadata.len());
    Source { frames, rows, bytes, ..source_of_file(file, metadata) }
}

/// Returns why an image can't be in one series with the first one, if so.
fn find_mismatch(header: &ImageHeader, first: &ImageHeader) -> Option<UnusableError> {
    let [found, expected] = [header, first].map(|header| header.shape.map(|extent| extent as u64));
    if found != expected {
        return Some(UnusableError::OtherShape { found, expected });
    }
    let (found, expected) = (header.kind, first.kind);
    (found != expected).then_some(UnusableError::OtherPixelType { found, expected })
}

fn file_name(file: &Path) -> PathBuf {
    file.file_name().unwrap_or_default().into()
}

/// Returns the first name and the step of a series' numbers: 10 for 10, 20, 40.
fn number_step(files: &[PathBuf]) -> Option<(NumberedFileName, u64)> {
    let first = NumberedFileName::parse(&files[0])?;
    let mut ahead = files[1..]
        .iter()
        .map(|file| Some(NumberedFileName::parse(file)?.number.abs_diff(first.number)));
    let step = ahead.try_fold(0, |step, ahead| Some(greatest_common_divisor(step, ahead?)))?;
    (step > 0).then_some((first, step))
}

fn greatest_common_divisor(one: u64, two: u64) -> u64 {
    match one.checked_rem(two) {
        Some(rest) => greatest_common_divisor(two, rest),
        None => one,
    }
}

/// Returns the first and the last number of the files of a series, if these are too far apart for the
/// numbers of frames, so that the files are taken without gaps.
pub fn scattered_numbers(files: &[PathBuf]) -> Option<[u64; 2]> {
    let last = NumberedFileName::parse(files.last()?)?.number;
    let (first, step) = number_step(files)?;
    let positions = last.checked_sub(first.number)?.checked_div(step)?;
    are_scattered(positions, files.len()).then_some([first.number, last])
}

/// Returns whether most numbers of a series are gaps, given the last position.
fn are_scattered(last: u64, files: usize) -> bool {
    last >= (files as u64).saturating_mul(2)
}

/// Returns the files by position in the series, with `None` for a gap. If most numbers are gaps,
/// they are no frame numbers (dates, for example), and the files are taken without gaps.
fn files_by_position(
    files: &[PathBuf],
    steps: Option<&(NumberedFileName, u64)>,
) -> Vec<Option<usize>> {
    let in_a_row = || (0..files.len()).map(Some).collect();
    let Some((first, step)) = steps else { return in_a_row() };
    // Numbers are in ascending order, and the step is not zero.
    let position = |file: &PathBuf| {
        NumberedFileName::parse(file)?.number.checked_sub(first.number)?.checked_div(*step)
    };
    let positions: Vec<u64> = files.iter().map(|file| position(file).unwrap_or_default()).collect();
    let last = positions.last().map_or(0, |&last| last);
    if are_scattered(last, files.len()) {
        return in_a_row();
    }
    let mut slots: Vec<_> = (0..=last).map(|_| None).collect();
    positions
        .iter()
        .enumerate()
        .for_each(|(index, &position)| slots[position as usize] = Some(index));
    slots
}

fn missing_file_name(steps: Option<&(NumberedFileName, u64)>, nth: usize) -> String {
    // No number exceeds that of the last file, which is a u64.
    let number = |first: &NumberedFileName, step: u64| {
        first.number.saturating_add(step.saturating_mul(nth as u64))
    };
    let name = |(first, step): &(NumberedFileName, u64)| {
        file_name(&first.file_name_for(number(first, *step)))
    };
    steps.map_or_else(String::new, |steps| name(steps).display().to_string())
}
