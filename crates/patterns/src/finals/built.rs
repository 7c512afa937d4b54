//! What became of a final.

use records::{Absent, Spans};

use super::supply::Supply;
use super::{Layout, Target};
use crate::Status;

/// What was made or found.
#[derive(Debug, Default)]
pub struct Built {
    /// The layout of the final; `None` where there is none, for want of parts or of completeness.
    pub layout: Option<Layout>,
    /// Whether it was there already, and nothing was written.
    pub found: bool,
    /// Whether every frame that exists is integrated.
    pub complete: bool,
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

impl Built {
    /// What a supply comes to, before anything is written.
    pub(super) fn of(target: &Target, supply: &Supply) -> Self {
        let unsettled = Status::ALL.into_iter().filter(|status| !status.is_settled());
        let unsettled: Spans = unsettled.flat_map(|status| supply.frames_of(status).as_slice().to_vec()).collect();
        let unsettled = unsettled.sorted();
        Self {
            complete: unsettled.is_empty(),
            unsettled,
            integrated: supply.frames_of(Status::Ok),
            missing: missing(target, supply),
            ..Self::default()
        }
    }
}

/// The frames without a pattern, and why.
fn missing(target: &Target, supply: &Supply) -> Vec<Absent> {
    let mut missing = Vec::new();
    let mut unexplained = supply.frames_of(Status::Absent);
    for Absent { range, kind, reason } in target.absent() {
        let range = range.and(&unexplained);
        if !range.is_empty() {
            unexplained = unexplained.minus(&range);
            missing.push(Absent { range, kind, reason });
        }
    }
    missing.push(Status::Absent.absent(unexplained));
    for status in Status::ALL.into_iter().filter(|status| !matches!(status, Status::Ok | Status::Absent)) {
        missing.push(status.absent(supply.frames_of(status)));
    }
    missing.retain(|absent| !absent.range.is_empty());
    missing
}
