//! The patterns of many frames in a final: an NXdata of their own, beside those of the frames.

use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

use super::average::{Accumulator, Average, Method, Pattern};
use super::median::median;
use super::merge::{Frames, Merged};
use super::tree::{self, Points, name};
use super::write::Content;
use super::{Error, digest};
use crate::Shared;
use crate::h5::{self, Group, Result};
use crate::table::Table;

/// The patterns of many frames that a final has.
pub struct Averaged {
    /// How they were made.
    pub average: Average,
    /// Of how many frames each was made.
    pub frames: Vec<u64>,
    /// The shape of a pattern.
    shape: Vec<usize>,
    digests: Vec<u64>,
    group: Group,
}

impl Averaged {
    /// Reads them from the process of a final, if it has any.
    pub(super) fn read(process: &Group, coverage: &Group, shared: &Shared) -> Result<Option<Self>> {
        if !process.has(name::AVERAGED)? {
            return Ok(None);
        }
        let group = process.group(name::AVERAGED)?;
        let average = group.text_attribute(name::METHOD)?.parse().map_err(h5::Error::from)?;
        let frames = group.list(name::FRAMES)?;
        let digests: Vec<u64> = coverage.list(name::AVERAGED_DIGEST)?;
        match digests.len() == frames.len() {
            true => Ok(Some(Self { average, frames, shape: shared.axes.shape(), digests, group })),
            false => Err("averaged patterns without a digest each".into()),
        }
    }

    /// Pattern `index`, whose bins are azimuth-major; `None` where it is not as it was written.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn pattern(&self, index: usize) -> Result<Option<Pattern>> {
        // All frames' one pattern has no axis of points, so that its rows are bins.
        let lines = self.shape[0];
        let rows = if self.average.every.is_some() { index..index.saturating_add(1) } else { 0..lines };
        let read = |name| self.group.dataset(name)?.rows_unverified(rows.clone());
        let errors = if self.group.has(name::ERRORS)? { Some(read(name::ERRORS)?) } else { None };
        let pattern = Pattern { frames: self.frames[index], intensity: read(name::INTENSITY)?, errors };
        Ok((digest::of_pattern(&pattern) == self.digests[index]).then_some(pattern))
    }

    /// Whether all patterns are as they were written.
    ///
    /// # Errors
    /// They can't be read.
    pub(super) fn is_intact(&self) -> Result<bool> {
        for index in 0..self.frames.len() {
            match self.pattern(index) {
                Ok(Some(_)) => (),
                Err(why @ h5::Error::Io(_)) => return Err(why),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// The patterns of many frames of a final that is being written, range after range.
pub(super) struct Averager<'a> {
    average: Average,
    content: &'a Content<'a>,
    /// The ranges that are not yet written.
    ranges: Peekable<IntoIter<Range<u64>>>,
    sums: Accumulator,
    group: Group,
    intensity: Table<f64>,
    errors: Option<Table<f64>>,
    frames: Vec<u64>,
    digests: Vec<u64>,
}

impl<'a> Averager<'a> {
    pub fn create(process: &Group, average: Average, content: &'a Content) -> Result<Self> {
        let (shared, finish) = (content.shared, &content.finish);
        let group = tree::group(process, name::AVERAGED, "NXdata")?;
        let (ranges, what) = (average.ranges(content.target.frames()), average.method.name());
        let firsts: Vec<i64> = ranges.iter().map(|range| range.start as i64).collect();
        let points = average.every.map(|_| Points { numbers: &firsts, label: "first frame" });
        let of = average.every.map_or("all".to_owned(), |every| format!("every {every}"));
        tree::write_axes(&group, shared, &format!("{what} of {of} frames"), points)?;
        group.set_text(name::METHOD, &average.to_string())?;
        let rows = average.every.map(|_| ranges.len());
        let shape: Vec<usize> = rows.into_iter().chain(shared.axes.shape()).collect();
        let table = |name| Table::fixed(&group, name, shape[0], &shape[1..]);
        let intensity = table(name::INTENSITY)?;
        let errors = finish.has_errors().then(|| table(name::ERRORS)).transpose()?;
        tree::interpret(&group.dataset(name::INTENSITY)?, shared)?;
        let sums = Accumulator::new(shared.axes.bins(), finish);
        let ranges = ranges.into_iter().peekable();
        let (frames, digests) = (Vec::new(), Vec::new());
        Ok(Self { average, content, ranges, sums, group, intensity, errors, frames, digests })
    }

    /// Takes a frame, and writes the pattern of its range where it is the last of it.
    ///
    /// # Errors
    /// Those of reading frames again, for a median, and of writing.
    pub fn push(&mut self, frame: u64, merged: &Merged, frames: &mut dyn Frames) -> std::result::Result<(), Error> {
        let (method, finish) = (self.average.method, &self.content.finish);
        if let (Some(row), Some(_)) = (&merged.sums, &merged.pattern)
            && method != Method::Median
        {
            self.sums.add(merged, row, frames.shared_weights(), finish);
        }
        let Some(range) = self.ranges.next_if(|range| range.end.checked_sub(1) == Some(frame)) else { return Ok(()) };
        let pattern = match method {
            Method::Mean | Method::Sum => self.sums.take(method, finish),
            Method::Median => median(range, frames, self.content.shared.axes.bins(), finish)?,
        };
        self.write(pattern).map_err(Error::hdf5(&self.content.target.path()))
    }

    fn write(&mut self, pattern: Pattern) -> Result<()> {
        self.frames.push(pattern.frames);
        self.digests.push(digest::of_pattern(&pattern));
        self.intensity.push(pattern.intensity)?;
        match (&mut self.errors, pattern.errors) {
            (Some(table), Some(errors)) => table.push(errors),
            _ => Ok(()),
        }
    }

    /// Writes what is left, and the patterns' digests among those of the final.
    pub fn finish(mut self, coverage: &Group) -> Result<()> {
        self.intensity.flush()?;
        self.errors.iter_mut().try_for_each(Table::flush)?;
        coverage.write_list(name::AVERAGED_DIGEST, &self.digests)?;
        let dataset = self.group.write_list(name::FRAMES, &self.frames)?;
        dataset.set_text("long_name", "frames with a pattern")
    }
}
