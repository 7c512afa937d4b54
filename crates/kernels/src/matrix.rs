//! The sparse matrix from pixels to bins, in the form and order that the kernels walk it.

use std::io::{self, Write};

use crate::order::{self, TILE};
use crate::sections::{self, Array, Reader, SectionError};

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
/// 12 bytes a pixel. The order of entries is that of [`crate::order`].
#[derive(Clone, Debug)]
pub struct Matrix {
    nbins: usize,
    pixels: usize,
    /// The first bin of each pixel, below `nbins`; for a pixel without entries that of the pixel before, which is in
    /// the cache. Filled up to whole tiles.
    first: Array<u32>,
    /// The weights of bins `first` and `first + 1`; zero where there is no entry. Filled up to whole tiles.
    pair: Array<[f32; 2]>,
    /// All other entries, tile by tile, each tile in the order of summation.
    rest: Array<Entry>,
    /// Where each tile's share of `rest` starts, and its end.
    rest_starts: Array<usize>,
}

/// The columns of a tile's pixels.
#[derive(Clone, Copy)]
pub(crate) struct Tile<'a> {
    /// First bins.
    pub(crate) first: &'a [u32; TILE],
    /// Weights of the first bin and the next.
    pub(crate) pair: &'a [[f32; 2]; TILE],
    /// All entries beyond, in the order of summation.
    pub(crate) rest: &'a [Entry],
}

/// An entry of the matrix beyond a pixel's pair.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct Entry {
    /// The pixel in its tile.
    pub(crate) pixel: u32,
    pub(crate) bin: u32,
    pub(crate) weight: f32,
}

/// A matrix in the making.
struct Columns {
    nbins: usize,
    first: Vec<u32>,
    pair: Vec<[f32; 2]>,
}

impl Columns {
    /// Appends a pixel: its pair to the columns, what is left to `beyond`.
    fn push(
        &mut self,
        pixel_in_tile: usize,
        bins: &[u32],
        weights: &[f32],
        beyond: &mut Vec<Entry>,
    ) -> Result<(), MatrixError> {
        let pixel = self.first.len();
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
                _ => beyond.push(Entry { pixel: pixel_in_tile as u32, bin, weight }),
            }
        }
        self.first.push(first.or(self.first.last().copied()).unwrap_or(0));
        self.pair.push(pair);
        Ok(())
    }
}

impl Matrix {
    /// Takes a matrix by pixel: the entries of pixel `p` are `starts[p]..starts[p + 1]`, their bins rising, below
    /// `nbins`; weights are shares of a pixel in a bin. Entries of weight zero are dropped.
    pub fn new(starts: &[u64], bins: &[u32], weights: &[f32], nbins: usize) -> Result<Matrix, MatrixError> {
        let pixels = starts.len().saturating_sub(1);
        if nbins == 0 || nbins > 1 << 31 || u32::try_from(pixels).is_err() {
            return Err(MatrixError::Size { nbins, pixels });
        }
        let whole = starts.first() == Some(&0) && starts.last() == Some(&(bins.len() as u64));
        if !whole || !starts.is_sorted() || bins.len() != weights.len() {
            return Err(MatrixError::Shape { starts: starts.len(), bins: bins.len(), weights: weights.len() });
        }
        let padded = pixels.next_multiple_of(TILE);
        let mut columns = Columns { nbins, first: Vec::with_capacity(padded), pair: Vec::with_capacity(padded) };
        let (mut rest, mut rest_starts) = (Vec::new(), vec![0]);
        let mut beyond: Vec<Vec<Entry>> = vec![Vec::new(); TILE];
        for tile in (0..pixels).step_by(TILE) {
            let len = TILE.min(pixels - tile);
            for in_tile in 0..len {
                let range = starts[tile + in_tile] as usize..starts[tile + in_tile + 1] as usize;
                columns.push(in_tile, &bins[range.clone()], &weights[range], &mut beyond[in_tile])?;
            }
            for in_tile in order::of_tile(len) {
                rest.append(&mut beyond[in_tile]);
            }
            rest_starts.push(rest.len());
        }
        let Columns { mut first, mut pair, .. } = columns;
        first.resize(padded, first.last().copied().unwrap_or(0));
        pair.resize(padded, [0.; 2]);
        let (first, pair, rest, rest_starts) = (first.into(), pair.into(), rest.into(), rest_starts.into());
        Ok(Matrix { nbins, pixels, first, pair, rest, rest_starts })
    }

    /// Bytes of its arrays.
    pub(crate) fn bytes(&self) -> usize {
        let columns = size_of_val(&*self.first) + size_of_val(&*self.pair);
        columns + size_of_val(&*self.rest) + size_of_val(&*self.rest_starts)
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
    pub(crate) fn tile(&self, tile: usize) -> Tile<'_> {
        let start = tile * TILE;
        Tile {
            first: self.first[start..].first_chunk().expect("columns are filled up to whole tiles"),
            pair: self.pair[start..].first_chunk().expect("columns are filled up to whole tiles"),
            rest: self.rest_of(tile),
        }
    }

