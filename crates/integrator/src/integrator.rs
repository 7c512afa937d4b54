//! [`Integrator`], a recipe that is ready to be applied to frames of one shape and pixel type.

use frames::source::PixelCoding;
use geometry::DummyRule;
use kernels::{CsrMatrix, IntegrationPlan, InvalidValues, Pipeline, PixelType};
use recipe::{FileRef, Recipe};
use records::FrameLayout;

use crate::dummy_check::DummyCheck;
use crate::setup::{self, IntegrationSetup};
use crate::{IntegratorError, build_plan, invalid_values};

/// Describes how the chunks of a source are decoded; made by [`Integrator::decoder`].
pub type Decoder = Pipeline;

/// An axis of the patterns.
#[derive(Clone, Debug, PartialEq)]
pub struct BinAxis {
    /// The quantity, which names the dataset in the output: `q`, `2th`, `r`, `chi`.
    pub name: &'static str,
    /// The unit, such as `nm^-1`.
    pub units: &'static str,
    /// The centres of the bins.
    pub centers: Vec<f64>,
}

/// A recipe that is ready to be applied to stored frames of one shape and pixel type. All threads
/// share it; [`crate::MultiIntegrator`] integrates the frames.
pub struct Integrator {
    pub(crate) shape: [usize; 2],
    pub(crate) dtype: PixelType,
    pub(crate) radial: BinAxis,
    pub(crate) chi: Option<BinAxis>,
    pub(crate) plan: IntegrationPlan,
    /// The matrix by bin, for methods that need all pixels of a bin; `None` for plain sums.
    pub(crate) csr: Option<CsrMatrix>,
    pub(crate) invalid_values: InvalidValues,
    pub(crate) dummy_check: DummyCheck,
    pub(crate) detector: DetectorInfo,
}

/// The facts known about the detector's pixel values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DetectorInfo {
    /// True if the PONI file names the detector, or a detector file describes it.
    pub(crate) is_named: bool,
    /// The values that the detector writes for pixels without a measurement.
    pub(crate) dummy: DummyRule,
}

impl Integrator {
    /// Reads the recipe's files and builds the matrix for frames of `layout` and `dtype`, on the
    /// threads of rayon's current pool. Most of the time goes into the matrix.
    ///
    /// # Errors
    /// A PONI file, detector, mask, dark, flat or variance that can't be read or does not fit the
    /// frames; a range without pixels; settings that can't be applied, or that leave no valid
    /// value; a file that has changed since the recipe was made.
    pub fn new(
        recipe: &Recipe,
        layout: &FrameLayout,
        dtype: PixelType,
    ) -> Result<Self, IntegratorError> {
        let built = Self::build(recipe, layout, dtype);
        // A file that changed before or while it was read is not what the recipe's digest stands
        // for, and the error of such a file says nothing about the recipe.
        recipe_files(recipe).try_for_each(FileRef::verify)?;
        built
    }

    fn build(
        recipe: &Recipe,
        layout: &FrameLayout,
        dtype: PixelType,
    ) -> Result<Self, IntegratorError> {
        let shape = layout.shape.map(|length| length as usize);
        let setup = IntegrationSetup::new(recipe, layout)?;
        let IntegrationSetup { axis, chi, matrix, normalization, dark, variance, .. } = setup;
        let (plan, csr) = build_plan::build_plan(
            recipe,
            matrix,
            normalization,
            dark.as_deref(),
            variance.as_deref(),
        )?;
        let (detector, mask) = (setup.detector, setup.mask);
        let is_named = detector.name != "Detector" || recipe.detector_file.is_some();
        let known = DetectorInfo { is_named, dummy: detector.dummy };
        let dummy_check = DummyCheck::new(recipe, is_named, &mask, dtype);
        let (radial, chi) = name_axes(axis, chi);
        let invalid = invalid_values::build_invalid_values(recipe, &known.dummy, dtype)?;
        Ok(Self {
            shape,
            dtype,
            radial,
            chi,
            plan,
            csr,
            invalid_values: invalid,
            dummy_check,
            detector: known,
        })
    }

    /// Returns the radial axis.
    pub fn radial(&self) -> &BinAxis {
        &self.radial
    }

    /// Returns the azimuthal axis; `None` for a 1-D pattern.
    pub fn chi(&self) -> Option<&BinAxis> {
        self.chi.as_ref()
    }

