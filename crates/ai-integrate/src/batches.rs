//! Divides the frames of a task into batches: the unit of work of one thread.

use std::cmp::Reverse;

use memory_model::{MAX_BATCH_STRETCH, interleaved_sources};
use records::{Acquisition, Spans};

/// A recipe of a task, by its position among the task's recipes. Positions within a [recipe
/// set](Batches::recipe_sets) are plain numbers, so that the compiler tells the two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecipeIndex(pub usize);

/// A frame, and the source and row that hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLocation {
    /// The frame's number in the scan.
    pub frame: u64,
    /// The index of the source among the task's sources.
    pub source: usize,
    /// The row of the frame in the source's dataset.
    pub row: u64,
    /// The index of the frame's recipe set in [`Batches::recipe_sets`].
    pub recipe_set: usize,
}

/// Smaller batches, as divisors of the largest one, and the time that a frame takes in them relative
/// to a frame in the largest: the matrix is read once for each batch. Measured with 16, 8 and 4
/// frames of an Eiger2 4M.
const BATCH_DIVISORS: [(usize, f64); 3] = [(1, 1.), (2, 1.25), (4, 1.6)];

/// Returns how many of a task's frames to integrate together, `largest` at the most: fewer if threads
/// would otherwise have nothing to do. Not fewer than `smallest`.
pub fn batch_size(frames: usize, threads: usize, smallest: usize, largest: usize) -> usize {
    let time = |size: usize, of_frame: f64| {
        let batches_in_turn = frames.div_ceil(size).div_ceil(threads);
        (batches_in_turn * size.min(frames)) as f64 * of_frame
    };
    BATCH_DIVISORS
        .iter()
        .map(|&(divisor, of_frame)| (largest.div_ceil(divisor), of_frame))
        .filter(|&(size, _)| size >= smallest.min(largest))
        .min_by(|one, two| time(one.0, one.1).total_cmp(&time(two.0, two.1)))
        .map_or(largest, |(size, _)| size)
}

/// The locations of the frames to integrate, in ascending order of the frames, divided into
/// batches.
pub struct Batches {
    locations: Vec<FrameLocation>,
    /// The sets of recipes that integrate the same frames; each set lists recipes in ascending
    /// order.
    recipe_sets: Vec<Vec<RecipeIndex>>,
    /// The end of each batch, as an index into `locations`.
    ends: Vec<usize>,
}

impl Batches {
    /// Divides the frames that any recipe has `todo` into batches with about `batch` frames of each
    /// source.
    ///
    /// Usually a batch has one source. If consecutive frames are in different sources in turn, as
    /// Lima 2's receivers write them, a batch holds `batch` frames times the number of sources. If
    /// a chunk holds several frames, a batch ends at the end of a chunk, because a thread decodes
    /// the whole chunk.
    pub fn new(scan: &Acquisition, todo: &[Spans], batch: usize) -> Self {
        Self::with_breaks(scan, todo, batch, |_, _| false)
    }

    /// Divides the frames as [`new`](Self::new) does, and ends a batch also between two consecutive
    /// frames for which `is_break` returns true.
    pub fn with_breaks(
        scan: &Acquisition,
        todo: &[Spans],
        batch: usize,
        is_break: impl Fn(u64, u64) -> bool,
    ) -> Self {
        let mut locations = locate_frames(scan, &Spans::union_all(todo));
        let sets = assign_recipe_sets(&mut locations, todo);
        let size = batch * interleaved_sources(scan);
        let frames_a_chunk = scan.chunk.first().copied().unwrap_or(1).max(1);
        let chunk = |location: &FrameLocation| (location.source, location.row / frames_a_chunk);
        let (mut ends, mut start) = (Vec::new(), 0);
        for (end, pair) in (1..).zip(locations.windows(2)) {
            let length = end - start;
            let is_full = length >= size
                && (chunk(&pair[0]) != chunk(&pair[1]) || length >= MAX_BATCH_STRETCH * size);
            if is_full || is_break(pair[0].frame, pair[1].frame) {
                ends.push(end);
                start = end;
            }
        }
        ends.extend((start < locations.len()).then_some(locations.len()));
        Self { locations, recipe_sets: sets, ends }
    }

