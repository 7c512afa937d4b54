//! What one recipe needs of every frame: the matrix, and all sums that do not depend on the photons.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bitmap::Bitmap;
use crate::double_double::DoubleDouble;
use crate::sections::{self, SectionError, SectionReader, SharedArray};
use crate::tiled_csc::{TiledCsc, TiledCscRef};

/// Where the errors come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarianceModel {
    /// No errors: [`crate::Sums::variance`] is absent.
    None,
    /// The variance of a pixel is `max(counts, 1)`, as in pyFAI, with or without a dark.
    Poisson,
    /// The spread of the pixels within a bin; only [`crate::ByBin`] finds it.
    Azimuthal,
    /// Azimuthal where outliers are looked for, Poisson in the result.
    Hybrid,
    /// The variance of a pixel is given, the same in all frames; see [`IntegrationPlan::with_variance`].
    Given,
}

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} of {found} pixels: expected {expected}, as the matrix has")]
pub struct IntegrationPlanError {
    what: &'static str,
    found: usize,
    expected: usize,
}

/// A matrix and the sums over its pixels, with weight w, normalization n and dark current d of a pixel:
/// norm = Σ w n, norm_sq = Σ w² n², count = Σ w, and, taken from the signal, Σ w d.
///
/// They are kept in twice the precision of a double, so that a frame's invalid pixels can be taken out exactly.
#[derive(Clone, Debug)]
pub struct IntegrationPlan {
    pub(crate) matrix: TiledCsc,
    variance_model: VarianceModel,
    id: u64,
    /// By tile, the pixels without entries.
    pub(crate) unused: SharedArray<Bitmap>,
    normalization: SharedArray<f64>,
    dark: Option<SharedArray<f64>>,
    variance: Option<SharedArray<f64>>,
    /// Over all pixels, by bin.
    bin_sums: SharedArray<BinStaticSums>,
    static_sums: StaticSums,
}

/// The sums that the photons have no part in, each by bin, rounded to doubles.
#[derive(Clone, Debug, Default)]
pub(crate) struct StaticSums {
    pub(crate) norm: Vec<f64>,
    pub(crate) norm_sq: Vec<f64>,
    pub(crate) count: Vec<f64>,
    pub(crate) base_variance: Vec<f64>,
    pub(crate) dark: Vec<f64>,
}

impl StaticSums {
    fn from_bins(statics: &[BinStaticSums]) -> StaticSums {
        let by_bin = |value: fn(&BinStaticSums) -> f64| statics.iter().map(value).collect();
        StaticSums {
            norm: by_bin(|s| s.norm.to_f64()),
            norm_sq: by_bin(|s| s.norm_sq.to_f64()),
            count: by_bin(|s| s.count.to_f64()),
            base_variance: by_bin(|s| s.base_variance.to_f64()),
            dark: by_bin(|s| s.dark.to_f64()),
        }
    }
}

/// The sums of one bin that the photons have no part in.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct BinStaticSums {
    pub(crate) norm: DoubleDouble,
    pub(crate) norm_sq: DoubleDouble,
    pub(crate) count: DoubleDouble,
    /// Σ w², the least Poisson variance; Σ w² v where variances are given.
    pub(crate) base_variance: DoubleDouble,
    /// Σ w d.
    pub(crate) dark: DoubleDouble,
    /// How many pixels reach into the bin.
    pub(crate) entries: u64,
}

static NEXT_PLAN_ID: AtomicU64 = AtomicU64::new(1);

impl IntegrationPlan {
    /// A plan for frames of the matrix's pixels. `normalization` is that of each pixel (flat · solid angle ·
    /// polarization · …, without the monitor) and `dark` its dark current in counts.
    ///
    /// A pixel whose normalization is zero or not finite, or whose dark is not finite, is taken out of the matrix: as
    /// in pyFAI, it is not measured.
    pub fn new(
        matrix: TiledCsc,
        normalization: &[f64],
        errors: VarianceModel,
        dark: Option<&[f64]>,
    ) -> Result<IntegrationPlan, IntegrationPlanError> {
        IntegrationPlan::build(matrix, normalization, errors, dark, None)
    }

