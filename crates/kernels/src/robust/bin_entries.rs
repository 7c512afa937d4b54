//! The matrix entries of one bin, which are the same for all frames.

use std::cmp::Ordering;
use std::sync::OnceLock;

use super::BinSums;
use super::quantile::PixelTerm;
use crate::dead_time::DeadTime;

/// Norms that are positive and far from the limits of f32.
pub(super) const F32_NORMS: std::ops::RangeInclusive<f64> = 1e-30..=1e30;

/// The entries of a bin, in the order of the frame. All lists have the same length.
#[derive(Clone, Copy)]
pub(crate) struct BinEntries<'a> {
    /// Index of each pixel in the frame.
    pub(crate) pixels: &'a [u32],
    /// w; `None` if all weights are 1.
    pub(crate) weights: Option<&'a [f32]>,
    /// n.
    pub(crate) norms: &'a [f64],
    /// Dark counts; `None` without a dark frame.
    pub(crate) dark: Option<&'a [f64]>,
    pub(crate) variance: PixelVariance<'a>,
    /// The dead time that counts are corrected for.
    pub(crate) dead_time: DeadTime,
    /// `None` unless quantiles are asked for, and if pixels of 0 have no order that is that of each
    /// frame.
    pub(crate) zero_order: Option<&'a EntryOrder>,
    /// `None` unless a median is asked for, and if its pixels can't be bracketed in f32.
    pub(crate) count_order: Option<&'a EntryOrder>,
    /// The pixels of the bin that are left out here, or have a weight of 0 for clipping; `None` if
    /// there are none.
    pub(super) left_out: Option<LeftOut<'a>>,
    /// The sums of the weights if all pixels are valid; signal and variance are 0. The plan's
    /// weights are more exact than sums over the lists here, and equal for all frames.
    pub(crate) full_sums: BinSums,
}

/// Pixels of a bin that are left out of its entries.
#[derive(Clone, Copy)]
pub(super) struct LeftOut<'a> {
    /// The bin with all its pixels.
    pub(super) whole: &'a BinEntries<'a>,
    /// Their entries in the whole bin, ascending.
    pub(super) entries: &'a [u32],
}

/// The entries of a bin in the order that its pixels have if they are all 0, or all the same count
/// above; computed when it is first needed. Empty if pixels of 0 are not the lowest, because a norm is
/// negative.
#[derive(Default)]
pub(crate) struct EntryOrder(OnceLock<Vec<u32>>);

/// Source of the variance v of single pixels.
#[derive(Clone, Copy)]
pub(crate) enum PixelVariance<'a> {
    /// Pixels have no variance of their own: the model has none, or takes the spread within a bin.
    No,
    /// The [variance](DeadTime::poisson_variance) of photon counts: without dead time v = max(raw, 1).
    Counts,
    /// Given variances, as w² v of each entry.
    Given(&'a [f64]),
}