    /// Returns the sets of recipes that integrate the same frames.
    pub fn recipe_sets(&self) -> &[Vec<RecipeIndex>] {
        &self.recipe_sets
    }

    /// Returns the frames of a recipe in ascending order.
    pub fn frames_of_recipe(&self, recipe: RecipeIndex) -> impl Iterator<Item = u64> {
        self.locations
            .iter()
            .filter(move |location| self.recipe_sets[location.recipe_set].contains(&recipe))
            .map(|location| location.frame)
    }

    /// Returns the number of batches.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of frames in all batches.
    pub fn frames(&self) -> usize {
        self.locations.len()
    }

    /// Returns the number of frames in the longest batch.
    pub fn max_frames(&self) -> usize {
        (0..self.len()).map(|index| self.locations_of(index).len()).max().unwrap_or(0)
    }

    /// Returns the locations of all frames.
    pub fn locations(&self) -> &[FrameLocation] {
        &self.locations
    }

    /// Returns the locations of the frames of batch `index`.
    pub fn locations_of(&self, index: usize) -> &[FrameLocation] {
        let from = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.locations[from..self.ends[index]]
    }

    /// Returns the frames that a recipe has `todo` and that no source holds.
    pub fn frames_without_source(&self, todo: &[Spans]) -> Spans {
        Spans::union_all(todo)
            .difference(&self.locations.iter().map(|location| location.frame).collect())
    }
}

/// Locates each frame once. Where two sources hold a frame, the source modified last is used; if
/// both have the same modification time, the first of them. The coverage stamps follow the same
/// rule.
fn locate_frames(scan: &Acquisition, todo: &Spans) -> Vec<FrameLocation> {
    let mut locations = Vec::with_capacity(todo.count() as usize);
    for (index, source) in scan.sources.iter().enumerate() {
        let Some(source) = source.restricted_to(todo) else { continue };
        let pairs = source.frames.iter().zip(source.rows.iter());
        locations.extend(pairs.map(|(frame, row)| FrameLocation {
            frame,
            source: index,
            row,
            recipe_set: 0,
        }));
    }
    locations.sort_by_key(|location: &FrameLocation| {
        (location.frame, Reverse(scan.sources[location.source].mtime))
    });
    locations.dedup_by_key(|location| location.frame);
    locations
}

