//! Divides the plan into batches, each the work of one element of the job array. Batches follow the
//! order of the scans, except that one short scan is moved to the front.

use std::ops::Range;

use crate::task_plan::TaskPlan;

/// Consecutive tasks that one process is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The name of the batch's file, and of the files with its results, without an extension.
    pub name: String,
    /// The tasks, by their position in the plan.
    pub tasks: Range<usize>,
}

impl Batch {
    /// Creates batches that are named by their number: `000000`, `000001` and so on.
    pub fn new_numbered(ranges: Vec<Range<usize>>) -> Vec<Self> {
        Self::new_numbered_from(0, ranges)
    }

    /// Creates batches as [`Batch::new_numbered`] does, the first of which has the number `first`.
    pub fn new_numbered_from(first: usize, ranges: Vec<Range<usize>>) -> Vec<Self> {
        let new = |(index, tasks)| Self { name: format!("{index:06}"), tasks };
        (first..).zip(ranges).map(new).collect()
    }
}

/// The size that batches are to have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchSizing {
    /// Minutes that a batch should take; 0 for one task per batch.
    pub minutes: f64,
    /// Stored bytes that a job integrates per second.
    pub rate: f64,
    /// Jobs that run at a time.
    pub workers: u64,
}

/// Minutes below which a batch is not worth the start of a job.
const SHORTEST_MINUTES: f64 = 1.0;

/// Minutes below which not even a batch of the first scan, which somebody waits for, is worth the
/// start of a job.
const SHORTEST_MINUTES_OF_FIRST_SCAN: f64 = 0.1;

impl BatchSizing {
    /// Divides a plan into batches of consecutive tasks, at least one task in each.
    ///
    /// A batch holds several whole scans or, if a scan is longer than a batch, a piece of one scan.
    /// It never holds the end of one scan and the start of the next, because the first scan would
    /// have to wait for the second.
    ///
    /// Scans keep their order, with one exception. The shortest of the first scans, as many as
    /// there are jobs, is moved to the front and divided among all jobs. It is finished after
    /// seconds, even if some nodes are slow.
    pub fn divide(&self, plan: &TaskPlan) -> Vec<Range<usize>> {
        let costs = plan.stored_bytes();
        if self.minutes <= 0.0 {
            return (0..costs.len()).map(|index| index..index + 1).collect();
        }
        let total: u64 = costs.iter().sum();
        let mut batches: Vec<Range<usize>> = Vec::new();
        // `assigned` bytes are in batches already; `room` is left in the last batch for further
        // whole scans.
        let (mut assigned, mut room) = (0, 0);
        for mut scan in self.order_scans(plan) {
            let mut bytes: u64 = costs[scan.clone()].iter().sum();
            if let Some(batch) =
                batches.last_mut().filter(|batch| bytes <= room && batch.end == scan.start)
            {
                batch.end = scan.end;
                (assigned, room) = (assigned + bytes, room - bytes);
                continue;
            }
            let start = scan.start;
            let most = if batches.is_empty() { self.first_scan_share(bytes) } else { u64::MAX };
            while !scan.is_empty() {
                let limit = self.next_batch_bytes(assigned, total).min(most);
                let piece = take_tasks(&scan, costs, bytes.div_ceil(bytes.div_ceil(limit).max(1)));
                let taken: u64 = costs[piece.clone()].iter().sum();
                (assigned, bytes, scan.start) = (assigned + taken, bytes - taken, piece.end);
                room = if piece.start == start && scan.is_empty() {
                    limit.saturating_sub(taken)
                } else {
                    0
                };
                batches.push(piece);
            }
        }
        batches
    }

    /// Returns the scans in the order in which they are integrated.
    fn order_scans(&self, plan: &TaskPlan) -> Vec<Range<usize>> {
        let bytes = |scan: &Range<usize>| plan.stored_bytes()[scan.clone()].iter().sum::<u64>();
        let mut scans: Vec<_> = plan.scans().collect();
        let begun_at_once = scans.len().min(usize::try_from(self.workers).unwrap_or(usize::MAX));
        if let Some(shortest) = (0..begun_at_once).min_by_key(|&scan| bytes(&scans[scan])) {
            scans[..=shortest].rotate_right(1);
        }
        scans
    }

    /// Returns the stored bytes that a job integrates in `minutes`, at most the bytes of a full
    /// batch.
    fn bytes_in(&self, minutes: f64) -> f64 {
        minutes.min(self.minutes) * 60.0 * self.rate
    }

    /// Returns the largest size in bytes of a batch of the first scan, which all jobs share.
    fn first_scan_share(&self, scan_bytes: u64) -> u64 {
        let share = scan_bytes.div_ceil(self.workers.max(1)) as f64;
        share
            .clamp(self.bytes_in(SHORTEST_MINUTES_OF_FIRST_SCAN), self.bytes_in(self.minutes))
            .max(1.0) as u64
    }

