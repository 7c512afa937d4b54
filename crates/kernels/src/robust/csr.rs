//! [`CsrMatrix`], the sparse matrix in CSR form, and the statistic to compute with it.

use super::bin_entries::{BinEntries, EntryOrder, F32_NORMS, PixelVariance, largest_bin};
use super::frame_bin_sums::FrameBinSums;
use super::rejected;
use super::unsplit_bins::UnsplitBins;
use super::{BinSums, Reduction, Statistic};
use crate::plan::IntegrationPlan;
use crate::sums::Sums;
use crate::variance_model::PixelVarianceModel;
use crate::weight_override::WeightOverride;

/// How many matrix entries ahead to prefetch. Entries gather pixels from all over the frame, so the
/// hardware prefetcher can't follow.
const PREFETCH_DISTANCE: usize = 64;

/// A plan's matrix in CSR form (entries sorted by bin), and the statistic of each bin's pixels to
/// compute with it.
///
/// It takes 12 bytes for a pixel that is not split and 32 for a pixel in two bins, without dark and
/// variance; for quantiles 4 more for each bin that a pixel is in, for medians 8 more; and 8 more where
/// frames can be clipped tile by tile.
pub struct CsrMatrix {
    pub(crate) reduction: Reduction,
    /// Index of the first entry of each bin, then the number of entries.
    pub(crate) starts: Vec<usize>,
    /// The pixel of each entry, ascending within a bin.
    pub(crate) pixels: Vec<u32>,
    /// w of each entry; empty if all weights are 1.
    pub(crate) weights: Vec<f32>,
    /// n of the pixel of each entry.
    pub(crate) norms: Vec<f64>,
    /// Dark counts of the pixel of each entry; empty without a dark frame.
    pub(crate) dark: Vec<f64>,
    /// w² v of each entry; empty unless variances are given.
    pub(crate) variance: Vec<f64>,
    /// The order of each bin's pixels without a photon; empty unless the statistic needs it. A dark
    /// frame tells such pixels apart.
    zero_orders: Vec<EntryOrder>,
    /// The order of each bin's pixels of one count; empty unless a median is asked for that can be
    /// bracketed in f32.
    count_orders: Vec<EntryOrder>,
    /// True if quantiles can be bracketed in f32: all n are in [`F32_NORMS`], and there is no dark
    /// frame.
    pub(super) has_f32_quantiles: bool,
    /// The matrix by pixel, if frames can be clipped tile by tile.
    pub(super) unsplit: Option<UnsplitBins>,
}

impl CsrMatrix {
    /// Sorts the entries of a plan's matrix by bin. The sums get the plan's variance model.
    pub fn new(plan: &IntegrationPlan, statistic: Statistic) -> CsrMatrix {
        let nbins = plan.nbins();
        let csc = plan.matrix.as_slices();
        let (mut starts, mut has_weights) = (vec![0; nbins + 1], false);
        csc.for_each_entry(|_, bin, weight| {
            starts[bin + 1] += 1;
            has_weights |= weight != 1.;
        });
        for bin in 0..nbins {
            starts[bin + 1] += starts[bin];
        }
        let entries = starts[nbins];
        let mut pixel_of_entry = vec![0; entries];
        let mut weights = vec![0.; if has_weights { entries } else { 0 }];
        let mut next = starts.clone();
        csc.for_each_entry(|pixel, bin, weight| {
            let entry = next[bin];
            next[bin] += 1;
            pixel_of_entry[entry] = pixel as u32;
            if has_weights {
                weights[entry] = weight;
            }
        });
        // Gathered, and not written beside the pixels: the pages of a list per bin and array are
        // more than a TLB holds.
        let gather = |values: &[f64]| -> Vec<f64> {
            pixel_of_entry.iter().map(|&pixel| values[pixel as usize]).collect()
        };
        let norms = gather(plan.normalization());
        let dark = plan.dark().map(gather).unwrap_or_default();
        let mut variance = plan.variance().map(gather).unwrap_or_default();
        // Without weights, all are 1.
        for (variance, &weight) in variance.iter_mut().zip(&weights) {
            let w = f64::from(weight);
            *variance *= w * w;
        }
        let has_quantiles = matches!(statistic, Statistic::QuantileMean { .. });
        let zero_orders = if has_quantiles && plan.dark().is_none() { nbins } else { 0 };
        let has_f32_quantiles =
            zero_orders > 0 && norms.iter().all(|norm| F32_NORMS.contains(norm));
        let is_median = matches!(statistic, Statistic::QuantileMean { low, high } if low == high);
        let count_orders = if is_median && has_f32_quantiles { nbins } else { 0 };
        let mut matrix = CsrMatrix {
            reduction: Reduction { statistic, variance_model: plan.variance_model() },
            pixels: pixel_of_entry,
            weights,
            norms,
            dark,
            variance,
            zero_orders: (0..zero_orders).map(|_| EntryOrder::default()).collect(),
            count_orders: (0..count_orders).map(|_| EntryOrder::default()).collect(),
            has_f32_quantiles,
            unsplit: None,
            starts,
        };
        // The sums of integers have no order.
        if matrix.sums_counts(plan) {
            let CsrMatrix { reduction, starts, pixels, norms, .. } = &matrix;
            matrix.unsplit = UnsplitBins::new(*reduction, starts, pixels, norms, plan);
        }
        matrix
    }

