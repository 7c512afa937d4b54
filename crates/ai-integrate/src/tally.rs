//! What the windows of a task came to: frames done, frames lost, and where the time went.

use std::collections::BTreeMap;

use manners::{Filter, Stop};
use patterns::Status;
use records::{Absent, Fail, Seconds, Source, Spans, Task};

use crate::sources::Loss;
use crate::window::Yield;

/// A message names no more ranges than this.
const MOST_RANGES: usize = 8;

/// The sum of a task's windows.
#[derive(Default)]
pub struct Tally {
    /// Frames with sums, rising.
    pub done: Vec<u64>,
    /// Stored bytes that were read.
    pub read_bytes: u64,
    /// Where the time went.
    pub seconds: Seconds,
    losses: BTreeMap<(usize, Status), Lost>,
}

/// The frames of one source that were lost in one way.
struct Lost {
    frames: Vec<u64>,
    /// Why the first of them was.
    why: String,
    retryable: bool,
}

impl Tally {
    /// Adds a window.
    pub fn add(&mut self, window: Yield) {
        self.read_bytes += window.read_bytes;
        self.seconds.read += window.read;
        self.seconds.integrate += window.integrate;
        self.done.extend(window.rows.iter().filter(|row| row.has_sums()).map(|row| row.frame));
        for (frame, source, Loss { status, why, retryable }) in window.losses {
            let lost = self.losses.entry((source, status)).or_insert(Lost { frames: Vec::new(), why, retryable });
            lost.frames.push(frame);
            lost.retryable |= retryable;
        }
    }

    /// How many frames have a row, of sums or of a reason.
    pub fn rows(&self) -> usize {
        self.done.len() + self.losses.values().map(|lost| lost.frames.len()).sum::<usize>()
    }

    /// The frames that were lost.
    pub fn lost(&self) -> Spans {
        self.losses.values().flat_map(|lost| lost.frames.iter().copied()).collect::<Spans>().sorted()
    }

    /// One `fail` record for each kind of loss in each source.
    ///
    /// # Errors
    /// What [`Filter::fail`] says.
    pub fn tell(&self, filter: &Filter, task: &Task) -> Result<(), Stop> {
        for ((source, _), lost) in &self.losses {
            let about = about(&task.acquisition.sources[*source]);
            let error = format!("frames {}: {}", told(&lost.frames.iter().copied().collect()), lost.why);
            filter.fail(Fail { id: task.id.clone(), about, error, retryable: lost.retryable, ..Fail::default() })?;
        }
        Ok(())
    }

    /// The frames that were lost, by status.
    pub fn missing(&self) -> Vec<Absent> {
        let mut by_status: BTreeMap<Status, Vec<u64>> = BTreeMap::new();
        for ((_, status), lost) in &self.losses {
            by_status.entry(*status).or_default().extend(&lost.frames);
        }
        let absent = |(status, frames): (Status, Vec<u64>)| {
            let range = frames.into_iter().collect::<Spans>().sorted();
            Absent { range, reason: status.reason().to_owned() }
        };
        by_status.into_iter().map(absent).collect()
    }
}

/// Frames in a message: as a record has them, but no more ranges than anybody reads.
pub fn told(frames: &Spans) -> String {
    let frames = frames.sorted();
    let shown: Spans = frames.as_slice().iter().take(MOST_RANGES).copied().collect();
    let text = serde_json::to_string(&shown).expect("numbers always serialize");
    match frames.count() - shown.count() {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

fn about(source: &Source) -> String {
    match source.dataset.as_str() {
        "" => source.file.display().to_string(),
        dataset => format!("{}::{dataset}", source.file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patterns::Row;

    fn window(losses: &[(u64, usize, Status, &str)]) -> Yield {
        let lost = |&(frame, source, status, why): &(u64, usize, Status, &str)| {
            (frame, source, Loss { status, why: why.to_owned(), retryable: false })
        };
        let rows = losses.iter().map(|loss| Row::lost(loss.0, loss.2, 1.0)).collect();
        Yield { rows, losses: losses.iter().map(lost).collect(), ..Yield::default() }
    }

    #[test]
    fn losses_of_a_kind_are_one() {
        let mut tally = Tally::default();
        tally.add(window(&[(0, 0, Status::Corrupt, "block 3"), (1, 0, Status::Corrupt, "block 9")]));
        tally.add(window(&[(2, 1, Status::Corrupt, "block 1"), (3, 1, Status::FileMissing, "gone")]));
        assert_eq!((tally.rows(), tally.losses.len()), (4, 3));
        assert_eq!(tally.losses[&(0, Status::Corrupt)].why, "block 3");
        let missing: Vec<(String, String)> =
            tally.missing().into_iter().map(|absent| (told(&absent.range), absent.reason)).collect();
        assert_eq!(missing[0], ("[[3,4]]".to_owned(), "file missing".to_owned()));
        assert_eq!(missing[1], ("[[0,3]]".to_owned(), "does not decode".to_owned()));
    }

    #[test]
    fn a_message_does_not_list_a_thousand_ranges() {
        let scattered: Spans = (0..1000u64).map(|number| number * number).collect();
        let text = told(&scattered);
        assert!(text.len() < 200 && text.ends_with(" more"), "{text}");
    }
}
