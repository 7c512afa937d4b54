//! Parts and a final file whose axes or weights differ by more than rounding, though their recipe is
//! the same: another version of azpipe, which splits pixels otherwise, made some of them.

use records::Spans;

use super::{OutputError, OutputFile};
use crate::Status;
use crate::part::Part;

/// Parts and a final file whose frames may be in one file.
pub(super) struct Agreeing {
    pub parts: Vec<Part>,
    pub existing: Option<OutputFile>,
    /// The final file, if the parts have all of its patterns by other weights.
    pub superseded: Option<OutputFile>,
    /// Warnings about what is left out.
    pub left_out: Vec<String>,
}

/// Leaves out files with other axes or weights than the part that was written last, if the patterns of
/// all their frames are in files that agree with it: `ai-integrate --force` made them anew.
///
/// # Errors
/// Fails if only a file that would be left out has a frame's pattern.
pub(super) fn leave_out_superseded(
    parts: Vec<Part>,
    existing: Option<OutputFile>,
) -> Result<Agreeing, OutputError> {
    let newest = parts.iter().max_by_key(|part| part.modified);
    let Some((shared, newest)) = newest.map(|part| (part.shared.clone(), part.path.clone())) else {
        return Ok(Agreeing { parts, existing, superseded: None, left_out: Vec::new() });
    };
    let (agreeing, others): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|part| part.shared.agrees_with(&shared));
    let (existing, superseded) = match existing {
        Some(existing) if !existing.shared.agrees_with(&shared) => (None, Some(existing)),
        existing => (existing, None),
    };
    let mut left_out = Vec::new();
    if !others.is_empty() || superseded.is_some() {
        let of_final = existing.as_ref().map(|there| patterns_of(0.., &there.status));
        let of_parts =
            agreeing.iter().map(|part| patterns_of(part.frames.iter().copied(), &part.status));
        let known = Spans::union_all(&of_parts.chain(of_final).collect::<Vec<_>>());
        let of_others = others
            .iter()
            .map(|part| (&part.path, patterns_of(part.frames.iter().copied(), &part.status)));
        let of_superseded =
            superseded.iter().map(|there| (&there.path, patterns_of(0.., &there.status)));
        for (path, patterns) in of_others.chain(of_superseded) {
            let only_here = patterns.difference(&known);
            if !only_here.is_empty() {
                let (one, two) = (path.clone(), newest.clone());
                return Err(OutputError::ConflictingBins { one, two, only_in_one: only_here });
            }
            left_out.push(format!(
                "{}: not used: it has other axes or weights than {}, which was written later",
                path.display(),
                newest.display()
            ));
        }
    }
    Ok(Agreeing { parts: agreeing, existing, superseded, left_out })
}

/// Returns the frames with a pattern.
pub(super) fn patterns_of(frames: impl IntoIterator<Item = u64>, status: &[Status]) -> Spans {
    let rows = frames.into_iter().zip(status);
    rows.filter(|(_, status)| **status == Status::Ok).map(|(frame, _)| frame).collect()
}
