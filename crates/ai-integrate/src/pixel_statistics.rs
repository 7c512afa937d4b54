//! Statistics of each pixel over the frames of a task, for `--pixel-stats`.

use std::io;

use filter::{Filter, Stop};
use integrator::{InvalidValues, PixelStatistics, PixelType, no_measurement_values};
use patterns::pixel_statistics::{
    StatisticsFile, StatisticsMetadata, StoredPixelSums, find, remove_overlapping, write_statistics,
};
use recipe::Recipe;
use records::{Fail, Spans, Task};

/// The statistics that a task lacks.
pub struct StatisticsTask {
    /// The frames whose pixels are to be added, in ascending order.
    pub todo: Spans,
    dtype: PixelType,
    /// The values that mean "no measurement".
    invalid: Vec<[i64; 2]>,
    /// The task, with one recipe.
    task: Task,
    /// True if earlier statistics of the frames are to be replaced.
    is_forced: bool,
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
    /// Finds out of which frames of a task there are no statistics yet; with `is_forced`, of none.
    /// `recipe` tells which values mean "no measurement". Returns `None` if there can be no
    /// statistics, after it has reported why.
    ///
    /// # Errors
    /// Fails as [`Filter::fail`] does.
    pub fn new(
        task: &Task,
        recipe: &Recipe,
        is_forced: bool,
        filter: &Filter,
    ) -> Result<Option<Self>, Stop> {
        match Self::plan(task, recipe, is_forced, filter) {
            Ok(planned) => Ok(Some(planned)),
            Err(why) => report(task, &why, false, filter).map(|()| None),
        }
    }

    fn plan(
        task: &Task,
        recipe: &Recipe,
        is_forced: bool,
        filter: &Filter,
    ) -> Result<Self, String> {
        let scan = &task.acquisition;
        let dtype: PixelType = scan.dtype.parse().map_err(|why| format!("frames: {why}"))?;
        if !PixelStatistics::supports(dtype) {
            return Err(format!("the pixels are {dtype}; expected integers of at most 32 bits"));
        }
        let layout = recipe.framing(&scan.frame_layout());
        let invalid =
            no_measurement_values(recipe, &layout, dtype).map_err(|why| why.to_string())?;
        let mut todo = task.range.to_sorted();
        for absent in scan.absent_within(&task.range) {
            todo = todo.difference(&absent.range);
        }
        if !is_forced {
            let found = find(&task.out, task, Some(&invalid));
            found.unusable.iter().for_each(|file| filter.warn(&file.to_string()));
            todo = todo.difference(&found.frames());
        }
        Ok(Self { todo, dtype, invalid, task: task.clone(), is_forced })
    }

    /// Returns statistics of no frame.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn start(&self) -> io::Result<TaskStatistics> {
        let [rows, columns] = self.task.acquisition.shape.map(|length| length as usize);
        let ranges = self.invalid.iter().map(|[low, high]| i128::from(*low)..=i128::from(*high));
        let invalid = InvalidValues::from_integers(ranges);
        let sums = PixelStatistics::new(rows.saturating_mul(columns), self.dtype, invalid)?;
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
        let metadata = StatisticsMetadata {
            task: Task { range, ..self.task.clone() },
            invalid: self.invalid.clone(),
        };
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
        let written = write_statistics(&self.task.out, &metadata, write).and_then(|path| {
            if self.is_forced { remove_overlapping(&StatisticsFile::open(&path)?) } else { Ok(()) }
        });
        written.map_err(|why| Stop::fatal("pixel statistics", why))
    }
}

/// Reports that a task's frames get no statistics. Their patterns are integrated all the same.
fn report(task: &Task, why: &str, retryable: bool, filter: &Filter) -> Result<(), Stop> {
    let about = task.acquisition.file.display().to_string();
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
