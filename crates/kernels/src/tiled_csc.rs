//! [`TiledCsc`], the sparse matrix from pixels to bins, in tiled CSC form: for each pixel the first
//! bin and the weights of that bin and the next, and for each tile a list of extra entries.

mod builder;
mod column_writer;

use std::io::{self, Write};

pub use builder::{MatrixBlock, TiledCscBuilder};
pub use column_writer::BlockExtra;

use crate::sections::{self, SectionError, SectionReader, SharedArray};
use crate::summation_order::{self, TILE};

/// The error for a matrix whose columns are not valid, or too large.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum MatrixError {
    #[error(
        "matrix: {starts} column starts, {bins} bin indices and {weights} weights; \
         expected starts that rise from 0 to the number of entries, and as many weights as bin indices"
    )]
    Shape { starts: usize, bins: usize, weights: usize },
    #[error(
        "matrix: {first_bins} first bins and {pair_weights} pairs of weights for {pixels} pixels; \
         expected one of each per pixel"
    )]
    Pairs { first_bins: usize, pair_weights: usize, pixels: usize },
    #[error(
        "matrix: an extra entry of pixel {pixel} is after one of a later pixel, or not of the block; \
         expected rising pixels"
    )]
    ExtraPixel { pixel: usize },
    #[error("matrix: pixel {pixel} has an entry in bin {bin}; expected rising bins below {nbins}")]
    Bin { pixel: usize, bin: u32, nbins: usize },
    #[error(
        "matrix: pixel {pixel} has the weight {weight}; expected a finite number, not negative"
    )]
    Weight { pixel: usize, weight: f32 },
    #[error(
        "matrix: {nbins} bins for {pixels} pixels; expected 1 to 2^31 bins and fewer than 2^32 pixels"
    )]
    Size { nbins: usize, pixels: usize },
}

/// The sparse matrix from pixels to bins, by pixel, in 12 bytes per pixel and 12 per extra entry.
///
/// A pixel's *pair* is its first bin and the weights of that bin and the next. The few other
/// entries (of large pixels, narrow bins, two-dimensional bins) are in one list per tile. Entries
/// are in the order of [`crate::summation_order`].
#[derive(Debug)]
pub struct TiledCsc {
    nbins: usize,
    pixels: usize,
    /// The first bin of each pixel, below `nbins`. A pixel without entries has the first bin of a
    /// pixel near it, whose accumulators are in the cache. Padded to whole tiles.
    first_bin: SharedArray<u32>,
    /// The weights of each pixel in bins `first_bin` and `first_bin + 1`; 0 if it has no entry.
    /// Padded to whole tiles.
    pair_weights: SharedArray<[f32; 2]>,
    /// All other entries, tile by tile, each tile in the order of summation.
    extra: SharedArray<ExtraEntry>,
    /// The index in `extra` at which each tile starts, and last the length of `extra`.
    extra_starts: SharedArray<usize>,
}

/// The columns of the matrix for the pixels of one tile.
#[derive(Clone, Copy)]
pub(crate) struct CscTile<'a> {
    /// The first bin of each pixel.
    pub(crate) first_bin: &'a [u32; TILE],
    /// The weights of each pixel in its first bin and the next.
    pub(crate) pair_weights: &'a [[f32; 2]; TILE],
    /// All other entries, in the order of summation.
    pub(crate) extra: &'a [ExtraEntry],
}

/// An entry of the matrix that is not in a pixel's pair.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct ExtraEntry {
    /// The pixel's index in its tile.
    pub(crate) pixel: u32,
    pub(crate) bin: u32,
    pub(crate) weight: f32,
}

