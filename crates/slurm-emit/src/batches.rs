//! Cuts the plan into batches, each the work of one array element, in the order of the scans.

use std::ops::Range;

use crate::plan::Plan;

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
    /// Cuts a plan into batches of consecutive tasks, and one at the least in each. A batch has whole scans, as many
    /// as fit into [`Cut::minutes`] (or into less where that would leave jobs without work), or a piece of a scan that
    /// is longer: a scan that ended in the midst of a batch would have to wait for the rest of it.
    pub fn ranges(&self, plan: &Plan) -> Vec<Range<usize>> {
        let costs = plan.costs();
        if self.minutes <= 0.0 {
            return (0..costs.len()).map(|index| index..index + 1).collect();
        }
        let limit = self.bytes(costs.iter().sum());
        let mut out: Vec<Range<usize>> = Vec::new();
        let mut room = 0;
        for scan in plan.scans() {
            let bytes: u64 = costs[scan.clone()].iter().sum();
            match out.last_mut() {
                Some(batch) if bytes <= room => {
                    batch.end = scan.end;
                    room -= bytes;
                }
                _ if bytes <= limit => {
                    out.push(scan);
                    room = limit - bytes;
                }
                _ => {
                    out.extend(pieces(scan, costs, bytes.div_ceil(limit.max(1))));
                    room = 0;
                }
            }
        }
        out
    }

    /// Bytes of a batch of a plan of so many.
    fn bytes(&self, total: u64) -> u64 {
        let bytes = |minutes: f64| minutes * 60.0 * self.rate;
        let share = total as f64 / (self.workers as f64 * BATCHES_A_WORKER);
        let (longest, shortest) = (bytes(self.minutes), bytes(self.minutes.min(SHORTEST_MINUTES)));
        share.clamp(shortest, longest) as u64
    }
}

/// Tasks in so many pieces of about equal bytes, or less where a task is larger than one.
fn pieces(tasks: Range<usize>, costs: &[u64], count: u64) -> Vec<Range<usize>> {
    let all: u64 = costs[tasks.clone()].iter().sum();
    let mut out: Vec<Range<usize>> = Vec::new();
    let (mut before, mut last) = (0, None);
    for index in tasks {
        // a task goes where its middle is
        let piece = (2 * before + u128::from(costs[index])) * u128::from(count) / (2 * u128::from(all));
        before += u128::from(costs[index]);
        match out.last_mut() {
            Some(range) if last == Some(piece) => range.end = index + 1,
            _ => out.push(index..index + 1),
        }
        last = Some(piece);
    }
    out
}

#[cfg(test)]
mod tests {
    use records::Task;

    use super::*;

    /// 100 bytes a second.
    fn cut(minutes: f64) -> Cut {
        Cut { minutes, rate: 100.0, workers: 2 }
    }

    /// A plan of scans, each of tasks of these bytes.
    fn plan(scans: &[&[u64]]) -> Plan {
        let mut plan = Plan::default();
        for (scan, costs) in scans.iter().enumerate() {
            for (index, &bytes) in costs.iter().enumerate() {
                let task = Task { id: format!("{scan}-{index}"), scan: format!("5ca{scan}"), bytes, ..Task::default() };
                assert!(plan.push(task));
            }
        }
        plan
    }

    #[test]
    fn batches_are_some_minutes_of_consecutive_tasks() {
        // 10 minutes are 60 kB; the plan is 20 such batches
        let batches = cut(10.0).ranges(&plan(&[&[10_000; 120]]));
        assert_eq!(batches.len(), 20);
        assert!(batches.iter().all(|batch| batch.len() == 6));
        assert!(batches.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!((batches[0].start, batches[19].end), (0, 120));
    }

    #[test]
    fn a_small_plan_feeds_every_worker() {
        // 80 kB for two workers: 10 kB a batch, more than a minute's 6 kB
        assert_eq!(cut(10.0).ranges(&plan(&[&[1_000; 80]])).len(), 8);
        // less than a minute in all: one batch
        assert_eq!(cut(10.0).ranges(&plan(&[&[10; 80]])).len(), 1);
    }

    #[test]
    fn a_batch_has_whole_scans_or_a_piece_of_one() {
        // a minute is 6 kB: two short scans, one that does not fit with them, three pieces of a long one, and the rest
        let plan = plan(&[&[1_000; 2], &[1_000; 3], &[2_000; 2], &[2_000; 7], &[100], &[100]]);
        assert_eq!(cut(1.0).ranges(&plan), [0..5, 5..7, 7..9, 9..12, 12..14, 14..16]);
    }

    #[test]
    fn a_large_task_is_a_batch_and_zero_minutes_are_a_task_each() {
        assert_eq!(cut(1.0).ranges(&plan(&[&[100, 50_000, 100, 100]])), [0..1, 1..2, 2..4]);
        assert_eq!(cut(0.0).ranges(&plan(&[&[5, 0, 0]])), [0..1, 1..2, 2..3]);
        assert_eq!(cut(1.0).ranges(&plan(&[&[0, 0]])).len(), 1);
        assert!(cut(10.0).ranges(&plan(&[])).is_empty());
    }
}
