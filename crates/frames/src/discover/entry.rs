//! Reads an NXentry: the metadata of a scan that go into its record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use records::{Absent, AbsentKind, Acquisition, Span};

use super::dataset_cache::DatasetCache;
use super::detector::ScanDetector;
use super::error::DiscoverError;
use super::frame_map::FrameMap;
use super::links::ResolvedObject;
use super::never_taken;
use super::walk::is_bliss_name;
use crate::ffi::{Hdf5Link, LinkTarget, ObjectType};

/// An open NXentry.
pub(super) struct NexusEntry {
    /// File in which the entry is reported.
    pub file: PathBuf,
    /// Name of the entry in that file.
    pub name: String,
    /// Group of the entry, with its links resolved.
    pub group: ResolvedObject,
    pub title: Option<String>,
    pub start_time: Option<String>,
    end_time: Option<String>,
    end_reason: Option<String>,
    /// True if the writer of this file marks the end of a scan by `end_time`.
    reports_end: bool,
}

impl NexusEntry {
    /// Reads the metadata of an entry.
    ///
    /// # Errors
    /// A part of the metadata can't be read; the scan is then reported as failed.
    pub(super) fn read(
        cache: &mut DatasetCache,
        file: &Path,
        name: &str,
        group: ResolvedObject,
    ) -> Result<Self, DiscoverError> {
        let mut text = |path: &str| -> Result<Option<String>, DiscoverError> {
            Ok(cache.read_text(&group, path)?.filter(|text| !text.is_empty()))
        };
        let start_time = match text("start_time")? {
            None => text("instrument/detector/detectorSpecific/data_collection_date")?,
            start_time => start_time,
        };
        let (title, end_time, end_reason) = (text("title")?, text("end_time")?, text("end_reason")?);
        let mut by_lima = || -> Result<bool, DiscoverError> {
            let root = cache.root(&group.file)?;
            let creator = root.object.read_text_attribute("creator");
            let creator = creator.map_err(|err| DiscoverError::from_library(&group.file, &err))?;
            Ok(creator.is_some_and(|creator| creator.starts_with("LIMA-")))
        };
        let tells_end = is_bliss_name(name) || by_lima()?;
        let (file, name) = (file.to_owned(), name.to_owned());
        Ok(Self { file, name, group, title, start_time, end_time, end_reason, reports_end: tells_end })
    }

    /// Reads the first element of a dataset of this entry as a number.
    pub(super) fn read_number(&self, cache: &mut DatasetCache, path: &str) -> Result<Option<f64>, DiscoverError> {
        cache.read_number(&self.group, path)
    }

    /// Returns the number of a Bliss scan: 12 for `12.1`.
    pub(super) fn scan_number(&self) -> Option<u64> {
        is_bliss_name(&self.name).then(|| self.name.split_once('.')?.0.parse().ok()).flatten()
    }

    /// Explains why a detector of this entry may have no frames.
    pub(super) fn no_frames_reason(&self) -> String {
        match &self.end_reason {
            _ if !self.has_ended() => "no frames yet: the scan is still running".to_owned(),
            Some(reason) => format!("no frames: the scan ended by {reason}"),
            None => "no frames".to_owned(),
        }
    }

    /// Returns whether the scan has ended according to its writer. If the writer died, this stays `false`.
    pub(super) fn has_ended(&self) -> bool {
        !self.reports_end || self.end_time.is_some() || self.end_reason.is_some()
    }

    /// Returns whether the scan took all its frames.
    fn is_successful(&self) -> bool {
        self.has_ended() && self.end_reason.as_deref().is_none_or(|reason| reason.eq_ignore_ascii_case("SUCCESS"))
    }

    /// Returns the record of the scan, without its frames.
    ///
    /// # Errors
    /// A part of the metadata can't be read.
    pub(super) fn to_acquisition(
        &self,
        cache: &mut DatasetCache,
        detector: &ScanDetector,
        frame_map: &FrameMap,
    ) -> Result<Acquisition, DiscoverError> {
        let mut scan = Acquisition {
            file: self.file.clone().into(),
            below: self.file.file_name().unwrap_or_default().into(),
            entry: self.name.clone(),
            detector: detector.name.clone(),
            dataset: detector.dataset_path(),
            title: self.title.clone(),
            start_time: self.start_time.clone(),
            end_time: self.end_time.clone(),
            end_reason: self.end_reason.clone(),
            complete: self.is_successful() && frame_map.absent.is_empty(),
            exposure_time: self.read_exposure_time(cache, &detector.group)?,
            counters: self.read_counters(cache)?,
            ..frame_map.to_acquisition()
        };
        if !self.has_ended() {
            never_taken::mark_never_taken(
                &mut scan.absent,
                last_known_frame(frame_map),
                "not taken yet: the scan is still running",
            );
        } else if let (false, Some(reason)) = (self.is_successful(), &self.end_reason) {
            let taken = last_known_frame(frame_map).max(self.frames_by_counters(cache, &scan.counters)?);
            never_taken::mark_never_taken(&mut scan.absent, taken, &format!("never taken: the scan ended by {reason}"));
        }
        Ok(scan)
    }

