//! The threads of a task: windows of frames in, their rows out in the order of the frames.

use filter::{Filter, Stop};

use crate::batches::Batches;
use crate::device::worker::SharedDevice;
use crate::pipeline::OrderedPipeline;
use crate::prefetch::{Prefetcher, prefetch_threads};
use crate::recipe_group::RecipeGroup;
use crate::sources::SourcePool;
use crate::worker::{BatchOutput, IntegrationWorker};

/// Bytes of rows that may wait for an earlier window, beyond one window a thread.
const MAX_WAITING_BYTES: usize = 512 << 20;

/// What the threads of a task share.
pub struct BatchRunner<'a> {
    /// The running filter.
    pub filter: &'a Filter,
    /// How many threads.
    pub threads: usize,
    /// Frames that are integrated side by side.
    pub batch_frames: usize,
    /// The recipes that frames go through together, for each set of the windows.
    pub recipe_groups: &'a [RecipeGroup<'a>],
    /// The device that integrates, if any.
    pub shared_device: Option<&'a SharedDevice>,
    /// Where the frames are.
    pub sources: &'a SourcePool<'a>,
    /// The frames.
    pub batches: &'a Batches,
}

impl BatchRunner<'_> {
    /// Integrates the windows on all threads, and hands each to `take`, in their order. Once the filter
    /// drains, those that have not begun are left out.
    ///
    /// # Errors
    /// A signal; what `take` says; threads that can't be had.
    pub fn run(&self, mut take: impl FnMut(BatchOutput) -> Result<(), Stop>) -> Result<(), Stop> {
        let line = OrderedPipeline {
            item_count: self.batches.len(),
            prefetch_threads: prefetch_threads(self.threads),
            threads: self.threads,
            max_in_flight: self.max_in_flight(),
        };
        let ahead = &Prefetcher::new(self.filter, self.sources);
        let worker = || {
            let mut worker =
                IntegrationWorker::new(self.recipe_groups, self.sources, ahead, self.batch_frames, self.shared_device);
            move |(index, load)| {
                let places = self.batches.locations_of(index);
                // What has been made ready is not begun.
                (!self.filter.is_draining()).then(|| worker.process_batch(places, load))
            }
        };
        let load = |index| (index, ahead.prefetch(self.batches.locations_of(index)));
        line.run(load, worker, || self.filter.check_stopped(), |window| window.map_or(Ok(()), &mut take))
    }

    /// How many windows may be at work, or done and waiting for an earlier one: a slow file must not
    /// make the rows of all others pile up.
    pub fn max_in_flight(&self) -> usize {
        // Signal and variance, and the three weights of a frame with invalid pixels.
        let row = 5 * size_of::<f64>() * self.total_bins();
        let windows = MAX_WAITING_BYTES / (row * self.batches.max_frames()).max(1);
        windows.clamp(self.threads + 1, 4 * self.threads + 4)
    }

    /// Bins of all patterns of a frame.
    pub fn total_bins(&self) -> usize {
        self.recipe_groups.iter().map(|pass| pass.integrators.total_bins()).max().unwrap_or(0)
    }
}
