//! Reads the group of sparse pixels: what each frame has, then frame by frame.

use std::io::ErrorKind;
use std::ops::Range;

use recipe::Recipe;
use records::Acquisition;

use super::{
    GROUP_NAME, SparseFormat, SparseFrame, SparsePixels, SparseStatus, ValueType, format_of, name,
};
use crate::h5::{Dataset, Group, Hdf5Error, Result};
use crate::row_writer::read_rows;

/// Pixels that are read at a time to verify them.
const VERIFY_PIXELS: usize = 1 << 20;

/// Index of the sparse pixels of a file: where those of each frame are.
#[derive(Clone, Debug)]
pub(crate) struct SparseIndex {
    format: SparseFormat,
    status: Vec<SparseStatus>,
    /// Index of the first pixel of each frame, followed by the total.
    starts: Vec<usize>,
    other_shares: Vec<u64>,
}

impl SparseIndex {
    /// Reads the index of the group below `parent`, for `frames` rows of the file, which are of a
    /// scan and a recipe; `None` if there is no group.
    ///
    /// # Errors
    /// Fails if the file can't be read, or if datasets are missing or contradict each other.
    pub(crate) fn read(
        parent: &Group,
        scan: &Acquisition,
        recipe: &Recipe,
        frames: usize,
    ) -> Result<Option<Self>> {
        if !parent.contains(GROUP_NAME)? {
            return Ok(None);
        }
        let (group, format) = (parent.group(GROUP_NAME)?, format_of(scan, recipe)?);
        let counts: Vec<u32> = group.read_array(name::NNZ, &[frames])?;
        let numbers: Vec<u8> = group.read_array(name::STATUS, &[frames])?;
        let other_shares = group.read_array(name::OTHER_SHARES, &[frames])?;
        let status: Option<Vec<SparseStatus>> =
            numbers.into_iter().map(SparseStatus::from_number).collect();
        let damaged = |why: &str| Hdf5Error::Damaged(format!("{GROUP_NAME}: {why}"));
        let status = status.ok_or_else(|| damaged("unknown status of a frame"))?;
        let (mut total, mut starts) = (0_usize, vec![0]);
        for (&count, &status) in counts.iter().zip(&status) {
            if count > 0 && status != SparseStatus::Written {
                return Err(damaged("pixels of a frame that has none"));
            }
            if u64::from(count) > format.rows.saturating_mul(format.columns) {
                return Err(damaged("more pixels than a frame has"));
            }
            total = total.checked_add(count as usize).ok_or_else(|| damaged("too many pixels"))?;
            starts.push(total);
        }
        let index = Self { format, status, starts, other_shares };
        SparseReader::check_datasets(&group, format, total)?;
        Ok(Some(index))
    }

    /// Leaves out the pixels of these rows, as if they had been integrated without.
    pub(crate) fn leave_out(&mut self, rows: &[usize]) {
        for &row in rows {
            if let Some(status) = self.status.get_mut(row) {
                *status = SparseStatus::None;
            }
        }
    }

    /// Returns whether integrating a row's frame again would add no sparse pixels.
    pub(crate) fn is_settled(&self, row: usize) -> bool {
        self.status.get(row).is_some_and(|status| status.is_settled())
    }
}

/// The open datasets of sparse pixels.
pub(crate) struct SparseReader {
    index: SparseIndex,
    row: Dataset,
    column: Dataset,
    intensity: Dataset,
}

impl SparseReader {
    /// Opens the datasets of the group below `parent`, whose index was read.
    pub(crate) fn open(parent: &Group, index: &SparseIndex) -> Result<Self> {
        let group = parent.group(GROUP_NAME)?;
        Ok(Self {
            index: index.clone(),
            row: group.dataset(name::ROW)?,
            column: group.dataset(name::COL)?,
            intensity: group.dataset(name::INTENSITY)?,
        })
    }

