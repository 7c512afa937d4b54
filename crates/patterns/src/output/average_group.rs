//! The patterns of many frames in a final: an NXdata of their own, beside those of the frames.

use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

use super::average::{Average, AverageMethod, AveragePattern, FrameSumAccumulator};
use super::frame_source::{FrameSource, OutputFrame};
use super::median::median;
use super::schema::{self, PointAxis, name};
use super::writer::OutputContent;
use super::{OutputError, digest};
use crate::SharedBins;
use crate::h5::{self, Group, Result};
use crate::row_writer::RowWriter;

/// The patterns of many frames that a final has.
pub struct AveragedPatterns {
    /// How they were made.
    pub average: Average,
    /// Of how many frames each was made.
    pub frames: Vec<u64>,
    /// The shape of a pattern.
    shape: Vec<usize>,
    digests: Vec<u64>,
    group: Group,
}

impl AveragedPatterns {
    /// Reads them from the process of a final, if it has any.
    pub(super) fn read(process: &Group, coverage: &Group, shared: &SharedBins) -> Result<Option<Self>> {
        if !process.contains(name::AVERAGED)? {
            return Ok(None);
        }
        let group = process.group(name::AVERAGED)?;
        let average = group.text_attribute(name::METHOD)?.parse().map_err(h5::Hdf5Error::from)?;
        let frames = group.read_list(name::FRAMES)?;
        let digests: Vec<u64> = coverage.read_list(name::AVERAGED_DIGEST)?;
        match digests.len() == frames.len() {
            true => Ok(Some(Self { average, frames, shape: shared.axes.shape(), digests, group })),
            false => Err("averaged patterns without a digest each".into()),
        }
    }

    /// Pattern `index`, whose bins are azimuth-major; `None` where it is not as it was written.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn pattern(&self, index: usize) -> Result<Option<AveragePattern>> {
        // All frames' one pattern has no axis of points, so that its rows are bins.
        let lines = self.shape[0];
        let rows = if self.average.every.is_some() { index..index.saturating_add(1) } else { 0..lines };
        let read = |name| self.group.dataset(name)?.rows_unverified(rows.clone());
        let errors = if self.group.contains(name::ERRORS)? { Some(read(name::ERRORS)?) } else { None };
        let pattern = AveragePattern { frames: self.frames[index], intensity: read(name::INTENSITY)?, errors };
        Ok((digest::pattern_digest(&pattern) == self.digests[index]).then_some(pattern))
    }

    /// Whether all patterns are as they were written.
    ///
    /// # Errors
    /// They can't be read.
    pub(super) fn is_intact(&self) -> Result<bool> {
        for index in 0..self.frames.len() {
            match self.pattern(index) {
                Ok(Some(_)) => (),
                Err(why @ h5::Hdf5Error::Io(_)) => return Err(why),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// The patterns of many frames of a final that is being written, range after range.
pub(super) struct AverageWriter<'a> {
    average: Average,
    content: &'a OutputContent<'a>,
    /// The ranges that are not yet written.
    ranges: Peekable<IntoIter<Range<u64>>>,
    sums: FrameSumAccumulator,
    group: Group,
    intensity: RowWriter<f64>,
    errors: Option<RowWriter<f64>>,
    frames: Vec<u64>,
    digests: Vec<u64>,
}

impl<'a> AverageWriter<'a> {
    pub fn create(process: &Group, average: Average, content: &'a OutputContent) -> Result<Self> {
        let (shared, finish) = (content.shared, &content.finish);
        let group = schema::create_nexus_group(process, name::AVERAGED, "NXdata")?;
        let (ranges, what) = (average.ranges(content.target.frames()), average.method.name());
        let firsts: Vec<i64> = ranges.iter().map(|range| range.start as i64).collect();
        let points = average.every.map(|_| PointAxis { numbers: &firsts, label: "first frame" });
        let of = average.every.map_or("all".to_owned(), |every| format!("every {every}"));
        schema::write_axes(&group, shared, &format!("{what} of {of} frames"), points)?;
        group.set_text(name::METHOD, &average.to_string())?;
        let rows = average.every.map(|_| ranges.len());
        let shape: Vec<usize> = rows.into_iter().chain(shared.axes.shape()).collect();
        let table = |name| RowWriter::with_rows(&group, name, shape[0], &shape[1..]);
        let intensity = table(name::INTENSITY)?;
        let errors = finish.has_errors().then(|| table(name::ERRORS)).transpose()?;
        schema::set_interpretation(&group.dataset(name::INTENSITY)?, shared)?;
        let sums = FrameSumAccumulator::new(shared.axes.bins(), finish);
        let ranges = ranges.into_iter().peekable();
        let (frames, digests) = (Vec::new(), Vec::new());
        Ok(Self { average, content, ranges, sums, group, intensity, errors, frames, digests })
    }

    /// Takes a frame, and writes the pattern of its range where it is the last of it.
    ///
    /// # Errors
    /// Those of reading frames again, for a median, and of writing.
    pub fn push(
        &mut self,
        frame: u64,
        merged: &OutputFrame,
        frames: &mut dyn FrameSource,
    ) -> std::result::Result<(), OutputError> {
        let (method, finish) = (self.average.method, &self.content.finish);
        if let (Some(row), Some(_)) = (&merged.sums, &merged.pattern)
            && method != AverageMethod::Median
        {
            self.sums.add(merged, row, frames.shared_weights(), finish);
        }
        let Some(range) = self.ranges.next_if(|range| range.end.checked_sub(1) == Some(frame)) else { return Ok(()) };
        let pattern = match method {
            AverageMethod::Mean | AverageMethod::Sum => self.sums.take(method, finish),
            AverageMethod::Median => median(range, frames, self.content.shared.axes.bins(), finish)?,
        };
        self.write(pattern).map_err(OutputError::hdf5(&self.content.target.path()))
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

    /// Writes what is left, and the patterns' digests among those of the final.
    pub fn finish(mut self, coverage: &Group) -> Result<()> {
        self.intensity.flush()?;
        self.errors.iter_mut().try_for_each(RowWriter::flush)?;
        coverage.write_list(name::AVERAGED_DIGEST, &self.digests)?;
        let dataset = self.group.write_list(name::FRAMES, &self.frames)?;
        dataset.set_text("long_name", "frames with a pattern")
    }
}