    /// Returns the size of the next batch in bytes, when `assigned` of `total` bytes are in batches
    /// already. In the middle of a long plan, a batch takes [`BatchSizing::minutes`]. The first
    /// batches are shorter, so that there are results soon. The last ones are shorter, too: half of
    /// the work that is left per job, so that all jobs end at about the same time.
    fn next_batch_bytes(&self, assigned: u64, total: u64) -> u64 {
        let (longest, shortest) = (self.bytes_in(self.minutes), self.bytes_in(SHORTEST_MINUTES));
        let workers = self.workers as f64;
        let rising = shortest + assigned as f64 / workers;
        let falling = (total - assigned) as f64 / workers / 2.0;
        rising.min(falling).clamp(shortest, longest).max(1.0) as u64
    }
}

/// Returns the first of `tasks`, with about `bytes` bytes together, and at least one task.
fn take_tasks(tasks: &Range<usize>, costs: &[u64], bytes: u64) -> Range<usize> {
    let (mut end, mut sum) = (tasks.start + 1, costs[tasks.start]);
    // A task is taken if at least half of it fits.
    while end < tasks.end && sum + costs[end].div_ceil(2) <= bytes {
        sum += costs[end];
        end += 1;
    }
    tasks.start..end
}

#[cfg(test)]
mod tests {
    use records::Task;

    use super::*;

    /// Creates the sizing of two jobs that integrate 100 bytes per second.
    fn sizing(minutes: f64) -> BatchSizing {
        BatchSizing { minutes, rate: 100.0, workers: 2 }
    }

    /// Creates a plan of scans, each given by the bytes of its tasks.
    fn plan(scans: &[&[u64]]) -> TaskPlan {
        let mut plan = TaskPlan::default();
        for (scan, costs) in scans.iter().enumerate() {
            for (index, &bytes) in costs.iter().enumerate() {
                let task = Task {
                    id: format!("{scan}-{index}"),
                    scan: format!("5ca{scan}"),
                    bytes,
                    ..Task::default()
                };
                assert!(plan.push(task));
            }
        }
        plan
    }

    #[test]
    fn batches_are_some_minutes_of_consecutive_tasks_and_less_at_both_ends() {
        // 10 minutes are 60 kB, and a minute is less than a task.
        let batches = sizing(10.0).divide(&plan(&[&[10_000; 1], &[10_000; 119]]));
        assert!(batches.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!((batches[0].start, batches.last().unwrap().end), (0, 120));
        let lengths: Vec<_> = batches.iter().map(Range::len).collect();
        let longest = lengths.iter().position(|&length| length == 6).unwrap();
        assert_eq!(lengths.iter().max(), Some(&6));
        assert!(lengths[..longest].is_sorted() && lengths[0] == 1, "{lengths:?}");
        assert!(lengths.ends_with(&[2, 1, 1, 1, 1, 1]), "{lengths:?}");
        assert!(
            lengths.iter().filter(|&&length| length >= 5).count() > lengths.len() / 2,
            "{lengths:?}"
        );
    }

    #[test]
    fn a_small_plan_has_work_for_every_job() {
        // 80 kB for two jobs, at 6 kB a minute.
        let batches = sizing(10.0).divide(&plan(&[&[1_000; 80]]));
        assert!((8..=13).contains(&batches.len()), "{batches:?}");
        // All jobs share the first scan, but not in batches of a second or two.
        assert_eq!(sizing(10.0).divide(&plan(&[&[10; 200]])), [0..100, 100..200]);
        assert_eq!(sizing(10.0).divide(&plan(&[&[5; 80]])).len(), 1);
    }

    #[test]
    fn a_batch_has_whole_scans_or_a_piece_of_one() {
        // A minute is 6 kB: one scan for both jobs, two short ones that don't fit in one batch,
        // three pieces of a long one, and the rest.
        let plan = plan(&[&[1_000; 2], &[1_000; 3], &[2_000; 2], &[2_000; 7], &[100], &[100]]);
        assert_eq!(
            sizing(1.0).divide(&plan),
            [0..1, 1..2, 2..5, 5..7, 7..9, 9..12, 12..14, 14..16]
        );
    }

    #[test]
    fn the_shortest_of_the_scans_that_are_begun_at_once_goes_first() {
        // The third scan is shorter still, but two jobs would not begin it at once.
        let plan = plan(&[&[3_000; 4], &[1_000; 4], &[500]]);
        assert_eq!(sizing(1.0).divide(&plan), [4..6, 6..8, 0..2, 2..4, 8..9]);
        let three_jobs = BatchSizing { workers: 3, ..sizing(1.0) };
        assert_eq!(three_jobs.divide(&plan), [8..9, 0..2, 2..4, 4..8]);
    }

    #[test]
    fn a_large_task_is_a_batch_and_zero_minutes_are_one_task_per_batch() {
        assert_eq!(sizing(1.0).divide(&plan(&[&[100, 50_000, 100, 100]])), [0..1, 1..2, 2..4]);
        assert_eq!(sizing(0.0).divide(&plan(&[&[5, 0, 0]])), [0..1, 1..2, 2..3]);
        assert_eq!(sizing(1.0).divide(&plan(&[&[0, 0]])).len(), 1);
        assert!(sizing(10.0).divide(&plan(&[])).is_empty());
    }
}
