//! Discovers Dectris masters, whose frames are in `data_000001`, `data_000002`, …, and other
//! entries with frames in their `data` group.

use std::ops::Range;
use std::path::Path;

use records::{AbsentKind, Spans};

use super::dataset_cache::{DatasetCache, SharedFrameMap};
use super::detector::{ImageLocation, ScanDetector};
use super::entry::NexusEntry;
use super::error::DiscoverError;
use super::frame_map::FrameMap;
use super::open_files::OpenFiles;
use super::unusable::UnusableError;
use crate::ffi::{LinkTarget, ObjectType};

/// Finds the detector whose frames are in the entry's `data` group, if any.
pub(super) fn find_detector(
    files: &mut OpenFiles,
    entry: &NexusEntry,
) -> Result<Vec<ScanDetector>, DiscoverError> {
    let Some(data) = entry.own_group(files, "data")? else { return Ok(Vec::new()) };
    let whole = files
        .try_resolve(&data, "data")?
        .filter(|whole| whole.object.object_type() == ObjectType::Dataset);
    let rank = match &whole {
        Some(whole) => whole
            .object
            .shape()
            .map_err(|err| DiscoverError::from_library(&whole.file, &err))?
            .len(),
        None => 0,
    };
    let images = match rank {
        3.. => ImageLocation::Dataset(format!("/{}/data/data", entry.name)),
        _ => {
            let links = data.read_links()?;
            let mut numbered: Vec<(u64, &str)> = links
                .iter()
                .filter_map(|link| Some((data_file_number(&link.name)?, link.name.as_str())))
                .collect();
            numbered.sort_by_key(|(number, _)| *number);
            ImageLocation::Stack(
                with_gaps(&numbered)?
                    .iter()
                    .map(|name| format!("/{}/data/{name}", entry.name))
                    .collect(),
            )
        }
    };
    if matches!(&images, ImageLocation::Stack(paths) if paths.is_empty()) {
        return Ok(Vec::new());
    }
    let named = detector_name(files, entry)?;
    let group = named.as_ref().map_or("data".to_owned(), |name| format!("instrument/{name}"));
    Ok(vec![ScanDetector::new(entry, group, named.as_deref().unwrap_or("data"), images)])
}

/// Returns the names of all datasets in sequence, including the numbers that the master doesn't
/// link to. A missing dataset counts as many frames as the others, so that later frames keep their
/// positions.
///
/// # Errors
/// A number is too large for any detector.
fn with_gaps(numbered: &[(u64, &str)]) -> Result<Vec<String>, DiscoverError> {
    const MAX_DATA_FILES: u64 = 1 << 20;
    let mut names: Vec<String> = Vec::new();
    let mut next = numbered.first().map_or(1, |(number, _)| *number.min(&1));
    for (number, name) in numbered {
        if *number > MAX_DATA_FILES {
            let name = (*name).to_owned();
            return Err(UnusableError::DataFileNumber { name, most: MAX_DATA_FILES }.into());
        }
        names.extend((next..*number).map(|missing| format!("data_{missing:06}")));
        names.push((*name).to_owned());
        next = number.saturating_add(1);
    }
    Ok(names)
}

/// Returns the name of the NXdetector in the entry's instrument, if there is exactly one.
fn detector_name(
    files: &mut OpenFiles,
    entry: &NexusEntry,
) -> Result<Option<String>, DiscoverError> {
    let Some(instrument) = entry.own_group(files, "instrument")? else { return Ok(None) };
    for link in instrument.read_links()?.into_iter().filter(|link| link.target == LinkTarget::Hard)
    {
        if instrument.is_member_class(&link.name, "NXdetector")? {
            return Ok(Some(link.name));
        }
    }
    Ok(None)
}

fn data_file_number(name: &str) -> Option<u64> {
    name.strip_prefix("data_")?.parse().ok()
}

/// Puts the frames of the datasets one after the other, each dataset where its first image number tells,
/// if all of them have one. Otherwise all datasets but the last have the same number of frames; one whose
/// file is missing counts as many, up to the number of images that the detector was configured to take.
///
/// # Errors
/// No dataset can be read that tells how many frames the others have.
pub(super) fn build_frame_map(
    cache: &mut DatasetCache,
    entry: &NexusEntry,
    paths: &[String],
) -> Result<FrameMap, DiscoverError> {
    let each: Vec<_> = paths.iter().map(|path| cache.frame_map(&entry.file, path)).collect();
    let Some((index, first)) =
        each.iter().enumerate().find_map(|(at, map)| Some((at, map.as_ref().as_ref().ok()?)))
    else {
        return Err(first_failure(&each).unwrap_or_else(|| UnusableError::NoDataFiles.into()));
    };
    let planned = planned_images(&mut cache.files, entry)?;
    let places = match places_by_number(&each, planned) {
        Some(places) => places,
        None => {
            // The last dataset may be shorter than the others, unless it takes all images that were
            // planned for it.
            let is_last = index.checked_add(1) == Some(each.len());
            let is_full = || planned == first.frames.checked_mul(each.len() as u64);
            if let Some(why) = first_failure(&each[..index]).filter(|_| is_last && !is_full()) {
                return Err(why);
            }
            places_by_count(&each, first.frames, planned)
        }
    };
    let total = places.last().map_or(0, |last| last.end);
    let extents = vec![total, first.shape[0], first.shape[1]];
    let mut all = FrameMap::new(&entry.file, extents, first.coding.clone())?;
    all.planned_frames = planned;
    for ((frame_map, place), path) in each.iter().zip(places).zip(paths) {
        let here: Spans = place.collect();
        match &**frame_map {
            Ok(frame_map) => {
                all.add_mapped_frames(&here, frame_map, &Spans::first_n(frame_map.frames))?;
                all.files.extend(frame_map.files.iter().cloned());
            }
            Err(DiscoverError::NoObject(file, _)) if *file == entry.file => {
                let why = format!("the master has no link {path}");
                all.add_absent(&here, AbsentKind::Missing, &why)?;
            }
            Err(why) => all.add_absent_for_error(&here, why, &entry.file, Path::new(path))?,
        }
    }
    // Frames between the last one of a file and the first one of the next are not written.
    Ok(all.complete())
}

