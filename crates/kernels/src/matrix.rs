//! The sparse matrix from pixels to bins, in the form and order that the kernels walk it.

use crate::order::{self, TILE};

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
    first: Vec<u32>,
    /// The weights of bins `first` and `first + 1`; zero where there is no entry. Filled up to whole tiles.
    pair: Vec<[f32; 2]>,
    /// All other entries, tile by tile, each tile in the order of summation.
    rest: Vec<Entry>,
    /// Where each tile's share of `rest` starts, and its end.
    rest_starts: Vec<usize>,
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The pixel in its tile.
    pub(crate) pixel: u16,
    pub(crate) bin: u32,
    pub(crate) weight: f32,
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
        let mut matrix = Matrix {
            nbins,
            pixels,
            first: Vec::with_capacity(pixels),
            pair: Vec::with_capacity(pixels),
            rest: Vec::new(),
            rest_starts: vec![0],
        };
        let mut beyond: Vec<Vec<Entry>> = vec![Vec::new(); TILE];
        for tile in (0..pixels).step_by(TILE) {
            let len = TILE.min(pixels - tile);
            for in_tile in 0..len {
                let range = starts[tile + in_tile] as usize..starts[tile + in_tile + 1] as usize;
                matrix.push(in_tile, &bins[range.clone()], &weights[range], &mut beyond[in_tile])?;
            }
            for in_tile in order::of_tile(len) {
                matrix.rest.append(&mut beyond[in_tile]);
            }
            matrix.rest_starts.push(matrix.rest.len());
        }
        let padded = pixels.next_multiple_of(TILE);
        matrix.first.resize(padded, matrix.first.last().copied().unwrap_or(0));
        matrix.pair.resize(padded, [0.; 2]);
        Ok(matrix)
    }

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
                _ => beyond.push(Entry { pixel: pixel_in_tile as u16, bin, weight }),
            }
        }
        self.first.push(first.or(self.first.last().copied()).unwrap_or(0));
        self.pair.push(pair);
        Ok(())
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

    /// All entries of a pixel, as bin and weight, bins rising.
    #[inline(always)]
    pub(crate) fn entries(&self, pixel: usize) -> impl Iterator<Item = (usize, f32)> {
        let first = self.first[pixel] as usize;
        let pair = self.pair[pixel].into_iter().enumerate().filter(|(_, w)| *w != 0.).map(move |(i, w)| (first + i, w));
        let (rest, in_tile) = (self.rest_of(pixel / TILE), pixel % TILE);
        let start = rest.partition_point(|e| order::rank(e.pixel as usize) < order::rank(in_tile));
        let rest = rest[start..].iter().take_while(move |e| e.pixel as usize == in_tile);
        pair.chain(rest.map(|e| (e.bin as usize, e.weight)))
    }

    /// Takes pixels out.
    pub(crate) fn drop_pixels(&mut self, unusable: impl Fn(usize) -> bool) {
        let mut rest = Vec::with_capacity(self.rest.len());
        let mut rest_starts = vec![0];
        for tile in 0..self.tiles() {
            rest.extend(self.rest_of(tile).iter().filter(|e| !unusable(tile * TILE + e.pixel as usize)));
            rest_starts.push(rest.len());
        }
        (self.rest, self.rest_starts) = (rest, rest_starts);
        for (pixel, pair) in self.pair.iter_mut().enumerate().take(self.pixels) {
            if unusable(pixel) {
                *pair = [0.; 2];
            }
        }
    }
}
