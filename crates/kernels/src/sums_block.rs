//! [`SumsBlock`], the sums of some bins of a frame, and [`SumsConsumer`], which takes sums block by
//! block.

use std::ops::Range;
use std::sync::Arc;

use crate::spare_lists::SpareLists;
use crate::sums::Sums;
use crate::weight_override::WeightOverride;

/// The sums of consecutive bins of a frame, as [`Sums`] has them of all bins.
#[derive(Clone, Debug)]
pub struct SumsBlock<'a> {
    /// The bins of the block.
    pub bins: Range<usize>,
    /// [`Sums::signal`] of these bins.
    pub signal: &'a [f64],
    /// [`Sums::variance`] of these bins.
    pub variance: Option<&'a [f64]>,
    /// The weights of all bins of the frame, if it has its own; the same in each block.
    pub weight_override: Option<&'a Arc<WeightOverride>>,
}

/// A consumer of sums, which takes them block by block while they are in the processor's cache. The
/// sums of a batch of cakes exceed the caches, so that whoever wants them divided or rounded gains by
/// doing it at once.
pub trait SumsConsumer {
    /// Takes a block of sums of a frame by a plan, given by their indices among those of the call. All
    /// bins come, in ascending order; blocks of other frames come in between.
    fn take(&mut self, frame: usize, plan: usize, block: SumsBlock<'_>);
}

/// Collects the sums of each frame by each plan.
pub(crate) struct SumsCollector<'a> {
    /// The sums by each plan, of each frame.
    frames: Vec<Vec<Sums>>,
    /// How many bins each plan has.
    bins: Vec<usize>,
    /// Memory for the lists of sums.
    spare: &'a mut SpareLists,
}

impl<'a> SumsCollector<'a> {
    /// Makes a collector for so many frames, and for plans with so many bins.
    pub(crate) fn new(frames: usize, bins: Vec<usize>, spare: &'a mut SpareLists) -> Self {
        spare.begin();
        let frames = (0..frames).map(|_| vec![Sums::default(); bins.len()]).collect();
        Self { frames, bins, spare }
    }

    /// Returns the sums by each plan, of each frame.
    pub(crate) fn into_frames(self) -> Vec<Vec<Sums>> {
        self.frames
    }
}

impl SumsConsumer for SumsCollector<'_> {
    fn take(&mut self, frame: usize, plan: usize, block: SumsBlock<'_>) {
        let (sums, bins) = (&mut self.frames[frame][plan], self.bins[plan]);
        if block.bins.start == 0 {
            sums.signal = self.spare.take(bins);
            sums.variance = block.variance.map(|_| self.spare.take(bins));
            sums.weight_override = block.weight_override.cloned();
        }
        sums.signal.extend_from_slice(block.signal);
        if let (Some(all), Some(variance)) = (&mut sums.variance, block.variance) {
            all.extend_from_slice(variance);
        }
    }
}
