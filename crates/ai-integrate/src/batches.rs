//! The frames of a task in windows: what one thread takes at a time.

use std::cmp::Reverse;

use records::{Acquisition, Spans};

/// Windows span no more than this many sources that interleave, so that their rows fit in memory.
const MAX_INTERLEAVED_SOURCES: u64 = 16;

/// Windows grow to this many times their size in order to end where a chunk of several frames does.
const MAX_BATCH_STRETCH: usize = 8;

/// A frame, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLocation {
    /// Its number in the scan.
    pub frame: u64,
    /// Which of the task's sources holds it.
    pub source: usize,
    /// Its row in that source's dataset.
    pub row: u64,
    /// Which recipes it is to be integrated by: one of [`Batches::recipe_sets`].
    pub recipe_set: usize,
}

/// The places of the frames to do, in rising order of the frames, and how to take them.
pub struct Batches {
    locations: Vec<FrameLocation>,
    /// The sets of recipes that frames are to be integrated by, each rising.
    recipe_sets: Vec<Vec<usize>>,
    /// Behind the last place of each window.
    ends: Vec<usize>,
}

impl Batches {
    /// Windows over the frames that each recipe has `todo`, each of about `batch` frames of any one source: where sources
    /// interleave, as Lima 2's receivers do, a window spans as many frames more; where a chunk holds
    /// several frames, it ends with a chunk, for a thread decodes the whole of it.
    pub fn new(scan: &Acquisition, todo: &[Spans], batch: usize) -> Self {
        let mut places = locate_frames(scan, &union_of(todo));
        let sets = assign_recipe_sets(&mut places, todo);
        let steps = scan.sources.iter().flat_map(|source| source.frames.as_slice()).map(|span| span.step());
        let lanes = steps.max().unwrap_or(1).min(scan.sources.len() as u64).clamp(1, MAX_INTERLEAVED_SOURCES);
        let size = batch * lanes as usize;
        let frames_a_chunk = scan.chunk.first().copied().unwrap_or(1).max(1);
        let chunk = |place: &FrameLocation| (place.source, place.row / frames_a_chunk);
        let (mut ends, mut start) = (Vec::new(), 0);
        for (end, pair) in (1..).zip(places.windows(2)) {
            let length = end - start;
            if length >= size && (chunk(&pair[0]) != chunk(&pair[1]) || length >= MAX_BATCH_STRETCH * size) {
                ends.push(end);
                start = end;
            }
        }
        ends.extend((start < places.len()).then_some(places.len()));
        Self { locations: places, recipe_sets: sets, ends }
    }

    /// The sets of recipes that frames are to be integrated by.
    pub fn recipe_sets(&self) -> &[Vec<usize>] {
        &self.recipe_sets
    }

    /// The frames of a recipe, rising.
    pub fn frames_of_recipe(&self, recipe: usize) -> impl Iterator<Item = u64> {
        self.locations
            .iter()
            .filter(move |place| self.recipe_sets[place.recipe_set].contains(&recipe))
            .map(|place| place.frame)
    }

    /// How many windows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many frames in all.
    pub fn frames(&self) -> usize {
        self.locations.len()
    }

    /// How many frames the longest window has.
    pub fn max_frames(&self) -> usize {
        (0..self.len()).map(|index| self.locations_of(index).len()).max().unwrap_or(0)
    }

    /// All places.
    pub fn locations(&self) -> &[FrameLocation] {
        &self.locations
    }

    /// The places of a window.
    pub fn locations_of(&self, index: usize) -> &[FrameLocation] {
        let from = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.locations[from..self.ends[index]]
    }

    /// The frames that any recipe has `todo` and no source holds.
    pub fn frames_without_source(&self, todo: &[Spans]) -> Spans {
        union_of(todo).difference(&self.locations.iter().map(|place| place.frame).collect())
    }
}

/// Each frame once. Of two sources that hold it, the file changed last counts, and of two changed at once
/// the one that stands first, as in the stamps that coverage goes by.
fn locate_frames(scan: &Acquisition, todo: &Spans) -> Vec<FrameLocation> {
    let mut places = Vec::with_capacity(todo.count() as usize);
    for (index, source) in scan.sources.iter().enumerate() {
        let Some(source) = source.restricted_to(todo) else { continue };
        let pairs = source.frames.iter().zip(source.rows.iter());
        places.extend(pairs.map(|(frame, row)| FrameLocation { frame, source: index, row, recipe_set: 0 }));
    }
    places.sort_by_key(|place: &FrameLocation| (place.frame, Reverse(scan.sources[place.source].mtime)));
    places.dedup_by_key(|place| place.frame);
    places
}

