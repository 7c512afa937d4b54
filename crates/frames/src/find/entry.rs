//! One NXentry: what it says of the scan, and what records say of that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use records::{Acquisition, Span};

use super::detector::Detector;
use super::never_taken;
use super::traced::Traced;
use super::visit::is_bliss;
use crate::ffi::{Kind, Object, Target};

/// An open NXentry.
pub(super) struct Entry {
    pub file: PathBuf,
    /// Its name in the file.
    pub name: String,
    pub group: Object,
    pub title: Option<String>,
    pub start_time: Option<String>,
    end_time: Option<String>,
    end_reason: Option<String>,
    /// Whether files of this writer tell the end of a scan by `end_time`.
    tells_end: bool,
}

impl Entry {
    pub(super) fn new(file: &Path, name: &str, root: &Rc<Object>, group: Object) -> Self {
        let text =
            |path: &str| group.find(path).and_then(|dataset| dataset.text().ok()).filter(|text| !text.is_empty());
        let by_lima = || root.text_attribute("creator").is_some_and(|creator| creator.starts_with("LIMA-"));
        Self {
            file: file.to_owned(),
            name: name.to_owned(),
            title: text("title"),
            start_time: text("start_time")
                .or_else(|| text("instrument/detector/detectorSpecific/data_collection_date")),
            end_time: text("end_time"),
            end_reason: text("end_reason"),
            tells_end: is_bliss(name) || by_lima(),
            group,
        }
    }

    /// The first number of a dataset of this entry.
    pub(super) fn number(&self, path: &str) -> Option<f64> {
        self.group.find(path)?.numbers().ok()?.first().copied()
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

    /// The scan as records tell of it.
    pub(super) fn acquisition(&self, detector: &Detector, traced: &Traced) -> Acquisition {
        let as_planned = self.end_reason.as_deref().is_none_or(|reason| reason.eq_ignore_ascii_case("SUCCESS"));
        let mut acquisition = Acquisition {
            file: self.file.clone().into(),
            below: self.file.file_name().unwrap_or_default().into(),
            entry: self.name.clone(),
            detector: detector.name.clone(),
            dataset: detector.dataset(),
            title: self.title.clone(),
            start_time: self.start_time.clone(),
            end_time: self.end_time.clone(),
            end_reason: self.end_reason.clone(),
            complete: self.has_ended() && as_planned && traced.absent.is_empty(),
            exposure_time: self.exposure_time(&detector.group),
            counters: self.counters(),
            ..traced.acquisition()
        };
        if !self.has_ended() {
            never_taken::mark(&mut acquisition.absent, frames_held(traced), "the scan has not got there yet");
        } else if let (false, Some(reason)) = (as_planned, &self.end_reason) {
            let taken = frames_held(traced).max(self.frames_counted(&acquisition.counters));
            never_taken::mark(&mut acquisition.absent, taken, &format!("the scan ended by {reason}"));
        }
        acquisition
    }

    /// How many frames were taken for certain, by the counters: Bliss begins a point before it takes its frame.
    fn frames_counted(&self, counters: &BTreeMap<String, String>) -> u64 {
        let points = |name: &String| self.group.find(&format!("measurement/{name}"))?.extents().ok()?.first().copied();
        counters.keys().filter_map(points).min().unwrap_or(0).saturating_sub(1)
    }

    /// Seconds a frame, wherever the writer puts them: Bliss with Lima 1 or Lima 2, Lima 1, Dectris.
    fn exposure_time(&self, detector: &str) -> Option<f64> {
        let of_detector =
            ["acq_parameters/acq_expo_time", "acq_params/acq/expo_time", "acquisition/exposure_time", "count_time"];
        let places = of_detector.map(|place| format!("{detector}/{place}"));
        let number =
            places.iter().map(String::as_str).chain(["scan_parameters/count_time"]).find_map(|path| self.number(path));
        number.filter(|seconds| seconds.is_finite() && *seconds > 0.0)
    }

    /// The counters and moved motors: datasets of `measurement` with one dimension, by name.
    fn counters(&self) -> BTreeMap<String, String> {
        // A processed file links to another's measurement: those counters are that file's.
        let Some(measurement) = self.own("measurement") else { return BTreeMap::new() };
        let links = measurement.links().unwrap_or_default();
        let counter = |name: &str| {
            let dataset = measurement.find(name).filter(|object| object.kind() == Kind::Dataset)?;
            (dataset.extents().ok()?.len() == 1 && dataset.pixel_type().ok()?.is_number()).then_some(())
        };
        let named = links.into_iter().filter(|link| counter(&link.name).is_some());
        named.map(|link| (link.name.clone(), format!("/{}/measurement/{}", self.name, link.name))).collect()
    }

    /// A group of this entry that is in the entry's own file.
    pub(super) fn own(&self, name: &str) -> Option<Object> {
        match self.group.link(name)? {
            Target::Hard => self.group.find(name),
            Target::Soft(_) => {
                self.group.find(name).filter(|group| group.file_name().is_ok_and(|file| file == self.file))
            }
            _ => None,
        }
    }
}

/// The number of frames up to the last one that a source holds.
fn frames_held(traced: &Traced) -> u64 {
    traced.sources.iter().flat_map(|source| source.frames.as_slice()).map(Span::end).max().unwrap_or(0)
}
