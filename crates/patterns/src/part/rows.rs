//! The rows of a part, read from its open file.

use std::ops::Range;

use hdf5::Dataset;

use super::{Error, Part, peek, row_dataset};
use crate::exceptions::Exceptions;
use crate::table::{self, read_rows};
use crate::{Row, h5};

/// A part whose rows can be read.
pub struct Rows<'a> {
    part: &'a Part,
    signal: Dataset,
    variance: Option<Dataset>,
    exceptions: Exceptions,
    /// Which rows were read last, and these rows.
    block: Range<usize>,
    rows: Vec<Row>,
    /// Declared last: closed after its datasets.
    _file: h5::Open,
}

impl Part {
    /// Opens the file to read rows.
    ///
    /// # Errors
    /// It is not there any more, or is another part by now.
    pub fn open(&self) -> Result<Rows<'_>, Error> {
        if peek(&self.path)?.xxh3 != self.digest {
            return Err(Error::Replaced { path: self.path.clone() });
        }
        let begin = || -> hdf5::Result<Rows<'_>> {
            let file = h5::open(&self.path)?;
            Ok(Rows {
                part: self,
                signal: file.dataset(row_dataset::SIGNAL)?,
                variance: self.has_variance.then(|| file.dataset(row_dataset::VARIANCE)).transpose()?,
                exceptions: Exceptions::open(&file)?,
                block: 0..0,
                rows: Vec::new(),
                _file: file,
            })
        };
        begin().map_err(Error::hdf5(&self.path))
    }
}

impl Rows<'_> {
    /// Row `row` of the part. Those behind it that one read may well take are read with it.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn row(&mut self, row: usize) -> Result<&Row, Error> {
        if !self.block.contains(&row) {
            let end = row + table::rows_of_block::<f64>(&self.part.shared.axes.shape());
            let block = row..end.min(self.part.frames.len());
            self.rows = self.read(block.clone()).map_err(Error::hdf5(&self.part.path))?;
            self.block = block;
        }
        Ok(&self.rows[row - self.block.start])
    }

    fn read(&self, range: Range<usize>) -> hdf5::Result<Vec<Row>> {
        let (part, bins) = (self.part, self.part.shared.axes.bins());
        let signal: Vec<f64> = read_rows(&self.signal, range.clone())?;
        let variance = self.variance.as_ref().map(|dataset| read_rows::<f64>(dataset, range.clone())).transpose()?;
        let row = |row: usize| {
            let values = (row - range.start) * bins..(row - range.start + 1) * bins;
            // A frame without sums is stored as NaN throughout.
            let sums = Some(&signal[values.clone()]).filter(|sums| !sums.iter().all(|sum| sum.is_nan()));
            Ok(Row {
                frame: part.frames[row],
                status: part.status[row],
                stored_digest: part.stored_digest[row],
                monitor: part.monitor[row],
                signal: sums.map(<[f64]>::to_vec).unwrap_or_default(),
                variance: variance.as_ref().filter(|_| sums.is_some()).map(|variance| variance[values].to_vec()),
                exception: self.exceptions.of(part.frames[row], &part.shared.weights)?,
            })
        };
        range.clone().map(row).collect()
    }
}
