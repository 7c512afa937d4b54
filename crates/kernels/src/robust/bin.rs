//! One bin of a plan: its entries, which are the same in all frames.

use super::BinSums;
use super::quantile::Term;

/// The entries of a bin, in the order of the frame.
#[derive(Clone, Copy)]
pub(crate) struct Bin<'a> {
    /// Where its pixels are in the frame.
    pub(crate) pixel: &'a [u32],
    /// w, unless all are 1.
    pub(crate) weight: Option<&'a [f32]>,
    /// n.
    pub(crate) norm: &'a [f64],
    /// The dark counts, where there are any.
    pub(crate) dark: Option<&'a [f64]>,
    pub(crate) variance: Variance<'a>,
    /// The weights where all pixels are valid: more exact than sums made here, and those that other frames have.
    pub(crate) whole: BinSums,
}

/// The pixels' own variances.
#[derive(Clone, Copy)]
pub(crate) enum Variance<'a> {
    /// None.
    No,
    /// max(raw, 1).
    Counts,
    /// w² v of each entry.
    Given(&'a [f64]),
}

impl Bin<'_> {
    /// w of an entry.
    #[inline(always)]
    pub(super) fn weight(&self, entry: usize) -> f64 {
        self.weight.map_or(1., |weight| f64::from(weight[entry]))
    }

    /// w s of an entry. A weight of 1 and a dark of 0 change no bit.
    #[inline(always)]
    pub(super) fn signal(&self, entry: usize, raw: f64) -> f64 {
        self.weight(entry) * self.count(entry, raw)
    }

    /// s of an entry.
    #[inline(always)]
    pub(super) fn count(&self, entry: usize, raw: f64) -> f64 {
        raw - self.dark.map_or(0., |dark| dark[entry])
    }

    /// w n of all entries.
    #[inline(always)]
    pub(super) fn fill_norms(&self, norms: &mut Vec<f64>) {
        norms.clear();
        norms.extend_from_slice(self.norm);
        if let Some(weight) = self.weight {
            for (norm, &w) in norms.iter_mut().zip(weight) {
                *norm *= f64::from(w);
            }
        }
    }

    /// What an entry adds to the sums.
    #[inline(always)]
    pub(super) fn term(&self, entry: usize, raw: f64) -> Term {
        Term {
            signal: self.signal(entry, raw),
            variance: self.variance(entry, raw),
            norm: self.weight(entry) * self.norm[entry],
            weight: self.weight(entry),
        }
    }

    /// w² v of an entry; 0 where pixels have no variance of their own.
    #[inline(always)]
    pub(super) fn variance(&self, entry: usize, raw: f64) -> f64 {
        match self.variance {
            Variance::No => 0.,
            Variance::Counts => {
                let w = self.weight(entry);
                w * w * raw.max(1.)
            }
            Variance::Given(given) => given[entry],
        }
    }
}
