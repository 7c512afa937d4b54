//! The threads of a task: windows of frames in, their rows out in the order of the frames.

use manners::{Filter, Stop};

use crate::aboard::Berth;
use crate::ahead::{Ahead, readers};
use crate::line::Line;
use crate::pass::Pass;
use crate::sources::Sources;
use crate::window::{Worker, Yield};
use crate::work::Windows;

/// Bytes of rows that may wait for an earlier window, beyond one window a thread.
const MOST_WAITING: usize = 512 << 20;

/// What the threads of a task share.
pub struct Crew<'a> {
    /// The running filter.
    pub filter: &'a Filter,
    /// How many threads.
    pub threads: usize,
    /// Frames that are integrated side by side.
    pub batch: usize,
    /// The recipes that frames go through together, for each set of the windows.
    pub passes: &'a [Pass<'a>],
    /// The device that integrates, if any.
    pub berth: Option<&'a Berth>,
    /// Where the frames are.
    pub sources: &'a Sources<'a>,
    /// The frames.
    pub windows: &'a Windows,
}

impl Crew<'_> {
    /// Integrates the windows on all threads, and hands each to `take`, in their order. Once the filter
    /// drains, those that have not begun are left out.
    ///
    /// # Errors
    /// A signal; what `take` says; threads that can't be had.
    pub fn work(&self, mut take: impl FnMut(Yield) -> Result<(), Stop>) -> Result<(), Stop> {
        let line = Line {
            count: self.windows.count(),
            readers: readers(self.threads),
            threads: self.threads,
            ahead: self.ahead(),
        };
        let ahead = &Ahead::new(self.filter, self.sources);
        let worker = || {
            let mut worker = Worker::new(self.passes, self.sources, ahead, self.batch, self.berth);
            move |(index, load)| {
                let places = self.windows.window(index);
                // What has been made ready is not begun.
                (!self.filter.draining()).then(|| worker.window(places, load))
            }
        };
        let load = |index| (index, ahead.load(self.windows.window(index)));
        line.run(load, worker, || self.filter.check(), |window| window.map_or(Ok(()), &mut take))
    }

    /// How many windows may be at work, or done and waiting for an earlier one: a slow file must not
    /// make the rows of all others pile up.
    pub fn ahead(&self) -> usize {
        // Signal and variance, and the three weights of a frame with invalid pixels.
        let row = 5 * size_of::<f64>() * self.bins();
        let windows = MOST_WAITING / (row * self.windows.longest()).max(1);
        windows.clamp(self.threads + 1, 4 * self.threads + 4)
    }

    /// Bins of all patterns of a frame.
    pub fn bins(&self) -> usize {
        self.passes.iter().map(|pass| pass.together.bins()).max().unwrap_or(0)
    }
}
