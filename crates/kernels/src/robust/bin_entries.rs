//! One bin of a plan: its entries, which are the same in all frames.

use super::BinSums;
use super::quantile::PixelTerm;

/// The entries of a bin, in the order of the frame.
#[derive(Clone, Copy)]
pub(crate) struct BinEntries<'a> {
    /// Where its pixels are in the frame.
    pub(crate) pixels: &'a [u32],
    /// w, unless all are 1.
    pub(crate) weights: Option<&'a [f32]>,
    /// n.
    pub(crate) norms: &'a [f64],
    /// The dark counts, where there are any.
    pub(crate) dark: Option<&'a [f64]>,
    pub(crate) variance: PixelVariance<'a>,
    /// The weights where all pixels are valid: more exact than sums made here, and those that other frames have.
    pub(crate) full_sums: BinSums,
}

/// The pixels' own variances.
#[derive(Clone, Copy)]
pub(crate) enum PixelVariance<'a> {
    /// None.
    No,
    /// max(raw, 1).
    Counts,
    /// w² v of each entry.
    Given(&'a [f64]),
}

impl BinEntries<'_> {
    /// w of an entry.
    #[inline(always)]
    pub(super) fn weight(&self, entry: usize) -> f64 {
        self.weights.map_or(1., |weight| f64::from(weight[entry]))
    }

    /// w s of an entry. A weight of 1 and a dark of 0 change no bit.
    #[inline(always)]
    pub(super) fn signal(&self, entry: usize, raw: f64) -> f64 {
        self.weight(entry) * self.dark_subtracted(entry, raw)
    }

    /// s of an entry.
    #[inline(always)]
    pub(super) fn dark_subtracted(&self, entry: usize, raw: f64) -> f64 {
        raw - self.dark.map_or(0., |dark| dark[entry])
    }

    /// w n of all entries.
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

    /// What an entry adds to the sums.
    #[inline(always)]
    pub(super) fn term(&self, entry: usize, raw: f64) -> PixelTerm {
        PixelTerm {
            signal: self.signal(entry, raw),
            variance: self.variance(entry, raw),
            norm: self.weight(entry) * self.norms[entry],
            weight: self.weight(entry),
        }
    }

    /// w² v of an entry; 0 where pixels have no variance of their own.
    #[inline(always)]
    pub(super) fn variance(&self, entry: usize, raw: f64) -> f64 {
        match self.variance {
            PixelVariance::No => 0.,
            PixelVariance::Counts => {
                let w = self.weight(entry);
                w * w * raw.max(1.)
            }
            PixelVariance::Given(given) => given[entry],
        }
    }
}