impl BinEntries<'_> {
    /// Returns the entry of a pixel.
    #[inline(always)]
    pub(super) fn entry_of(&self, pixel: u32) -> Option<usize> {
        self.pixels.binary_search(&pixel).ok()
    }

    /// Returns w of an entry.
    #[inline(always)]
    pub(super) fn weight(&self, entry: usize) -> f64 {
        self.weights.map_or(1., |weight| f64::from(weight[entry]))
    }

    /// Returns w s of an entry. A missing weight list counts as 1 and a missing dark as 0, which
    /// changes no bit.
    #[inline(always)]
    pub(super) fn signal(&self, entry: usize, raw: f64) -> f64 {
        self.signal_of_corrected(entry, self.corrected(raw))
    }

    /// As [`Self::signal`], of counts that are corrected for dead time.
    #[inline(always)]
    pub(super) fn signal_of_corrected(&self, entry: usize, corrected: f64) -> f64 {
        self.weight(entry) * self.dark_subtracted(entry, corrected)
    }

    /// Returns s, which is corrected counts minus dark, of an entry.
    #[inline(always)]
    pub(super) fn dark_subtracted(&self, entry: usize, corrected: f64) -> f64 {
        corrected - self.dark.map_or(0., |dark| dark[entry])
    }

    /// Returns counts corrected for dead time.
    #[inline(always)]
    pub(super) fn corrected(&self, raw: f64) -> f64 {
        if self.dead_time.is_zero() { raw } else { self.dead_time.correct(raw) }
    }

    /// Replaces the contents of `norms` by w n of all entries.
    #[inline(always)]
    pub(super) fn weighted_norms_into(&self, norms: &mut Vec<f64>) {
        norms.clear();
        norms.extend_from_slice(self.norms);
        if let Some(weight) = self.weights {
            for (norm, &w) in norms.iter_mut().zip(weight) {
                *norm *= f64::from(w);
            }
        }
    }

    /// Iterates over the entries in the order of [`super::quantile`] that their pixels have if they
    /// are 0, with their positions in that order, from a position on. There is none if such pixels
    /// are not the lowest, or have no fixed order.
    #[inline(always)]
    pub(super) fn entries_if_zero(&self, from: usize) -> impl Iterator<Item = (usize, usize)> {
        let places = self.whole().sorted_if_zero().iter().enumerate().skip(from);
        places.filter_map(|(position, &entry)| Some((position, self.entry_of_whole(entry)?)))
    }

    /// Returns the bin with all its pixels.
    #[inline(always)]
    pub(super) fn whole(&self) -> &Self {
        self.left_out.map_or(self, |left_out| left_out.whole)
    }

    /// Returns the entry that an entry of the whole bin is here; `None` if it is left out.
    #[inline(always)]
    pub(super) fn entry_of_whole(&self, entry: u32) -> Option<usize> {
        let left_out = self.left_out.map_or(&[][..], |left_out| left_out.entries);
        // The order of some entries is that of all without the others.
        let left_out_before = left_out.binary_search(&entry).err()?;
        Some(entry as usize - left_out_before)
    }

    /// Returns the entries in the order of [`super::quantile`] that their pixels have if they all have
    /// the same count above 0, where their intensities differ. No pixel may be left out.
    pub(super) fn sorted_if_equal(&self) -> &[u32] {
        self.count_order.map_or(&[], |order| {
            order.0.get_or_init(|| {
                let given = |entry: usize| match self.variance {
                    PixelVariance::Given(given) => given[entry],
                    PixelVariance::No | PixelVariance::Counts => 0.,
                };
                // Norms are positive here, so that their bits have their order: the greatest comes first.
                let norms = self.norms.iter().map(|norm| !norm.to_bits());
                let mut order: Vec<(u64, u32)> = norms.zip(0..).collect();
                order.sort_unstable();
                let keys = |entry: u32| [self.weight(entry as usize), given(entry as usize)];
                for equal in order.chunk_by_mut(|one, other| one.0 == other.0) {
                    equal.sort_by(|(_, one), (_, other)| {
                        keys(*one).partial_cmp(&keys(*other)).unwrap_or(Ordering::Equal)
                    });
                }
                order.into_iter().map(|(_, entry)| entry).collect()
            })
        })
    }

    /// Returns the entries in the order of [`super::quantile`] that their pixels have if they are 0;
    /// none if such pixels are not the lowest, or have no fixed order. No pixel may be left out.
    fn sorted_if_zero(&self) -> &[u32] {
        self.zero_order.map_or(&[], |order| {
            order.0.get_or_init(|| {
                if !self.norms.iter().all(|&norm| norm > 0.) {
                    return Vec::new();
                }
                let keys = (0..self.pixels.len()).map(|entry| self.term(entry, 0.).keys());
                let mut order: Vec<([f64; 3], u32)> = keys.zip(0..).collect();
                // The order of the frame decides among equal entries.
                order.sort_unstable_by(|(a, entry_a), (b, entry_b)| {
                    a.partial_cmp(b).unwrap_or(Ordering::Equal).then(entry_a.cmp(entry_b))
                });
                order.into_iter().map(|(_, entry)| entry).collect()
            })
        })
    }

    /// Returns the contribution of an entry to the sums of its bin.
    #[inline(always)]
    pub(super) fn term(&self, entry: usize, raw: f64) -> PixelTerm {
        PixelTerm {
            signal: self.signal(entry, raw),
            variance: self.variance(entry, raw),
            norm: self.weight(entry) * self.norms[entry],
            weight: self.weight(entry),
        }
    }

    /// Returns w² v of an entry; 0 if pixels have no variance of their own.
    #[inline(always)]
    pub(super) fn variance(&self, entry: usize, raw: f64) -> f64 {
        match self.variance {
            PixelVariance::No => 0.,
            PixelVariance::Counts => {
                let w = self.weight(entry);
                w * w * self.dead_time.poisson_variance(self.corrected(raw))
            }
            PixelVariance::Given(given) => given[entry],
        }
    }
}

/// Returns the number of pixels in the largest bin. `starts` are the index of the first entry of each
/// bin, then the number of entries.
pub(super) fn largest_bin(starts: &[usize]) -> usize {
    starts.windows(2).map(|range| range[1] - range[0]).max().unwrap_or(0)
}
