//! What one recipe needs of every frame: the matrix, and all sums that do not depend on the photons.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bitmap::Bitmap;
use crate::matrix::{Matrix, View};
use crate::sections::{self, Array, Reader, SectionError};
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
    pub(crate) unused: Array<Bitmap>,
    normalization: Array<f64>,
    dark: Option<Array<f64>>,
    variance: Option<Array<f64>>,
    /// Over all pixels, by bin.
    statics: Array<Statics>,
    totals: Totals,
}

/// The sums that the photons have no part in, each by bin, rounded to doubles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) norm: Vec<f64>,
    pub(crate) norm_sq: Vec<f64>,
    pub(crate) count: Vec<f64>,
    pub(crate) floor: Vec<f64>,
    pub(crate) dark: Vec<f64>,
}

impl Totals {
    fn of(statics: &[Statics]) -> Totals {
        let by_bin = |value: fn(&Statics) -> f64| statics.iter().map(value).collect();
        Totals {
            norm: by_bin(|s| s.norm.value()),
            norm_sq: by_bin(|s| s.norm_sq.value()),
            count: by_bin(|s| s.count.value()),
            floor: by_bin(|s| s.floor.value()),
            dark: by_bin(|s| s.dark.value()),
        }
    }
}

/// The sums of one bin that the photons have no part in.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct Statics {
    pub(crate) norm: Twofold,
    pub(crate) norm_sq: Twofold,
    pub(crate) count: Twofold,
    /// Σ w², the least Poisson variance; Σ w² v where variances are given.
    pub(crate) floor: Twofold,
    /// Σ w d.
    pub(crate) dark: Twofold,
    /// How many pixels reach into the bin.
    pub(crate) entries: u64,
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
        let mut statics = vec![Statics::default(); matrix.nbins()];
        let terms = Terms { matrix: matrix.view(), normalization, dark, variance };
        for pixel in 0..expected {
            terms.of(pixel, |bin, term| statics[bin].add(term));
        }
        let unused: Vec<Bitmap> = (0..matrix.tiles())
            .map(|tile| matrix.tile(tile))
            .map(|tile| Bitmap::of(|p| tile.pair[p][0] == 0.))
            .collect();
        let own = |values: &[f64]| Array::from(values.to_vec());
        let (normalization, dark, variance) = (own(normalization), dark.map(own), variance.map(own));
        Ok(Plan::complete(matrix, errors, unused.into(), normalization, dark, variance, statics.into()))
    }

    fn complete(
        matrix: Matrix,
        errors: ErrorModel,
        unused: Array<Bitmap>,
        normalization: Array<f64>,
        dark: Option<Array<f64>>,
        variance: Option<Array<f64>>,
        statics: Array<Statics>,
    ) -> Plan {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let totals = Totals::of(&statics);
        Plan { matrix, errors, id, unused, normalization, dark, variance, statics, totals }
    }

    /// Writes the plan as sections, which [`Plan::from_sections`] takes; the error model is not among them.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn put(&self, out: &mut impl Write) -> io::Result<()> {
        self.matrix.put(out)?;
        sections::put(out, &self.unused)?;
        sections::put(out, &self.normalization)?;
        sections::put(out, self.dark().unwrap_or(&[]))?;
        sections::put(out, self.variance().unwrap_or(&[]))?;
        sections::put(out, &self.statics)
    }

    /// A plan that stays where it lies. Where it has variances of its own, it is of [`ErrorModel::Given`].
    ///
    /// # Errors
    /// Sections that are not of a plan: none of its places leads out of it. What is in it is not judged.
    pub fn from_sections(reader: &mut Reader, errors: ErrorModel) -> Result<Plan, SectionError> {
        let matrix = Matrix::from_sections(reader)?;
        let unused = reader.take_exactly(matrix.tiles())?;
        let normalization = reader.take_exactly(matrix.pixels())?;
        let mut optional = || {
            let at = reader.at();
            let values: Array<f64> = reader.take()?;
            match values.len() {
                0 => Ok(None),
                pixels if pixels == matrix.pixels() => Ok(Some(values)),
                _ => Err(SectionError::new(at, "a section of another length")),
            }
        };
        let (dark, variance) = (optional()?, optional()?);
        let statics = reader.take_exactly(matrix.nbins())?;
        let errors = if variance.is_some() { ErrorModel::Given } else { errors };
        Ok(Plan::complete(matrix, errors, unused, normalization, dark, variance, statics))
    }

    /// Bytes of its arrays.
    pub fn bytes(&self) -> usize {
        let optional = |values: Option<&[f64]>| values.map_or(0, size_of_val);
        let of_pixels = size_of_val(&*self.normalization) + optional(self.dark()) + optional(self.variance());
        let of_bins = size_of_val(&*self.statics) + 5 * size_of_val(self.norm());
        self.matrix.bytes() + size_of_val(&*self.unused) + of_pixels + of_bins
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
        &self.totals.norm
    }

    /// Σ w² n² by bin, over all pixels.
    pub fn norm_sq(&self) -> &[f64] {
        &self.totals.norm_sq
    }

    /// Σ w by bin, over all pixels: the bins' areas in pixels.
    pub fn count(&self) -> &[f64] {
        &self.totals.count
    }

    /// How many pixels reach into a bin.
    pub fn entries(&self) -> impl Iterator<Item = u32> {
        self.statics.iter().map(|s| s.entries as u32)
    }

    /// Whether the pixel has entries.
    pub(crate) fn uses(&self, pixel: usize) -> bool {
        self.matrix.has_entries(pixel)
    }

    /// The sums over all pixels but these (a frame's invalid ones that have entries), which rise.
    #[inline(always)]
    pub(crate) fn totals_without(&self, invalid: &[u32]) -> Totals {
        let mut statics = self.statics.to_vec();
        let terms = Terms {
            matrix: self.matrix.view(),
            normalization: &self.normalization,
            dark: self.dark(),
            variance: self.variance(),
        };
        for &pixel in invalid {
            terms.of(pixel as usize, |bin, term| statics[bin].subtract(term));
        }
        Totals::of(&statics)
    }

    /// A number that no other plan has, but for clones; not 0.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The sums over all pixels.
    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }
}

/// What the terms of a plan's sums are made of.
#[derive(Clone, Copy)]
struct Terms<'a> {
    matrix: View<'a>,
    normalization: &'a [f64],
    dark: Option<&'a [f64]>,
    variance: Option<&'a [f64]>,
}

impl Terms<'_> {
    /// The terms of a pixel, by bin.
    #[inline(always)]
    fn of(self, pixel: usize, mut act: impl FnMut(usize, Statics)) {
        let n = self.normalization[pixel];
        let (dark, variance) = (self.dark.map(|d| d[pixel]), self.variance.map(|v| v[pixel]));
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
