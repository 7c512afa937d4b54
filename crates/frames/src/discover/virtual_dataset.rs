//! Which frames a selection of a virtual dataset's mapping is about.

use records::{Span, Spans};

use crate::ffi::{ElementSelection, Hyperslab};
use crate::frame_shape::{format_shape, frame_dimensions};

/// The frames that are selected of a dataset with these extents, rising. Selections are in row-major
/// order, so the k-th frame selected here is the k-th selected there.
///
/// # Errors
/// The selection is not of whole frames.
pub(crate) fn selected_frames(selected: &ElementSelection, extents: &[u64]) -> Result<Spans, String> {
    let [frames, _, _] = frame_dimensions(extents)?;
    let in_parts =
        || format!("frames are put together from parts of several datasets (shape {})", format_shape(extents));
    match selected {
        ElementSelection::All => Ok(Spans::first_n(frames)),
        ElementSelection::Regular(combs) if combs.len() == extents.len() => {
            let (first, rest) = split_frame_dimension(combs);
            let (_, extents) = split_frame_dimension(extents);
            let whole = rest.iter().zip(extents).all(|(comb, &extent)| covers_dimension(comb, extent));
            if whole {
                Ok(first.map_or(Spans::first_n(1), |comb| hyperslab_frames(comb, frames)))
            } else {
                Err(in_parts())
            }
        }
        ElementSelection::Boxes(boxes) => {
            let mut out = Vec::with_capacity(boxes.len());
            for (from, to) in boxes.iter().filter(|(from, to)| from.len() == extents.len() && to.len() == extents.len())
            {
                let ((first, from), (last, to)) = (split_frame_dimension(from), split_frame_dimension(to));
                let (_, extents) = split_frame_dimension(extents);
                let mut sides = from.iter().zip(to).zip(extents);
                if !sides.all(|((&from, &to), &extent)| from == 0 && to.checked_add(1) == Some(extent)) {
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

/// The dimension of frames, where there is one, and the others.
fn split_frame_dimension<T>(dimensions: &[T]) -> (Option<&T>, &[T]) {
    match dimensions {
        [_, _] => (None, dimensions),
        [first, rest @ ..] => (Some(first), rest),
        [] => (None, dimensions),
    }
}

/// Whether nothing of a dimension is left out.
fn covers_dimension(comb: &Hyperslab, extent: u64) -> bool {
    let block = comb.block.unwrap_or(extent);
    let count = comb.count.unwrap_or(u64::MAX);
    comb.start == 0 && (block >= extent || (comb.stride == block && count.saturating_mul(block) >= extent))
}

/// The frames that a comb selects of so many.
fn hyperslab_frames(comb: &Hyperslab, frames: u64) -> Spans {
    let Hyperslab { start, stride, count, block } = *comb;
    let (stride, left) = (stride.max(1), frames.saturating_sub(start));
    let block = block.unwrap_or(left);
    let count = count.unwrap_or(u64::MAX).min(left.div_ceil(stride));
    if block == 1 {
        return Spans::from(Span::strided(start, count, stride));
    }
    // `read_index` is below the number of strides that there is room for.
    let tooth = |index: u64| {
        let first = start.saturating_add(index.saturating_mul(stride));
        Span::new(first, first.saturating_add(block).min(frames))
    };
    (0..count).map(tooth).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comb(start: u64, stride: u64, count: impl Into<Option<u64>>, block: impl Into<Option<u64>>) -> Hyperslab {
        Hyperslab { start, stride, count: count.into(), block: block.into() }
    }

    fn frames(first: Hyperslab, extents: &[u64]) -> Result<String, String> {
        let whole = extents[1..].iter().map(|&extent| comb(0, 1, 1, extent));
        let combs = std::iter::once(first).chain(whole).collect();
        selected_frames(&ElementSelection::Regular(combs), extents).map(|spans| serde_json::to_string(&spans).unwrap())
    }

    #[test]
    fn blocks_strides_and_open_ends() {
        let extents = [100, 20, 30];
        assert_eq!(frames(comb(10, 1, 1, 5), &extents).unwrap(), "[[10,15]]");
        assert_eq!(frames(comb(1, 4, 3, 1), &extents).unwrap(), "[[1,10,4]]");
        assert_eq!(frames(comb(0, 10, 2, 3), &extents).unwrap(), "[[0,3],[10,13]]");
        assert_eq!(frames(comb(2, 50, None, 1), &extents).unwrap(), "[[2,53,50]]");
        assert_eq!(frames(comb(95, 1, 1, None), &extents).unwrap(), "[[95,100]]");
        assert_eq!(frames(comb(3, 1, 1, 2), &[10, 1, 20, 30]).unwrap(), "[[3,5]]");
    }

    #[test]
    fn parts_of_frames_are_refused() {
        let combs = vec![comb(0, 1, 1, 10), comb(0, 1, 1, 10), comb(0, 1, 1, 30)];
        let why = selected_frames(&ElementSelection::Regular(combs), &[10, 20, 30]).unwrap_err();
        assert!(why.contains("put together from parts"), "{why}");
    }

    #[test]
    fn rows_selected_one_by_one_are_whole_frames_all_the_same() {
        let combs = vec![comb(0, 1, 4, 1), comb(0, 1, 20, 1), comb(0, 30, 1, 30)];
        assert_eq!(selected_frames(&ElementSelection::Regular(combs), &[10, 20, 30]).unwrap(), Spans::first_n(4));
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