    /// How many tiles a frame has.
    pub(crate) fn tiles(&self) -> usize {
        self.rest_starts.len() - 1
    }

    /// The entries of a tile beyond the pairs.
    fn rest_of(&self, tile: usize) -> &[Entry] {
        &self.rest[self.rest_starts[tile]..self.rest_starts[tile + 1]]
    }

    /// Whether the pixel has entries.
    pub(crate) fn has_entries(&self, pixel: usize) -> bool {
        // Without an entry in its first bin a pixel has none at all.
        self.pair[pixel][0] != 0.
    }

    /// The matrix as plain arrays.
    pub(crate) fn view(&self) -> View<'_> {
        View { first: &self.first, pair: &self.pair, rest: &self.rest, rest_starts: &self.rest_starts }
    }

    /// Takes pixels out.
    pub(crate) fn drop_pixels(&mut self, unusable: impl Fn(usize) -> bool) {
        if !(0..self.pixels).any(|pixel| self.has_entries(pixel) && unusable(pixel)) {
            return;
        }
        let mut rest = Vec::with_capacity(self.rest.len());
        let mut rest_starts = vec![0];
        for tile in 0..self.tiles() {
            rest.extend(self.rest_of(tile).iter().filter(|e| !unusable(tile * TILE + e.pixel as usize)));
            rest_starts.push(rest.len());
        }
        (self.rest, self.rest_starts) = (rest.into(), rest_starts.into());
        for (pixel, pair) in self.pair.make_own().iter_mut().enumerate().take(self.pixels) {
            if unusable(pixel) {
                *pair = [0.; 2];
            }
        }
    }

    /// Writes the matrix as sections, which [`Matrix::from_sections`] takes.
    pub(crate) fn put(&self, out: &mut impl Write) -> io::Result<()> {
        sections::put(out, &[self.nbins as u64, self.pixels as u64])?;
        sections::put(out, &self.first)?;
        sections::put(out, &self.pair)?;
        sections::put(out, &self.rest)?;
        sections::put(out, &self.rest_starts)
    }

    /// A matrix that stays where it lies.
    ///
    /// # Errors
    /// Sections that are not of a matrix: none of its places leads out of it.
    pub(crate) fn from_sections(reader: &mut Reader) -> Result<Matrix, SectionError> {
        let at = reader.at();
        let wrong = |is_right: bool, what| if is_right { Ok(()) } else { Err(SectionError::new(at, what)) };
        let size = reader.take_exactly::<u64>(2)?;
        let (nbins, pixels) = (size[0] as usize, size[1] as usize);
        wrong((1..=1 << 31).contains(&size[0]) && u32::try_from(size[1]).is_ok(), "not the size of a matrix")?;
        let padded = pixels.next_multiple_of(TILE);
        let (first, pair) = (reader.take_exactly::<u32>(padded)?, reader.take_exactly(padded)?);
        let (rest, rest_starts) = (reader.take::<Entry>()?, reader.take_exactly::<usize>(padded / TILE + 1)?);
        let ends = rest_starts.first() == Some(&0) && rest_starts.last() == Some(&rest.len());
        wrong(ends && rest_starts.is_sorted(), "tiles that do not share out the entries")?;
        // One pass without an early end is several times as fast as one with it.
        let last = first.iter().fold(0, |last, &bin| last.max(bin));
        wrong((last as usize) < nbins, "a bin beyond the last")?;
        let [bin, pixel] = rest.iter().fold([0; 2], |[bin, pixel], e| [bin.max(e.bin), pixel.max(e.pixel)]);
        wrong((bin as usize) < nbins && (pixel as usize) < TILE, "an entry beyond the last bin or pixel")?;
        Ok(Matrix { nbins, pixels, first, pair, rest, rest_starts })
    }
}

/// A matrix as plain arrays: for whoever asks for the entries of many pixels.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    first: &'a [u32],
    pair: &'a [[f32; 2]],
    rest: &'a [Entry],
    rest_starts: &'a [usize],
}

impl<'a> View<'a> {
    /// All entries of a pixel, as bin and weight, bins rising.
    #[inline(always)]
    pub(crate) fn entries(self, pixel: usize) -> impl Iterator<Item = (usize, f32)> + 'a {
        let first = self.first[pixel] as usize;
        let pair = self.pair[pixel].into_iter().enumerate().filter(|(_, w)| *w != 0.).map(move |(i, w)| (first + i, w));
        let (tile, in_tile) = (pixel / TILE, pixel % TILE);
        let rest = &self.rest[self.rest_starts[tile]..self.rest_starts[tile + 1]];
        let start = rest.partition_point(|e| order::rank(e.pixel as usize) < order::rank(in_tile));
        let rest = rest[start..].iter().take_while(move |e| e.pixel as usize == in_tile);
        pair.chain(rest.map(|e| (e.bin as usize, e.weight)))
    }
}