    /// A plan whose pixels have these variances in every frame. A pixel whose variance is negative or not finite is
    /// taken out of the matrix, too.
    pub fn with_variance(
        matrix: TiledCsc,
        normalization: &[f64],
        variance: &[f64],
        dark: Option<&[f64]>,
    ) -> Result<IntegrationPlan, IntegrationPlanError> {
        IntegrationPlan::build(matrix, normalization, VarianceModel::Given, dark, Some(variance))
    }

    fn build(
        mut matrix: TiledCsc,
        normalization: &[f64],
        errors: VarianceModel,
        dark: Option<&[f64]>,
        variance: Option<&[f64]>,
    ) -> Result<IntegrationPlan, IntegrationPlanError> {
        let expected = matrix.pixels();
        for (what, array) in [("normalization", Some(normalization)), ("dark", dark), ("variance", variance)] {
            if let Some(found) = array.map(<[f64]>::len).filter(|&found| found != expected) {
                return Err(IntegrationPlanError { what, found, expected });
            }
        }
        matrix.drop_pixels(|p| {
            let n = normalization[p];
            let v = variance.map_or(0., |v| v[p]);
            n == 0. || !n.is_finite() || dark.is_some_and(|d| !d[p].is_finite()) || !v.is_finite() || v < 0.
        });
        let mut statics = vec![BinStaticSums::default(); matrix.nbins()];
        let terms = StaticTerms { matrix: matrix.as_slices(), normalization, dark, variance };
        for pixel in 0..expected {
            terms.for_each_bin(pixel, |bin, term| statics[bin].add(term));
        }
        let unused: Vec<Bitmap> = (0..matrix.tile_count())
            .map(|tile| matrix.tile(tile))
            .map(|tile| Bitmap::from_fn(|p| tile.pair_weights[p][0] == 0.))
            .collect();
        let own = |values: &[f64]| SharedArray::from(values.to_vec());
        let (normalization, dark, variance) = (own(normalization), dark.map(own), variance.map(own));
        Ok(IntegrationPlan::from_parts(matrix, errors, unused.into(), normalization, dark, variance, statics.into()))
    }

    fn from_parts(
        matrix: TiledCsc,
        errors: VarianceModel,
        unused: SharedArray<Bitmap>,
        normalization: SharedArray<f64>,
        dark: Option<SharedArray<f64>>,
        variance: Option<SharedArray<f64>>,
        statics: SharedArray<BinStaticSums>,
    ) -> IntegrationPlan {
        let id = NEXT_PLAN_ID.fetch_add(1, Ordering::Relaxed);
        let totals = StaticSums::from_bins(&statics);
        IntegrationPlan {
            matrix,
            variance_model: errors,
            id,
            unused,
            normalization,
            dark,
            variance,
            bin_sums: statics,
            static_sums: totals,
        }
    }

