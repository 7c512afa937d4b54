//! The integration matrix in CSC layout (compressed sparse columns), and its parallel construction.

use rayon::prelude::*;

/// Number of pixels that one thread processes at a time.
const PIXELS_PER_BLOCK: usize = 1 << 15;

/// The integration matrix (bins x pixels) in CSC layout: the weight of each pixel in each bin, one
/// column per pixel.
///
/// The entries of pixel `p` (row-major in the frame) are `starts[p]..starts[p + 1]` of `bins` and
/// `weights`, in rising order of bins. Masked pixels and pixels outside the range have no entries.
/// Weights are positive; those of one pixel add up to at most 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Csc {
    /// Index of each pixel's first entry, and at the end the number of entries.
    pub starts: Vec<u64>,
    /// Bin of each entry, less than `nbins`.
    pub bins: Vec<u32>,
    /// Weight of each entry, in (0, 1].
    pub weights: Vec<f32>,
    /// Number of bins.
    pub nbins: usize,
}

impl Csc {
    /// Returns the number of pixels, including masked ones.
    pub fn pixel_count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the bins and the weights of one pixel.
    pub fn entries_of_pixel(&self, pixel: usize) -> (&[u32], &[f32]) {
        let range = self.starts[pixel] as usize..self.starts[pixel + 1] as usize;
        (&self.bins[range.clone()], &self.weights[range])
    }

    /// Builds the matrix in parallel: `fill(pixel, scratch, entries)` adds the entries of one
    /// pixel. Each block of pixels has a `Scratch` of its own. The result does not depend on the
    /// number of threads.
    pub(crate) fn build<Scratch: Default>(
        pixels: usize,
        nbins: usize,
        fill: impl Fn(usize, &mut Scratch, &mut CscBlock) + Sync,
    ) -> Self {
        let mut starts = vec![0; pixels + 1];
        let blocks: Vec<CscBlock> = starts[1..]
            .par_chunks_mut(PIXELS_PER_BLOCK)
            .enumerate()
            .map(|(block, ends)| {
                let mut scratch = Scratch::default();
                let mut entries = CscBlock::with_capacity(2 * ends.len());
                for (i, end) in ends.iter_mut().enumerate() {
                    fill(block * PIXELS_PER_BLOCK + i, &mut scratch, &mut entries);
                    *end = entries.bins.len() as u64;
                }
                entries
            })
            .collect();
        Self::concatenate(starts, blocks, nbins)
    }

    /// Concatenates the blocks. `starts` counts from the beginning of each block on entry.
    fn concatenate(mut starts: Vec<u64>, blocks: Vec<CscBlock>, nbins: usize) -> Self {
        let total = blocks.iter().map(|block| block.bins.len()).sum();
        let (mut bins, mut weights) = (Vec::with_capacity(total), Vec::with_capacity(total));
        for (ends, block) in starts[1..].chunks_mut(PIXELS_PER_BLOCK).zip(blocks) {
            let offset = bins.len() as u64;
            ends.iter_mut().for_each(|end| *end += offset);
            bins.extend_from_slice(&block.bins);
            weights.extend_from_slice(&block.weights);
        }
        Self { starts, bins, weights, nbins }
    }
}

/// The entries of a block of pixels.
#[derive(Debug, Default)]
pub(crate) struct CscBlock {
    bins: Vec<u32>,
    weights: Vec<f32>,
}

impl CscBlock {
    fn with_capacity(entries: usize) -> Self {
        Self { bins: Vec::with_capacity(entries), weights: Vec::with_capacity(entries) }
    }

    /// Adds an entry of the current pixel, unless its weight is zero or negative once rounded to
    /// f32.
    #[inline]
    pub fn push(&mut self, bin: usize, weight: f64) {
        let weight = weight as f32;
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
    fn blocks_are_concatenated_in_the_order_of_pixels() {
        let pixels = 2 * PIXELS_PER_BLOCK + 17;
        let matrix = Csc::build(pixels, 1000, |pixel, (): &mut (), entries| {
            for bin in 0..pixel % 4 {
                entries.push(pixel % 900 + bin, 0.25);
            }
        });
        assert_eq!(matrix.pixel_count(), pixels);
        for pixel in
            [0, 1, 3, PIXELS_PER_BLOCK - 1, PIXELS_PER_BLOCK, PIXELS_PER_BLOCK + 1, pixels - 1]
        {
            let (bins, weights) = matrix.entries_of_pixel(pixel);
            let expected: Vec<u32> = (0..pixel % 4).map(|bin| (pixel % 900 + bin) as u32).collect();
            assert_eq!(bins, expected, "{pixel}");
            assert_eq!(weights.len(), pixel % 4);
        }
        assert_eq!(matrix.starts[pixels] as usize, matrix.bins.len());
    }

    #[test]
    fn entries_without_weight_are_dropped() {
        let matrix = Csc::build(1, 4, |_, (): &mut (), entries| {
            entries.push(0, 1e-60);
            entries.push(1, -1e-18);
            entries.push(2, 1.0);
        });
        assert_eq!(matrix.entries_of_pixel(0), (&[2][..], &[1.0][..]));
    }
}
