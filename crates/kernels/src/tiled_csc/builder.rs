//! [`TiledCscBuilder`], which makes a [`TiledCsc`] from the columns of its pixels.

use std::iter;
use std::ops::Range;

use super::column_writer::{BlockExtra, ColumnWriter};
use super::{MatrixError, TiledCsc};
use crate::summation_order::TILE;

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

impl<'a> MatrixBlock<'a> {
    /// Returns the pixels of the block.
    pub fn pixels(&self) -> Range<usize> {
        self.pixels.clone()
    }

    /// Sets the columns of all pixels of the block, each with a pair: its first bin, and the weights
    /// of that bin and the next. `extra` has the other entries as (pixel of the block, bin, weight),
    /// in rising order of pixels, and of the bins of each, which are above those of its pair. Bins
    /// are below the number of bins; a weight is the fraction of the pixel in the bin. Entries of
    /// weight zero are dropped.
    ///
    /// # Errors
    /// Arrays that are not of this form, or a weight that is negative or not finite.
    pub fn fill(
        self,
        first_bins: &[u32],
        pair_weights: &[[f32; 2]],
        extra: &[(u32, u32, f32)],
    ) -> Result<BlockExtra, MatrixError> {
        let (start, pixels) = (self.pixels.start, self.pixels.len());
        if first_bins.len() != pixels || pair_weights.len() != pixels {
            let (first_bins, pair_weights) = (first_bins.len(), pair_weights.len());
            return Err(MatrixError::Pairs { first_bins, pair_weights, pixels });
        }
        let mut writer = self.into_writer();
        let mut extra = extra.iter().peekable();
        for (&first, &pair) in first_bins.iter().zip(pair_weights) {
            let pixel = writer.index as u32;
            let mut others = iter::from_fn(|| extra.next_if(|entry| entry.0 == pixel))
                .map(|&(_, bin, weight)| (bin, weight));
            if writer.is_pair(first, pair) {
                writer.write_paired(first, pair, &mut others)?;
            } else {
                // No weight in the first bin, or one that is refused.
                let pair = [(first, pair[0]), (first.saturating_add(1), pair[1])];
                let pair = pair.into_iter().filter(|entry| entry.1 != 0.);
                writer.write_column(pair.chain(others))?;
            }
        }
        match extra.next() {
            None => Ok(writer.finish()),
            Some(&(pixel, _, _)) => Err(MatrixError::ExtraPixel { pixel: start + pixel as usize }),
        }
    }