    fn check_datasets(group: &Group, format: SparseFormat, total: usize) -> Result<()> {
        group.check_dataset::<u16>(name::ROW, &[total])?;
        group.check_dataset::<u16>(name::COL, &[total])?;
        match format.values {
            ValueType::U32 => group.check_dataset::<u32>(name::INTENSITY, &[total]),
            ValueType::I32 => group.check_dataset::<i32>(name::INTENSITY, &[total]),
            ValueType::F64 => group.check_dataset::<f64>(name::INTENSITY, &[total]),
        }
    }

    /// Reads the sparse pixels of a row's frame; `None` if it has none.
    ///
    /// # Errors
    /// Fails if the file can't be read, is damaged, or names a pixel outside of the frame.
    pub(crate) fn frame(&self, row: usize) -> Result<Option<SparseFrame>> {
        let SparseIndex { status, starts, other_shares, .. } = &self.index;
        let other_shares = other_shares.get(row).copied().unwrap_or_default();
        match (status.get(row), starts.get(row..)) {
            (Some(SparseStatus::TooMany), _) => {
                Ok(Some(SparseFrame::TooMany { shares: other_shares }))
            }
            (Some(SparseStatus::Written), Some(&[start, end, ..])) => {
                let (pixels, values) = self.pixels(start..end)?;
                Ok(Some(SparseFrame::Pixels(SparsePixels { pixels, values, other_shares })))
            }
            _ => Ok(None),
        }
    }

    /// Reads all pixels of the group below `parent`, and returns the rows whose pixels are damaged.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub(crate) fn find_damaged_rows(parent: &Group, index: &SparseIndex) -> Result<Vec<usize>> {
        let is_damaged = |read: Result<()>| match read {
            Err(Hdf5Error::Io(why)) if why.kind() != ErrorKind::UnexpectedEof => {
                Err(Hdf5Error::Io(why))
            }
            read => Ok(read.is_err()),
        };
        if !is_damaged(Self::open(parent, index).and_then(|reader| reader.verify()))? {
            return Ok(Vec::new());
        }
        let mut damaged = Vec::new();
        for row in 0..index.status.len() {
            // The library would take damaged values of further rows from its caches, and not read
            // them again.
            let read = Self::open(parent, index).and_then(|reader| reader.frame(row).map(drop));
            if is_damaged(read)? {
                damaged.push(row);
            }
        }
        Ok(damaged)
    }

    /// Reads all pixels, and so verifies their checksums.
    ///
    /// # Errors
    /// Fails as [`SparseReader::frame`] does.
    pub(crate) fn verify(&self) -> Result<()> {
        let total = self.index.starts.last().copied().unwrap_or_default();
        for start in (0..total).step_by(VERIFY_PIXELS) {
            self.pixels(start..total.min(start.saturating_add(VERIFY_PIXELS)))?;
        }
        Ok(())
    }

    fn pixels(&self, range: Range<usize>) -> Result<(Vec<u32>, Vec<f64>)> {
        if range.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let rows: Vec<u16> = read_rows(&self.row, range.clone())?;
        let columns: Vec<u16> = read_rows(&self.column, range.clone())?;
        let index = |(&row, &column)| {
            self.index.format.index(row, column).ok_or_else(|| {
                Hdf5Error::Damaged(format!(
                    "{GROUP_NAME}: row {row}, column {column} is outside of the frame"
                ))
            })
        };
        let pixels: Result<Vec<u32>> = rows.iter().zip(&columns).map(index).collect();
        let values = match self.index.format.values {
            ValueType::U32 => to_reals(read_rows::<u32>(&self.intensity, range)?),
            ValueType::I32 => to_reals(read_rows::<i32>(&self.intensity, range)?),
            ValueType::F64 => read_rows(&self.intensity, range)?,
        };
        Ok((pixels?, values))
    }
}

fn to_reals<T: Into<f64>>(numbers: Vec<T>) -> Vec<f64> {
    numbers.into_iter().map(Into::into).collect()
}
