//! [`AverageWriter`]: averages frames while they are written, and writes the NXdata group
//! `averaged` of a final file.

mod frame_sums;
mod median;

use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

use super::average::{Average, AverageMethod, AveragePattern};
use super::averaged_patterns::AveragedPatterns;
use super::content::OutputContent;
use super::frame_source::{FrameSource, OutputFrame};
use super::pattern_labels::describe_patterns;
use super::schema::{self, FrameAxis, name};
use super::{OutputError, digest};
use crate::h5::{Group, Result};
use crate::row_writer::RowWriter;
pub(crate) use frame_sums::FrameSumAccumulator;
use median::median;

/// Average patterns that are being written.
pub(super) struct AverageWriter<'a> {
    average: Average,
    content: &'a OutputContent<'a>,
    /// Ranges of the patterns that are not yet written.
    ranges: Peekable<IntoIter<Range<u64>>>,
    sums: FrameSumAccumulator,
    group: Group,
    intensity: RowWriter<f64>,
    errors: Option<RowWriter<f64>>,
    frames: Vec<u64>,
    digests: Vec<u64>,
}

impl<'a> AverageWriter<'a> {
    /// Creates the group `averaged` below the NXprocess group `process`.
    pub fn create(process: &Group, average: Average, content: &'a OutputContent) -> Result<Self> {
        let (shared, normalizer) = (content.shared, &content.normalizer);
        let group = schema::create_nexus_group(process, name::AVERAGED, "NXdata")?;
        let (ranges, what) = (average.ranges(content.target.frames()), average.method.name());
        let firsts: Vec<i64> = ranges.iter().map(|range| range.start as i64).collect();
        let points = average.every.map(|_| FrameAxis {
            numbers: &firsts,
            label: "first frame",
            motor: None,
        });
        let of = average.every.map_or("all".to_owned(), |every| format!("every {every}"));
        schema::write_axes(&group, shared, &format!("{what} of {of} frames"), points.as_ref())?;
        group.set_text(name::METHOD, &average.to_string())?;
        let rows = average.every.map(|_| ranges.len());
        let shape: Vec<usize> = rows.into_iter().chain(shared.axes.shape()).collect();
        let table =
            |name| RowWriter::with_rows(&group, name, shape[0], &shape[1..], content.compression);
        let intensity = table(name::INTENSITY)?;
        let errors = normalizer.has_errors().then(|| table(name::ERRORS)).transpose()?;
        describe_patterns(&group, content)?;
        let sums = FrameSumAccumulator::new(shared.axes.bins(), normalizer);
        let ranges = ranges.into_iter().peekable();
        let (frames, digests) = (Vec::new(), Vec::new());
        Ok(Self { average, content, ranges, sums, group, intensity, errors, frames, digests })
    }

    /// Adds a frame. Writes the pattern of a range after the last frame of the range.
    ///
    /// # Errors
    /// Fails if the file can't be written, or if the frames of a median can't be read again.
    pub fn push(
        &mut self,
        frame: u64,
        output_frame: &OutputFrame,
        frames: &mut dyn FrameSource,
    ) -> std::result::Result<(), OutputError> {
        let (method, normalizer) = (self.average.method, &self.content.normalizer);
        if let Some(pattern) = &output_frame.pattern
            && method != AverageMethod::Median
            && self.content.averages_to_copy.is_none()
        {
            let (shared, scale) = (frames.shared_weights(), output_frame.scale);
            let counted = output_frame.counted.as_ref();
            match &output_frame.sums {
                Some(row) => {
                    let of_all = normalizer.sums_among_frames(row, pattern, scale, shared);
                    let row = of_all.as_ref().unwrap_or(row);
                    self.sums.add(row, scale, counted, shared, normalizer);
                }
                None => {
                    let own = output_frame.weight_override.as_ref();
                    let row = normalizer.recompute_row(pattern, scale, own, shared);
                    self.sums.add(&row, scale, counted, shared, normalizer);
                }
            }
        }
        let Some(range) = self.ranges.next_if(|range| range.end.checked_sub(1) == Some(frame))
        else {
            return Ok(());
        };
        let pattern = match (self.content.averages_to_copy, method) {
            (Some(averages), _) => self.copy(averages)?,
            (None, AverageMethod::Mean | AverageMethod::Sum) => self.sums.take(method, normalizer),
            (None, AverageMethod::Median) => {
                median(range, frames, self.content.shared.axes.bins(), normalizer)?
            }
        };
        self.write(pattern).map_err(OutputError::hdf5(&self.content.target.path()))
    }

    /// Returns the next pattern of the final file that is replaced.
    fn copy(
        &self,
        averages: &AveragedPatterns,
    ) -> std::result::Result<AveragePattern, OutputError> {
        let path = self.content.target.path();
        let pattern = averages.pattern(self.frames.len()).map_err(OutputError::hdf5(&path))?;
        pattern.ok_or_else(|| {
            OutputError::content(&path, "an average pattern was changed after writing")
        })
    }

    fn write(&mut self, pattern: AveragePattern) -> Result<()> {
        self.frames.push(pattern.frames);
        self.digests.push(digest::pattern_digest(&pattern));
        self.intensity.push(pattern.intensity)?;
        match (&mut self.errors, pattern.errors) {
            (Some(table), Some(errors)) => table.push(errors),
            _ => Ok(()),
        }
    }

    /// Writes the rest of the patterns, and their digests to the group `coverage`.
    pub fn finish(mut self, coverage: &Group) -> Result<()> {
        self.intensity.flush()?;
        self.errors.iter_mut().try_for_each(RowWriter::flush)?;
        coverage.write_list(name::AVERAGED_DIGEST, &self.digests)?;
        let dataset = self.group.write_list(name::FRAMES, &self.frames)?;
        dataset.set_text("long_name", "frames with a pattern")?;
        schema::attach_scales(
            &self.group,
            self.content.shared,
            self.average.every.map(|_| name::POINTS),
        )
    }
}