    /// Returns the matrix and the sums over it that do not depend on the frame, such as the norms
    /// of the bins.
    pub fn plan(&self) -> &IntegrationPlan {
        &self.plan
    }

    /// Returns the bytes that the integrator keeps in memory: the matrix by pixel, the arrays of
    /// the plan and, if there is one, the matrix by bin.
    pub fn memory_bytes(&self) -> usize {
        self.plan.memory_bytes() + self.csr.as_ref().map_or(0, CsrMatrix::memory_bytes)
    }

    /// Returns the bytes that each thread needs in addition, for methods that need all pixels of a
    /// bin; 0 for others.
    pub fn thread_bytes(&self) -> usize {
        self.csr.as_ref().map_or(0, |csr| csr.thread_bytes(&self.plan))
    }

    /// Returns how chunks of this coding are decoded.
    ///
    /// # Errors
    /// A coding with another pixel type than the frames', or with a filter that is not supported.
    pub fn decoder(&self, coding: &PixelCoding) -> Result<Decoder, IntegratorError> {
        new_decoder(coding, self.dtype)
    }

    /// Returns the shape (rows, columns) and the pixel type of the frames.
    pub fn frame_format(&self) -> ([usize; 2], PixelType) {
        (self.shape, self.dtype)
    }

    /// Returns the matrix by bin; `None` for plain sums.
    pub(crate) fn csr(&self) -> Option<&CsrMatrix> {
        self.csr.as_ref()
    }

    /// Returns the pixel values that mean "no measurement".
    pub(crate) fn invalid_values(&self) -> &InvalidValues {
        &self.invalid_values
    }

    /// Returns whether a frame is still to be checked for dummy values.
    pub(crate) fn awaits_dummy_check(&self) -> bool {
        self.dummy_check.is_needed() && !self.dummy_check.has_started()
    }

    /// Returns the check of the first frame for dummy values, on the first call only; `None` if no
    /// check is needed.
    pub(crate) fn take_dummy_check(&self) -> Option<&DummyCheck> {
        (self.dummy_check.is_needed() && self.dummy_check.start_once()).then_some(&self.dummy_check)
    }
}

/// Returns the radial axis of a recipe, and the azimuthal axis of a cake. They follow from the
/// recipe's limits or edges, and are those of each [`Integrator`] of the recipe.
///
/// # Errors
/// The recipe has no radial limits or edges.
pub fn recipe_axes(recipe: &Recipe) -> Result<(BinAxis, Option<BinAxis>), IntegratorError> {
    let (radial, chi) = binning::axes(&setup::binning_request(recipe)?)?;
    Ok(name_axes(radial, chi))
}

fn name_axes(
    radial: binning::RadialAxis,
    chi: Option<binning::ChiAxis>,
) -> (BinAxis, Option<BinAxis>) {
    let unit = radial.unit;
    let radial =
        BinAxis { name: unit.axis_name(), units: unit.axis_units(), centers: radial.centers };
    let chi = chi.map(|chi| BinAxis { name: "chi", units: "deg", centers: chi.centers });
    (radial, chi)
}

/// Iterates over the files that an integrator of the recipe is made from.
fn recipe_files(recipe: &Recipe) -> impl Iterator<Item = &FileRef> {
    let images = [&recipe.mask, &recipe.mask_inverted, &recipe.dark, &recipe.flat];
    images.into_iter().flatten().chain(&recipe.variance).chain(&recipe.detector_file)
}

/// Returns how chunks of this coding are decoded to pixels of `dtype`.
///
/// # Errors
/// A coding with another pixel type, or with a filter that is not supported.
pub(crate) fn new_decoder(
    coding: &PixelCoding,
    dtype: PixelType,
) -> Result<Decoder, IntegratorError> {
    let found = coding.dtype.name();
    if found != dtype.to_string() {
        let why = format!("the pixel type is {found}; expected {dtype} as in the task");
        return Err(IntegratorError::Coding(why));
    }
    let filters: Vec<(u32, &[u32])> =
        coding.filters.iter().map(|filter| (filter.id, filter.values.as_slice())).collect();
    Pipeline::from_hdf5(&filters, dtype, coding.big_endian)
        .map_err(|why| IntegratorError::Coding(why.to_string()))
}
