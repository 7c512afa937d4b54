//! Writes the group of sparse pixels, frame by frame.

use recipe::Recipe;
use records::Acquisition;

use super::{GROUP_NAME, SparseFormat, SparseFrame, SparseStatus, ValueType, format_of, name};
use crate::h5::{Group, Hdf5Error, Result};
use crate::row_writer::RowWriter;

/// Values of a chunk.
const CHUNK_VALUES: usize = 1 << 15;

/// Sparse pixels that are being written.
pub(crate) struct SparseWriter {
    group: Group,
    format: SparseFormat,
    row: RowWriter<u16>,
    column: RowWriter<u16>,
    intensity: ValueWriter,
    counts: Vec<u32>,
    status: Vec<u8>,
    other_shares: Vec<u64>,
}

/// The values in their type.
enum ValueWriter {
    U32(RowWriter<u32>),
    I32(RowWriter<i32>),
    F64(RowWriter<f64>),
}

impl SparseWriter {
    /// Creates the group below `parent`, for frames of a scan by a recipe.
    pub(crate) fn create(parent: &Group, scan: &Acquisition, recipe: &Recipe) -> Result<Self> {
        let format = format_of(scan, recipe)?;
        let group = parent.create_group(GROUP_NAME)?;
        group.set_text("NX_class", "NXcollection")?;
        group.set_text(name::INDEX_TYPE, "uint16")?;
        group.set_number(name::ROWS, format.rows)?;
        group.set_number(name::COLUMNS, format.columns)?;
        let indices = |name| RowWriter::chunked(&group, name, CHUNK_VALUES, &[]);
        let (row, column) = (indices(name::ROW)?, indices(name::COL)?);
        let intensity = ValueWriter::create(&group, format.values)?;
        let (counts, status, other_shares) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { row, column, intensity, group, format, counts, status, other_shares })
    }

    /// Adds the next frame; `None` if it has no pattern, or its sparse pixels are unknown.
    pub(crate) fn push(&mut self, frame: Option<&SparseFrame>) -> Result<()> {
        let (status, count, other_shares) = match frame {
            None => (SparseStatus::None, 0, 0),
            Some(&SparseFrame::TooMany { shares }) => (SparseStatus::TooMany, 0, shares),
            Some(SparseFrame::Pixels(sparse)) => {
                let position = |&pixel: &u32| {
                    self.format.position(pixel).ok_or_else(|| {
                        Hdf5Error::Damaged(format!("pixel {pixel} is outside of the frame"))
                    })
                };
                let positions: Vec<[u16; 2]> =
                    sparse.pixels.iter().map(position).collect::<Result<_>>()?;
                self.row.push(positions.iter().map(|[row, _]| *row))?;
                self.column.push(positions.iter().map(|[_, column]| *column))?;
                self.intensity.push(&sparse.values)?;
                let count = u32::try_from(sparse.pixels.len()).unwrap_or(u32::MAX);
                (SparseStatus::Written, count, sparse.other_shares)
            }
        };
        self.status.push(status as u8);
        self.counts.push(count);
        self.other_shares.push(other_shares);
        Ok(())
    }

    /// Writes all that is still in memory.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.row.flush()?;
        self.column.flush()?;
        self.intensity.flush()?;
        self.group.write_list(name::NNZ, &self.counts)?;
        self.group.write_list(name::STATUS, &self.status)?;
        self.group.write_list(name::OTHER_SHARES, &self.other_shares)?;
        self.group.set_number(name::FRAMES, self.counts.len() as u64)
    }
}

impl ValueWriter {
    fn create(group: &Group, values: ValueType) -> Result<Self> {
        let name = name::INTENSITY;
        Ok(match values {
            ValueType::U32 => Self::U32(RowWriter::chunked(group, name, CHUNK_VALUES, &[])?),
            ValueType::I32 => Self::I32(RowWriter::chunked(group, name, CHUNK_VALUES, &[])?),
            ValueType::F64 => Self::F64(RowWriter::chunked(group, name, CHUNK_VALUES, &[])?),
        })
    }

    /// Adds values, which this type can hold.
    fn push(&mut self, values: &[f64]) -> Result<()> {
        match self {
            Self::U32(writer) => writer.push(values.iter().map(|value| *value as u32)),
            Self::I32(writer) => writer.push(values.iter().map(|value| *value as i32)),
            Self::F64(writer) => writer.push(values.iter().copied()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Self::U32(writer) => writer.flush(),
            Self::I32(writer) => writer.flush(),
            Self::F64(writer) => writer.flush(),
        }
    }
}
