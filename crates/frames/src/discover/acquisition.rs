//! Builds the record of a scan from its entry, its detector and the map of its frames.

use std::collections::BTreeMap;

use records::{Absent, AbsentKind, Acquisition, Span, Spans};

use super::detector::ScanDetector;
use super::entry::NexusEntry;
use super::error::DiscoverError;
use super::frame_map::FrameMap;
use super::links::{DurationDataset, ResolvedObject};
use super::open_files::OpenFiles;
use super::{never_taken, unfinished_lima};
use crate::ffi::{ElementClass, Hdf5Link, ObjectType};

/// Returns the record of the scan of an entry that a detector took.
///
/// # Errors
/// A part of the metadata can't be read.
pub(super) fn build_acquisition(
    entry: &NexusEntry,
    files: &mut OpenFiles,
    detector: &ScanDetector,
    frame_map: &FrameMap,
) -> Result<Acquisition, DiscoverError> {
    let mut scan = Acquisition {
        file: entry.file.clone().into(),
        below: entry.file.file_name().unwrap_or_default().into(),
        entry: entry.name.clone(),
        detector: detector.name.clone(),
        dataset: detector.dataset_path(),
        title: entry.title.clone(),
        start_time: entry.start_time.clone(),
        end_time: entry.end_time.clone(),
        end_reason: entry.end_reason.clone(),
        complete: entry.is_successful()
            && frame_map.absent.is_empty()
            && frame_map.planned_frames.is_none_or(|planned| planned <= frame_map.frames),
        exposure_time: read_exposure_time(entry, files, &detector.group)?,
        countrate_correction_applied: entry
            .read_number(files, &format!("{}/countrate_correction_applied", detector.group))?
            .map(|applied| applied != 0.0),
        counters: read_counters(entry, files)?,
        ..frame_map.to_acquisition()
    };
    if !entry.has_ended() {
        never_taken::mark_never_taken(
            &mut scan.absent,
            last_known_frame(frame_map),
            "not taken yet: the scan is still running",
        );
    } else if entry.is_successful() {
        add_frames_beyond_dataset(&mut scan, entry, files, detector)?;
    } else if let Some(reason) = &entry.end_reason {
        // Bliss starts a point before it takes the frame.
        let points = fewest_points(entry, files, &scan.counters)?.unwrap_or(0);
        let taken = last_known_frame(frame_map).max(points.saturating_sub(1));
        never_taken::mark_never_taken(
            &mut scan.absent,
            taken,
            &format!("never taken: the scan ended by {reason}"),
        );
    }
    Ok(scan)
}

/// Adds frames that were requested, and for which all counters have points, but which the dataset
/// lacks: a virtual dataset has the frames whose files Bliss was told of.
fn add_frames_beyond_dataset(
    scan: &mut Acquisition,
    entry: &NexusEntry,
    files: &mut OpenFiles,
    detector: &ScanDetector,
) -> Result<(), DiscoverError> {
    let requested = match unfinished_lima::read_requested_frames(files, entry, detector) {
        Err(why) if why.absent_kind() == AbsentKind::Unreadable => return Err(why),
        // The frames of the dataset are known without it.
        requested => requested.unwrap_or(None),
    };
    // Either alone may count something else: detectors take several frames at a point, or are asked for
    // more than they take.
    let Some(requested) = requested.filter(|requested| *requested > scan.frames as f64) else {
        return Ok(());
    };
    let points = fewest_points(entry, files, &scan.counters)?.unwrap_or(0);
    let expected = points.min(requested as u64).min(Spans::MAX_FRAMES);
    if expected > scan.frames {
        scan.absent.push(Absent {
            range: Span::new(scan.frames, expected).into(),
            kind: AbsentKind::NotWritten,
            reason: format!("not in the dataset, which has {} of {expected} frames", scan.frames),
        });
        (scan.frames, scan.complete) = (expected, false);
    }
    Ok(())
}

/// Returns the number of points of the counter that has the fewest. Counters of no or one point say
/// nothing: those of a device that failed, or of a scan.
fn fewest_points(
    entry: &NexusEntry,
    files: &mut OpenFiles,
    counters: &BTreeMap<String, String>,
) -> Result<Option<u64>, DiscoverError> {
    let mut fewest = None;
    for name in counters.keys() {
        let Some(counter) = files.try_resolve(&entry.group, &format!("measurement/{name}"))? else {
            continue;
        };
        let extents = counter
            .object
            .shape()
            .map_err(|err| DiscoverError::from_library(&counter.file, &err))?;
        let points = extents.first().copied().unwrap_or(0);
        if points < 2 {
            continue;
        }
        fewest = Some(fewest.map_or(points, |fewest: u64| fewest.min(points)));
    }
    Ok(fewest)
}

