//! Marks frames after the last one of an aborted or running scan as never taken, as opposed to
//! lost.

use records::{Absent, AbsentKind, Span, Spans};

/// Marks the absent frames from number `taken` on as never taken, with the given reason. Frames in
/// unreadable files keep their kind.
pub(super) fn mark_never_taken(absent: &mut Vec<Absent>, taken: u64, why: &str) {
    let behind = Spans::from(Span::new(taken, Spans::MAX_FRAMES));
    let mut never_taken = Spans::default();
    for entry in absent.iter_mut() {
        if matches!(entry.kind, AbsentKind::Missing | AbsentKind::NotWritten) {
            let range = entry.range.intersection(&behind);
            entry.range = entry.range.difference(&range);
            never_taken = never_taken.union(&range);
        }
    }
    absent.retain(|entry| !entry.range.is_empty());
    if !never_taken.is_empty() {
        absent.push(Absent {
            range: never_taken,
            kind: AbsentKind::NeverTaken,
            reason: why.to_owned(),
        });
    }
}
