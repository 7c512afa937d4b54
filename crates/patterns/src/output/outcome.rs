//! What became of a final.

use records::{Absent, AbsentKind, ScanState, Spans};

use super::row_sources::RowSources;
use super::{OutputLayout, OutputSpec};
use crate::Status;

/// What was made or found.
#[derive(Debug, Default)]
pub struct BuildOutcome {
    /// The layout of the final; `None` where there is none, for want of parts or of completeness.
    pub layout: Option<OutputLayout>,
    /// Whether it was there already, and nothing was written.
    pub was_current: bool,
    /// Whether every frame that the scan has, or while it runs is to have, has a pattern.
    pub complete: bool,
    /// Whether integrating again would add nothing: every frame whose data was there is dealt with.
    pub up_to_date: bool,
    /// How many frames the scan has.
    pub frames: u64,
    /// How far the scan itself got.
    pub scan_state: ScanState,
    /// The frames that a further integration may yet give.
    pub unsettled: Spans,
    /// The frames with a pattern.
    pub integrated: Spans,
    /// The frames without one, and why.
    pub missing: Vec<Absent>,
    /// The digest of the data; empty without a final.
    pub data_digest: String,
    /// What could not be used, such as damaged parts: worth a warning each.
    pub warnings: Vec<String>,
}

impl BuildOutcome {
    /// What a supply comes to, before anything is written.
    pub(super) fn new(target: &OutputSpec, supply: &RowSources) -> Self {
        let unsettled = Status::ALL.into_iter().filter(|status| !status.is_final());
        let unsettled: Spans =
            unsettled.flat_map(|status| supply.frames_with_status(status).as_slice().to_vec()).collect();
        let unsettled = unsettled.to_sorted();
        let integrated = supply.frames_with_status(Status::Ok);
        let (frames, scan_state) = (target.frames(), target.task().acquisition.scan_state());
        Self {
            complete: scan_state != ScanState::Running && integrated.count() == frames,
            up_to_date: unsettled.is_empty(),
            frames,
            scan_state,
            unsettled,
            integrated,
            missing: missing_frames(target, supply),
            ..Self::default()
        }
    }

    /// Says why frames are not integrated that parts hold which can't be read.
    pub(super) fn explain(&mut self, unread: &[Absent]) {
        for Absent { range, kind, reason } in unread {
            let mut explained = Spans::default();
            for entry in self.missing.iter_mut().filter(|entry| entry.kind == AbsentKind::NotIntegrated) {
                let frames = entry.range.intersection(range);
                entry.range = entry.range.difference(&frames);
                frames.as_slice().iter().for_each(|span| explained.push_span(*span));
            }
            self.missing.push(Absent { range: explained, kind: *kind, reason: reason.clone() });
        }
        self.missing.retain(|absent| !absent.range.is_empty());
    }

    /// Returns whether there is nothing to wait for: all that there is has been integrated, and no frame is to come.
    pub fn is_final_state(&self) -> bool {
        self.up_to_date && self.scan_state != ScanState::Running
    }

    /// Returns the frames of `range` whose lack makes status 1 of gather: those that integrating again may give, and those
    /// that are lost for good, unless `allows_missing` has it that this is known.
    pub fn failed_frames(&self, range: &Spans, allows_missing: bool) -> Spans {
        let failures = self.missing.iter().filter(|absent| absent.kind.is_failure(allows_missing));
        let lost = failures.map(|absent| &absent.range).chain([&self.unsettled]);
        lost.flat_map(|lost| lost.as_slice().iter().copied()).collect::<Spans>().intersection(range)
    }
}

/// The frames without a pattern, and why.
fn missing_frames(target: &OutputSpec, supply: &RowSources) -> Vec<Absent> {
    let mut missing = Vec::new();
    let mut unexplained: Vec<(Status, Spans)> = Status::ALL
        .into_iter()
        .filter(|status| *status != Status::Ok)
        .map(|status| (status, supply.frames_with_status(status)))
        .collect();
    // The scan record says more than a status does.
    for Absent { range, kind, reason } in target.absent() {
        let status = Status::from_absent_kind(kind);
        for (_, frames) in unexplained.iter_mut().filter(|(of, _)| *of == status) {
            missing.push(Absent { range: range.intersection(frames), kind, reason: reason.clone() });
            *frames = frames.difference(&range);
        }
    }
    missing.extend(unexplained.into_iter().map(|(status, frames)| status.to_absent(frames)));
    missing.retain(|absent| !absent.range.is_empty());
    missing
}
