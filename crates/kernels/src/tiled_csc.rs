//! The sparse matrix from pixels to bins, in the form and order that the kernels walk it.

use std::io::{self, Write};

use crate::sections::{self, SectionError, SectionReader, SharedArray};
use crate::summation_order::{self, TILE};

/// What is wrong with a matrix.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum MatrixError {
    #[error("matrix: {starts} starts for {bins} bins and {weights} weights: expected rising from 0 to their number")]
    Shape { starts: usize, bins: usize, weights: usize },
    #[error("matrix: pixel {pixel}: bin {bin}: expected rising bins below {nbins}")]
    Bin { pixel: usize, bin: u32, nbins: usize },
    #[error("matrix: pixel {pixel}: weight {weight}: expected a finite number, not negative")]
    Weight { pixel: usize, weight: f32 },
    #[error("matrix: {nbins} bins for {pixels} pixels: expected 1 to 2^31 bins, less than 2^32 pixels")]
    Size { nbins: usize, pixels: usize },
}

/// A sparse matrix by pixel, compact: a pixel's *pair* is its first bin and the weights of that bin and the next; the
/// few entries beyond (large pixels, narrow bins, two-dimensional bins) stand in a list a tile.
///
/// 12 bytes a pixel. The order of entries is that of [`crate::summation_order`].
#[derive(Clone, Debug)]
pub struct TiledCsc {
    nbins: usize,
    pixels: usize,
    /// The first bin of each pixel, below `nbins`; for a pixel without entries that of the pixel before, which is in
    /// the cache. Filled up to whole tiles.
    first_bin: SharedArray<u32>,
    /// The weights of bins `first` and `first + 1`; zero where there is no entry. Filled up to whole tiles.
    pair_weights: SharedArray<[f32; 2]>,
    /// All other entries, tile by tile, each tile in the order of summation.
    extra: SharedArray<ExtraEntry>,
    /// Where each tile's share of `rest` starts, and its end.
    extra_starts: SharedArray<usize>,
}

/// The columns of a tile's pixels.
#[derive(Clone, Copy)]
pub(crate) struct CscTile<'a> {
    /// First bins.
    pub(crate) first_bin: &'a [u32; TILE],
    /// Weights of the first bin and the next.
    pub(crate) pair_weights: &'a [[f32; 2]; TILE],
    /// All entries beyond, in the order of summation.
    pub(crate) extra: &'a [ExtraEntry],
}

/// An entry of the matrix beyond a pixel's pair.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct ExtraEntry {
    /// The pixel in its tile.
    pub(crate) pixel: u32,
    pub(crate) bin: u32,
    pub(crate) weight: f32,
}

/// A matrix in the making.
struct TiledCscBuilder {
    nbins: usize,
    first_bin: Vec<u32>,
    pair_weights: Vec<[f32; 2]>,
}

impl TiledCscBuilder {
    /// Appends a pixel: its pair to the columns, what is left to `beyond`.
    fn push(
        &mut self,
        pixel_in_tile: usize,
        bins: &[u32],
        weights: &[f32],
        beyond: &mut Vec<ExtraEntry>,
    ) -> Result<(), MatrixError> {
        let pixel = self.first_bin.len();
        let mut first = None;
        let mut pair = [0.; 2];
        let mut last = None;
        for (&bin, &weight) in bins.iter().zip(weights) {
            if bin as usize >= self.nbins || last >= Some(bin) {
                return Err(MatrixError::Bin { pixel, bin, nbins: self.nbins });
            }
            if !weight.is_finite() || weight < 0. {
                return Err(MatrixError::Weight { pixel, weight });
            }
            last = Some(bin);
            if weight == 0. {
                continue;
            }
            match bin - *first.get_or_insert(bin) {
                offset @ 0..=1 => pair[offset as usize] = weight,
                _ => beyond.push(ExtraEntry { pixel: pixel_in_tile as u32, bin, weight }),
            }
        }
        self.first_bin.push(first.or(self.first_bin.last().copied()).unwrap_or(0));
        self.pair_weights.push(pair);
        Ok(())
    }
}

