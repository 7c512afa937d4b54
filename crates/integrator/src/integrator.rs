//! A recipe, applied to frames of one shape and type.

use frames::source::PixelCoding;
use geometry::DummyRule;
use kernels::{CsrMatrix, IntegrationPlan, InvalidValues, Pipeline, PixelType};
use recipe::Recipe;
use records::FrameLayout;

use crate::dummy_check::DummyCheck;
use crate::setup::IntegrationSetup;
use crate::{IntegratorError, dummy, plan};

/// How a source's chunks are decoded.
pub type Decoder = Pipeline;

/// An axis of the patterns.
#[derive(Clone, Debug, PartialEq)]
pub struct BinAxis {
    /// Its quantity, as it names a dataset: `q`, `2th`, `r`, `chi`.
    pub name: &'static str,
    /// Its unit, such as `nm^-1`.
    pub units: &'static str,
    /// The centres of its bins.
    pub centers: Vec<f64>,
}

/// One recipe, ready to turn stored frames into sums per bin; see [`crate::MultiIntegrator`]. Shared by all threads.
pub struct Integrator {
    pub(crate) shape: [usize; 2],
    pub(crate) dtype: PixelType,
    pub(crate) radial: BinAxis,
    pub(crate) chi: Option<BinAxis>,
    pub(crate) plan: IntegrationPlan,
    /// For methods that look at all pixels of a bin before they sum them.
    pub(crate) csr: Option<CsrMatrix>,
    pub(crate) invalid_values: InvalidValues,
    pub(crate) dummy_check: Option<DummyCheck>,
    pub(crate) detector: DetectorInfo,
}

/// What is known of the detector's pixel values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DetectorInfo {
    /// Whether the PONI names the detector, or a file describes it.
    pub(crate) is_named: bool,
    /// The values that it marks pixels without a count by.
    pub(crate) dummy: DummyRule,
}

impl Integrator {
    /// An integrator for frames of `framing` and `dtype`. Takes the time of building the
    /// matrix, on rayon's threads.
    ///
    /// # Errors
    /// A PONI, detector, mask, dark or flat that does not fit the frames; a range without pixels; a
    /// setting that this version can't apply.
    pub fn new(recipe: &Recipe, framing: &FrameLayout, dtype: PixelType) -> Result<Self, IntegratorError> {
        let shape = framing.shape.map(|length| length as usize);
        let setup = IntegrationSetup::new(recipe, framing)?;
        let (plan, by_bin) = plan::build_plan(recipe, &setup)?;
        let IntegrationSetup { binning, detector, mask, .. } = setup;
        let is_named = detector.name != "Detector" || recipe.detector_file.is_some();
        let known = DetectorInfo { is_named, dummy: detector.dummy };
        let suspect = DummyCheck::new(recipe, is_named, &mask, dtype);
        let unit = binning.axis.unit;
        let radial = BinAxis { name: unit.axis_name(), units: unit.axis_units(), centers: binning.axis.centers };
        let chi = binning.chi.map(|chi| BinAxis { name: "chi", units: "deg", centers: chi.centers });
        let invalid = dummy::invalid_values(recipe, &known.dummy, dtype)?;
        Ok(Self {
            shape,
            dtype,
            radial,
            chi,
            plan,
            csr: by_bin,
            invalid_values: invalid,
            dummy_check: suspect,
            detector: known,
        })
    }

    /// The radial axis.
    pub fn radial(&self) -> &BinAxis {
        &self.radial
    }

    /// The azimuthal axis of a cake.
    pub fn chi(&self) -> Option<&BinAxis> {
        self.chi.as_ref()
    }

    /// The sums that frames share.
    pub fn plan(&self) -> &IntegrationPlan {
        &self.plan
    }

    /// Bytes of the matrix and of all else that is kept of it.
    pub fn memory_bytes(&self) -> usize {
        self.plan.memory_bytes() + self.csr.as_ref().map_or(0, CsrMatrix::memory_bytes)
    }

    /// Bytes that each thread needs besides for a method that looks at all pixels of a bin; 0 for others.
    pub fn thread_bytes(&self) -> usize {
        self.csr.as_ref().map_or(0, |by_bin| by_bin.thread_bytes(&self.plan))
    }

    /// How chunks of this coding are decoded.
    ///
    /// # Errors
    /// Another pixel type than that of the frames; a filter that is not known.
    pub fn decoder(&self, coding: &PixelCoding) -> Result<Decoder, IntegratorError> {
        let found = coding.dtype.name();
        if found != self.dtype.to_string() {
            return Err(IntegratorError::Coding(format!(
                "pixels of type {found}, expected {} as the task says",
                self.dtype
            )));
        }
        let filters: Vec<(u32, &[u32])> =
            coding.filters.iter().map(|filter| (filter.id, filter.values.as_slice())).collect();
        Pipeline::from_hdf5(&filters, self.dtype, coding.big_endian)
            .map_err(|why| IntegratorError::Coding(why.to_string()))
    }

    /// Rows, columns and type of the frames that it is for.
    pub fn frame_format(&self) -> ([usize; 2], PixelType) {
        (self.shape, self.dtype)
    }

    /// Set for methods that look at all pixels of a bin before they sum them.
    pub(crate) fn csr(&self) -> Option<&CsrMatrix> {
        self.csr.as_ref()
    }

    /// Which values of the frames' pixels are no measurement.
    pub(crate) fn invalid_values(&self) -> &InvalidValues {
        &self.invalid_values
    }

    /// What to look for in a first frame, where nobody says what is no measurement: once.
    pub(crate) fn take_dummy_check(&self) -> Option<&DummyCheck> {
        self.dummy_check.as_ref().filter(|suspect| suspect.start())
    }
}
