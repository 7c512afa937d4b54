//! [`BuildOutcome`]: the state of a final file after a build.

use records::{Absent, AbsentKind, ScanState, Spans};
use serde::{Deserialize, Serialize};

use super::row_sources::RowSources;
use super::{OutputLayout, OutputSpec};
use crate::Status;

/// State of a final file after a build, and the frames in it.
#[derive(Debug, Default)]
pub struct BuildOutcome {
    /// Layout of the final file; `None` if there is none, because there are no parts or frames are
    /// missing.
    pub layout: Option<OutputLayout>,
    /// True if the file already had all of this, and nothing was written.
    pub was_unchanged: bool,
    /// True if every frame that the scan has, or will have when it ends, has a pattern.
    pub complete: bool,
    /// True if integrating again would add nothing: every frame that has data is
    /// [settled](crate::Status::is_settled).
    pub up_to_date: bool,
    /// Number of frames of the scan.
    pub frames: u64,
    /// State of the scan itself.
    pub scan_state: ScanState,
    /// Frames that may get a pattern if they are integrated again.
    pub retryable_frames: Spans,
    /// Frames with a pattern.
    pub integrated: Spans,
    /// Frames of which only the final of another recipe has patterns, which is kept for that.
    pub only_in_replaced: Spans,
    /// Frames without a pattern, with the reasons.
    pub missing: Vec<Absent>,
    /// Content of an earlier file that was replaced.
    pub replaced: Replaced,
    /// Digest of the data; empty if there is no final file.
    pub data_digest: String,
    /// True if a part can't be read. The frames may be in the final file all the same, as they were
    /// integrated earlier.
    pub has_unread_parts: bool,
    /// Warnings, for example about damaged parts.
    pub warnings: Vec<String>,
}

/// Content of an earlier final file that was replaced by that of a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replaced {
    /// There was none, or it had the same data.
    #[default]
    Nothing,
    /// Its counters and motors, which were written or corrected since; its patterns are the same.
    Counters,
    /// Its patterns.
    Data,
}

impl BuildOutcome {
    /// Creates the outcome of these rows, before anything is written.
    pub(super) fn new(target: &OutputSpec, row_sources: &RowSources) -> Self {
        let retryable_frames = Status::ALL.into_iter().filter(|status| !status.is_settled());
        let retryable_frames: Spans = retryable_frames
            .flat_map(|status| row_sources.frames_with_status(status).as_slice().to_vec())
            .collect();
        let retryable_frames = retryable_frames.to_sorted();
        let integrated = row_sources.frames_with_status(Status::Ok);
        let scan = &target.task().acquisition;
        let (frames, scan_state) = (target.frames(), scan.scan_state());
        let has_all_planned = scan.planned_frames.is_none_or(|planned| planned <= frames);
        Self {
            complete: scan_state != ScanState::Running
                && has_all_planned
                && integrated.count() == frames,
            up_to_date: retryable_frames.is_empty(),
            frames,
            scan_state,
            retryable_frames,
            integrated,
            missing: missing_frames(target, row_sources),
            ..Self::default()
        }
    }

    /// Adds the reason for frames whose parts can't be read. The frames are not known of all of
    /// these parts.
    pub(super) fn explain(&mut self, unread: &[Absent], has_unread_parts: bool) {
        self.has_unread_parts |= has_unread_parts;
        for Absent { range, kind, reason } in unread {
            let mut explained = Spans::default();
            for entry in
                self.missing.iter_mut().filter(|entry| entry.kind == AbsentKind::NotIntegrated)
            {
                let frames = entry.range.intersection(range);
                entry.range = entry.range.difference(&frames);
                frames.as_slice().iter().for_each(|span| explained.push_span(*span));
            }
            self.missing.push(Absent { range: explained, kind: *kind, reason: reason.clone() });
        }
        self.missing.retain(|absent| !absent.range.is_empty());
    }

    /// Returns whether there is nothing to wait for: all frames that have data are integrated, and
    /// the scan is over.
    pub fn is_final_state(&self) -> bool {
        self.up_to_date && self.scan_state != ScanState::Running
    }

    /// Returns the frames of `range` whose absence makes gather end with status 1: frames that may
    /// get a pattern when they are integrated again, frames that are lost for good, unless
    /// `allows_missing` accepts them, and those for which an earlier result is kept.
    pub fn failed_frames(&self, range: &Spans, allows_missing: bool) -> Spans {
        let failures = self.missing.iter().filter(|absent| absent.kind.is_failure(allows_missing));
        let lost = failures
            .map(|absent| &absent.range)
            .chain([&self.retryable_frames, &self.only_in_replaced]);
        lost.flat_map(|lost| lost.as_slice().iter().copied()).collect::<Spans>().intersection(range)
    }
}

/// Returns the frames without a pattern, with the reasons.
fn missing_frames(target: &OutputSpec, row_sources: &RowSources) -> Vec<Absent> {
    let mut missing = Vec::new();
    let mut unexplained: Vec<(Status, Spans)> = Status::ALL
        .into_iter()
        .filter(|status| *status != Status::Ok)
        .map(|status| (status, row_sources.frames_with_status(status)))
        .collect();
    // The reason in the scan's records is more specific than the reason of the status.
    for Absent { range, kind, reason } in target.absent() {
        let status = Status::from_absent_kind(kind);
        for (_, frames) in unexplained.iter_mut().filter(|(of, _)| *of == status) {
            missing.push(Absent {
                range: range.intersection(frames),
                kind,
                reason: reason.clone(),
            });
            *frames = frames.difference(&range);
        }
    }
    for (status, frames) in unexplained {
        if status.is_about_file() {
            for (file, frames) in target.frames_by_file(&frames) {
                missing.push(status.to_absent(frames, file.as_deref()));
            }
        } else {
            missing.push(status.to_absent(frames, None));
        }
    }
    missing.retain(|absent| !absent.range.is_empty());
    missing
}