    fn into_writer(self) -> ColumnWriter<'a> {
        ColumnWriter::new(self.nbins, self.pixels.start, self.first_bin, self.pair_weights)
    }

    /// Sets the columns of all pixels of the block, in CSC form: the entries of its pixel `i` are
    /// `starts[i]..starts[i + 1]`; otherwise as [`MatrixBlock::fill`].
    ///
    /// # Errors
    /// As of [`MatrixBlock::fill`].
    pub(super) fn fill_csc(
        self,
        starts: &[u64],
        bins: &[u32],
        weights: &[f32],
    ) -> Result<BlockExtra, MatrixError> {
        check_shape(self.pixels.len(), starts, bins, weights)?;
        let mut writer = self.into_writer();
        for range in starts.windows(2) {
            let range = range[0] as usize..range[1] as usize;
            let entries = bins[range.clone()].iter().zip(&weights[range]);
            writer.write_column(entries.map(|(&bin, &weight)| (bin, weight)))?;
        }
        Ok(writer.finish())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiled_csc::ExtraEntry;

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
                    block.fill_csc(&starts, &bins, &weights).unwrap()
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

    type Pairs = (Vec<u32>, Vec<[f32; 2]>, Vec<(u32, u32, f32)>);

    /// Converts columns to paired form.
    fn to_pairs((starts, bins, weights): &(Vec<u64>, Vec<u32>, Vec<f32>)) -> Pairs {
        let (mut first_bins, mut pairs, mut extra) = (Vec::new(), Vec::new(), Vec::new());
        for (pixel, range) in starts.windows(2).enumerate() {
            let range = range[0] as usize..range[1] as usize;
            let first = bins[range.clone()].first().copied().unwrap_or(0);
            let mut pair = [0.; 2];
            for (&bin, &weight) in bins[range.clone()].iter().zip(&weights[range]) {
                match bin - first {
                    offset @ 0..=1 => pair[offset as usize] = weight,
                    _ => extra.push((pixel as u32, bin, weight)),
                }
            }
            first_bins.push(first);
            pairs.push(pair);
        }
        (first_bins, pairs, extra)
    }

    #[test]
    fn paired_columns_make_the_matrix_of_csc_columns() {
        let (starts, bins, mut weights) = columns(0..PIXELS);
        // Some pairs have no first weight, some no second, and some extra entries none.
        weights.iter_mut().step_by(11).for_each(|weight| *weight = 0.);
        let whole = TiledCsc::new(&starts, &bins, &weights, NBINS).unwrap();
        let mut builder = TiledCscBuilder::new(PIXELS, NBINS).unwrap();
        let (first_bins, pairs, extra) = to_pairs(&(starts, bins, weights));
        let filled: Vec<_> = builder
            .blocks(2)
            .map(|block| {
                let pixels = block.pixels();
                let of_block: Vec<_> = extra
                    .iter()
                    .filter(|entry| pixels.contains(&(entry.0 as usize)))
                    .map(|&(pixel, bin, weight)| (pixel - pixels.start as u32, bin, weight))
                    .collect();
                block.fill(&first_bins[pixels.clone()], &pairs[pixels], &of_block).unwrap()
            })
            .collect();
        let built = builder.build(filled);
        for pixel in 0..PIXELS {
            let of_pixel =
                |matrix: &TiledCsc| matrix.as_slices().entries(pixel).collect::<Vec<_>>();
            assert_eq!(of_pixel(&built), of_pixel(&whole), "pixel {pixel}");
            assert_eq!(built.pair_weights[pixel], whole.pair_weights[pixel], "pixel {pixel}");
        }
        assert!(*built.extra == *whole.extra && *built.extra_starts == *whole.extra_starts);
    }

    #[test]
    fn paired_columns_are_checked() {
        let fill = |first: u32, pair: [f32; 2], extra: &[(u32, u32, f32)]| {
            let mut builder = TiledCscBuilder::new(3, 9).unwrap();
            let block = builder.blocks(1).next().unwrap();
            let pairs = [[1., 0.], pair, [1., 0.]];
            block.fill(&[8, first, 0], &pairs, extra).map(|extra| extra.entries)
        };
        let entries = [(4, 0.5), (6, 0.25)];
        let extra = entries.map(|(bin, weight)| ExtraEntry { pixel: 1, bin, weight });
        assert_eq!(
            fill(2, [0.5, 0.], &[(1, 4, 0.5), (1, 5, 0.), (1, 6, 0.25)]),
            Ok(extra.to_vec())
        );
        let bin = |bin| Err(MatrixError::Bin { pixel: 1, bin, nbins: 9 });
        assert_eq!(fill(9, [0.5, 0.], &[]), bin(9));
        assert_eq!(fill(8, [0.5, 0.5], &[]), bin(9));
        assert_eq!(fill(u32::MAX, [0.5, 0.5], &[]), bin(u32::MAX));
        assert_eq!(fill(2, [0.5, 0.], &[(1, 3, 0.5)]), bin(3));
        assert_eq!(fill(2, [0.5, 0.], &[(1, 6, 0.5), (1, 6, 0.5)]), bin(6));
        assert_eq!(fill(2, [0.5, 0.], &[(1, 9, 0.5)]), bin(9));
        for wrong in [-0.5, f32::NAN, f32::INFINITY] {
            for (pair, extra) in [([wrong, 0.5], 0.5), ([0.5, wrong], 0.5), ([0.5, 0.5], wrong)] {
                let error = fill(2, pair, &[(1, 6, extra)]).unwrap_err();
                let is_named = matches!(error, MatrixError::Weight { pixel: 1, weight } if !(weight > 0. && weight < 1.));
                assert!(is_named, "{error:?} of {pair:?} and {extra}");
            }
        }
        let pixel = |pixel| Err(MatrixError::ExtraPixel { pixel });
        assert_eq!(fill(2, [0.5, 0.], &[(3, 6, 0.5)]), pixel(3));
        assert_eq!(fill(2, [0.5, 0.], &[(1, 6, 0.5), (0, 6, 0.5)]), pixel(0));
        let mut builder = TiledCscBuilder::new(3, 9).unwrap();
        let error =
            builder.blocks(1).next().unwrap().fill(&[0; 3], &[[0.; 2]; 2], &[]).unwrap_err();
        assert_eq!(error, MatrixError::Pairs { first_bins: 3, pair_weights: 2, pixels: 3 });
    }

    #[test]
    fn an_error_names_the_pixel_of_the_frame() {
        let mut builder = TiledCscBuilder::new(PIXELS, NBINS).unwrap();
        let second = builder.blocks(1).nth(1).unwrap();
        // The block's last pixel has two entries in one bin.
        let mut starts = vec![0; TILE + 1];
        starts[TILE] = 2;
        let error = second.fill_csc(&starts, &[3, 3], &[0.5, 0.5]).unwrap_err();
        assert_eq!(error, MatrixError::Bin { pixel: 2 * TILE - 1, bin: 3, nbins: NBINS });
    }

    #[test]
    #[should_panic(expected = "not all filled")]
    fn a_matrix_needs_all_blocks() {
        TiledCscBuilder::new(PIXELS, NBINS).unwrap().build([]);
    }
}
