//! [`RecordedSources`]: where the frames of a scan are, by task records of several states of the scan;
//! [`FramesOfRows`]: which frames the rows of raw files are.

use std::collections::HashMap;

use crate::file_states::LatestFileStates;
use crate::source_fingerprint::{SourceFingerprint, SourceFingerprints};

/// State of the scan in records that are not of the latest one.
const EARLIER: u32 = 0;

/// Source fingerprints of the frames that task records name. A record of a later state of the scan is
/// right about a frame, whichever file is newer: images that come between others move these to other
/// frames, and files may be copied with their times. Of records of one state, the newer file is.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedSources {
    stamps: SourceFingerprints,
    /// The state in which each frame was named last.
    states: HashMap<u64, u32>,
    /// The latest state, counted from [`EARLIER`] on.
    latest: u32,
}

impl RecordedSources {
    /// Begins a later state of the scan: that of the records that are added from now on.
    pub fn begin_state(&mut self) {
        self.latest = self.latest.saturating_add(1);
    }

    /// Adds the sources of a record, which is of the latest state or of an earlier one.
    pub fn add(&mut self, stamps: &SourceFingerprints, is_of_latest: bool) {
        let state = if is_of_latest { self.latest } else { EARLIER };
        let Self { stamps: known, states, .. } = self;
        known.add_where(stamps, |frame, is_newer| {
            let named = states.entry(frame).or_insert(state);
            let replaces = *named < state || (*named == state && is_newer);
            *named = state.max(*named);
            replaces
        });
    }

    /// Removes the frames in files that were written again since.
    pub fn retain_current(&mut self, last: &LatestFileStates) {
        self.stamps = last.retain_current(&self.stamps);
    }

    /// Returns the fingerprints of all frames that records name.
    pub fn stamps(&self) -> &SourceFingerprints {
        &self.stamps
    }

    /// Returns the fingerprints without those of rows that a later record gives to another frame.
    pub fn consistent(&self) -> SourceFingerprints {
        let mut stamps = self.stamps.clone();
        let state_of = |frame: u64| self.states.get(&frame).copied().unwrap_or(EARLIER);
        if self.states.values().all(|state| *state == self.latest) {
            return stamps;
        }
        let mut latest: HashMap<(u64, u64), u32> = HashMap::new();
        for (frame, stamp) in stamps.iter() {
            let state = latest.entry(stamp.raw_row()).or_default();
            *state = state_of(frame).max(*state);
        }
        stamps.retain(|frame, stamp| {
            latest.get(&stamp.raw_row()).is_none_or(|latest| state_of(frame) >= *latest)
        });
        stamps
    }
}

/// The frames that are in each row of the raw files. A row may be several frames of a virtual dataset.
#[derive(Debug, Default)]
pub(super) struct FramesOfRows(HashMap<(u64, u64), Vec<u64>>);

impl FramesOfRows {
    /// Adds the rows of these frames.
    pub fn add(&mut self, stamps: &SourceFingerprints) {
        for (frame, stamp) in stamps.iter() {
            self.0.entry(stamp.raw_row()).or_default().push(frame);
        }
    }

    /// Returns whether the row of a frame is known to be another frame, too.
    pub fn is_of_another(&self, frame: u64, stamp: &SourceFingerprint) -> bool {
        let frames = self.0.get(&stamp.raw_row());
        frames.is_some_and(|frames| frames.iter().any(|other| *other != frame))
    }

    /// Returns whether the row of a frame is known to be other frames, and not this one.
    pub fn contradict(&self, frame: u64, stamp: &SourceFingerprint) -> bool {
        self.0.get(&stamp.raw_row()).is_some_and(|frames| !frames.contains(&frame))
    }
}
