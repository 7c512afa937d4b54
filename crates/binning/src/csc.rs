//! The sparse matrix from pixels to bins, stored by pixel, and its parallel construction.

use rayon::prelude::*;

/// Pixels that one thread works on at a time.
const PIXELS_PER_BLOCK: usize = 1 << 15;

/// Which share of each pixel falls in which bin: compressed sparse columns, a column a pixel.
///
/// The entries of pixel `p` (row-major in the frame) are `starts[p]..starts[p + 1]` of `bin_count` and `weights`, bins
/// rising. Masked pixels and pixels outside the range have none. Weights are positive and add up to at most 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Csc {
    /// Where each pixel's entries begin; one more than there are pixels.
    pub starts: Vec<u64>,
    /// The bin of each entry, less than `nbins`.
    pub bins: Vec<u32>,
    /// The share of the pixel, in (0, 1].
    pub weights: Vec<f32>,
    /// The number of bins.
    pub nbins: usize,
}

impl Csc {
    /// The number of pixels, masked ones included.
    pub fn pixel_count(&self) -> usize {
        self.starts.len() - 1
    }

    /// The bins and weights of one pixel.
    pub fn entries_of_pixel(&self, pixel: usize) -> (&[u32], &[f32]) {
        let range = self.starts[pixel] as usize..self.starts[pixel + 1] as usize;
        (&self.bins[range.clone()], &self.weights[range])
    }

    /// Asks `fill` for the entries of each pixel, a block of pixels a thread, each with `Room` of its own to work in.
    /// The result does not depend on the number of threads.
    pub(crate) fn build<Room: Default>(
        pixels: usize,
        nbins: usize,
        fill: impl Fn(usize, &mut Room, &mut CscBlock) + Sync,
    ) -> Self {
        let mut starts = vec![0; pixels + 1];
        let blocks: Vec<CscBlock> = starts[1..]
            .par_chunks_mut(PIXELS_PER_BLOCK)
            .enumerate()
            .map(|(block, ends)| {
                let mut room = Room::default();
                let mut entries = CscBlock::with_capacity(2 * ends.len());
                for (i, end) in ends.iter_mut().enumerate() {
                    fill(block * PIXELS_PER_BLOCK + i, &mut room, &mut entries);
                    *end = entries.bins.len() as u64;
                }
                entries
            })
            .collect();
        Self::join(starts, blocks, nbins)
    }

    /// Joins the blocks, whose `starts` still count from the beginning of each.
    fn join(mut starts: Vec<u64>, blocks: Vec<CscBlock>, nbins: usize) -> Self {
        let total = blocks.iter().map(|block| block.bins.len()).sum();
        let (mut bins, mut weights) = (Vec::with_capacity(total), Vec::with_capacity(total));
        for (ends, block) in starts[1..].chunks_mut(PIXELS_PER_BLOCK).zip(blocks) {
            let before = bins.len() as u64;
            ends.iter_mut().for_each(|end| *end += before);
            bins.extend_from_slice(&block.bins);
            weights.extend_from_slice(&block.weights);
        }
        Self { starts, bins, weights, nbins }
    }
}

/// The entries of a block of pixels in the making.
#[derive(Debug, Default)]
pub(crate) struct CscBlock {
    bins: Vec<u32>,
    weights: Vec<f32>,
}

impl CscBlock {
    fn with_capacity(entries: usize) -> Self {
        Self { bins: Vec::with_capacity(entries), weights: Vec::with_capacity(entries) }
    }

    /// Adds a share of the current pixel, unless nothing of it is left in an f32.
    #[inline]
    pub fn push(&mut self, bin: usize, share: f64) {
        let weight = share as f32;
        if weight > 0.0 {
            self.bins.push(bin as u32);
            self.weights.push(weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_join_in_the_order_of_the_pixels() {
        let pixels = 2 * PIXELS_PER_BLOCK + 17;
        let matrix = Csc::build(pixels, 1000, |pixel, (): &mut (), entries| {
            for bin in 0..pixel % 4 {
                entries.push(pixel % 900 + bin, 0.25);
            }
        });
        assert_eq!(matrix.pixel_count(), pixels);
        for pixel in [0, 1, 3, PIXELS_PER_BLOCK - 1, PIXELS_PER_BLOCK, PIXELS_PER_BLOCK + 1, pixels - 1] {
            let (bins, weights) = matrix.entries_of_pixel(pixel);
            let expected: Vec<u32> = (0..pixel % 4).map(|bin| (pixel % 900 + bin) as u32).collect();
            assert_eq!(bins, expected, "{pixel}");
            assert_eq!(weights.len(), pixel % 4);
        }
        assert_eq!(matrix.starts[pixels] as usize, matrix.bins.len());
    }

    #[test]
    fn no_entry_without_weight() {
        let matrix = Csc::build(1, 4, |_, (): &mut (), entries| {
            entries.push(0, 1e-60);
            entries.push(1, -1e-18);
            entries.push(2, 1.0);
        });
        assert_eq!(matrix.entries_of_pixel(0), (&[2][..], &[1.0][..]));
    }
}
