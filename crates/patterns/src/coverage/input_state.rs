//! Recognizes results that need not be made again, by the raw data and the monitor that they were
//! made from.

use std::path::Path;

use crate::file_states::{LatestFileStates, OutdatedRule};
use crate::source_fingerprint::SourceFingerprints;
use crate::{MonitorValues, Status};

/// State of a task's inputs, by which results are recognized that need not be made again.
pub(super) struct InputState<'a> {
    pub(super) sources: SourceFingerprints,
    /// Directory of the master.
    pub(super) directory: &'a Path,
    /// True if files that are away may be of an earlier series: see [`OutdatedRule::gone`].
    pub(super) is_gone_outdated: bool,
    /// Monitor, if the recipe has one and it could be read.
    pub(super) monitors: Option<&'a MonitorValues>,
    /// True if a pattern counts only with its sparse pixels.
    pub(super) needs_sparse: bool,
}

impl InputState<'_> {
    /// Returns the digest that a part of these frames has if each of them has a pattern.
    pub(super) fn digest(&self, frames: &[u64]) -> u64 {
        let monitors = self.monitors.map(|monitors| {
            frames.iter().map(|frame| monitors.value(*frame)).collect::<Vec<f64>>()
        });
        self.sources.digest(frames, monitors.as_deref())
    }

    /// Returns whether a result has the sparse pixels that are needed of it. `is_settled` says that
    /// its file has them.
    pub(super) fn has_sparse(&self, status: Status, is_settled: bool) -> bool {
        !self.needs_sparse || status != Status::Ok || is_settled
    }

    pub(super) fn confirms(&self, frame: u64, status: Status, monitor: f64) -> bool {
        self.monitors.is_none_or(|monitors| monitors.confirms(frame, status, monitor))
    }

    /// Compares the sources of a result with those of the task, for the `wanted` frames.
    pub(super) fn compare_with<'a>(
        &'a self,
        then: &'a SourceFingerprints,
        wanted: &[u64],
    ) -> SourceComparison<'a> {
        let has_absent = wanted.iter().any(|frame| self.sources.get(*frame).is_none());
        let last = has_absent.then(|| {
            let mut last = LatestFileStates::default();
            last.add(&self.sources);
            last.add(then);
            let rule = OutdatedRule { gone: self.is_gone_outdated, changed: true, always: false };
            last.find_outdated(self.directory, &self.sources, rule);
            last
        });
        let last = last.filter(|last| last.check_all_seen().is_ok());
        SourceComparison { now: &self.sources, then, last }
    }
}

/// Comparison of the sources that results were made from with those of a task.
pub(super) struct SourceComparison<'a> {
    now: &'a SourceFingerprints,
    then: &'a SourceFingerprints,
    /// Latest states of the files, if some frames have no source now.
    last: Option<LatestFileStates>,
}

impl SourceComparison<'_> {
    /// Returns whether a result counts: it is of the raw data of now, or a pattern of raw data that
    /// is away and that nothing has taken the place of. Gather keeps such a pattern, too.
    pub(super) fn recognizes(&self, frame: u64, status: Status) -> bool {
        let is_kept = || match (&self.last, self.then.source_of(frame)) {
            (Some(last), Some(source)) if self.now.get(frame).is_none() => {
                status == Status::Ok && !last.is_file_outdated(source)
            }
            _ => false,
        };
        self.then.is_same_data(self.now, frame) || is_kept()
    }
}