impl TiledCsc {
    /// Converts a matrix in CSC form. The entries of pixel `p` are `starts[p]..starts[p + 1]`;
    /// their `bins` rise and are below `nbins`; a weight is the fraction of the pixel in the bin.
    /// Entries of weight zero are dropped.
    ///
    /// # Errors
    /// Arrays that are not of this form, a weight that is negative or not finite, or too many bins
    /// or pixels.
    pub fn new(
        starts: &[u64],
        bins: &[u32],
        weights: &[f32],
        nbins: usize,
    ) -> Result<TiledCsc, MatrixError> {
        let pixels = starts.len().saturating_sub(1);
        let mut builder = TiledCscBuilder::new(pixels, nbins)?;
        builder::check_shape(pixels, starts, bins, weights)?;
        let all_tiles = pixels.div_ceil(TILE).max(1);
        let extra: Result<Vec<BlockExtra>, MatrixError> =
            builder.blocks(all_tiles).map(|block| block.fill_csc(starts, bins, weights)).collect();
        Ok(builder.build(extra?))
    }

    /// Returns the bytes of all arrays.
    pub(crate) fn memory_bytes(&self) -> usize {
        let columns = size_of_val(&*self.first_bin) + size_of_val(&*self.pair_weights);
        columns + size_of_val(&*self.extra) + size_of_val(&*self.extra_starts)
    }

    /// Returns the number of bins.
    pub fn nbins(&self) -> usize {
        self.nbins
    }

    /// Returns the number of pixels of a frame.
    pub fn pixels(&self) -> usize {
        self.pixels
    }

    /// Returns the columns of a tile. Columns after the frame's last pixel have no entries.
    pub(crate) fn tile(&self, tile: usize) -> CscTile<'_> {
        let start = tile * TILE;
        CscTile {
            first_bin: self.first_bin[start..]
                .first_chunk()
                .expect("arrays are padded to whole tiles"),
            pair_weights: self.pair_weights[start..]
                .first_chunk()
                .expect("arrays are padded to whole tiles"),
            extra: self.extra_of_tile(tile),
        }
    }

    /// Returns the number of tiles of a frame.
    pub(crate) fn tile_count(&self) -> usize {
        self.extra_starts.len() - 1
    }

    /// Returns the entries of a tile that are not in pairs.
    fn extra_of_tile(&self, tile: usize) -> &[ExtraEntry] {
        &self.extra[self.extra_starts[tile]..self.extra_starts[tile + 1]]
    }

    /// Returns the arrays as slices.
    pub(crate) fn as_slices(&self) -> TiledCscRef<'_> {
        TiledCscRef {
            pixels: self.pixels,
            first_bin: &self.first_bin,
            pair_weights: &self.pair_weights,
            extra: &self.extra,
            extra_starts: &self.extra_starts,
        }
    }

    /// Removes the entries of the pixels for which `is_dropped` holds.
    pub(crate) fn drop_pixels(&mut self, is_dropped: impl Fn(usize) -> bool) {
        let mut pairs = self.pair_weights[..self.pixels].iter().enumerate();
        if !pairs.any(|(pixel, [first, _])| *first != 0. && is_dropped(pixel)) {
            return;
        }
        let mut extra = Vec::with_capacity(self.extra.len());
        let mut extra_starts = vec![0];
        for tile in 0..self.tile_count() {
            extra.extend(
                self.extra_of_tile(tile)
                    .iter()
                    .filter(|e| !is_dropped(tile * TILE + e.pixel as usize)),
            );
            extra_starts.push(extra.len());
        }
        (self.extra, self.extra_starts) = (extra.into(), extra_starts.into());
        for (pixel, pair) in self.pair_weights.to_mut().iter_mut().enumerate().take(self.pixels) {
            if is_dropped(pixel) {
                *pair = [0.; 2];
            }
        }
    }

    /// Writes the matrix as sections, which [`TiledCsc::from_sections`] reads.
    pub(crate) fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        sections::write_section(out, &[self.nbins as u64, self.pixels as u64])?;
        sections::write_section(out, &self.first_bin)?;
        sections::write_section(out, &self.pair_weights)?;
        sections::write_section(out, &self.extra)?;
        sections::write_section(out, &self.extra_starts)
    }

    /// Reads a matrix whose arrays stay in the reader's memory.
    ///
    /// # Errors
    /// Sections that are not a matrix, or that have bins or pixels out of range.
    pub(crate) fn from_sections(reader: &mut SectionReader) -> Result<TiledCsc, SectionError> {
        let at = reader.offset();
        let ensure =
            |is_valid: bool, what| if is_valid { Ok(()) } else { Err(SectionError::new(at, what)) };
        let size = reader.read_section_of_len::<u64>(2)?;
        let (nbins, pixels) = (size[0] as usize, size[1] as usize);
        let is_size = (1..=1 << 31).contains(&size[0]) && u32::try_from(size[1]).is_ok();
        ensure(is_size, "the matrix has no valid number of bins and pixels")?;
        let padded = pixels.next_multiple_of(TILE);
        let first_bin = reader.read_section_of_len::<u32>(padded)?;
        let pair_weights = reader.read_section_of_len(padded)?;
        let extra = reader.read_section::<ExtraEntry>()?;
        let extra_starts = reader.read_section_of_len::<usize>(padded / TILE + 1)?;
        let covers_all =
            extra_starts.first() == Some(&0) && extra_starts.last() == Some(&extra.len());
        ensure(
            covers_all && extra_starts.is_sorted(),
            "the matrix has entries that belong to no tile",
        )?;
        // A maximum over all bins is several times as fast as a search that ends at the first
        // invalid bin.
        let last = first_bin.iter().fold(0, |last, &bin| last.max(bin));
        ensure((last as usize) < nbins, "the matrix has a bin beyond the last")?;
        let [bin, pixel] =
            extra.iter().fold([0; 2], |[bin, pixel], e| [bin.max(e.bin), pixel.max(e.pixel)]);
        ensure(
            (bin as usize) < nbins && (pixel as usize) < TILE,
            "the matrix has a bin or pixel beyond the last",
        )?;
        Ok(TiledCsc { nbins, pixels, first_bin, pair_weights, extra, extra_starts })
    }
}

