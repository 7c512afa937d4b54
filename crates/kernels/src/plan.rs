//! What one recipe needs of every frame: the matrix, and all sums that do not depend on the photons.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::bitmap::Bitmap;
use crate::matrix::Matrix;
use crate::twofold::Twofold;

/// Where the errors come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorModel {
    /// No errors: [`crate::Sums::variance`] is absent.
    No,
    /// The variance of a pixel is `max(counts, 1)`, as in pyFAI, with or without a dark.
    Poisson,
    /// The spread of the pixels within a bin; only [`crate::ByBin`] finds it.
    Azimuthal,
    /// Azimuthal where outliers are looked for, Poisson in the result.
    Hybrid,
    /// The variance of a pixel is given, the same in all frames; see [`Plan::with_variance`].
    Given,
}

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} of {found} pixels: expected {expected}, as the matrix has")]
pub struct PlanError {
    what: &'static str,
    found: usize,
    expected: usize,
}

/// A matrix and the sums over its pixels, with weight w, normalization n and dark current d of a pixel:
/// norm = Σ w n, norm_sq = Σ w² n², count = Σ w, and, taken from the signal, Σ w d.
///
/// They are kept in twice the precision of a double, so that a frame's invalid pixels can be taken out exactly.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) matrix: Matrix,
    errors: ErrorModel,
    id: u64,
    /// By tile, the pixels without entries.
    pub(crate) unused: Vec<Bitmap>,
    normalization: Vec<f64>,
    dark: Option<Vec<f64>>,
    variance: Option<Vec<f64>>,
    /// Over all pixels, by bin.
    statics: Vec<Statics>,
    norm: Vec<f64>,
    norm_sq: Vec<f64>,
    count: Vec<f64>,
}

