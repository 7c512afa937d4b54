//! [`TiledCscBuilder`], which makes a [`TiledCsc`] from the columns of its pixels.

use std::ops::Range;

use super::{ExtraEntry, MatrixError, TiledCsc};
use crate::summation_order::{TILE, position_in_order};

/// Makes a [`TiledCsc`] from the columns of its pixels, block by block. Blocks may be filled in any
/// order and on several threads, and the columns of one block at a time need to be in memory.
pub struct TiledCscBuilder {
    nbins: usize,
    pixels: usize,
    first_bin: Vec<u32>,
    pair_weights: Vec<[f32; 2]>,
}

/// The pixels of some tiles, whose columns are to be set.
pub struct MatrixBlock<'a> {
    nbins: usize,
    pixels: Range<usize>,
    first_bin: &'a mut [u32],
    pair_weights: &'a mut [[f32; 2]],
}

/// The entries of a block that are not in its pixels' pairs.
#[derive(Debug, Default)]
pub struct BlockExtra {
    /// The entries, tile by tile, each tile in the order of summation.
    entries: Vec<ExtraEntry>,
    /// The end of each tile in `entries`.
    tile_ends: Vec<usize>,
}

impl TiledCscBuilder {
    /// Makes the builder of a matrix of `pixels` columns with bins below `nbins`.
    ///
    /// # Errors
    /// Too many bins or pixels, or no bins.
    pub fn new(pixels: usize, nbins: usize) -> Result<TiledCscBuilder, MatrixError> {
        if nbins == 0 || nbins > 1 << 31 || u32::try_from(pixels).is_err() {
            return Err(MatrixError::Size { nbins, pixels });
        }
        let padded = pixels.next_multiple_of(TILE);
        let (first_bin, pair_weights) = (vec![0; padded], vec![[0.; 2]; padded]);
        Ok(TiledCscBuilder { nbins, pixels, first_bin, pair_weights })
    }

    /// Returns the blocks of `tiles` tiles each, in the order of pixels; the last may have fewer.
    pub fn blocks(&mut self, tiles: usize) -> impl Iterator<Item = MatrixBlock<'_>> {
        let (nbins, pixels, len) = (self.nbins, self.pixels, tiles * TILE);
        let arrays = self.first_bin.chunks_mut(len).zip(self.pair_weights.chunks_mut(len));
        arrays.enumerate().map(move |(block, (first_bin, pair_weights))| MatrixBlock {
            nbins,
            pixels: block * len..pixels.min((block + 1) * len),
            first_bin,
            pair_weights,
        })
    }

    /// Returns the matrix. `extra` is what [`MatrixBlock::fill`] returned for each block, in the
    /// order of pixels.
    ///
    /// # Panics
    /// If there are fewer or more tiles in `extra` than in the matrix.
    pub fn build(self, extra: impl IntoIterator<Item = BlockExtra>) -> TiledCsc {
        let TiledCscBuilder { nbins, pixels, first_bin, pair_weights } = self;
        let (mut entries, mut extra_starts) = (Vec::new(), vec![0]);
        for block in extra {
            extra_starts.extend(block.tile_ends.iter().map(|end| entries.len() + end));
            entries.extend(block.entries);
        }
        assert_eq!(
            extra_starts.len(),
            first_bin.len() / TILE + 1,
            "blocks that are not all filled"
        );
        TiledCsc {
            nbins,
            pixels,
            first_bin: first_bin.into(),
            pair_weights: pair_weights.into(),
            extra: entries.into(),
            extra_starts: extra_starts.into(),
        }
    }
}

impl MatrixBlock<'_> {
    /// Returns the pixels of the block.
    pub fn pixels(&self) -> Range<usize> {
        self.pixels.clone()
    }

    /// Sets the columns of all pixels of the block, in CSC form: the entries of its pixel `i` are
    /// `starts[i]..starts[i + 1]`; their `bins` rise and are below the number of bins; a weight is
    /// the fraction of the pixel in the bin. Entries of weight zero are dropped.
    ///
    /// # Errors
    /// Arrays that are not of this form, or a weight that is negative or not finite.
    pub fn fill(
        self,
        starts: &[u64],
        bins: &[u32],
        weights: &[f32],
    ) -> Result<BlockExtra, MatrixError> {
        let MatrixBlock { nbins, pixels, first_bin, pair_weights } = self;
        check_shape(pixels.len(), starts, bins, weights)?;
        let (mut extra, mut tile_extra) = (BlockExtra::default(), Vec::new());
        // Bins in which no entry is: the neighbour's are in the cache.
        let mut neighbour = bins.first().copied().unwrap_or(0);
        for (index, range) in starts.windows(2).enumerate() {
            let range = range[0] as usize..range[1] as usize;
            let mut column = Column { nbins, pixel: pixels.start + index, last: None };
            let (mut first, mut pair) = (None, [0.; 2]);
            for (&bin, &weight) in bins[range.clone()].iter().zip(&weights[range]) {
                column.check(bin, weight)?;
                if weight == 0. {
                    continue;
                }
                match bin - *first.get_or_insert(bin) {
                    offset @ 0..=1 => pair[offset as usize] = weight,
                    _ => tile_extra.push(ExtraEntry { pixel: (index % TILE) as u32, bin, weight }),
                }
            }
            neighbour = first.unwrap_or(neighbour);
            first_bin[index] = neighbour;
            pair_weights[index] = pair;
            if index % TILE == TILE - 1 || index + 1 == pixels.len() {
                extra.end_tile(&tile_extra);
                tile_extra.clear();
            }
        }
        first_bin[pixels.len()..].fill(neighbour);
        Ok(extra)
    }
}

