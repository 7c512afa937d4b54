//! One frame's pixels of one tile, as narrow as their values allow.

use crate::bitmap::Bitmap;
use crate::order::TILE;

/// How wide the pixels of a tile are; each can be read as any wider one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Width {
    /// All are zero: nothing is stored.
    #[default]
    Zero,
    /// 8 bits, in `low`.
    Narrow,
    /// 16 bits, in `low` and `high`.
    Middle,
    /// In `real`.
    Real,
}

/// One frame's pixels of the tile at hand. Pixels without entries may hold anything finite; invalid ones are zero.
pub(crate) struct Lane {
    pub(crate) width: Width,
    pub(crate) low: [u8; TILE],
    pub(crate) high: [u8; TILE],
    pub(crate) real: [f64; TILE],
    /// Where narrow pixels are not zero, among those with entries.
    pub(crate) lit: Bitmap,
    /// Where narrow pixels are 2 or more, among those with entries.
    pub(crate) bright: Bitmap,
    /// The frame's invalid pixels with entries so far, tile by tile.
    pub(crate) invalid: Vec<u32>,
}

impl Default for Lane {
    fn default() -> Lane {
        Lane {
            width: Width::Zero,
            low: [0; TILE],
            high: [0; TILE],
            real: [0.; TILE],
            lit: Bitmap::EMPTY,
            bright: Bitmap::EMPTY,
            invalid: Vec::new(),
        }
    }
}

impl Lane {
    /// Makes narrower pixels readable at this width.
    pub(crate) fn widen(&mut self, width: Width) {
        if self.width == Width::Zero && width > Width::Zero {
            self.low.fill(0);
            (self.lit, self.bright) = (Bitmap::EMPTY, Bitmap::EMPTY);
        }
        if self.width < Width::Middle && width >= Width::Middle {
            self.high.fill(0);
        }
        if self.width < Width::Real && width == Width::Real {
            for (real, (&low, &high)) in self.real.iter_mut().zip(self.low.iter().zip(&self.high)) {
                *real = f64::from(u16::from_le_bytes([low, high]));
            }
        }
        self.width = self.width.max(width);
    }
}
