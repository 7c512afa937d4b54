//! [`IntegrationPlan`], the matrix of a recipe and all sums over it that do not depend on the
//! frame.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bitmap::Bitmap;
use crate::dead_time::DeadTime;
use crate::invalid_pixels::InvalidPixels;
use crate::photon_sums::PhotonQuantities;
use crate::sections::{self, SectionError, SectionReader, SharedArray};
use crate::simd::Isa;
use crate::static_sums::{BinStaticSums, StaticSums, StaticTerms};
use crate::static_sums_without::StaticSumsWithout;
use crate::sum_of_all_pixels::SumOfAllPixels;
use crate::tiled_csc::TiledCsc;
use crate::variance_model::{PixelVarianceModel, SpreadRole, VarianceModel};

/// The error for an array that has not one value per pixel of the matrix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} has {found} pixels; expected {expected}, as many as the matrix")]
pub struct IntegrationPlanError {
    what: &'static str,
    found: usize,
    expected: usize,
}

/// A matrix, and the sums over its pixels that do not depend on the frame. With the weight w, the
/// normalization n and the dark d of a pixel they are norm = Σ w n, norm_sq = Σ w² n², count = Σ w,
/// and Σ w d, which is subtracted from the signal; and for the spread of the pixels in a bin, with a
/// dark, Σ w² d² and Σ w² n d.
///
/// The sums have twice the precision of a double, so that the invalid pixels of a frame can be
/// subtracted exactly.
#[derive(Debug)]
pub struct IntegrationPlan {
    pub(crate) matrix: TiledCsc,
    variance_model: VarianceModel,
    dead_time: DeadTime,
    id: u64,
    /// For each tile, the pixels without entries.
    pub(crate) unused: SharedArray<Bitmap>,
    normalization: SharedArray<f64>,
    dark: Option<SharedArray<f64>>,
    variance: Option<SharedArray<f64>>,
    /// For each bin, the sums over all pixels.
    bin_sums: SharedArray<BinStaticSums>,
    /// `bin_sums` rounded to doubles.
    static_sums: StaticSums,
}

