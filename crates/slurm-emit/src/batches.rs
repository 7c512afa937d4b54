//! Cuts the plan into batches, each the work of one array element, in the order of the scans; but for one short scan,
//! which goes first.

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

/// Below this many minutes a batch is not worth the start of a job.
const SHORTEST_MINUTES: f64 = 1.0;

/// Below this many, not even for the first scan, which somebody waits for.
const SHORTEST_AT_FIRST: f64 = 0.1;

impl Cut {
    /// Cuts a plan into batches of consecutive tasks, and one at the least in each. A batch has whole scans, or a piece
    /// of a scan that is longer: a scan that ended in the midst of a batch would have to wait for the rest of it.
    ///
    /// Scans keep their order, but that the shortest of those that all jobs could begin with goes first, and is shared by
    /// all of them: then there is a result to look at after seconds, also where some nodes are slow.
    pub fn ranges(&self, plan: &Plan) -> Vec<Range<usize>> {
        let costs = plan.costs();
        if self.minutes <= 0.0 {
            return (0..costs.len()).map(|index| index..index + 1).collect();
        }
        let all: u64 = costs.iter().sum();
        let mut out: Vec<Range<usize>> = Vec::new();
        let (mut before, mut room) = (0, 0);
        for mut scan in self.order(plan) {
            let mut bytes: u64 = costs[scan.clone()].iter().sum();
            if let Some(batch) = out.last_mut().filter(|batch| bytes <= room && batch.end == scan.start) {
                batch.end = scan.end;
                (before, room) = (before + bytes, room - bytes);
                continue;
            }
            let start = scan.start;
            let most = if out.is_empty() { self.share(bytes) } else { u64::MAX };
            while !scan.is_empty() {
                let limit = self.bytes(before, all).min(most);
                let piece = first(&scan, costs, bytes.div_ceil(bytes.div_ceil(limit).max(1)));
                let taken: u64 = costs[piece.clone()].iter().sum();
                (before, bytes, scan.start) = (before + taken, bytes - taken, piece.end);
                room = if piece.start == start && scan.is_empty() { limit.saturating_sub(taken) } else { 0 };
                out.push(piece);
            }
        }
        out
    }

    /// The scans as they are begun.
    fn order(&self, plan: &Plan) -> Vec<Range<usize>> {
        let bytes = |scan: &Range<usize>| plan.costs()[scan.clone()].iter().sum::<u64>();
        let mut scans: Vec<_> = plan.scans().collect();
        let begun = scans.len().min(usize::try_from(self.workers).unwrap_or(usize::MAX));
        if let Some(shortest) = (0..begun).min_by_key(|&scan| bytes(&scans[scan])) {
            scans[..=shortest].rotate_right(1);
        }
        scans
    }

    /// Stored bytes of so many minutes of a job.
    fn bytes_of(&self, minutes: f64) -> f64 {
        minutes.min(self.minutes) * 60.0 * self.rate
    }

    /// The most bytes of a batch of the first scan: all jobs share it.
    fn share(&self, scan: u64) -> u64 {
        let share = scan.div_ceil(self.workers.max(1)) as f64;
        share.clamp(self.bytes_of(SHORTEST_AT_FIRST), self.bytes_of(self.minutes)).max(1.0) as u64
    }

    /// Bytes of the next batch, where so many of all are in batches already: [`Cut::minutes`] in the midst of a long
    /// plan. The first ones are short, so that there are results soon. The last ones are short again: half of what each
    /// job still has to do, so that all end at about the same time.
    fn bytes(&self, before: u64, all: u64) -> u64 {
        let (longest, shortest) = (self.bytes_of(self.minutes), self.bytes_of(SHORTEST_MINUTES));
        let workers = self.workers as f64;
        let rising = shortest + before as f64 / workers;
        let falling = (all - before) as f64 / workers / 2.0;
        rising.min(falling).clamp(shortest, longest).max(1.0) as u64
    }
}

/// The first of these tasks, as many as have about so many bytes, and one at the least.
fn first(tasks: &Range<usize>, costs: &[u64], bytes: u64) -> Range<usize> {
    let (mut end, mut sum) = (tasks.start + 1, costs[tasks.start]);
    // a task belongs where the larger part of it is
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
    fn batches_are_some_minutes_of_consecutive_tasks_and_less_at_both_ends() {
        // 10 minutes are 60 kB, and a minute less than a task
        let batches = cut(10.0).ranges(&plan(&[&[10_000; 1], &[10_000; 119]]));
        assert!(batches.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!((batches[0].start, batches.last().unwrap().end), (0, 120));
        let lengths: Vec<_> = batches.iter().map(Range::len).collect();
        let longest = lengths.iter().position(|&length| length == 6).unwrap();
        assert_eq!(lengths.iter().max(), Some(&6));
        assert!(lengths[..longest].is_sorted() && lengths[0] == 1, "{lengths:?}");
        assert!(lengths.ends_with(&[2, 1, 1, 1, 1, 1]), "{lengths:?}");
        assert!(lengths.iter().filter(|&&length| length >= 5).count() > lengths.len() / 2, "{lengths:?}");
    }

    #[test]
    fn a_small_plan_feeds_every_worker() {
        // 80 kB for two workers, at 6 kB a minute
        let batches = cut(10.0).ranges(&plan(&[&[1_000; 80]]));
        assert!((8..=13).contains(&batches.len()), "{batches:?}");
        // the first scan is for all of them, but not in batches of a second or two
        assert_eq!(cut(10.0).ranges(&plan(&[&[10; 200]])), [0..100, 100..200]);
        assert_eq!(cut(10.0).ranges(&plan(&[&[5; 80]])).len(), 1);
    }

    #[test]
    fn a_batch_has_whole_scans_or_a_piece_of_one() {
        // a minute is 6 kB: one for both jobs, two short ones that don't fit in one, three pieces of a long one, the rest
        let plan = plan(&[&[1_000; 2], &[1_000; 3], &[2_000; 2], &[2_000; 7], &[100], &[100]]);
        assert_eq!(cut(1.0).ranges(&plan), [0..1, 1..2, 2..5, 5..7, 7..9, 9..12, 12..14, 14..16]);
    }

    #[test]
    fn the_shortest_of_the_scans_that_are_begun_at_once_goes_first() {
        // for both jobs; the third scan, which is shorter still, would not be begun at once with two jobs
        let plan = plan(&[&[3_000; 4], &[1_000; 4], &[500]]);
        assert_eq!(cut(1.0).ranges(&plan), [4..6, 6..8, 0..2, 2..4, 8..9]);
        let three = Cut { workers: 3, ..cut(1.0) };
        assert_eq!(three.ranges(&plan), [8..9, 0..2, 2..4, 4..8]);
    }

    #[test]
    fn a_large_task_is_a_batch_and_zero_minutes_are_a_task_each() {
        assert_eq!(cut(1.0).ranges(&plan(&[&[100, 50_000, 100, 100]])), [0..1, 1..2, 2..4]);
        assert_eq!(cut(0.0).ranges(&plan(&[&[5, 0, 0]])), [0..1, 1..2, 2..3]);
        assert_eq!(cut(1.0).ranges(&plan(&[&[0, 0]])).len(), 1);
        assert!(cut(10.0).ranges(&plan(&[])).is_empty());
    }
}