/// Reads the exposure time per frame in seconds, from wherever the writer stores it: Bliss with
/// Lima 1 or Lima 2, Lima 1, Dectris. `None` also if frames have different times, or their unit is
/// unknown.
fn read_exposure_time(
    entry: &NexusEntry,
    files: &mut OpenFiles,
    detector: &str,
) -> Result<Option<f64>, DiscoverError> {
    let candidates = [
        "acq_parameters/acq_expo_time",
        "acq_params/acq/expo_time",
        "acquisition/exposure_time",
        "count_time",
    ];
    let paths = candidates.map(|suffix| format!("{detector}/{suffix}"));
    for suffix in paths.iter().map(String::as_str).chain(["scan_parameters/count_time"]) {
        if let Some(DurationDataset { values, units }) =
            files.read_duration(&entry.group, suffix)?
        {
            let first = values.first();
            let is_one = |first: &&f64| {
                values.iter().all(|value| (value - *first).abs() <= 1e-6 * first.abs())
            };
            let number = first.filter(is_one);
            let seconds = number.zip(seconds_per_unit(&units)).map(|(number, unit)| number * unit);
            return Ok(seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0));
        }
    }
    Ok(None)
}

/// Returns the seconds of a unit of time; of none, NeXus and Bliss mean seconds.
fn seconds_per_unit(units: &str) -> Option<f64> {
    Some(match units.trim().to_lowercase().as_str() {
        "" | "s" | "sec" | "second" | "seconds" => 1.0,
        "ms" | "msec" | "millisecond" | "milliseconds" => 1e-3,
        // The micro sign, and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" | "usec" | "microsecond" | "microseconds" => 1e-6,
        "ns" | "nsec" | "nanosecond" | "nanoseconds" => 1e-9,
        "min" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hour" | "hours" => 3600.0,
        _ => return None,
    })
}

/// Returns the paths of counters and moved motors by name: the datasets of `measurement` with one
/// number per frame.
fn read_counters(
    entry: &NexusEntry,
    files: &mut OpenFiles,
) -> Result<BTreeMap<String, String>, DiscoverError> {
    // A processed file links to the measurement of the raw file; those counters belong to the raw
    // file.
    let Some(measurement) = entry.own_group(files, "measurement")? else {
        return Ok(BTreeMap::new());
    };
    let mut counters = BTreeMap::new();
    for link in measurement.read_links()? {
        if is_counter(files, &measurement, &link)? {
            let path = format!("/{}/measurement/{}", entry.name, link.name);
            counters.insert(link.name, path);
        }
    }
    Ok(counters)
}

/// Returns the number of frames up to the last one that a source holds or may hold in a file that
/// can't be read.
fn last_known_frame(frame_map: &FrameMap) -> u64 {
    let is_trace =
        |absent: &&Absent| matches!(absent.kind, AbsentKind::Unreadable | AbsentKind::Corrupt);
    let unreadable = frame_map.absent.iter().filter(is_trace).map(|absent| &absent.range);
    let held = frame_map.sources.iter().map(|source| &source.frames).chain(unreadable);
    held.flat_map(|frames| frames.as_slice()).map(Span::stop).max().unwrap_or(0)
}

/// Returns whether a member of `measurement` is a dataset with one number per frame: a list, or a
/// column of a table.
fn is_counter(
    files: &mut OpenFiles,
    measurement: &ResolvedObject,
    link: &Hdf5Link,
) -> Result<bool, DiscoverError> {
    let Some(found) = files.try_resolve(measurement, &link.name)? else { return Ok(false) };
    if found.object.object_type() != ObjectType::Dataset {
        return Ok(false);
    }
    let to_error = |err| DiscoverError::from_library(&found.file, &err);
    let extents = found.object.shape().map_err(to_error)?;
    let is_list =
        extents.split_first().is_some_and(|(_, rest)| rest.iter().all(|&extent| extent == 1));
    let elements = found.object.element_type().map_err(to_error)?;
    // A boolean is an enumeration.
    Ok(is_list && (elements.is_number() || elements.class == ElementClass::Enum))
}