fn union_of(todo: &[Spans]) -> Spans {
    todo.iter().flat_map(|todo| todo.as_slice()).copied().collect::<Spans>().to_sorted()
}

/// Says of each place which recipes have its frame to do.
fn assign_recipe_sets(places: &mut [FrameLocation], todo: &[Spans]) -> Vec<Vec<usize>> {
    let frames: Vec<Vec<u64>> = todo.iter().map(|todo| todo.to_sorted().iter().collect()).collect();
    let mut sets: Vec<Vec<usize>> = Vec::new();
    for place in places {
        let wants = |recipe: &usize| frames[*recipe].binary_search(&place.frame).is_ok();
        let set: Vec<usize> = (0..todo.len()).filter(wants).collect();
        place.recipe_set = sets.iter().position(|known| *known == set).unwrap_or_else(|| {
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
    fn windows_follow_the_frames() {
        let scan = scan([source(Span::new(0, 5)), source(Span::new(5, 10))]);
        let todo: Spans = [1, 2, 4, 5, 6, 11].into_iter().collect();
        let windows = Batches::new(&scan, std::slice::from_ref(&todo), 2);
        assert_eq!((windows.len(), windows.frames(), windows.max_frames()), (3, 5, 2));
        assert_eq!(
            windows.locations_of(1),
            [
                FrameLocation { frame: 4, source: 0, row: 4, recipe_set: 0 },
                FrameLocation { frame: 5, source: 1, row: 0, recipe_set: 0 }
            ]
        );
        assert_eq!(windows.frames_without_source(&[todo]), Span::new(11, 12).into());
        assert_eq!(Batches::new(&scan, &[Spans::default()], 2).len(), 0);
    }

    #[test]
    fn a_frame_knows_the_recipes_that_have_it_to_do() {
        let scan = scan([source(Span::new(0, 6))]);
        let windows = Batches::new(&scan, &[Spans::first_n(4), Span::new(2, 6).into(), Span::new(3, 3).into()], 9);
        let wanted: Vec<_> =
            windows.locations().iter().map(|place| windows.recipe_sets()[place.recipe_set].as_slice()).collect();
        assert_eq!(wanted, [&[0][..], &[0], &[0, 1], &[0, 1], &[1], &[1]]);
        assert_eq!(windows.frames_of_recipe(1).collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert_eq!(windows.frames_of_recipe(2).count(), 0);
    }

    #[test]
    fn interleaved_sources_share_a_window() {
        let scan = scan([source(Span::strided(0, 4, 2)), source(Span::strided(1, 4, 2))]);
        let windows = Batches::new(&scan, &[Spans::first_n(8)], 2);
        assert_eq!(
            windows.locations_of(0).iter().map(|place| (place.frame, place.source)).collect::<Vec<_>>(),
            [(0, 0), (1, 1), (2, 0), (3, 1)]
        );
    }

    #[test]
    fn windows_end_with_a_chunk_of_several_frames() {
        let lengths = |chunk: u64| {
            let scan = Acquisition { chunk: vec![chunk, 9, 9], ..scan([source(Span::new(0, 50))]) };
            let windows = Batches::new(&scan, &[Spans::first_n(50)], 4);
            (0..windows.len()).map(|index| windows.locations_of(index).len()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(10), [10, 10, 10, 10, 10]);
        assert_eq!(lengths(3), [6, 6, 6, 6, 6, 6, 6, 6, 2]);
        assert_eq!(lengths(1 << 60), [32, 18], "not without bound");
    }

    #[test]
    fn a_frame_in_two_sources_is_taken_from_the_newest_file() {
        let newer = Source { mtime: 5, ..source(Span::new(2, 5)) };
        let scan = scan([source(Span::new(0, 4)), newer, source(Span::new(3, 6))]);
        let windows = Batches::new(&scan, &[Spans::first_n(6)], 9);
        let sources: Vec<usize> = windows.locations().iter().map(|place| place.source).collect();
        assert_eq!(sources, [0, 0, 1, 1, 1, 2]);
    }
}
