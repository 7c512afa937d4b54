//! [`UnsplitBins`], the matrix by pixel where no pixel is split.

use super::bin_entries::{F32_NORMS, largest_bin};
use super::sigma_clip::ClipRule;
use super::{Reduction, Statistic};
use crate::plan::IntegrationPlan;
use crate::summation_order::TILE;
use crate::variance_model::VarianceModel;

/// Bins with fewer pixels than this have a mean and a spread that change much from frame to frame,
/// so all their pixels are candidates.
pub(super) const SMALL_BIN: usize = 64;

/// Bins of fewer pixels than [`SMALL_BIN`] may have one in so many of all pixels.
const MAX_SMALL_BINS_DIVISOR: usize = 64;

/// The bin and the norm of each pixel, for a matrix in which each pixel is in one bin at the most,
/// with a weight of 1. Padded to whole tiles. It takes 8 bytes per pixel.
pub(crate) struct UnsplitBins {
    /// The bin of each pixel, or the number of bins for a pixel that is in none.
    bins: Vec<u32>,
    /// 1 / n of each pixel; 0 for a pixel that is in no bin.
    reciprocals: Vec<f32>,
    /// The number of pixels in the largest bin.
    largest_bin: usize,
    pub(super) rule: ClipRule,
}

impl UnsplitBins {
    /// Returns the bins of the pixels of a matrix with weights of 1 and without dark, or `None` if
    /// frames can't be clipped by tiles with it: unless it clips counts with Poisson errors, without
    /// pixel splitting and negative norms, and few pixels are in small bins.
    ///
    /// `starts` are the index of the first entry of each bin, then the number of entries; `pixels`
    /// and `norms` the pixel and n of each entry.
    pub(super) fn new(
        reduction: Reduction,
        starts: &[usize],
        pixels: &[u32],
        norms: &[f64],
        plan: &IntegrationPlan,
    ) -> Option<Self> {
        let nbins = plan.nbins();
        let Statistic::SigmaClip { threshold, max_iter: max_iter @ 1.. } = reduction.statistic
        else {
            return None;
        };
        let sizes = starts.windows(2).map(|range| range[1] - range[0]);
        let in_small_bins: usize = sizes.filter(|&size| size < SMALL_BIN).sum();
        if reduction.variance_model != VarianceModel::POISSON
            || !norms.iter().all(|norm| F32_NORMS.contains(norm))
            || in_small_bins > pixels.len() / MAX_SMALL_BINS_DIVISOR
        {
            return None;
        }
        let padded = plan.unused.len() * TILE;
        let (mut bins, mut reciprocals) = (vec![nbins as u32; padded], vec![0.; padded]);
        for bin in 0..nbins {
            let range = starts[bin]..starts[bin + 1];
            for (&pixel, norm) in pixels[range.clone()].iter().zip(&norms[range]) {
                if bins[pixel as usize] != nbins as u32 {
                    return None;
                }
                bins[pixel as usize] = bin as u32;
                reciprocals[pixel as usize] = norm.recip() as f32;
            }
        }
        let rule = ClipRule { variance_model: reduction.variance_model, threshold, max_iter };
        Some(Self { bins, reciprocals, largest_bin: largest_bin(starts), rule })
    }

    /// Returns the bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.bins) + size_of_val(&*self.reciprocals)
    }

    /// Returns the bin of a pixel.
    pub(super) fn bin(&self, pixel: u32) -> u32 {
        self.bins[pixel as usize]
    }

    /// Returns the bins and the norms of a tile's pixels.
    pub(super) fn tile(&self, tile_index: usize) -> TileBins<'_> {
        TileBins {
            tile_index,
            bins: &self.bins.as_chunks().0[tile_index],
            reciprocals: &self.reciprocals.as_chunks().0[tile_index],
            largest_bin: self.largest_bin,
        }
    }
}

/// A tile of all frames, and where its pixels belong.
#[derive(Clone, Copy)]
pub(super) struct TileBins<'a> {
    pub(super) tile_index: usize,
    /// The bin of each pixel.
    pub(super) bins: &'a [u32; TILE],
    /// 1 / n of each pixel.
    pub(super) reciprocals: &'a [f32; TILE],
    /// The number of pixels in the largest bin.
    pub(super) largest_bin: usize,
}

impl TileBins<'_> {
    /// Returns the index of a pixel of the tile in the frame.
    #[inline(always)]
    pub(super) fn pixel(self, in_tile: usize) -> u32 {
        (self.tile_index * TILE + in_tile) as u32
    }
}
