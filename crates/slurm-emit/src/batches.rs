//! Cuts the plan into batches, each the work of one array element, in the order of the scans.

use std::ops::Range;

/// Consecutive tasks that one process is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The name of its file, and of those of its results.
    pub name: String,
    /// Which of the plan's tasks.
    pub tasks: Range<usize>,
}

impl Batch {
    /// Batches named by their place in the plan.
    pub fn numbered(cuts: Vec<Range<usize>>) -> Vec<Self> {
        let named = |(index, tasks)| Self { name: format!("{index:06}"), tasks };
        cuts.into_iter().enumerate().map(named).collect()
    }
}

/// How large batches are to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cut {
    /// Minutes that a batch should take; 0 for a task a batch.
    pub minutes: f64,
    /// Stored bytes a second that a job integrates.
    pub rate: f64,
    /// Jobs at a time.
    pub workers: u64,
}

/// A small plan is cut so that each job gets this many batches: then unequal batches even out. The
/// last to finish is late by a batch, a quarter of the time that its job worked.
const BATCHES_A_WORKER: f64 = 4.0;

/// Below this many minutes a batch is not worth the start of a job.
const SHORTEST_MINUTES: f64 = 1.0;

impl Cut {
    /// Cuts tasks of these costs, in bytes, into batches of consecutive tasks: as many as fit into
    /// [`Cut::minutes`], or into less where that would leave jobs without work, and one at the least.
    pub fn ranges(&self, costs: &[u64]) -> Vec<Range<usize>> {
        let limit = self.bytes(costs.iter().sum());
        let mut out: Vec<Range<usize>> = Vec::new();
        let mut sum = 0;
        for (index, &cost) in costs.iter().enumerate() {
            match out.last_mut() {
                Some(batch) if sum + cost <= limit => {
                    batch.end = index + 1;
                    sum += cost;
                }
                _ => {
                    out.push(index..index + 1);
                    sum = cost;
                }
            }
        }
        // A task without a cost still is a task.
        if self.minutes <= 0.0 { (0..costs.len()).map(|index| index..index + 1).collect() } else { out }
    }

    /// Bytes of a batch of a plan of so many.
    fn bytes(&self, total: u64) -> u64 {
        let bytes = |minutes: f64| minutes * 60.0 * self.rate;
        let share = total as f64 / (self.workers as f64 * BATCHES_A_WORKER);
        let (longest, shortest) = (bytes(self.minutes), bytes(self.minutes.min(SHORTEST_MINUTES)));
        share.clamp(shortest, longest) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 bytes a second.
    fn cut(minutes: f64) -> Cut {
        Cut { minutes, rate: 100.0, workers: 2 }
    }

    #[test]
    fn batches_are_some_minutes_of_consecutive_tasks() {
        // 10 minutes are 60 kB; the plan is 20 such batches
        let costs = vec![10_000; 120];
        let batches = cut(10.0).ranges(&costs);
        assert_eq!(batches.len(), 20);
        assert!(batches.iter().all(|batch| batch.len() == 6));
        assert!(batches.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!((batches[0].start, batches[19].end), (0, 120));
    }

    #[test]
    fn a_small_plan_feeds_every_worker() {
        // 80 kB for two workers: 10 kB a batch, more than a minute's 6 kB
        assert_eq!(cut(10.0).ranges(&[1_000; 80]).len(), 8);
        // less than a minute in all: one batch
        assert_eq!(cut(10.0).ranges(&[10; 80]).len(), 1);
    }

    #[test]
    fn a_large_task_is_a_batch_and_zero_minutes_are_a_task_each() {
        assert_eq!(cut(1.0).ranges(&[100, 50_000, 100, 100]), [0..1, 1..2, 2..4]);
        assert_eq!(cut(0.0).ranges(&[5, 0, 0]), [0..1, 1..2, 2..3]);
        assert!(cut(10.0).ranges(&[]).is_empty());
    }
}