/// Assigns to each location the set of recipes that have its frame to integrate, and returns the
/// sets.
fn assign_recipe_sets(locations: &mut [FrameLocation], todo: &[Spans]) -> Vec<Vec<RecipeIndex>> {
    let frames: Vec<Vec<u64>> = todo.iter().map(|todo| todo.to_sorted().iter().collect()).collect();
    let mut sets: Vec<Vec<RecipeIndex>> = Vec::new();
    for location in locations {
        let wants = |recipe: &RecipeIndex| frames[recipe.0].binary_search(&location.frame).is_ok();
        let set: Vec<RecipeIndex> = (0..todo.len()).map(RecipeIndex).filter(wants).collect();
        location.recipe_set = sets.iter().position(|known| *known == set).unwrap_or_else(|| {
            sets.push(set);
            sets.len() - 1
        });
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::{Source, Span};

    fn source(frames: Span) -> Source {
        let count = frames.count();
        Source { frames: frames.into(), rows: Spans::first_n(count), ..Source::default() }
    }

    fn scan<const N: usize>(sources: [Source; N]) -> Acquisition {
        Acquisition { sources: sources.into(), ..Acquisition::default() }
    }

    #[test]
    fn batches_are_smaller_where_threads_would_be_idle() {
        // As many frames as fill 16 threads take one batch each.
        assert_eq!(
            [16, 20, 64, 100, 200, 256].map(|frames| batch_size(frames, 16, 4, 16)),
            [4, 4, 4, 8, 16, 16]
        );
        // With two threads, two large batches do as well.
        assert_eq!([16, 20, 32, 1000].map(|frames| batch_size(frames, 2, 4, 16)), [8, 16, 16, 16]);
        assert_eq!([16, 64, 100].map(|frames| batch_size(frames, 16, 8, 16)), [8, 8, 8]);
        assert_eq!([0, 1, 64].map(|frames| batch_size(frames, 16, 8, 2)), [2, 2, 2]);
        assert_eq!(batch_size(5, 16, 4, 1), 1);
    }

    #[test]
    fn batches_follow_the_frames() {
        let scan = scan([source(Span::new(0, 5)), source(Span::new(5, 10))]);
        let todo: Spans = [1, 2, 4, 5, 6, 11].into_iter().collect();
        let batches = Batches::new(&scan, std::slice::from_ref(&todo), 2);
        assert_eq!((batches.len(), batches.frames(), batches.max_frames()), (3, 5, 2));
        assert_eq!(
            batches.locations_of(1),
            [
                FrameLocation { frame: 4, source: 0, row: 4, recipe_set: 0 },
                FrameLocation { frame: 5, source: 1, row: 0, recipe_set: 0 }
            ]
        );
        assert_eq!(batches.frames_without_source(&[todo]), Span::new(11, 12).into());
        assert_eq!(Batches::new(&scan, &[Spans::default()], 2).len(), 0);
    }

    #[test]
    fn a_frame_knows_the_recipes_that_have_it_to_do() {
        let scan = scan([source(Span::new(0, 6))]);
        let batches = Batches::new(
            &scan,
            &[Spans::first_n(4), Span::new(2, 6).into(), Span::new(3, 3).into()],
            9,
        );
        let wanted: Vec<_> = batches
            .locations()
            .iter()
            .map(|location| batches.recipe_sets()[location.recipe_set].as_slice())
            .collect();
        let (first, both, second) =
            (&[RecipeIndex(0)][..], &[RecipeIndex(0), RecipeIndex(1)][..], &[RecipeIndex(1)][..]);
        assert_eq!(wanted, [first, first, both, both, second, second]);
        assert_eq!(batches.frames_of_recipe(RecipeIndex(1)).collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert_eq!(batches.frames_of_recipe(RecipeIndex(2)).count(), 0);
    }

    #[test]
    fn interleaved_sources_share_a_window() {
        let scan = scan([source(Span::strided(0, 4, 2)), source(Span::strided(1, 4, 2))]);
        let batches = Batches::new(&scan, &[Spans::first_n(8)], 2);
        assert_eq!(
            batches
                .locations_of(0)
                .iter()
                .map(|location| (location.frame, location.source))
                .collect::<Vec<_>>(),
            [(0, 0), (1, 1), (2, 0), (3, 1)]
        );
    }

    #[test]
    fn windows_end_with_a_chunk_of_several_frames() {
        let lengths = |chunk: u64| {
            let scan = Acquisition { chunk: vec![chunk, 9, 9], ..scan([source(Span::new(0, 50))]) };
            let batches = Batches::new(&scan, &[Spans::first_n(50)], 4);
            (0..batches.len()).map(|index| batches.locations_of(index).len()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(10), [10, 10, 10, 10, 10]);
        assert_eq!(lengths(3), [6, 6, 6, 6, 6, 6, 6, 6, 2]);
        assert_eq!(lengths(1 << 60), [32, 18], "not without bound");
    }

    #[test]
    fn a_batch_ends_at_a_break() {
        let scan = scan([source(Span::new(0, 9))]);
        let is_break = |one: u64, other: u64| one / 4 != other / 4;
        let batches = Batches::with_breaks(&scan, &[Spans::first_n(9)], 3, is_break);
        let frames = |index| {
            batches.locations_of(index).iter().map(|location| location.frame).collect::<Vec<_>>()
        };
        let expected: [&[u64]; 5] = [&[0, 1, 2], &[3], &[4, 5, 6], &[7], &[8]];
        assert_eq!((0..batches.len()).map(frames).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_frame_in_two_sources_is_taken_from_the_newest_file() {
        let newer = Source { mtime: 5, ..source(Span::new(2, 5)) };
        let scan = scan([source(Span::new(0, 4)), newer, source(Span::new(3, 6))]);
        let batches = Batches::new(&scan, &[Spans::first_n(6)], 9);
        let sources: Vec<usize> =
            batches.locations().iter().map(|location| location.source).collect();
        assert_eq!(sources, [0, 0, 1, 1, 1, 2]);
    }
}
