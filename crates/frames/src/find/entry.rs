//! One NXentry: what it says of the scan, and what records say of that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use records::{Absent, AbsentKind, Acquisition, Span};

use super::catalog::Catalog;
use super::detector::Detector;
use super::error::FindError;
use super::links::Located;
use super::never_taken;
use super::traced::Traced;
use super::visit::is_bliss;
use crate::ffi::{Kind, Link, Target};

/// An open NXentry.
pub(super) struct Entry {
    /// The file that it is told as an entry of.
    pub file: PathBuf,
    /// Its name in that file.
    pub name: String,
    /// The group.
    pub group: Located,
    pub title: Option<String>,
    pub start_time: Option<String>,
    end_time: Option<String>,
    end_reason: Option<String>,
    /// Whether files of this writer tell the end of a scan by `end_time`.
    tells_end: bool,
}

impl Entry {
    /// Reads what an entry says of the scan.
    ///
    /// # Errors
    /// Something of it could not be looked at: then nothing is known of the scan.
    pub(super) fn read(catalog: &mut Catalog, file: &Path, name: &str, group: Located) -> Result<Self, FindError> {
        let mut text = |path: &str| Ok(catalog.text(&group, path)?.filter(|text| !text.is_empty()));
        let start_time = match text("start_time")? {
            None => text("instrument/detector/detectorSpecific/data_collection_date")?,
            start_time => start_time,
        };
        let (title, end_time, end_reason) = (text("title")?, text("end_time")?, text("end_reason")?);
        let mut by_lima = || {
            let root = catalog.root(&group.file)?;
            let creator = root.object.text_attribute("creator");
            let creator = creator.map_err(|flaw| FindError::from_flaw(&group.file, &flaw))?;
            Ok(creator.is_some_and(|creator| creator.starts_with("LIMA-")))
        };
        let tells_end = is_bliss(name) || by_lima()?;
        let (file, name) = (file.to_owned(), name.to_owned());
        Ok(Self { file, name, group, title, start_time, end_time, end_reason, tells_end })
    }

    /// Reads the first number of a dataset of this entry.
    pub(super) fn number(&self, catalog: &mut Catalog, path: &str) -> Result<Option<f64>, FindError> {
        catalog.number(&self.group, path)
    }

    /// The number of a Bliss scan: 12 of `12.1`.
    pub(super) fn scan_number(&self) -> Option<u64> {
        is_bliss(&self.name).then(|| self.name.split_once('.')?.0.parse().ok()).flatten()
    }

    /// Why a detector of this entry may be without frames.
    pub(super) fn why_no_frames(&self) -> String {
        match &self.end_reason {
            _ if !self.has_ended() => "no frames yet: the scan is being written".to_owned(),
            Some(reason) => format!("no frames: the scan ended by {reason}"),
            None => "no frames".to_owned(),
        }
    }

    /// Whether the scan is over; its writer may have died, and then it never is.
    pub(super) fn has_ended(&self) -> bool {
        !self.tells_end || self.end_time.is_some() || self.end_reason.is_some()
    }

    /// Whether the scan took all that it was to take.
    fn is_whole(&self) -> bool {
        self.has_ended() && self.end_reason.as_deref().is_none_or(|reason| reason.eq_ignore_ascii_case("SUCCESS"))
    }

    /// The scan as records tell of it.
    ///
    /// # Errors
    /// Something of it could not be looked at.
    pub(super) fn acquisition(
        &self,
        catalog: &mut Catalog,
        detector: &Detector,
        traced: &Traced,
    ) -> Result<Acquisition, FindError> {
        let mut scan = Acquisition {
            file: self.file.clone().into(),
            below: self.file.file_name().unwrap_or_default().into(),
            entry: self.name.clone(),
            detector: detector.name.clone(),
            dataset: detector.dataset(),
            title: self.title.clone(),
            start_time: self.start_time.clone(),
            end_time: self.end_time.clone(),
            end_reason: self.end_reason.clone(),
            complete: self.is_whole() && traced.absent.is_empty(),
            exposure_time: self.exposure_time(catalog, &detector.group)?,
            counters: self.counters(catalog)?,
            ..traced.acquisition()
        };
        if !self.has_ended() {
            never_taken::mark(&mut scan.absent, frames_held(traced), "the scan has not got there yet");
        } else if let (false, Some(reason)) = (self.is_whole(), &self.end_reason) {
            let taken = frames_held(traced).max(self.frames_counted(catalog, &scan.counters)?);
            never_taken::mark(&mut scan.absent, taken, &format!("the scan ended by {reason}"));
        }
        Ok(scan)
    }