impl TiledCsc {
    /// Takes a matrix by pixel: the entries of pixel `p` are `starts[p]..starts[p + 1]`, their bins rising, below
    /// `nbins`; weights are shares of a pixel in a bin. Entries of weight zero are dropped.
    pub fn new(starts: &[u64], bins: &[u32], weights: &[f32], nbins: usize) -> Result<TiledCsc, MatrixError> {
        let pixels = starts.len().saturating_sub(1);
        if nbins == 0 || nbins > 1 << 31 || u32::try_from(pixels).is_err() {
            return Err(MatrixError::Size { nbins, pixels });
        }
        let whole = starts.first() == Some(&0) && starts.last() == Some(&(bins.len() as u64));
        if !whole || !starts.is_sorted() || bins.len() != weights.len() {
            return Err(MatrixError::Shape { starts: starts.len(), bins: bins.len(), weights: weights.len() });
        }
        let padded = pixels.next_multiple_of(TILE);
        let mut columns =
            TiledCscBuilder { nbins, first_bin: Vec::with_capacity(padded), pair_weights: Vec::with_capacity(padded) };
        let (mut rest, mut rest_starts) = (Vec::new(), vec![0]);
        let mut beyond: Vec<Vec<ExtraEntry>> = vec![Vec::new(); TILE];
        for tile in (0..pixels).step_by(TILE) {
            let len = TILE.min(pixels - tile);
            for in_tile in 0..len {
                let range = starts[tile + in_tile] as usize..starts[tile + in_tile + 1] as usize;
                columns.push(in_tile, &bins[range.clone()], &weights[range], &mut beyond[in_tile])?;
            }
            for in_tile in summation_order::pixels_of_tile(len) {
                rest.append(&mut beyond[in_tile]);
            }
            rest_starts.push(rest.len());
        }
        let TiledCscBuilder { mut first_bin, mut pair_weights, .. } = columns;
        first_bin.resize(padded, first_bin.last().copied().unwrap_or(0));
        pair_weights.resize(padded, [0.; 2]);
        let (first, pair, rest, rest_starts) = (first_bin.into(), pair_weights.into(), rest.into(), rest_starts.into());
        Ok(TiledCsc { nbins, pixels, first_bin: first, pair_weights: pair, extra: rest, extra_starts: rest_starts })
    }

    /// Bytes of its arrays.
    pub(crate) fn memory_bytes(&self) -> usize {
        let columns = size_of_val(&*self.first_bin) + size_of_val(&*self.pair_weights);
        columns + size_of_val(&*self.extra) + size_of_val(&*self.extra_starts)
    }

    /// How many bins.
    pub fn nbins(&self) -> usize {
        self.nbins
    }

    /// How many pixels a frame has.
    pub fn pixels(&self) -> usize {
        self.pixels
    }