    /// Returns the number of frames that the counters prove: Bliss starts a point before it takes the frame.
    fn frames_by_counters(
        &self,
        cache: &mut DatasetCache,
        counters: &BTreeMap<String, String>,
    ) -> Result<u64, DiscoverError> {
        let mut fewest = None;
        for name in counters.keys() {
            let Some(counter) = cache.try_resolve(&self.group, &format!("measurement/{name}"))? else { continue };
            let extents = counter.object.shape().map_err(|err| DiscoverError::from_library(&counter.file, &err))?;
            let points = extents.first().copied().unwrap_or(0);
            fewest = Some(fewest.map_or(points, |fewest: u64| fewest.min(points)));
        }
        Ok(fewest.unwrap_or(0).saturating_sub(1))
    }

    /// Reads the exposure time per frame in seconds, from wherever the writer stores it: Bliss with Lima 1 or
    /// Lima 2, Lima 1, Dectris.
    fn read_exposure_time(&self, cache: &mut DatasetCache, detector: &str) -> Result<Option<f64>, DiscoverError> {
        let candidates =
            ["acq_parameters/acq_expo_time", "acq_params/acq/expo_time", "acquisition/exposure_time", "count_time"];
        let paths = candidates.map(|suffix| format!("{detector}/{suffix}"));
        for suffix in paths.iter().map(String::as_str).chain(["scan_parameters/count_time"]) {
            if let Some(seconds) = self.read_number(cache, suffix)? {
                return Ok(Some(seconds).filter(|seconds| seconds.is_finite() && *seconds > 0.0));
            }
        }
        Ok(None)
    }

    /// Returns the paths of counters and moved motors by name: the datasets of `measurement` with one number per
    /// frame.
    fn read_counters(&self, cache: &mut DatasetCache) -> Result<BTreeMap<String, String>, DiscoverError> {
        // A processed file links to the measurement of the raw file; those counters belong to the raw file.
        let Some(measurement) = self.own_group(cache, "measurement")? else { return Ok(BTreeMap::new()) };
        let mut counters = BTreeMap::new();
        for link in read_links(&measurement)? {
            if is_counter(cache, &measurement, &link)? {
                let path = format!("/{}/measurement/{}", self.name, link.name);
                counters.insert(link.name, path);
            }
        }
        Ok(counters)
    }

    /// Opens a group of this entry, if it is stored in the entry's own file.
    pub(super) fn own_group(
        &self,
        cache: &mut DatasetCache,
        name: &str,
    ) -> Result<Option<ResolvedObject>, DiscoverError> {
        let to_error = |err| DiscoverError::from_library(&self.group.file, &err);
        match self.group.object.read_link(name).map_err(to_error)? {
            Some(LinkTarget::Hard | LinkTarget::Soft(_)) => {
                let found = cache.try_resolve(&self.group, name)?;
                Ok(found
                    .filter(|found| found.file == self.group.file && found.object.object_type() == ObjectType::Group))
            }
            _ => Ok(None),
        }
    }
}

/// Returns the number of frames up to the last one that a source holds or may hold in a file that can't be read.
fn last_known_frame(frame_map: &FrameMap) -> u64 {
    let is_trace = |absent: &&Absent| matches!(absent.kind, AbsentKind::Unreadable | AbsentKind::Corrupt);
    let unreadable = frame_map.absent.iter().filter(is_trace).map(|absent| &absent.range);
    let held = frame_map.sources.iter().map(|source| &source.frames).chain(unreadable);
    held.flat_map(|frames| frames.as_slice()).map(Span::stop).max().unwrap_or(0)
}

/// Reads the links of a group.
pub(super) fn read_links(group: &ResolvedObject) -> Result<Vec<Hdf5Link>, DiscoverError> {
    group.object.read_links().map_err(|err| DiscoverError::from_library(&group.file, &err))
}

/// Returns whether a member of `measurement` is a dataset with one number per frame: a list, or a column of a
/// table.
fn is_counter(cache: &mut DatasetCache, measurement: &ResolvedObject, link: &Hdf5Link) -> Result<bool, DiscoverError> {
    let Some(found) = cache.try_resolve(measurement, &link.name)? else { return Ok(false) };
    if found.object.object_type() != ObjectType::Dataset {
        return Ok(false);
    }
    let to_error = |err| DiscoverError::from_library(&found.file, &err);
    let extents = found.object.shape().map_err(to_error)?;
    let is_list = extents.split_first().is_some_and(|(_, rest)| rest.iter().all(|&extent| extent == 1));
    Ok(is_list && found.object.element_type().map_err(to_error)?.is_number())
}
