//! [`Lane`], one frame's pixels of one tile, as narrow as their values allow.

use crate::bitmap::Bitmap;
use crate::invalid_pixels::InvalidPixels;
use crate::pixel::PixelWidth;
use crate::summation_order::TILE;

/// One frame's pixels of the current tile. Invalid pixels are zero; pixels without matrix entries
/// can have any finite value.
pub(crate) struct Lane {
    pub(crate) width: PixelWidth,
    pub(crate) low_bytes: [u8; TILE],
    pub(crate) high_bytes: [u8; TILE],
    pub(crate) f64_pixels: [f64; TILE],
    /// A set that includes all pixels with entries that are not zero, for widths up to 8 bits.
    pub(crate) nonzero: Bitmap,
    /// A set that includes all pixels with entries that are 2 or more, for widths up to 8 bits.
    pub(crate) above_one: Bitmap,
    /// The frame's invalid pixels with entries so far.
    pub(crate) invalid: InvalidPixels,
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
            invalid: InvalidPixels::default(),
        }
    }
}

impl Lane {
    /// Converts the pixels to `width` if they are narrower.
    pub(crate) fn widen_to(&mut self, width: PixelWidth) {
        if self.width == PixelWidth::Zero && width > PixelWidth::Zero {
            self.low_bytes.fill(0);
            (self.nonzero, self.above_one) = (Bitmap::EMPTY, Bitmap::EMPTY);
        }
        if self.width < PixelWidth::U16 && width >= PixelWidth::U16 {
            self.high_bytes.fill(0);
        }
        if self.width < PixelWidth::F64 && width == PixelWidth::F64 {
            for (real, (&low, &high)) in
                self.f64_pixels.iter_mut().zip(self.low_bytes.iter().zip(&self.high_bytes))
            {
                *real = f64::from(u16::from_le_bytes([low, high]));
            }
        }
        self.width = self.width.max(width);
    }
}
