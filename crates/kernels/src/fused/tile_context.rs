//! [`TileContext`], the tile that is read next.

use std::cell::OnceCell;

use crate::bitmap::Bitmap;
use crate::summation_order::TILE;

/// The tile to read, and facts about it that all frames share.
#[derive(Clone, Copy)]
pub(crate) struct TileContext<'a> {
    /// The tile's index in the frame.
    pub(crate) tile_index: usize,
    /// How many pixels the frame has.
    pub(crate) pixels: usize,
    /// The pixels without matrix entries.
    pub(crate) unused: &'a Bitmap,
    /// True if all pixels are summed anyway, because the first frame has many that are above 1. For
    /// the other frames the zero pixels need not be found.
    pub(crate) is_dense: bool,
    /// The cache of [`TileContext::used`], which only native pixels need.
    pub(crate) used_mask: &'a OnceCell<[u8; TILE]>,
}

impl TileContext<'_> {
    /// Returns one byte per pixel of the tile: 0 for pixels without entries, 1 for the others.
    pub(crate) fn used(&self) -> &[u8; TILE] {
        self.used_mask.get_or_init(|| Bitmap::FULL.without(self.unused).bytes())
    }
}
