//! [`Candidates`], the pixels that clipping may reject.

/// A pixel of one frame that clipping may reject, or that is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) bin: u32,
    /// The frame's index among those that are interleaved.
    pub(super) lane: u32,
    pub(super) pixel: u32,
    /// The pixel's counts; 0 if it is invalid.
    pub(super) raw: u32,
}

/// Pixels of all lanes, which are collected tile by tile and then looked up by bin and lane.
#[derive(Default)]
pub(super) struct Candidates {
    list: Vec<Candidate>,
    limit: usize,
    /// True if there are more candidates than fit. The list is then not complete.
    pub(super) is_overfull: bool,
}

impl Candidates {
    /// Removes all candidates and makes space for up to `limit` of them.
    pub(super) fn reset(&mut self, limit: usize) {
        self.list.clear();
        self.list.reserve_exact(limit);
        (self.limit, self.is_overfull) = (limit, false);
    }

    /// Removes all candidates.
    pub(super) fn discard(&mut self) {
        self.list.clear();
    }

    /// Adds a candidate if there is space.
    pub(super) fn push(&mut self, candidate: Candidate) {
        if self.list.len() < self.limit {
            self.list.push(candidate);
        } else {
            self.is_overfull = true;
        }
    }

    /// Sorts the candidates by bin, lane and pixel, as [`Candidates::find`] needs them.
    pub(super) fn sort(&mut self) {
        self.list.sort_unstable();
    }

    /// Returns the candidates of one bin and lane by rising pixel.
    pub(super) fn find(&self, bin: usize, lane: usize) -> &[Candidate] {
        let wanted = (bin as u32, lane as u32);
        let key = |candidate: &Candidate| (candidate.bin, candidate.lane);
        let from = self.list.partition_point(|candidate| key(candidate) < wanted);
        let len = self.list[from..].partition_point(|candidate| key(candidate) == wanted);
        &self.list[from..from + len]
    }
}
