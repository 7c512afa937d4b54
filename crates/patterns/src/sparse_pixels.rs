//! Sparse pixels: the pixels of each frame that sigma clipping rejected above the mean, such as those
//! of single crystals' spots, beside the pattern of the others.
//!
//! Parts and final files have them in the group `sparse`, in the layout of ImageD11's `SparseScan`:
//!
//! | dataset | type | content |
//! |---|---|---|
//! | `nnz` | u32 | pixels of each row of the file, which is a frame |
//! | `row`, `col` | u16 | position of each pixel in its frame as it is stored, row by row |
//! | `intensity` | u32, i32 or f64 | value of each pixel as it is stored |
//! | `status` | u8 | of each frame: 0 if it has no pattern, or one without its pixels; 1 if the pixels are here; 2 if there were too many |
//! | `other_shares` | u64 | of each frame: how many shares (a pixel in a bin) clipping rejected that are of no pixel here |
//!
//! The attributes `nframes`, `shape0`, `shape1` and `itype` are ImageD11's.

mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use reader::{SparseIndex, SparseReader};
pub(crate) use writer::SparseWriter;

use recipe::Recipe;
use records::Acquisition;

use crate::h5::{Hdf5Error, Result};

/// Name of the group in parts and final files.
pub(crate) const GROUP_NAME: &str = "sparse";

/// Most rows, and most columns, that indices of 16 bits can name.
const MAX_EXTENT: u64 = 1 << 16;

/// Names of the datasets and attributes.
mod name {
    pub(super) const NNZ: &str = "nnz";
    pub(super) const ROW: &str = "row";
    pub(super) const COL: &str = "col";
    pub(super) const INTENSITY: &str = "intensity";
    pub(super) const STATUS: &str = "status";
    pub(super) const OTHER_SHARES: &str = "other_shares";
    pub(super) const INDEX_TYPE: &str = "itype";
    pub(super) const FRAMES: &str = "nframes";
    pub(super) const ROWS: &str = "shape0";
    pub(super) const COLUMNS: &str = "shape1";
}

/// The sparse pixels of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum SparseFrame {
    /// All pixels that each of their bins rejected above its mean; there may be none.
    Pixels(SparsePixels),
    /// Clipping rejected too many pixels to write them.
    TooMany {
        /// Number of all rejected shares (a pixel in a bin).
        shares: u64,
    },
}

/// Pixels of a frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparsePixels {
    /// Index of each pixel in the frame, row-major, ascending.
    pub pixels: Vec<u32>,
    /// Value of each pixel as it is stored.
    pub values: Vec<f64>,
    /// Number of rejected shares (a pixel in a bin) that are of none of these pixels.
    pub other_shares: u64,
}

/// Says of a frame if its sparse pixels are in the file. The numbers are those of the dataset `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SparseStatus {
    /// The frame has no pattern, or a pattern that was integrated without its sparse pixels.
    None = 0,
    /// The pixels are in the file; there may be none.
    Written = 1,
    /// There were too many pixels to write.
    TooMany = 2,
}

impl SparseStatus {
    fn from_number(number: u8) -> Option<Self> {
        [Self::None, Self::Written, Self::TooMany]
            .into_iter()
            .find(|status| *status as u8 == number)
    }

    /// Returns whether integrating the frame again would add nothing.
    pub(crate) fn is_settled(self) -> bool {
        self != Self::None
    }
}

/// Type of the values of sparse pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueType {
    U32,
    I32,
    F64,
}

/// Shape and type of the frames that sparse pixels are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SparseFormat {
    rows: u64,
    columns: u64,
    values: ValueType,
}

impl SparseFormat {
    /// Returns the format for the frames of a scan. Counts that the recipe corrects for dead time are no
    /// integers.
    ///
    /// # Errors
    /// Frames of too many rows or columns, or uncorrected pixels of 64-bit integers.
    pub(crate) fn new(scan: &Acquisition, recipe: &Recipe) -> std::result::Result<Self, String> {
        let [rows, columns] = scan.shape;
        if rows > MAX_EXTENT || columns > MAX_EXTENT {
            return Err(format!(
                "frames of {rows} x {columns} pixels; expected at most {MAX_EXTENT} rows and columns"
            ));
        }
        let values = match scan.dtype.as_str() {
            _ if recipe.dead_time.is_some() => ValueType::F64,
            "u8" | "u16" | "u32" => ValueType::U32,
            "i8" | "i16" | "i32" => ValueType::I32,
            "f32" | "f64" => ValueType::F64,
            other => {
                return Err(format!(
                    "pixels of type {other}; expected integers of at most 32 bits, f32 or f64"
                ));
            }
        };
        Ok(Self { rows, columns, values })
    }

    /// Returns row and column of a pixel; `None` if it is outside of the frame.
    fn position(self, pixel: u32) -> Option<[u16; 2]> {
        let (pixel, columns) = (u64::from(pixel), self.columns);
        let (row, column) = (pixel.checked_div(columns)?, pixel.checked_rem(columns)?);
        (row < self.rows).then(|| Some([u16::try_from(row).ok()?, u16::try_from(column).ok()?]))?
    }

    /// Returns the index of a pixel; `None` if it is outside of the frame.
    fn index(self, row: u16, column: u16) -> Option<u32> {
        let (row, column) = (u64::from(row), u64::from(column));
        if row >= self.rows || column >= self.columns {
            return None;
        }
        row.checked_mul(self.columns)?.checked_add(column)?.try_into().ok()
    }
}

/// Checks that the sparse pixels of a scan can be written.
///
/// # Errors
/// Returns what the frames are and what was expected.
pub fn check_frames(scan: &Acquisition, recipe: &Recipe) -> std::result::Result<(), String> {
    SparseFormat::new(scan, recipe).map(drop)
}

fn format_of(scan: &Acquisition, recipe: &Recipe) -> Result<SparseFormat> {
    SparseFormat::new(scan, recipe).map_err(Hdf5Error::Damaged)
}
