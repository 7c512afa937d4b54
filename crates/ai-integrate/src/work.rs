//! The frames of a task in windows: what one thread takes at a time.

use records::{Source, Spans};

/// A frame, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its number in the scan.
    pub frame: u64,
    /// Which of the task's sources holds it.
    pub source: usize,
    /// Its row in that source's dataset.
    pub row: u64,
}

/// The places of the frames to do, in rising order of the frames, and how to take them.
pub struct Windows {
    places: Vec<Place>,
    size: usize,
}

impl Windows {
    /// Windows over the frames `todo`, each of about `batch` frames of any one source: where sources
    /// interleave, as Lima 2's receivers do, a window spans as many frames more.
    pub fn new(sources: &[Source], todo: &Spans, batch: usize) -> Self {
        let wanted: Vec<u64> = todo.sorted().iter().collect();
        let mut places = Vec::with_capacity(wanted.len());
        for (index, source) in sources.iter().enumerate() {
            let pairs = source.frames.iter().zip(source.rows.iter());
            let pairs = pairs.filter(|(frame, _)| wanted.binary_search(frame).is_ok());
            places.extend(pairs.map(|(frame, row)| Place { frame, source: index, row }));
        }
        places.sort_unstable();
        places.dedup_by_key(|place| place.frame);
        let steps = sources.iter().flat_map(|source| source.frames.as_slice()).map(|span| span.step());
        let lanes = steps.max().unwrap_or(1).min(sources.len() as u64).max(1);
        Self { places, size: batch * lanes as usize }
    }

    /// How many windows.
    pub fn count(&self) -> usize {
        self.places.len().div_ceil(self.size)
    }

    /// How many frames in all.
    pub fn frames(&self) -> usize {
        self.places.len()
    }

    /// The places of a window.
    pub fn window(&self, index: usize) -> &[Place] {
        let from = index * self.size;
        &self.places[from..self.places.len().min(from + self.size)]
    }

    /// The frames of `todo` that no source holds.
    pub fn orphans(&self, todo: &Spans) -> Spans {
        todo.minus(&self.places.iter().map(|place| place.frame).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::Span;

    fn source(frames: Span) -> Source {
        let count = frames.count();
        Source { frames: frames.into(), rows: Spans::all(count), ..Source::default() }
    }

    #[test]
    fn windows_follow_the_frames() {
        let sources = [source(Span::new(0, 5)), source(Span::new(5, 10))];
        let todo: Spans = [1, 2, 4, 5, 6, 11].into_iter().collect();
        let windows = Windows::new(&sources, &todo, 2);
        assert_eq!((windows.count(), windows.frames()), (3, 5));
        assert_eq!(windows.window(1), [Place { frame: 4, source: 0, row: 4 }, Place { frame: 5, source: 1, row: 0 }]);
        assert_eq!(windows.orphans(&todo), Span::new(11, 12).into());
    }

    #[test]
    fn interleaved_sources_share_a_window() {
        let sources = [source(Span::strided(0, 4, 2)), source(Span::strided(1, 4, 2))];
        let windows = Windows::new(&sources, &Spans::all(8), 2);
        assert_eq!(
            windows.window(0).iter().map(|place| (place.frame, place.source)).collect::<Vec<_>>(),
            [(0, 0), (1, 1), (2, 0), (3, 1)]
        );
    }
}