/// An action on each entry of a matrix: a closure, or a type whose method is inlined into a
/// [`Kernel`](crate::simd::Kernel), as a closure can't be.
pub(crate) trait EntryVisitor {
    /// Takes the weight of a pixel in a bin.
    fn visit(&mut self, pixel: usize, bin: usize, weight: f32);
}

impl<F: FnMut(usize, usize, f32)> EntryVisitor for F {
    fn visit(&mut self, pixel: usize, bin: usize, weight: f32) {
        self(pixel, bin, weight);
    }
}

/// The arrays of a [`TiledCsc`] as slices, which is faster than the shared arrays for looking up
/// many pixels.
#[derive(Clone, Copy)]
pub(crate) struct TiledCscRef<'a> {
    pixels: usize,
    first_bin: &'a [u32],
    pair_weights: &'a [[f32; 2]],
    extra: &'a [ExtraEntry],
    extra_starts: &'a [usize],
}

impl<'a> TiledCscRef<'a> {
    /// Iterates over the entries of a pixel as (bin, weight), in rising order of bins.
    #[inline(always)]
    pub(crate) fn entries(self, pixel: usize) -> impl Iterator<Item = (usize, f32)> + 'a {
        let first = self.first_bin[pixel] as usize;
        let pair = self.pair_weights[pixel]
            .into_iter()
            .enumerate()
            .filter(|(_, w)| *w != 0.)
            .map(move |(i, w)| (first + i, w));
        pair.chain(self.extra_of_pixel(pixel))
    }

    /// Iterates over the entries of a pixel that are not in its pair, as [`Self::entries`] does.
    #[inline(always)]
    pub(crate) fn extra_of_pixel(self, pixel: usize) -> impl Iterator<Item = (usize, f32)> + 'a {
        let in_tile = pixel % TILE;
        let extra = self.extra_of_tile(pixel / TILE);
        let start = extra.partition_point(|e| {
            summation_order::position_in_order(e.pixel as usize)
                < summation_order::position_in_order(in_tile)
        });
        let extra = extra[start..].iter().take_while(move |e| e.pixel as usize == in_tile);
        extra.map(|e| (e.bin as usize, e.weight))
    }

    /// Returns the first bin of each pixel, and its weights in that bin and the next.
    pub(crate) fn pairs(self) -> (&'a [u32], &'a [[f32; 2]]) {
        (&self.first_bin[..self.pixels], &self.pair_weights[..self.pixels])
    }

    /// Returns the entries of a tile that are not in pairs.
    #[inline(always)]
    pub(crate) fn extra_of_tile(self, tile: usize) -> &'a [ExtraEntry] {
        &self.extra[self.extra_starts[tile]..self.extra_starts[tile + 1]]
    }

    /// Gives all entries that are not in pairs to `visitor`, in the order in which they are stored.
    #[inline(always)]
    pub(crate) fn for_each_extra(self, visitor: &mut impl EntryVisitor) {
        for (tile, range) in self.extra_starts.windows(2).enumerate() {
            for e in &self.extra[range[0]..range[1]] {
                visitor.visit(tile * TILE + e.pixel as usize, e.bin as usize, e.weight);
            }
        }
    }

    /// Gives all entries to `visitor`, in rising order of pixels and bins. It does not search the
    /// other entries of each pixel, as [`Self::entries`] does.
    #[inline(always)]
    pub(crate) fn for_each_entry(self, mut visitor: impl EntryVisitor) {
        /// Stands for a pixel whose entries are its pair.
        const NONE: u32 = u32::MAX;
        let mut first_extra = [NONE; TILE];
        for (tile, range) in self.extra_starts.windows(2).enumerate() {
            let extra = &self.extra[range[0]..range[1]];
            for (index, e) in extra.iter().enumerate().rev() {
                first_extra[e.pixel as usize] = index as u32;
            }
            let tile_pixels = TILE.min(self.pixels.saturating_sub(tile * TILE));
            for (in_tile, first_extra) in first_extra.iter_mut().enumerate().take(tile_pixels) {
                let pixel = tile * TILE + in_tile;
                let first_bin = self.first_bin[pixel] as usize;
                for (index, weight) in self.pair_weights[pixel].into_iter().enumerate() {
                    if weight != 0. {
                        visitor.visit(pixel, first_bin + index, weight);
                    }
                }
                if *first_extra != NONE {
                    for e in &extra[*first_extra as usize..] {
                        if e.pixel as usize != in_tile {
                            break;
                        }
                        visitor.visit(pixel, e.bin as usize, e.weight);
                    }
                    *first_extra = NONE;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_are_those_of_the_matrix_that_was_given() {
        const PIXELS: usize = 2 * TILE + 300;
        const NBINS: usize = 50;
        let (mut starts, mut expected) = (vec![0], Vec::new());
        for pixel in 0..PIXELS {
            // None, some side by side, and some apart, so that there are entries beyond the pair.
            let step = 1 + pixel % 3;
            for entry in 0..pixel * 7 % 11 % 6 {
                let bin = pixel % 20 + entry * step;
                expected.push((pixel, bin, 1.0 / (1 + bin + pixel % 13) as f32));
            }
            starts.push(expected.len() as u64);
        }
        let bins: Vec<_> = expected.iter().map(|(_, bin, _)| *bin as u32).collect();
        let weights: Vec<_> = expected.iter().map(|(_, _, weight)| *weight).collect();
        let matrix = TiledCsc::new(&starts, &bins, &weights, NBINS).unwrap();
        let slices = matrix.as_slices();
        let by_pixel = (0..PIXELS)
            .flat_map(|pixel| slices.entries(pixel).map(move |(bin, w)| (pixel, bin, w)));
        assert_eq!(by_pixel.collect::<Vec<_>>(), expected);
        assert!(matrix.extra.len() > 2 * TILE, "entries beyond the pairs");
        let mut found = Vec::new();
        slices.for_each_entry(|pixel, bin, weight| found.push((pixel, bin, weight)));
        assert_eq!(found, expected);
    }
}
