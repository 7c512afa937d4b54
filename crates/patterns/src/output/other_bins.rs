//! Parts and a final file whose axes or weights differ by more than rounding, though their recipe is
//! the same: another version of azpipe, which splits pixels otherwise, made some of them.

use std::path::Path;
use std::sync::Arc;

use records::{Spans, format_frames};

use super::error::MAX_RANGES;
use super::{OutputError, OutputFile};
use crate::part::Part;
use crate::{SharedBins, Status};

/// Parts and a final file whose frames may be in one file.
pub(super) struct Agreeing {
    pub parts: Vec<Part>,
    pub existing: Option<OutputFile>,
    /// Frames with a pattern in the final file, if that has other weights and is left out.
    pub superseded: Option<Spans>,
    /// Warnings about what is left out.
    pub left_out: Vec<String>,
}

/// Leaves out files with other axes or weights than the part that was written last. All frames of parts must
/// have a pattern that agrees with it: `ai-integrate --force` made them anew. A final file stays
/// until all of its patterns have one, as the final of another recipe does.
///
/// # Errors
/// Fails if only a part that would be left out has a frame's pattern.
pub(super) fn leave_out_superseded(
    parts: Vec<Part>,
    existing: Option<OutputFile>,
    frames: u64,
) -> Result<Agreeing, OutputError> {
    let newest = parts.iter().max_by_key(|part| part.modified);
    let Some((shared, newest)) = newest.map(|part| (part.shared.clone(), part.path.clone())) else {
        return Ok(Agreeing { parts, existing, superseded: None, left_out: Vec::new() });
    };
    let agrees =
        |other: &Arc<SharedBins>| Arc::ptr_eq(other, &shared) || other.agrees_with(&shared);
    let (agreeing, others): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|part| agrees(&part.shared));
    let (existing, superseded) = match existing {
        Some(existing) if !agrees(&existing.shared) => (None, Some(existing)),
        existing => (existing, None),
    };
    let mut left_out = Vec::new();
    if !others.is_empty() || superseded.is_some() {
        let of_final = existing.as_ref().map(|there| patterns_of(0.., &there.status));
        let of_parts =
            agreeing.iter().map(|part| patterns_of(part.frames.iter().copied(), &part.status));
        let known = Spans::union_all(&of_parts.chain(of_final).collect::<Vec<_>>());
        let lacking =
            |patterns: Spans| patterns.intersection(&Spans::first_n(frames)).difference(&known);
        let describe = |path: &Path| {
            format!(
                "{}: not used: it has other axes or weights than {}, which was written later",
                path.display(),
                newest.display()
            )
        };
        for part in &others {
            let only_here = lacking(patterns_of(part.frames.iter().copied(), &part.status));
            if !only_here.is_empty() {
                let (one, two) = (part.path.clone(), newest);
                return Err(OutputError::ConflictingBins { one, two, only_in_one: only_here });
            }
            left_out.push(describe(&part.path));
        }
        if let Some(final_file) = &superseded {
            let only_here = lacking(patterns_of(0.., &final_file.status));
            let advice = match only_here.is_empty() {
                true => String::new(),
                false => format!(
                    "; only it has {}: run ai-integrate --force on all tasks of the scan, and gather again",
                    format_frames(&only_here, MAX_RANGES)
                ),
            };
            left_out.push(describe(&final_file.path) + &advice);
        }
    }
    let superseded = superseded.map(|there| patterns_of(0.., &there.status));
    Ok(Agreeing { parts: agreeing, existing, superseded, left_out })
}

/// Returns the frames with a pattern.
pub(super) fn patterns_of(frames: impl IntoIterator<Item = u64>, status: &[Status]) -> Spans {
    let rows = frames.into_iter().zip(status);
    rows.filter(|(_, status)| **status == Status::Ok).map(|(frame, _)| frame).collect()
}
