//! A recipe, applied to frames of one shape and type.

use frames::store::Coding;
use geometry::DummyRule;
use kernels::{ByBin, Invalid, Pipeline, PixelType, Plan};
use recipe::Recipe;
use records::Framing;

use crate::setup::Setup;
use crate::suspect::Suspect;
use crate::{Error, dummy, method};

/// How a source's chunks are decoded.
pub type Decoder = Pipeline;

/// An axis of the patterns.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Its quantity, as it names a dataset: `q`, `2th`, `r`, `chi`.
    pub name: &'static str,
    /// Its unit, such as `nm^-1`.
    pub units: &'static str,
    /// The centres of its bins.
    pub centers: Vec<f64>,
}

/// One recipe, ready to turn stored frames into sums per bin; see [`crate::Together`]. Shared by all threads.
pub struct Integrator {
    pub(crate) shape: [usize; 2],
    pub(crate) dtype: PixelType,
    pub(crate) radial: Axis,
    pub(crate) chi: Option<Axis>,
    pub(crate) plan: Plan,
    /// For methods that look at all pixels of a bin before they sum them.
    pub(crate) by_bin: Option<ByBin>,
    pub(crate) invalid: Invalid,
    pub(crate) suspect: Option<Suspect>,
    pub(crate) known: Known,
}

/// What is known of the detector's pixel values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
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
    pub fn new(recipe: &Recipe, framing: &Framing, dtype: PixelType) -> Result<Self, Error> {
        let shape = framing.shape.map(|length| length as usize);
        let setup = Setup::of(recipe, framing)?;
        let (plan, by_bin) = method::plan(recipe, &setup)?;
        let Setup { binning, detector, mask, .. } = setup;
        let is_named = detector.name != "Detector" || recipe.detector_file.is_some();
        let known = Known { is_named, dummy: detector.dummy };
        let suspect = Suspect::of(recipe, is_named, &mask, dtype);
        let unit = binning.axis.unit;
        let radial = Axis { name: unit.axis_name(), units: unit.axis_units(), centers: binning.axis.centers };
        let chi = binning.chi.map(|chi| Axis { name: "chi", units: "deg", centers: chi.centers });
        let invalid = dummy::rule(recipe, &known.dummy, dtype);
        Ok(Self { shape, dtype, radial, chi, plan, by_bin, invalid, suspect, known })
    }

    /// The radial axis.
    pub fn radial(&self) -> &Axis {
        &self.radial
    }

    /// The azimuthal axis of a cake.
    pub fn chi(&self) -> Option<&Axis> {
        self.chi.as_ref()
    }

    /// The sums that frames share.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Bytes of the matrix and of all else that is kept of it.
    pub fn bytes(&self) -> usize {
        self.plan.bytes() + self.by_bin.as_ref().map_or(0, ByBin::bytes)
    }

    /// Bytes that each thread needs besides for a method that looks at all pixels of a bin; 0 for others.
    pub fn bytes_a_thread(&self) -> usize {
        self.by_bin.as_ref().map_or(0, |by_bin| by_bin.bytes_a_thread(&self.plan))
    }

    /// How chunks of this coding are decoded.
    ///
    /// # Errors
    /// Another pixel type than that of the frames; a filter that is not known.
    pub fn decoder(&self, coding: &Coding) -> Result<Decoder, Error> {
        let found = coding.dtype.name();
        if found != self.dtype.to_string() {
            return Err(Error::Coding(format!("pixels of type {found}, expected {} as the task says", self.dtype)));
        }
        let filters: Vec<(u32, &[u32])> =
            coding.filters.iter().map(|filter| (filter.id, filter.values.as_slice())).collect();
        Pipeline::from_hdf5(&filters, self.dtype, coding.big_endian).map_err(|why| Error::Coding(why.to_string()))
    }

    /// Rows, columns and type of the frames that it is for.
    pub fn frames(&self) -> ([usize; 2], PixelType) {
        (self.shape, self.dtype)
    }

    /// Set for methods that look at all pixels of a bin before they sum them.
    pub(crate) fn by_bin(&self) -> Option<&ByBin> {
        self.by_bin.as_ref()
    }

    /// Which values of the frames' pixels are no measurement.
    pub(crate) fn invalid(&self) -> &Invalid {
        &self.invalid
    }

    /// What to look for in a first frame, where nobody says what is no measurement: once.
    pub(crate) fn first_look(&self) -> Option<&Suspect> {
        self.suspect.as_ref().filter(|suspect| suspect.is_first())
    }
}
