//! [`AveragedPatterns`]: the average patterns of an open final file, its NXdata group `averaged`.

use records::Spans;

use super::average::{Average, AveragePattern};
use super::digest;
use super::schema::name;
use crate::SharedBins;
use crate::h5::{self, Group, Result};

/// Average patterns of an open final file.
pub struct AveragedPatterns {
    /// Method, and number of frames per pattern.
    pub average: Average,
    /// Number of frames that each pattern was averaged over.
    pub frames: Vec<u64>,
    /// Shape of one pattern.
    shape: Vec<usize>,
    digests: Vec<u64>,
    group: Group,
}

impl AveragedPatterns {
    /// Returns the frames of averages that are of no frame, of a scan of this many.
    pub fn frames_without_average(&self, frames: u64) -> Spans {
        let ranges = self.average.ranges(frames).into_iter().zip(&self.frames);
        let empty = ranges.filter(|(_, averaged)| **averaged == 0);
        empty.flat_map(|(range, _)| range).collect()
    }

    /// Opens the average patterns of a final file; `None` if it has none. `process` and `coverage`
    /// are groups of the file.
    pub(super) fn read(
        process: &Group,
        coverage: &Group,
        shared: &SharedBins,
        frames_of_scan: usize,
        has_errors: bool,
    ) -> Result<Option<Self>> {
        if !process.contains(name::AVERAGED)? {
            return Ok(None);
        }
        let group = process.group(name::AVERAGED)?;
        let average: Average =
            group.text_attribute(name::METHOD)?.parse().map_err(h5::Hdf5Error::from)?;
        let count = average.ranges(frames_of_scan as u64).len();
        let frames = group.read_array(name::FRAMES, &[count])?;
        let digests = coverage.read_array(name::AVERAGED_DIGEST, &[count])?;
        let shape = shared.axes.shape();
        let rows: Vec<usize> =
            average.every.map(|_| count).into_iter().chain(shape.iter().copied()).collect();
        group.check_dataset::<f64>(name::INTENSITY, &rows)?;
        if has_errors {
            group.check_dataset::<f64>(name::ERRORS, &rows)?;
        }
        Ok(Some(Self { average, frames, shape, digests, group }))
    }

    /// Reads pattern `index`, whose bins are azimuth-major; `None` if the pattern is damaged.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn pattern(&self, index: usize) -> Result<Option<AveragePattern>> {
        // A single pattern of all frames has no dimension of points, so its rows are the rows of
        // the pattern.
        let lines = self.shape[0];
        let rows =
            if self.average.every.is_some() { index..index.saturating_add(1) } else { 0..lines };
        let read = |name| self.group.dataset(name)?.rows_unverified(rows.clone());
        let errors =
            if self.group.contains(name::ERRORS)? { Some(read(name::ERRORS)?) } else { None };
        let pattern = AveragePattern {
            frames: self.frames[index],
            intensity: read(name::INTENSITY)?,
            errors,
        };
        Ok((digest::pattern_digest(&pattern) == self.digests[index]).then_some(pattern))
    }

    /// Returns whether no pattern is damaged.
    ///
    /// # Errors
    /// Fails if the file can't be read.
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
