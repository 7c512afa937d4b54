//! Converts the hyperslab selections of a virtual dataset's mappings to frame numbers.

use records::{Span, Spans};

use crate::ffi::{ElementSelection, Hyperslab};
use crate::frame_shape::{FrameShapeError, format_shape, frame_dimensions};

/// Explains why a selection of elements is not one of whole frames.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectionError {
    #[error(transparent)]
    Shape(#[from] FrameShapeError),
    /// Holds the extents of the dataset.
    #[error(
        "a virtual dataset of shape {} puts frames together from parts of datasets: expected whole frames",
        format_shape(.0)
    )]
    PartsOfFrames(Vec<u64>),
}

/// Returns the selected frames of a dataset with the given extents, in ascending order. Selections
/// are in row-major order, so the k-th frame selected in the virtual dataset is the k-th one
/// selected in the source.
///
/// # Errors
/// The selection contains parts of frames.
pub(crate) fn selected_frames(
    selected: &ElementSelection,
    extents: &[u64],
) -> Result<Spans, SelectionError> {
    let [frames, _, _] = frame_dimensions(extents)?;
    let in_parts = || SelectionError::PartsOfFrames(extents.to_vec());
    match selected {
        ElementSelection::All => Ok(Spans::first_n(frames)),
        ElementSelection::Regular(hyperslabs) if hyperslabs.len() == extents.len() => {
            let (first, rest) = split_frame_dimension(hyperslabs);
            let (_, extents) = split_frame_dimension(extents);
            let whole = rest
                .iter()
                .zip(extents)
                .all(|(hyperslab, &extent)| covers_dimension(hyperslab, extent));
            if whole {
                Ok(first.map_or(Spans::first_n(1), |hyperslab| hyperslab_frames(hyperslab, frames)))
            } else {
                Err(in_parts())
            }
        }
        ElementSelection::Boxes(boxes) => {
            let mut out = Vec::with_capacity(boxes.len());
            for (from, to) in boxes
                .iter()
                .filter(|(from, to)| from.len() == extents.len() && to.len() == extents.len())
            {
                let ((first, from), (last, to)) =
                    (split_frame_dimension(from), split_frame_dimension(to));
                let (_, extents) = split_frame_dimension(extents);
                let mut sides = from.iter().zip(to).zip(extents);
                if !sides
                    .all(|((&from, &to), &extent)| from == 0 && to.checked_add(1) == Some(extent))
                {
                    return Err(in_parts());
                }
                let (first, last) = (first.copied().unwrap_or(0), last.copied().unwrap_or(0));
                out.push(Span::new(first, last.saturating_add(1).min(frames)));
            }
            Ok(out.into_iter().collect::<Spans>().to_sorted())
        }
        _ => Err(in_parts()),
    }
}

/// Splits off the dimension that counts frames, if there is one.
fn split_frame_dimension<T>(dimensions: &[T]) -> (Option<&T>, &[T]) {
    match dimensions {
        [_, _] => (None, dimensions),
        [first, rest @ ..] => (Some(first), rest),
        [] => (None, dimensions),
    }
}

/// Returns whether a selection covers a dimension completely.
fn covers_dimension(hyperslab: &Hyperslab, extent: u64) -> bool {
    let block = hyperslab.block.unwrap_or(extent);
    let count = hyperslab.count.unwrap_or(u64::MAX);
    hyperslab.start == 0
        && (block >= extent || (hyperslab.stride == block && count.saturating_mul(block) >= extent))
}

/// Returns the frames below `frames` that a hyperslab selects.
fn hyperslab_frames(hyperslab: &Hyperslab, frames: u64) -> Spans {
    let Hyperslab { start, stride, count, block } = *hyperslab;
    let (stride, left) = (stride.max(1), frames.saturating_sub(start));
    let block = block.unwrap_or(left);
    let count = count.unwrap_or(u64::MAX).min(left.div_ceil(stride));
    if block == 1 {
        return Spans::from(Span::strided(start, count, stride));
    }
    // `index` is below the number of strides that fit into `frames`, so the product does not
    // saturate.
    let block_at = |index: u64| {
        let first = start.saturating_add(index.saturating_mul(stride));
        Span::new(first, first.saturating_add(block).min(frames))
    };
    (0..count).map(block_at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hyperslab(
        start: u64,
        stride: u64,
        count: impl Into<Option<u64>>,
        block: impl Into<Option<u64>>,
    ) -> Hyperslab {
        Hyperslab { start, stride, count: count.into(), block: block.into() }
    }

    fn frames(first: Hyperslab, extents: &[u64]) -> Result<String, SelectionError> {
        let whole = extents[1..].iter().map(|&extent| hyperslab(0, 1, 1, extent));
        let hyperslabs = std::iter::once(first).chain(whole).collect();
        selected_frames(&ElementSelection::Regular(hyperslabs), extents)
            .map(|spans| serde_json::to_string(&spans).unwrap())
    }

    #[test]
    fn blocks_strides_and_open_ends() {
        let extents = [100, 20, 30];
        assert_eq!(frames(hyperslab(10, 1, 1, 5), &extents).unwrap(), "[[10,15]]");
        assert_eq!(frames(hyperslab(1, 4, 3, 1), &extents).unwrap(), "[[1,10,4]]");
        assert_eq!(frames(hyperslab(0, 10, 2, 3), &extents).unwrap(), "[[0,3],[10,13]]");
        assert_eq!(frames(hyperslab(2, 50, None, 1), &extents).unwrap(), "[[2,53,50]]");
        assert_eq!(frames(hyperslab(95, 1, 1, None), &extents).unwrap(), "[[95,100]]");
        assert_eq!(frames(hyperslab(3, 1, 1, 2), &[10, 1, 20, 30]).unwrap(), "[[3,5]]");
    }

    #[test]
    fn parts_of_frames_are_refused() {
        let hyperslabs =
            vec![hyperslab(0, 1, 1, 10), hyperslab(0, 1, 1, 10), hyperslab(0, 1, 1, 30)];
        let why =
            selected_frames(&ElementSelection::Regular(hyperslabs), &[10, 20, 30]).unwrap_err();
        assert_eq!(why, SelectionError::PartsOfFrames(vec![10, 20, 30]));
    }

    #[test]
    fn rows_selected_one_by_one_are_whole_frames_all_the_same() {
        let hyperslabs =
            vec![hyperslab(0, 1, 4, 1), hyperslab(0, 1, 20, 1), hyperslab(0, 30, 1, 30)];
        assert_eq!(
            selected_frames(&ElementSelection::Regular(hyperslabs), &[10, 20, 30]).unwrap(),
            Spans::first_n(4)
        );
    }

    #[test]
    fn any_union_of_frames() {
        let frame = |from: u64, to: u64| (vec![from, 0, 0], vec![to, 19, 29]);
        let boxes = ElementSelection::Boxes(vec![frame(0, 2), frame(5, 5), frame(7, 9)]);
        assert_eq!(
            serde_json::to_string(&selected_frames(&boxes, &[10, 20, 30]).unwrap()).unwrap(),
            "[[0,3],[5,6],[7,10]]"
        );
    }
}