    /// Writes the plan as sections, which [`IntegrationPlan::from_sections`] takes; the error model is not among them.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        self.matrix.write_to(out)?;
        sections::write_section(out, &self.unused)?;
        sections::write_section(out, &self.normalization)?;
        sections::write_section(out, self.dark().unwrap_or(&[]))?;
        sections::write_section(out, self.variance().unwrap_or(&[]))?;
        sections::write_section(out, &self.bin_sums)
    }

    /// A plan that stays where it lies. Where it has variances of its own, it is of [`VarianceModel::Given`].
    ///
    /// # Errors
    /// Sections that are not of a plan: none of its places leads out of it. What is in it is not judged.
    pub fn from_sections(reader: &mut SectionReader, errors: VarianceModel) -> Result<IntegrationPlan, SectionError> {
        let matrix = TiledCsc::from_sections(reader)?;
        let unused = reader.read_section_of_len(matrix.tile_count())?;
        let normalization = reader.read_section_of_len(matrix.pixels())?;
        let mut optional = || {
            let at = reader.offset();
            let values: SharedArray<f64> = reader.read_section()?;
            match values.len() {
                0 => Ok(None),
                pixels if pixels == matrix.pixels() => Ok(Some(values)),
                _ => Err(SectionError::new(at, "a section of another length")),
            }
        };
        let (dark, variance) = (optional()?, optional()?);
        let statics = reader.read_section_of_len(matrix.nbins())?;
        let errors = if variance.is_some() { VarianceModel::Given } else { errors };
        Ok(IntegrationPlan::from_parts(matrix, errors, unused, normalization, dark, variance, statics))
    }

    /// Bytes of its arrays.
    pub fn memory_bytes(&self) -> usize {
        let optional = |values: Option<&[f64]>| values.map_or(0, size_of_val);
        let of_pixels = size_of_val(&*self.normalization) + optional(self.dark()) + optional(self.variance());
        let of_bins = size_of_val(&*self.bin_sums) + 5 * size_of_val(self.norm());
        self.matrix.memory_bytes() + size_of_val(&*self.unused) + of_pixels + of_bins
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
    pub fn variance_model(&self) -> VarianceModel {
        self.variance_model
    }

    /// Whether variances depend on the photons of single pixels.
    pub(crate) fn has_count_variance(&self) -> bool {
        matches!(self.variance_model, VarianceModel::Poisson | VarianceModel::Hybrid)
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
        &self.static_sums.norm
    }

    /// Σ w² n² by bin, over all pixels.
    pub fn norm_sq(&self) -> &[f64] {
        &self.static_sums.norm_sq
    }

    /// Σ w by bin, over all pixels: the bins' areas in pixels.
    pub fn count(&self) -> &[f64] {
        &self.static_sums.count
    }

    /// How many pixels reach into a bin.
    pub fn entry_counts(&self) -> impl Iterator<Item = u32> {
        self.bin_sums.iter().map(|s| s.entries as u32)
    }

    /// Whether the pixel has entries.
    pub(crate) fn uses_pixel(&self, pixel: usize) -> bool {
        self.matrix.has_entries(pixel)
    }

    /// The sums over all pixels but these (a frame's invalid ones that have entries), which rise.
    #[inline(always)]
    pub(crate) fn static_sums_without(&self, invalid: &[u32]) -> StaticSums {
        let mut statics = self.bin_sums.to_vec();
        let terms = StaticTerms {
            matrix: self.matrix.as_slices(),
            normalization: &self.normalization,
            dark: self.dark(),
            variance: self.variance(),
        };
        for &pixel in invalid {
            terms.for_each_bin(pixel as usize, |bin, term| statics[bin].subtract(term));
        }
        StaticSums::from_bins(&statics)
    }

    /// A number that no other plan has, but for clones; not 0.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The sums over all pixels.
    pub(crate) fn static_sums(&self) -> &StaticSums {
        &self.static_sums
    }
}

/// What the terms of a plan's sums are made of.
#[derive(Clone, Copy)]
struct StaticTerms<'a> {
    matrix: TiledCscRef<'a>,
    normalization: &'a [f64],
    dark: Option<&'a [f64]>,
    variance: Option<&'a [f64]>,
}

impl StaticTerms<'_> {
    /// The terms of a pixel, by bin.
    #[inline(always)]
    fn for_each_bin(self, pixel: usize, mut act: impl FnMut(usize, BinStaticSums)) {
        let n = self.normalization[pixel];
        let (dark, variance) = (self.dark.map(|d| d[pixel]), self.variance.map(|v| v[pixel]));
        for (bin, weight) in self.matrix.entries(pixel) {
            let w = f64::from(weight);
            let norm = DoubleDouble::two_product(w, n);
            let term = BinStaticSums {
                norm,
                norm_sq: norm * norm,
                count: w.into(),
                base_variance: variance
                    .map_or(DoubleDouble::two_product(w, w), |v| DoubleDouble::two_product(w * w, v)),
                dark: dark.map_or(DoubleDouble::default(), |d| DoubleDouble::two_product(w, d)),
                entries: 1,
            };
            act(bin, term);
        }
    }
}

impl BinStaticSums {
    fn add(&mut self, term: BinStaticSums) {
        self.norm += term.norm;
        self.norm_sq += term.norm_sq;
        self.count += term.count;
        self.base_variance += term.base_variance;
        self.dark += term.dark;
        self.entries += term.entries;
    }

    /// Takes a pixel out. A bin that has none left is empty for certain, and not by luck of rounding.
    #[inline(always)]
    fn subtract(&mut self, term: BinStaticSums) {
        self.norm -= term.norm;
        self.norm_sq -= term.norm_sq;
        self.count -= term.count;
        self.base_variance -= term.base_variance;
        self.dark -= term.dark;
        self.entries -= term.entries;
        if self.entries == 0 {
            *self = BinStaticSums::default();
        }
    }
}