    /// The columns of a tile; beyond the frame's last pixel they have no entries.
    pub(crate) fn tile(&self, tile: usize) -> CscTile<'_> {
        let start = tile * TILE;
        CscTile {
            first_bin: self.first_bin[start..].first_chunk().expect("columns are filled up to whole tiles"),
            pair_weights: self.pair_weights[start..].first_chunk().expect("columns are filled up to whole tiles"),
            extra: self.extra_of_tile(tile),
        }
    }

    /// How many tiles a frame has.
    pub(crate) fn tile_count(&self) -> usize {
        self.extra_starts.len() - 1
    }

    /// The entries of a tile beyond the pairs.
    fn extra_of_tile(&self, tile: usize) -> &[ExtraEntry] {
        &self.extra[self.extra_starts[tile]..self.extra_starts[tile + 1]]
    }

    /// Whether the pixel has entries.
    pub(crate) fn has_entries(&self, pixel: usize) -> bool {
        // Without an entry in its first bin a pixel has none at all.
        self.pair_weights[pixel][0] != 0.
    }

    /// The matrix as plain arrays.
    pub(crate) fn as_slices(&self) -> TiledCscRef<'_> {
        TiledCscRef {
            first_bin: &self.first_bin,
            pair_weights: &self.pair_weights,
            extra: &self.extra,
            extra_starts: &self.extra_starts,
        }
    }

    /// Takes pixels out.
    pub(crate) fn drop_pixels(&mut self, unusable: impl Fn(usize) -> bool) {
        if !(0..self.pixels).any(|pixel| self.has_entries(pixel) && unusable(pixel)) {
            return;
        }
        let mut rest = Vec::with_capacity(self.extra.len());
        let mut rest_starts = vec![0];
        for tile in 0..self.tile_count() {
            rest.extend(self.extra_of_tile(tile).iter().filter(|e| !unusable(tile * TILE + e.pixel as usize)));
            rest_starts.push(rest.len());
        }
        (self.extra, self.extra_starts) = (rest.into(), rest_starts.into());
        for (pixel, pair) in self.pair_weights.to_mut().iter_mut().enumerate().take(self.pixels) {
            if unusable(pixel) {
                *pair = [0.; 2];
            }
        }
    }

    /// Writes the matrix as sections, which [`TiledCsc::from_sections`] takes.
    pub(crate) fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        sections::write_section(out, &[self.nbins as u64, self.pixels as u64])?;
        sections::write_section(out, &self.first_bin)?;
        sections::write_section(out, &self.pair_weights)?;
        sections::write_section(out, &self.extra)?;
        sections::write_section(out, &self.extra_starts)
    }

    /// A matrix that stays where it lies.
    ///
    /// # Errors
    /// Sections that are not of a matrix: none of its places leads out of it.
    pub(crate) fn from_sections(reader: &mut SectionReader) -> Result<TiledCsc, SectionError> {
        let at = reader.offset();
        let wrong = |is_right: bool, what| if is_right { Ok(()) } else { Err(SectionError::new(at, what)) };
        let size = reader.read_section_of_len::<u64>(2)?;
        let (nbins, pixels) = (size[0] as usize, size[1] as usize);
        wrong((1..=1 << 31).contains(&size[0]) && u32::try_from(size[1]).is_ok(), "not the size of a matrix")?;
        let padded = pixels.next_multiple_of(TILE);
        let (first, pair) = (reader.read_section_of_len::<u32>(padded)?, reader.read_section_of_len(padded)?);
        let (rest, rest_starts) =
            (reader.read_section::<ExtraEntry>()?, reader.read_section_of_len::<usize>(padded / TILE + 1)?);
        let ends = rest_starts.first() == Some(&0) && rest_starts.last() == Some(&rest.len());
        wrong(ends && rest_starts.is_sorted(), "tiles that do not share out the entries")?;
        // One pass without an early end is several times as fast as one with it.
        let last = first.iter().fold(0, |last, &bin| last.max(bin));
        wrong((last as usize) < nbins, "a bin beyond the last")?;
        let [bin, pixel] = rest.iter().fold([0; 2], |[bin, pixel], e| [bin.max(e.bin), pixel.max(e.pixel)]);
        wrong((bin as usize) < nbins && (pixel as usize) < TILE, "an entry beyond the last bin or pixel")?;
        Ok(TiledCsc { nbins, pixels, first_bin: first, pair_weights: pair, extra: rest, extra_starts: rest_starts })
    }
}

/// A matrix as plain arrays: for whoever asks for the entries of many pixels.
#[derive(Clone, Copy)]
pub(crate) struct TiledCscRef<'a> {
    first_bin: &'a [u32],
    pair_weights: &'a [[f32; 2]],
    extra: &'a [ExtraEntry],
    extra_starts: &'a [usize],
}

impl<'a> TiledCscRef<'a> {
    /// All entries of a pixel, as bin and weight, bins rising.
    #[inline(always)]
    pub(crate) fn entries(self, pixel: usize) -> impl Iterator<Item = (usize, f32)> + 'a {
        let first = self.first_bin[pixel] as usize;
        let pair = self.pair_weights[pixel]
            .into_iter()
            .enumerate()
            .filter(|(_, w)| *w != 0.)
            .map(move |(i, w)| (first + i, w));
        let (tile, in_tile) = (pixel / TILE, pixel % TILE);
        let rest = &self.extra[self.extra_starts[tile]..self.extra_starts[tile + 1]];
        let start = rest.partition_point(|e| {
            summation_order::position_in_order(e.pixel as usize) < summation_order::position_in_order(in_tile)
        });
        let rest = rest[start..].iter().take_while(move |e| e.pixel as usize == in_tile);
        pair.chain(rest.map(|e| (e.bin as usize, e.weight)))
    }
}