    /// How many frames were taken for certain, by the counters: Bliss begins a point before it takes its frame.
    fn frames_counted(&self, catalog: &mut Catalog, counters: &BTreeMap<String, String>) -> Result<u64, FindError> {
        let mut fewest = None;
        for name in counters.keys() {
            let Some(counter) = catalog.find(&self.group, &format!("measurement/{name}"))? else { continue };
            let extents = counter.object.extents().map_err(|flaw| FindError::from_flaw(&counter.file, &flaw))?;
            let points = extents.first().copied().unwrap_or(0);
            fewest = Some(fewest.map_or(points, |fewest: u64| fewest.min(points)));
        }
        Ok(fewest.unwrap_or(0).saturating_sub(1))
    }

    /// Seconds a frame, wherever the writer puts them: Bliss with Lima 1 or Lima 2, Lima 1, Dectris.
    fn exposure_time(&self, catalog: &mut Catalog, detector: &str) -> Result<Option<f64>, FindError> {
        let of_detector =
            ["acq_parameters/acq_expo_time", "acq_params/acq/expo_time", "acquisition/exposure_time", "count_time"];
        let places = of_detector.map(|place| format!("{detector}/{place}"));
        for place in places.iter().map(String::as_str).chain(["scan_parameters/count_time"]) {
            if let Some(seconds) = self.number(catalog, place)? {
                return Ok(Some(seconds).filter(|seconds| seconds.is_finite() && *seconds > 0.0));
            }
        }
        Ok(None)
    }

    /// The counters and moved motors: datasets of `measurement` with one number a frame, by name.
    fn counters(&self, catalog: &mut Catalog) -> Result<BTreeMap<String, String>, FindError> {
        // A processed file links to another's measurement: those counters are that file's.
        let Some(measurement) = self.own(catalog, "measurement")? else { return Ok(BTreeMap::new()) };
        let mut counters = BTreeMap::new();
        for link in links_of(&measurement)? {
            if is_counter(catalog, &measurement, &link)? {
                let path = format!("/{}/measurement/{}", self.name, link.name);
                counters.insert(link.name, path);
            }
        }
        Ok(counters)
    }

    /// Finds a group of this entry that is in the entry's own file.
    pub(super) fn own(&self, catalog: &mut Catalog, name: &str) -> Result<Option<Located>, FindError> {
        let said = |flaw| FindError::from_flaw(&self.group.file, &flaw);
        match self.group.object.link(name).map_err(said)? {
            Some(Target::Hard | Target::Soft(_)) => {
                let found = catalog.find(&self.group, name)?;
                Ok(found.filter(|found| found.file == self.group.file && found.object.kind() == Kind::Group))
            }
            _ => Ok(None),
        }
    }
}

/// The number of frames up to the last one of which there is a trace: a source that holds it, or a file that can't be read.
fn frames_held(traced: &Traced) -> u64 {
    let is_trace = |absent: &&Absent| matches!(absent.kind, AbsentKind::Unreadable | AbsentKind::Corrupt);
    let unreadable = traced.absent.iter().filter(is_trace).map(|absent| &absent.range);
    let held = traced.sources.iter().map(|source| &source.frames).chain(unreadable);
    held.flat_map(|frames| frames.as_slice()).map(Span::end).max().unwrap_or(0)
}

/// The links of a group.
pub(super) fn links_of(group: &Located) -> Result<Vec<Link>, FindError> {
    group.object.links().map_err(|flaw| FindError::from_flaw(&group.file, &flaw))
}

/// Whether a member of `measurement` is a dataset with one number a frame: a list, or a column of a table.
fn is_counter(catalog: &mut Catalog, measurement: &Located, link: &Link) -> Result<bool, FindError> {
    let Some(found) = catalog.find(measurement, &link.name)? else { return Ok(false) };
    if found.object.kind() != Kind::Dataset {
        return Ok(false);
    }
    let said = |flaw| FindError::from_flaw(&found.file, &flaw);
    let extents = found.object.extents().map_err(said)?;
    let is_list = extents.split_first().is_some_and(|(_, rest)| rest.iter().all(|&extent| extent == 1));
    Ok(is_list && found.object.pixel_type().map_err(said)?.is_number())
}