    /// Returns true if the matrix has the bins of a plan and refers to no pixel outside of its
    /// frames.
    pub(crate) fn fits(&self, plan: &IntegrationPlan) -> bool {
        self.starts.len() == plan.nbins() + 1
            && self.pixels.iter().all(|&pixel| (pixel as usize) < plan.pixels())
    }

    /// Returns the bytes of memory that the matrix takes.
    pub fn memory_bytes(&self) -> usize {
        let reals =
            size_of_val(&*self.norms) + size_of_val(&*self.dark) + size_of_val(&*self.variance);
        reals
            + size_of_val(&*self.weights)
            + size_of_val(&*self.pixels)
            + size_of_val(&*self.starts)
            + self.unsplit.as_ref().map_or(0, UnsplitBins::memory_bytes)
            + self.bytes_of_orders(&self.zero_orders)
            + self.bytes_of_orders(&self.count_orders)
    }

    /// Returns the bytes of memory that orders of entries take once all are found.
    fn bytes_of_orders(&self, orders: &[EntryOrder]) -> usize {
        size_of_val(orders) + if orders.is_empty() { 0 } else { size_of_val(&*self.pixels) }
    }

    /// Returns how many shares (a pixel in a bin) that clipping rejects above the mean a frame may
    /// have: one in 16 of all, or 4096 if that is more. Frames with more have
    /// [`crate::RejectedPixels::TooMany`], which bounds the memory.
    pub fn max_rejected(&self) -> usize {
        rejected::max_rejected(self.pixels.len())
    }

    /// Returns the number of pixels in the largest bin.
    pub(super) fn largest_bin(&self) -> usize {
        largest_bin(&self.starts)
    }

    /// Returns true if the signal of a bin is the sum of its pixels' counts, given the plan that the
    /// matrix was made from.
    pub(super) fn sums_counts(&self, plan: &IntegrationPlan) -> bool {
        let has_integers = self.dark.is_empty() && !plan.corrects_dead_time();
        self.clips() && self.weights.is_empty() && has_integers
    }

    /// Returns true if the statistic is sigma clipping.
    pub fn clips(&self) -> bool {
        matches!(self.reduction.statistic, Statistic::SigmaClip { .. })
    }

    /// Returns true if the statistic does not sort pixels by intensity. OpenCL devices compute only
    /// such statistics.
    pub fn is_order_free(&self) -> bool {
        !matches!(self.reduction.statistic, Statistic::QuantileMean { .. })
    }

    /// Returns a frame's sums from a device's result: `nbins` signals, then variances, norms,
    /// squared norms, counts.
    pub(crate) fn sums_from_device(&self, plan: &IntegrationPlan, numbers: &[f64]) -> Sums {
        let mut lists = numbers.chunks_exact(plan.nbins().max(1)).map(<[f64]>::to_vec);
        let mut next = || lists.next().unwrap_or_default();
        let (signal, variance) = (next(), next());
        let weights = WeightOverride { norm: next(), norm_sq: next(), count: next() };
        FrameBinSums { signal, variance, weights }.into_sums(
            self.reduction.variance_model,
            plan,
            None,
        )
    }

    /// Returns the pixels of all entries from the first one of a bin on, including those of the
    /// bins that follow.
    pub(super) fn pixels_from_bin(&self, bin: usize) -> PixelsFromBin<'_> {
        PixelsFromBin(&self.pixels[self.starts[bin]..])
    }

    /// Returns the pixels that a bin has, with their weights and norms.
    pub(super) fn entries_of_bin(&self, bin: usize, plan: &IntegrationPlan) -> BinEntries<'_> {
        let range = self.starts[bin]..self.starts[bin + 1];
        BinEntries {
            pixels: &self.pixels[range.clone()],
            weights: (!self.weights.is_empty()).then(|| &self.weights[range.clone()]),
            norms: &self.norms[range.clone()],
            dark: (!self.dark.is_empty()).then(|| &self.dark[range.clone()]),
            variance: match self.reduction.variance_model.pixel {
                PixelVarianceModel::None => PixelVariance::No,
                PixelVarianceModel::Counts => PixelVariance::Counts,
                PixelVarianceModel::Given => PixelVariance::Given(&self.variance[range]),
            },
            dead_time: plan.dead_time(),
            zero_order: self.zero_orders.get(bin),
            count_order: self.count_orders.get(bin),
            left_out: None,
            full_sums: BinSums {
                signal: 0.,
                variance: 0.,
                norm: plan.norm()[bin],
                norm_sq: plan.norm_sq()[bin],
                count: plan.count()[bin],
            },
        }
    }
}

/// The pixels of all entries from the first one of a bin on.
#[derive(Clone, Copy)]
pub(super) struct PixelsFromBin<'a>(&'a [u32]);

impl PixelsFromBin<'_> {
    /// Returns the pixel of an entry.
    #[inline(always)]
    pub(super) fn pixel(self, entry: usize) -> usize {
        self.0[entry] as usize
    }

    /// Returns the pixel that is to be prefetched when an entry is read.
    #[inline(always)]
    pub(super) fn pixel_ahead(self, entry: usize) -> usize {
        self.0[(entry + PREFETCH_DISTANCE).min(self.0.len() - 1)] as usize
    }
}