/// Returns values of which those that are not usable are zero: they are of pixels without a weight,
/// and kernels add such pixels with a weight of zero.
fn only_usable(values: Cow<'_, [f64]>, is_usable: fn(f64) -> bool) -> Cow<'_, [f64]> {
    if values.iter().all(|&value| is_usable(value)) {
        return values;
    }
    values.iter().map(|&value| if is_usable(value) { value } else { 0. }).collect()
}

/// Returns whether the square of a dark is finite, as the spread of pixels needs it.
fn is_usable_dark(dark: f64) -> bool {
    (dark * dark).is_finite()
}

static NEXT_PLAN_ID: AtomicU64 = AtomicU64::new(1);

impl IntegrationPlan {
    /// Makes a plan for frames with as many pixels as the matrix. `normalization` has the product
    /// of the corrections of each pixel (flat · solid angle · polarization · ..., without the
    /// monitor) and `dark` its dark in counts.
    ///
    /// A pixel whose normalization is zero or not finite, or whose dark has no finite square, is
    /// removed from the matrix: as in pyFAI, it counts as not measured.
    ///
    /// # Errors
    /// An array whose length is not the number of pixels.
    pub fn new<'a>(
        matrix: TiledCsc,
        normalization: impl Into<Cow<'a, [f64]>>,
        variance_model: VarianceModel,
        dark: Option<&[f64]>,
    ) -> Result<IntegrationPlan, IntegrationPlanError> {
        IntegrationPlan::build(matrix, normalization.into(), variance_model, dark, None)
    }

    /// Makes a plan with the variance of each pixel given, equal in all frames, and the spread of
    /// pixels used where `spread` says; otherwise like [`IntegrationPlan::new`]. A pixel whose
    /// variance is negative or not finite is removed from the matrix, too.
    ///
    /// # Errors
    /// An array whose length is not the number of pixels.
    pub fn with_variance<'a>(
        matrix: TiledCsc,
        normalization: impl Into<Cow<'a, [f64]>>,
        variance: &[f64],
        spread: SpreadRole,
        dark: Option<&[f64]>,
    ) -> Result<IntegrationPlan, IntegrationPlanError> {
        IntegrationPlan::build(
            matrix,
            normalization.into(),
            VarianceModel { pixel: PixelVarianceModel::Given, spread },
            dark,
            Some(variance),
        )
    }

    fn build(
        mut matrix: TiledCsc,
        normalization: Cow<'_, [f64]>,
        variance_model: VarianceModel,
        dark: Option<&[f64]>,
        variance: Option<&[f64]>,
    ) -> Result<IntegrationPlan, IntegrationPlanError> {
        let expected = matrix.pixels();
        for (what, array) in
            [("normalization", Some(&*normalization)), ("dark", dark), ("variance", variance)]
        {
            if let Some(found) = array.map(<[f64]>::len).filter(|&found| found != expected) {
                return Err(IntegrationPlanError { what, found, expected });
            }
        }
        matrix.drop_pixels(|p| {
            let n = normalization[p];
            let v = variance.map_or(0., |v| v[p]);
            n == 0.
                || !n.is_finite()
                || dark.is_some_and(|d| !is_usable_dark(d[p]))
                || !v.is_finite()
                || v < 0.
        });
        let terms = StaticTerms {
            matrix: matrix.as_slices(),
            normalization: &normalization,
            dark,
            variance,
        };
        let bin_sums = Isa::fastest().run(SumOfAllPixels { terms, nbins: matrix.nbins() });
        let unused: Vec<Bitmap> = (0..matrix.tile_count())
            .map(|tile| matrix.tile(tile))
            .map(|tile| Bitmap::from_fn(|p| tile.pair_weights[p][0] == 0.))
            .collect();
        let copy = |values: &[f64]| SharedArray::from(values.to_vec());
        Ok(IntegrationPlan::from_parts(
            matrix,
            variance_model,
            unused.into(),
            only_usable(normalization, f64::is_finite).into_owned().into(),
            dark.map(|dark| only_usable(dark.into(), is_usable_dark).into_owned().into()),
            variance.map(copy),
            bin_sums.into(),
        ))
    }

    fn from_parts(
        matrix: TiledCsc,
        variance_model: VarianceModel,
        unused: SharedArray<Bitmap>,
        normalization: SharedArray<f64>,
        dark: Option<SharedArray<f64>>,
        variance: Option<SharedArray<f64>>,
        bin_sums: SharedArray<BinStaticSums>,
    ) -> IntegrationPlan {
        let id = NEXT_PLAN_ID.fetch_add(1, Ordering::Relaxed);
        let static_sums = StaticSums::from_bins(bin_sums.iter().copied(), dark.is_some());
        IntegrationPlan {
            matrix,
            variance_model,
            dead_time: DeadTime::ZERO,
            id,
            unused,
            normalization,
            dark,
            variance,
            bin_sums,
            static_sums,
        }
    }

    /// Returns the plan for counts that are corrected for a dead time, before the dark is subtracted.
    /// Values that are invalid by it are for the caller to add to the others.
    #[must_use]
    pub fn with_dead_time(self, dead_time: DeadTime) -> IntegrationPlan {
        IntegrationPlan { dead_time, ..self }
    }

    /// Writes the plan as sections, which [`IntegrationPlan::from_sections`] reads. The variance
    /// model and the dead time are not written.
    ///
    /// # Errors
    /// An error of `out`.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        self.matrix.write_to(out)?;
        sections::write_section(out, &self.unused)?;
        sections::write_section(out, &self.normalization)?;
        sections::write_section(out, self.dark().unwrap_or(&[]))?;
        sections::write_section(out, self.variance().unwrap_or(&[]))?;
        sections::write_section(out, &self.bin_sums)
    }

    /// Reads a plan whose arrays stay in the mapped memory. If it holds a variance per pixel, that
    /// is the pixels' variance.
    ///
    /// # Errors
    /// Sections that are not a plan's, or have indices out of range. Values of weights and sums are
    /// not checked.
    pub fn from_sections(
        reader: &mut SectionReader,
        variance_model: VarianceModel,
    ) -> Result<IntegrationPlan, SectionError> {
        let matrix = TiledCsc::from_sections(reader)?;
        let unused = reader.read_section_of_len(matrix.tile_count())?;
        let normalization = reader.read_section_of_len(matrix.pixels())?;
        let mut optional = || {
            let at = reader.offset();
            let values: SharedArray<f64> = reader.read_section()?;
            match values.len() {
                0 => Ok(None),
                pixels if pixels == matrix.pixels() => Ok(Some(values)),
                _ => Err(SectionError::new(at, "a section has another length")),
            }
        };
        let (dark, variance) = (optional()?, optional()?);
        let bin_sums = reader.read_section_of_len(matrix.nbins())?;
        let pixel =
            if variance.is_some() { PixelVarianceModel::Given } else { variance_model.pixel };
        let variance_model = VarianceModel { pixel, ..variance_model };
        Ok(IntegrationPlan::from_parts(
            matrix,
            variance_model,
            unused,
            normalization,
            dark,
            variance,
            bin_sums,
        ))
    }

    /// Returns the bytes of all arrays, owned or shared.
    pub fn memory_bytes(&self) -> usize {
        let optional = |values: Option<&[f64]>| values.map_or(0, size_of_val);
        let by_pixel =
            size_of_val(&*self.normalization) + optional(self.dark()) + optional(self.variance());
        let lists = if self.dark().is_some() { 8 } else { 5 };
        let by_bin = size_of_val(&*self.bin_sums) + lists * size_of_val(self.norm());
        self.matrix.memory_bytes() + size_of_val(&*self.unused) + by_pixel + by_bin
    }

    /// Returns the number of bins.
    pub fn nbins(&self) -> usize {
        self.matrix.nbins()
    }

    /// Returns the number of pixels of a frame.
    pub fn pixels(&self) -> usize {
        self.matrix.pixels()
    }

    /// Returns the variance model. The variance of pixels is given if the plan has variances.
    pub fn variance_model(&self) -> VarianceModel {
        self.variance_model
    }

    /// Returns whether counts are corrected for dead time.
    pub fn corrects_dead_time(&self) -> bool {
        !self.dead_time.is_zero()
    }

    /// Returns the dead time that counts are corrected for.
    pub(crate) fn dead_time(&self) -> DeadTime {
        self.dead_time
    }

    /// Returns whether the variances of plain sums are the spread of the pixels in a bin.
    pub fn sums_spread(&self) -> bool {
        self.quantities() == PhotonQuantities::SignalAndSpread
    }

    /// Returns the quantities that are summed over the photons of a frame.
    pub(crate) fn quantities(&self) -> PhotonQuantities {
        PhotonQuantities::from_model(self.variance_model)
    }

    /// Returns the normalization of each pixel.
    pub(crate) fn normalization(&self) -> &[f64] {
        &self.normalization
    }

    /// Returns the dark of each pixel, in counts.
    pub(crate) fn dark(&self) -> Option<&[f64]> {
        self.dark.as_deref()
    }

    /// Returns the variance of each pixel, if it is given.
    pub(crate) fn variance(&self) -> Option<&[f64]> {
        self.variance.as_deref()
    }

    /// Returns Σ w n by bin, over all pixels.
    pub fn norm(&self) -> &[f64] {
        &self.static_sums.weights.norm
    }

    /// Returns Σ w² n² by bin, over all pixels.
    pub fn norm_sq(&self) -> &[f64] {
        &self.static_sums.weights.norm_sq
    }

    /// Returns Σ w by bin, over all pixels: the area of each bin in pixels.
    pub fn count(&self) -> &[f64] {
        &self.static_sums.weights.count
    }

    /// Returns for each bin how many pixels have an entry in it.
    pub fn entry_counts(&self) -> impl Iterator<Item = u32> {
        self.bin_sums.iter().map(|s| s.entries as u32)
    }

    /// Returns the computation of the sums over all pixels except the invalid ones of a frame.
    pub(crate) fn static_sums_without<'a>(
        &'a self,
        invalid: &'a InvalidPixels,
    ) -> StaticSumsWithout<'a> {
        let terms = StaticTerms {
            matrix: self.matrix.as_slices(),
            normalization: &self.normalization,
            dark: self.dark(),
            variance: self.variance(),
        };
        StaticSumsWithout {
            terms,
            bin_sums: &self.bin_sums,
            static_sums: &self.static_sums,
            unused: &self.unused,
            invalid,
        }
    }

    /// Returns the plan's unique number, never 0.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the sums over all pixels.
    pub(crate) fn static_sums(&self) -> &StaticSums {
        &self.static_sums
    }
}
