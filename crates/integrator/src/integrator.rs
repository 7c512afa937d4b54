//! A recipe, applied to frames of one shape and type.

use std::io;

use frames::store::{Chunk, Coding};
use kernels::{ByBin, DecodeError, Invalid, Pipeline, PixelType, Plan, Scratch, Stored, Sums};
use recipe::Recipe;

use crate::assemble::{AssembleError, Assembler};
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

/// What a frame came to that was put together from its chunks.
pub struct Assembled {
    /// Its sums.
    pub sums: Sums,
    /// A digest of the stored bytes of its chunks.
    pub digest: u64,
    /// As [`Integrator::suspect`] gives it.
    pub warning: Option<String>,
}

/// Turns stored frames into sums per bin. Shared by all threads.
pub struct Integrator {
    shape: [usize; 2],
    dtype: PixelType,
    radial: Axis,
    chi: Option<Axis>,
    plan: Plan,
    /// For methods that look at all pixels of a bin before they sum them.
    by_bin: Option<ByBin>,
    invalid: Invalid,
    suspect: Option<Suspect>,
}

impl Integrator {
    /// An integrator for frames of `shape` (rows, columns) and `dtype`. Takes the time of building the
    /// matrix, on rayon's threads.
    ///
    /// # Errors
    /// A PONI, detector, mask, dark or flat that does not fit the frames; a range without pixels; a
    /// setting that this version can't apply.
    pub fn new(recipe: &Recipe, shape: [usize; 2], dtype: PixelType) -> Result<Self, Error> {
        let setup = Setup::of(recipe, shape)?;
        let (plan, by_bin) = method::plan(recipe, &setup)?;
        let Setup { binning, detector, mask, .. } = setup;
        let suspect = Suspect::of(recipe, &detector, &mask, dtype);
        let unit = binning.axis.unit;
        let radial = Axis { name: unit.axis_name(), units: unit.axis_units(), centers: binning.axis.centers };
        let chi = binning.chi.map(|chi| Axis { name: "chi", units: "deg", centers: chi.centers });
        let invalid = dummy::rule(recipe, &detector.dummy, dtype);
        Ok(Self { shape, dtype, radial, chi, plan, by_bin, invalid, suspect })
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

    /// A warning where the PONI names no detector, nobody says which values are no measurement, and this
    /// frame holds some that look like it. Only the first frame that it is asked for is looked at.
    pub fn suspect(&self, decoder: &Decoder, frame: &Stored<'_>) -> Option<String> {
        let suspect = self.suspect.as_ref().filter(|suspect| suspect.is_first())?;
        let mut pixels = vec![0; self.plan.pixels() * self.dtype.size()];
        decoder.decode(frame.filter_mask, frame.bytes, &mut pixels).ok()?;
        suspect.look(&pixels)
    }

    /// The sums of frames that are one chunk each. A frame that does not decode is an error of its own.
    pub fn batch(
        &self,
        decoder: &Decoder,
        frames: &[Stored<'_>],
        scratch: &mut Scratch,
    ) -> Vec<Result<Sums, DecodeError>> {
        let Some(by_bin) = &self.by_bin else {
            return kernels::integrate_batch(decoder, &self.plan, &self.invalid, frames, scratch);
        };
        frames.iter().map(|frame| by_bin.integrate(decoder, &self.plan, &self.invalid, frame, scratch)).collect()
    }

    /// The sums of the frame in `row` of a dataset whose chunks are no whole frames; see
    /// [`Assembler::frame`].
    ///
    /// # Errors
    /// A chunk can't be read or does not decode.
    pub fn assembled(
        &self,
        decoder: &Decoder,
        assembler: &mut Assembler,
        row: u64,
        chunks: &[Chunk],
        read: impl FnMut(&Chunk, &mut Vec<u8>) -> io::Result<()>,
        scratch: &mut Scratch,
    ) -> Result<Assembled, AssembleError> {
        let (frame, digest) = assembler.frame(decoder, self.shape, row, chunks, read)?;
        let mut sums = Sums::default();
        match &self.by_bin {
            Some(by_bin) => sums = by_bin.accumulate(frame, self.dtype, &self.plan, &self.invalid, scratch),
            None => kernels::accumulate(frame, self.dtype, &self.plan, &self.invalid, &mut sums),
        }
        let suspect = self.suspect.as_ref().filter(|suspect| suspect.is_first());
        Ok(Assembled { sums, digest, warning: suspect.and_then(|suspect| suspect.look(frame)) })
    }
}
