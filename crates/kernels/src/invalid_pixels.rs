//! [`InvalidPixels`], the pixels of a frame that are invalid in it.

use crate::bitmap::Bitmap;
use crate::summation_order::TILE;

/// The invalid pixels of a frame that have matrix entries: a bitmap for each tile that has any.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct InvalidPixels {
    /// Rising.
    tiles: Vec<usize>,
    bitmaps: Vec<Bitmap>,
    count: usize,
}

impl InvalidPixels {
    /// Removes all pixels, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.tiles.clear();
        self.bitmaps.clear();
        self.count = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tiles.is_empty()
    }

    /// Adds pixels of a tile, the same as the last one that was added to or a later one.
    pub(crate) fn add(&mut self, tile: usize, pixels: &Bitmap) {
        match (self.tiles.last(), self.bitmaps.last_mut()) {
            _ if pixels.is_empty() => {}
            (Some(last), Some(bitmap)) if *last == tile => {
                self.count += pixels.without(bitmap).count() as usize;
                *bitmap = bitmap.zip(pixels, |known, new| known | new);
            }
            (last, _) => {
                assert!(last.is_none_or(|last| *last < tile), "tile {tile} after {last:?}");
                self.count += pixels.count() as usize;
                self.tiles.push(tile);
                self.bitmaps.push(*pixels);
            }
        }
    }

    /// Returns those of the pixels that a plan uses, whose pixels without entries are `unused` tile by
    /// tile.
    pub(crate) fn without(&self, unused: &[Bitmap]) -> InvalidPixels {
        let mut used = InvalidPixels::default();
        for (tile, pixels) in self.tiles() {
            used.add(tile, &pixels.without(&unused[tile]));
        }
        used
    }

    /// Returns the number of pixels.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Iterates over the tiles with invalid pixels, in rising order, and their invalid pixels.
    pub(crate) fn tiles(&self) -> impl Iterator<Item = (usize, &Bitmap)> {
        self.tiles.iter().copied().zip(&self.bitmaps)
    }

    /// Iterates over the pixels, in rising order.
    pub(crate) fn pixels(&self) -> impl Iterator<Item = usize> {
        self.tiles()
            .flat_map(|(tile, pixels)| pixels.iter_ones().map(move |in_tile| tile * TILE + in_tile))
    }
}

/// Collects pixels whose tiles rise.
impl FromIterator<usize> for InvalidPixels {
    fn from_iter<I: IntoIterator<Item = usize>>(pixels: I) -> InvalidPixels {
        let mut invalid = InvalidPixels::default();
        let mut pixels = pixels.into_iter().peekable();
        while let Some(tile) = pixels.peek().map(|pixel| pixel / TILE) {
            let mut of_tile = Bitmap::EMPTY;
            while let Some(pixel) = pixels.next_if(|pixel| pixel / TILE == tile) {
                of_tile.insert(pixel % TILE);
            }
            invalid.add(tile, &of_tile);
        }
        invalid
    }
}