/// The sums of one bin that the photons have no part in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Statics {
    pub(crate) norm: Twofold,
    pub(crate) norm_sq: Twofold,
    pub(crate) count: Twofold,
    /// Σ w², the least Poisson variance; Σ w² v where variances are given.
    pub(crate) floor: Twofold,
    /// Σ w d.
    pub(crate) dark: Twofold,
    /// How many pixels reach into the bin.
    pub(crate) entries: u32,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Plan {
    /// A plan for frames of the matrix's pixels. `normalization` is that of each pixel (flat · solid angle ·
    /// polarization · …, without the monitor) and `dark` its dark current in counts.
    ///
    /// A pixel whose normalization is zero or not finite, or whose dark is not finite, is taken out of the matrix: as
    /// in pyFAI, it is not measured.
    pub fn new(
        matrix: Matrix,
        normalization: &[f64],
        errors: ErrorModel,
        dark: Option<&[f64]>,
    ) -> Result<Plan, PlanError> {
        Plan::build(matrix, normalization, errors, dark, None)
    }

    /// A plan whose pixels have these variances in every frame. A pixel whose variance is negative or not finite is
    /// taken out of the matrix, too.
    pub fn with_variance(
        matrix: Matrix,
        normalization: &[f64],
        variance: &[f64],
        dark: Option<&[f64]>,
    ) -> Result<Plan, PlanError> {
        Plan::build(matrix, normalization, ErrorModel::Given, dark, Some(variance))
    }

    fn build(
        mut matrix: Matrix,
        normalization: &[f64],
        errors: ErrorModel,
        dark: Option<&[f64]>,
        variance: Option<&[f64]>,
    ) -> Result<Plan, PlanError> {
        let expected = matrix.pixels();
        for (what, array) in [("normalization", Some(normalization)), ("dark", dark), ("variance", variance)] {
            if let Some(found) = array.map(<[f64]>::len).filter(|&found| found != expected) {
                return Err(PlanError { what, found, expected });
            }
        }
        matrix.drop_pixels(|p| {
            let n = normalization[p];
            let v = variance.map_or(0., |v| v[p]);
            n == 0. || !n.is_finite() || dark.is_some_and(|d| !d[p].is_finite()) || !v.is_finite() || v < 0.
        });
        let mut plan = Plan {
            statics: vec![Statics::default(); matrix.nbins()],
            unused: (0..matrix.tiles()).map(|t| Bitmap::of(|p| matrix.tile(t).pair[p][0] == 0.)).collect(),
            matrix,
            errors,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            normalization: normalization.to_vec(),
            dark: dark.map(<[f64]>::to_vec),
            variance: variance.map(<[f64]>::to_vec),
            norm: Vec::new(),
            norm_sq: Vec::new(),
            count: Vec::new(),
        };
        let mut statics = std::mem::take(&mut plan.statics);
        for pixel in 0..expected {
            plan.each_term(pixel, |bin, term| statics[bin].add(term));
        }
        plan.norm = statics.iter().map(|s| s.norm.value()).collect();
        plan.norm_sq = statics.iter().map(|s| s.norm_sq.value()).collect();
        plan.count = statics.iter().map(|s| s.count.value()).collect();
        plan.statics = statics;
        Ok(plan)
    }

    /// How many bins.
    pub fn nbins(&self) -> usize {
        self.matrix.nbins()
    }

    /// How many pixels a frame has.
    pub fn pixels(&self) -> usize {
        self.matrix.pixels()
    }

    /// The error model.
    pub fn errors(&self) -> ErrorModel {
        self.errors
    }

    /// Whether variances depend on the photons of single pixels.
    pub(crate) fn counts_variance(&self) -> bool {
        matches!(self.errors, ErrorModel::Poisson | ErrorModel::Hybrid)
    }

    /// The normalization of each pixel.
    pub(crate) fn normalization(&self) -> &[f64] {
        &self.normalization
    }

    /// The dark current of each pixel.
    pub(crate) fn dark(&self) -> Option<&[f64]> {
        self.dark.as_deref()
    }

    /// The variance of each pixel, where it is given.
    pub(crate) fn variance(&self) -> Option<&[f64]> {
        self.variance.as_deref()
    }

    /// Σ w n by bin, over all pixels.
    pub fn norm(&self) -> &[f64] {
        &self.norm
    }

    /// Σ w² n² by bin, over all pixels.
    pub fn norm_sq(&self) -> &[f64] {
        &self.norm_sq
    }

    /// Σ w by bin, over all pixels: the bins' areas in pixels.
    pub fn count(&self) -> &[f64] {
        &self.count
    }

    /// How many pixels reach into a bin.
    pub fn entries(&self) -> impl Iterator<Item = u32> {
        self.statics.iter().map(|s| s.entries)
    }

    /// Whether the pixel has entries.
    pub(crate) fn uses(&self, pixel: usize) -> bool {
        self.matrix.has_entries(pixel)
    }

    /// The sums over all pixels but these (a frame's invalid ones that have entries), which rise.
    #[inline(always)]
    pub(crate) fn statics_without(&self, invalid: &[u32]) -> Vec<Statics> {
        let mut statics = self.statics.clone();
        for &pixel in invalid {
            self.each_term(pixel as usize, |bin, term| statics[bin].subtract(term));
        }
        statics
    }

    /// A number that no other plan has, but for clones; not 0.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The sums over all pixels.
    pub(crate) fn statics(&self) -> &[Statics] {
        &self.statics
    }

    /// The terms of a pixel, by bin.
    #[inline(always)]
    fn each_term(&self, pixel: usize, mut act: impl FnMut(usize, Statics)) {
        let (n, dark) = (self.normalization[pixel], self.dark.as_ref().map(|d| d[pixel]));
        let variance = self.variance.as_ref().map(|v| v[pixel]);
        for (bin, weight) in self.matrix.entries(pixel) {
            let w = f64::from(weight);
            let norm = Twofold::product(w, n);
            let term = Statics {
                norm,
                norm_sq: norm * norm,
                count: w.into(),
                floor: variance.map_or(Twofold::product(w, w), |v| Twofold::product(w * w, v)),
                dark: dark.map_or(Twofold::default(), |d| Twofold::product(w, d)),
                entries: 1,
            };
            act(bin, term);
        }
    }
}

impl Statics {
    fn add(&mut self, term: Statics) {
        self.norm += term.norm;
        self.norm_sq += term.norm_sq;
        self.count += term.count;
        self.floor += term.floor;
        self.dark += term.dark;
        self.entries += term.entries;
    }

    /// Takes a pixel out. A bin that has none left is empty for certain, and not by luck of rounding.
    #[inline(always)]
    fn subtract(&mut self, term: Statics) {
        self.norm -= term.norm;
        self.norm_sq -= term.norm_sq;
        self.count -= term.count;
        self.floor -= term.floor;
        self.dark -= term.dark;
        self.entries -= term.entries;
        if self.entries == 0 {
            *self = Statics::default();
        }
    }
}