/// Checks that the columns of so many pixels have as many bins as weights, and all of them.
pub(super) fn check_shape(
    pixels: usize,
    starts: &[u64],
    bins: &[u32],
    weights: &[f32],
) -> Result<(), MatrixError> {
    let covers_all = starts.len() == pixels + 1
        && starts[0] == 0
        && starts[pixels] == bins.len() as u64
        && bins.len() == weights.len();
    if covers_all && starts.is_sorted() {
        return Ok(());
    }
    let (starts, bins, weights) = (starts.len(), bins.len(), weights.len());
    Err(MatrixError::Shape { starts, bins, weights })
}

/// A column whose entries are checked.
struct Column {
    nbins: usize,
    pixel: usize,
    last: Option<u32>,
}

impl Column {
    /// Checks the next entry.
    #[inline]
    fn check(&mut self, bin: u32, weight: f32) -> Result<(), MatrixError> {
        let Column { nbins, pixel, last } = *self;
        if bin as usize >= nbins || last >= Some(bin) {
            return Err(MatrixError::Bin { pixel, bin, nbins });
        }
        if !weight.is_finite() || weight < 0. {
            return Err(MatrixError::Weight { pixel, weight });
        }
        self.last = Some(bin);
        Ok(())
    }
}

impl BlockExtra {
    /// Appends the entries of a tile, given by pixel, in the order of summation.
    fn end_tile(&mut self, by_pixel: &[ExtraEntry]) {
        let start = self.entries.len();
        if !by_pixel.is_empty() {
            // The next free place of each pixel's entries, by its position in the order.
            let mut places = [start; TILE + 1];
            for e in by_pixel {
                places[position_in_order(e.pixel as usize) + 1] += 1;
            }
            for position in 1..TILE {
                places[position] += places[position - 1] - start;
            }
            self.entries
                .resize(start + by_pixel.len(), ExtraEntry { pixel: 0, bin: 0, weight: 0. });
            for e in by_pixel {
                let place = &mut places[position_in_order(e.pixel as usize)];
                self.entries[*place] = *e;
                *place += 1;
            }
        }
        self.tile_ends.push(self.entries.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIXELS: usize = 3 * TILE + 300;
    const NBINS: usize = 50;

    /// Returns columns in CSC form, some of which have no entries, and some more than a pair.
    fn columns(pixels: Range<usize>) -> (Vec<u64>, Vec<u32>, Vec<f32>) {
        let (mut starts, mut bins, mut weights) = (vec![0], Vec::new(), Vec::new());
        for pixel in pixels {
            for entry in 0..pixel * 7 % 11 % 6 {
                bins.push((pixel % 20 + entry * (1 + pixel % 3)) as u32);
                weights.push(1.0 / (1 + entry + pixel % 13) as f32);
            }
            starts.push(bins.len() as u64);
        }
        (starts, bins, weights)
    }

    #[test]
    fn blocks_in_any_order_make_the_matrix_of_all_columns() {
        let (starts, bins, weights) = columns(0..PIXELS);
        let whole = TiledCsc::new(&starts, &bins, &weights, NBINS).unwrap();
        for tiles in [1, 2, 5] {
            let mut builder = TiledCscBuilder::new(PIXELS, NBINS).unwrap();
            let blocks: Vec<_> = builder.blocks(tiles).collect();
            assert_eq!(blocks.len(), 4_usize.div_ceil(tiles));
            let mut extra: Vec<_> = blocks
                .into_iter()
                .rev()
                .map(|block| {
                    let (starts, bins, weights) = columns(block.pixels());
                    block.fill(&starts, &bins, &weights).unwrap()
                })
                .collect();
            extra.reverse();
            let built = builder.build(extra);
            for pixel in 0..PIXELS {
                let of_pixel =
                    |matrix: &TiledCsc| matrix.as_slices().entries(pixel).collect::<Vec<_>>();
                assert_eq!(of_pixel(&built), of_pixel(&whole), "pixel {pixel}, {tiles} tiles");
            }
            assert_eq!(*built.extra, *whole.extra, "{tiles} tiles");
            assert_eq!(*built.extra_starts, *whole.extra_starts, "{tiles} tiles");
        }
    }

    #[test]
    fn an_error_names_the_pixel_of_the_frame() {
        let mut builder = TiledCscBuilder::new(PIXELS, NBINS).unwrap();
        let second = builder.blocks(1).nth(1).unwrap();
        // The block's last pixel has two entries in one bin.
        let mut starts = vec![0; TILE + 1];
        starts[TILE] = 2;
        let error = second.fill(&starts, &[3, 3], &[0.5, 0.5]).unwrap_err();
        assert_eq!(error, MatrixError::Bin { pixel: 2 * TILE - 1, bin: 3, nbins: NBINS });
    }

    #[test]
    #[should_panic(expected = "not all filled")]
    fn a_matrix_needs_all_blocks() {
        TiledCscBuilder::new(PIXELS, NBINS).unwrap().build([]);
    }
}
