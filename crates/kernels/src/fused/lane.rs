//! One frame's pixels of one tile, as narrow as their values allow.

use crate::bitmap::Bitmap;
use crate::summation_order::TILE;

/// How wide the pixels of a tile are; each can be read as any wider one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PixelWidth {
    /// All are zero: nothing is stored.
    #[default]
    Zero,
    /// 8 bits, in `low`.
    U8,
    /// 16 bits, in `low` and `high`.
    U16,
    /// In `real`.
    F64,
}

/// One frame's pixels of the tile at hand. Pixels without entries may hold anything finite; invalid ones are zero.
pub(crate) struct Lane {
    pub(crate) width: PixelWidth,
    pub(crate) low_bytes: [u8; TILE],
    pub(crate) high_bytes: [u8; TILE],
    pub(crate) f64_pixels: [f64; TILE],
    /// Where narrow pixels are not zero, among those with entries.
    pub(crate) nonzero: Bitmap,
    /// Where narrow pixels are 2 or more, among those with entries.
    pub(crate) above_one: Bitmap,
    /// The frame's invalid pixels with entries so far, tile by tile.
    pub(crate) invalid: Vec<u32>,
}

impl Default for Lane {
    fn default() -> Lane {
        Lane {
            width: PixelWidth::Zero,
            low_bytes: [0; TILE],
            high_bytes: [0; TILE],
            f64_pixels: [0.; TILE],
            nonzero: Bitmap::EMPTY,
            above_one: Bitmap::EMPTY,
            invalid: Vec::new(),
        }
    }
}

impl Lane {
    /// Makes narrower pixels readable at this width.
    pub(crate) fn widen_to(&mut self, width: PixelWidth) {
        if self.width == PixelWidth::Zero && width > PixelWidth::Zero {
            self.low_bytes.fill(0);
            (self.nonzero, self.above_one) = (Bitmap::EMPTY, Bitmap::EMPTY);
        }
        if self.width < PixelWidth::U16 && width >= PixelWidth::U16 {
            self.high_bytes.fill(0);
        }
        if self.width < PixelWidth::F64 && width == PixelWidth::F64 {
            for (real, (&low, &high)) in self.f64_pixels.iter_mut().zip(self.low_bytes.iter().zip(&self.high_bytes)) {
                *real = f64::from(u16::from_le_bytes([low, high]));
            }
        }
        self.width = self.width.max(width);
    }
}