/// Returns the frames of each dataset, if each is as long as the first that can be read, or as it is
/// itself.
fn places_by_count(each: &[SharedFrameMap], usual: u64, planned: Option<u64>) -> Vec<Range<u64>> {
    let mut end: u64 = 0;
    let place = |frame_map: &SharedFrameMap| {
        let count = match &**frame_map {
            Ok(frame_map) => frame_map.frames,
            Err(_) => planned.map_or(usual, |planned| usual.min(planned.saturating_sub(end))),
        };
        let start = end;
        end = start.saturating_add(count);
        start..end
    };
    each.iter().map(place).collect()
}

/// Returns the frames of each dataset by the numbers of the first image of each that can be read. The others
/// fill the gaps between them.
///
/// `None` if one has no number, or if the numbers can't be those of one series: some programs write
/// others.
fn places_by_number(each: &[SharedFrameMap], planned: Option<u64>) -> Option<Vec<Range<u64>>> {
    let readable = each.iter().filter_map(|frame_map| frame_map.as_ref().as_ref().ok());
    let longest = readable.map(|frame_map| frame_map.frames).max()?;
    let known = numbered_places(each, longest)?;
    let mut places: Vec<Range<u64>> = Vec::new();
    for (index, (place, frame_map)) in known.iter().zip(each).enumerate() {
        let begin = places.last().map_or(0, |last| last.end);
        let longest_end = begin.checked_add(longest)?;
        let next = known.get(index.checked_add(1)?);
        let following = known[index..].iter().flatten().next().map(|place| place.start);
        let end = match (place, following) {
            (Some(place), _) if place.start < begin => return None,
            (Some(place), _) => {
                places.push(place.clone());
                continue;
            }
            // The last of several that are missing side by side takes the rest.
            (None, Some(start)) if next.is_none_or(Option::is_some) => start,
            (None, Some(start)) => start.min(longest_end),
            (None, None) => {
                planned.map_or(longest_end, |planned| planned.max(begin).min(longest_end))
            }
        };
        // A file between two others had an image; what the master does not link to may be none.
        let is_between = following.is_some() && !is_unlinked(frame_map);
        let is_alone = next.is_none_or(Option::is_some)
            && index.checked_sub(1).is_none_or(|before| known[before].is_some());
        if end < begin || (end == begin && is_between && is_alone) {
            return None;
        }
        places.push(begin..end);
    }
    let total = places.last()?.end;
    // Files may have lost images; but no number makes a few images a scan of millions.
    let most = longest.checked_mul(each.len() as u64)?;
    let is_possible = match planned {
        Some(planned) if planned > 1 => {
            total <= planned.max(total_frames(each)).min(most.saturating_mul(8))
        }
        _ => total <= most,
    };
    (is_possible && total <= Spans::MAX_FRAMES).then_some(places)
}

/// Returns the frames of each dataset that can be read, by the number of its first image.
fn numbered_places(each: &[SharedFrameMap], longest: u64) -> Option<Vec<Option<Range<u64>>>> {
    let mut base = None;
    let place = |(index, frame_map): (u64, &SharedFrameMap)| {
        let Ok(frame_map) = &**frame_map else { return Some(None) };
        let number = frame_map.first_image_number?;
        // Images are counted from 1, by some programs from 0. Files that come first may be those of a part
        // of a series.
        let first = *base.get_or_insert_with(|| match index {
            0 => number,
            _ => u64::from(longest.checked_mul(index) != Some(number)),
        });
        let start = number.checked_sub(first)?;
        Some(Some(start..start.checked_add(frame_map.frames)?))
    };
    (0..).zip(each).map(place).collect()
}

/// Returns whether the master has no link to a dataset.
fn is_unlinked(frame_map: &SharedFrameMap) -> bool {
    matches!(&**frame_map, Err(DiscoverError::NoObject(..)))
}

/// Returns the number of frames of all datasets that can be read.
fn total_frames(each: &[SharedFrameMap]) -> u64 {
    let readable = each.iter().filter_map(|frame_map| frame_map.as_ref().as_ref().ok());
    readable.fold(0, |total, frame_map| total.saturating_add(frame_map.frames))
}

fn first_failure(each: &[SharedFrameMap]) -> Option<DiscoverError> {
    DiscoverError::choose_retryable(
        each.iter().filter_map(|frame_map| frame_map.as_ref().as_ref().err()),
    )
    .cloned()
}

/// Returns the number of images that the detector was configured to take.
fn planned_images(files: &mut OpenFiles, entry: &NexusEntry) -> Result<Option<u64>, DiscoverError> {
    let mut number = |name: &str| {
        entry.read_number(files, &format!("instrument/detector/detectorSpecific/{name}"))
    };
    let (images, triggers) = (number("nimages")?, number("ntrigger")?.unwrap_or(1.0));
    // More than a scan may have is no plan.
    let planned = images
        .map(|images| images * triggers)
        .filter(|planned| (1.0..=Spans::MAX_FRAMES as f64).contains(planned));
    Ok(planned.map(|planned| planned as u64))
}
