//! Statistics of each pixel over the frames of a task, for `--pixel-stats`.

use std::collections::BTreeSet;
use std::io;

use filter::{Filter, Stop};
use integrator::{InvalidValues, PixelStatistics, StatisticsRule};
use patterns::pixel_statistics::{SourceStates, StoredPixelSums, find_for_task, write_statistics};
use records::{Acquisition, Fail, Spans, Task};

use crate::recipe_task::RecipeTask;

/// The statistics that a task lacks by one rule.
pub struct StatisticsTask {
    /// The frames whose pixels are to be added, in ascending order.
    pub todo: Spans,
    rule: StatisticsRule,
    /// The task, with one recipe of this rule.
    task: Task,
}

/// The statistics of the frames that were added so far.
pub struct TaskStatistics {
    /// The sums of the pixels.
    pub sums: PixelStatistics,
    /// The frames, in the order of the batches.
    pub frames: Vec<u64>,
    /// Why the sums are of no use.
    pub error: Option<String>,
}

impl StatisticsTask {
    /// Makes one task for each rule about which values mean "no measurement" that the recipes of a
    /// task have, because sums by one rule are wrong by another. Reports recipes for which there
    /// can be no statistics.
    ///
    /// # Errors
    /// Fails as [`Filter::fail`] does.
    pub fn of_each_rule(
        recipe_tasks: &[RecipeTask],
        is_forced: bool,
        states: &SourceStates,
        filter: &Filter,
    ) -> Result<Vec<Self>, Stop> {
        let (mut all, mut reported) = (Vec::<Self>::new(), BTreeSet::new());
        for recipe_task in recipe_tasks {
            let task = &recipe_task.task;
            match StatisticsRule::new(&task.acquisition, recipe_task.recipe()) {
                Ok(rule) if all.iter().any(|known| known.rule == rule) => (),
                Ok(rule) => all.push(Self::new(task, rule, is_forced, states, filter)),
                Err(why) => {
                    let why = why.to_string();
                    if !reported.contains(&why) {
                        report(task, &why, false, filter)?;
                        reported.insert(why);
                    }
                }
            }
        }
        Ok(all)
    }

    fn new(
        task: &Task,
        rule: StatisticsRule,
        is_forced: bool,
        states: &SourceStates,
        filter: &Filter,
    ) -> Self {
        let scan = &task.acquisition;
        let mut todo = task.range.to_sorted();
        for absent in scan.absent_within(&task.range) {
            todo = todo.difference(&absent.range);
        }
        if !is_forced {
            let found = find_for_task(&task.out, task, &rule.invalid, states);
            found.unusable.iter().for_each(|file| filter.warn(&file.to_string()));
            todo = todo.difference(&found.frames());
        }
        Self { todo, rule, task: task.clone() }
    }

    /// Returns statistics of no frame.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn start(&self) -> io::Result<TaskStatistics> {
        let [rows, columns] = self.task.acquisition.shape.map(|length| length as usize);
        let ranges =
            self.rule.invalid.iter().map(|[low, high]| i128::from(*low)..=i128::from(*high));
        let invalid = InvalidValues::from_integers(ranges);
        let sums = PixelStatistics::new(rows.saturating_mul(columns), self.rule.dtype, invalid)?;
        Ok(TaskStatistics { sums, frames: Vec::new(), error: None })
    }

    /// Writes the statistics of the frames that were added, if there are any; or reports why they
    /// are of no use.
    ///
    /// # Errors
    /// Fails if the file can't be written, and as [`Filter::fail`] does.
    pub fn commit(&self, statistics: TaskStatistics, filter: &Filter) -> Result<(), Stop> {
        if let Some(why) = &statistics.error {
            return report(&self.task, why, true, filter);
        }
        let range = statistics.frames.into_iter().collect::<Spans>().to_sorted();
        if range.is_empty() {
            return Ok(());
        }
        let write = |take: &mut dyn FnMut(StoredPixelSums)| {
            statistics.sums.for_each(|pixel| {
                take(StoredPixelSums {
                    invalid: pixel.invalid,
                    nonzero: pixel.nonzero,
                    sum: pixel.sum,
                    squares: pixel.squares,
                    max: pixel.max,
                });
            });
        };
        let task = Task { range, ..self.task.clone() };
        let written = write_statistics(&self.task.out, task, self.rule.invalid.clone(), write);
        written.map(drop).map_err(|why| Stop::fatal("pixel statistics", why))
    }
}

/// Reports that a task's frames get no statistics. Their patterns are integrated all the same.
fn report(task: &Task, why: &str, retryable: bool, filter: &Filter) -> Result<(), Stop> {
    let Acquisition { file, entry, detector, .. } = &task.acquisition;
    let about = format!("{}: entry {entry}, detector {detector}", file.display());
    let error = format!("no pixel statistics: {why}");
    filter.fail(Fail { id: task.id.clone(), about, error, retryable, ..Fail::default() })
}

/// Reports that there is no memory for a task's statistics.
///
/// # Errors
/// Fails as [`Filter::fail`] does.
pub fn report_no_memory(
    statistics: &StatisticsTask,
    why: &io::Error,
    filter: &Filter,
) -> Result<(), Stop> {
    report(&statistics.task, &why.to_string(), true, filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_as_the_model_expects() {
        assert_eq!(
            PixelStatistics::BYTES_PER_PIXEL as u64,
            memory_model::STATISTICS_BYTES_PER_PIXEL
        );
    }
}
