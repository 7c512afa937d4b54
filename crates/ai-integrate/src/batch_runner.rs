//! Runs a task's batches on its worker threads and hands on the rows in the order of the frames.

use std::ops::Range;

use filter::{Filter, Stop};
use integrator::PixelStatistics;
use memory_model::{max_batches_in_flight, prefetch_threads};
use patterns::part::RowEncoder;

use crate::batch_output::BatchOutput;
use crate::batches::Batches;
use crate::device::worker::SharedDevice;
use crate::pipeline::OrderedPipeline;
use crate::prefetch::Prefetcher;
use crate::recipe_group::RecipeGroup;
use crate::sources::SourcePool;
use crate::worker::IntegrationWorker;
use crate::worker_memory::{TaskKind, WorkerMemoryPool};

/// The state that the worker threads of a task share.
pub struct BatchRunner<'a> {
    /// The running filter.
    pub filter: &'a Filter,
    /// The number of worker threads.
    pub threads: usize,
    /// The number of frames that a thread integrates at once.
    pub batch_frames: usize,
    /// The working memory of the threads, and the kind of the task.
    pub memory: (&'a WorkerMemoryPool, &'a TaskKind),
    /// The recipes that integrate the same frames together, one group for each recipe set of the
    /// batches.
    pub recipe_groups: &'a [RecipeGroup<'a>],
    /// The encoders of the rows of each recipe's part; `None` for a recipe without frames to integrate.
    pub encoders: &'a [Option<RowEncoder>],
    /// The device that integrates, if there is one.
    pub shared_device: Option<&'a SharedDevice>,
    /// The statistics to which frames are added, one for each rule; `None` where there is no memory.
    pub statistics: &'a [Option<&'a PixelStatistics>],
    /// The open files that hold the frames.
    pub sources: &'a SourcePool<'a>,
    /// The frames, divided into batches.
    pub batches: &'a Batches,
    /// The batches to run, by their index.
    pub range: Range<usize>,
}

impl BatchRunner<'_> {
    /// Integrates the batches on all threads and passes each output to `take`, in the order of the
    /// frames. Once the filter drains, batches that no thread has begun are skipped.
    ///
    /// # Errors
    /// Fails on a signal, when a thread can't be started, and with the error of `take`.
    pub fn run(&self, mut take: impl FnMut(BatchOutput) -> Result<(), Stop>) -> Result<(), Stop> {
        let pipeline = OrderedPipeline {
            item_count: self.range.len(),
            prefetch_threads: prefetch_threads(self.threads),
            threads: self.threads,
            max_in_flight: self.max_in_flight(),
        };
        let prefetcher = &Prefetcher::new(self.filter, self.sources);
        let worker = || {
            let (memory, kind) = self.memory;
            let mut worker = IntegrationWorker::new(
                self.recipe_groups,
                self.encoders,
                self.sources,
                prefetcher,
                memory.borrow(kind, self.batch_frames),
                self.shared_device,
                self.statistics,
            );
            move |(index, load)| {
                let locations = self.batches.locations_of(index);
                // A batch that is prefetched counts as not begun.
                (!self.filter.is_draining()).then(|| worker.process_batch(locations, load))
            }
        };
        let load = |item| {
            let index = self.range.start + item;
            (index, prefetcher.prefetch(self.batches.locations_of(index)))
        };
        pipeline.run(
            load,
            worker,
            || self.filter.check_stopped(),
            |batch| batch.map_or(Ok(()), &mut take),
        )
    }

    /// Returns how many batches may be in progress, or finished and waiting for an earlier one. The
    /// limit keeps the rows of fast files from piling up behind a slow file.
    pub fn max_in_flight(&self) -> usize {
        let (bins, sparse) = (self.total_bins(), self.max_sparse_pixels());
        max_batches_in_flight(self.threads, bins, sparse, self.batches.max_frames())
    }

    /// Returns the most sparse pixels of a frame, summed over all recipes.
    pub fn max_sparse_pixels(&self) -> usize {
        self.recipe_groups.iter().map(|group| group.integrators.max_rejected()).max().unwrap_or(0)
    }

    /// Returns the number of bins per frame, summed over all recipes.
    pub fn total_bins(&self) -> usize {
        self.recipe_groups.iter().map(|group| group.integrators.total_bins()).max().unwrap_or(0)
    }

    /// Returns the number of bins per frame whose errors follow from the spread of their pixels,
    /// without clipping.
    pub fn azimuthal_bins(&self) -> usize {
        self.recipe_groups.iter().map(|group| group.integrators.azimuthal_bins()).max().unwrap_or(0)
    }
}
