//! Frames integrated by several recipes in one pass.

use std::io;

use frames::store::{Chunk, Coding};
use kernels::{DecodeError, Invalid, Pipeline, Plan, Scratch, Stored, Sums, opencl};

use crate::Error;
use crate::assemble::{AssembleError, Assembler};
use crate::integrator::{Decoder, Integrator};

/// Integrators for the same frames. A frame is read and decoded once for all of them, and its sums by each
/// are those that it would give alone, to the bit.
#[derive(Clone)]
pub struct Together<'a> {
    integrators: Vec<&'a Integrator>,
}

impl<'a> Together<'a> {
    /// All of these, which must be for frames of one shape and type.
    ///
    /// # Panics
    /// If they are for different frames, or there is none.
    pub fn new(integrators: Vec<&'a Integrator>) -> Self {
        assert!(!integrators.is_empty(), "frames are integrated by one recipe at the least");
        let same = integrators.windows(2).all(|pair| pair[0].frames() == pair[1].frames());
        assert!(same, "the integrators of a pass are for the same frames");
        Self { integrators }
    }

    /// The integrators.
    pub fn integrators(&self) -> &[&'a Integrator] {
        &self.integrators
    }

    /// Bins of all patterns of a frame.
    pub fn bins(&self) -> usize {
        self.integrators.iter().map(|integrator| integrator.plan().nbins()).sum()
    }

    /// How chunks of this coding are decoded.
    ///
    /// # Errors
    /// Another pixel type than that of the frames; a filter that is not known.
    pub fn decoder(&self, coding: &Coding) -> Result<Decoder, Error> {
        self.integrators[0].decoder(coding)
    }

    /// A warning where the PONI names no detector, nobody says which values are no measurement, and this
    /// frame holds some that look like it. Only the first frame that it is asked for is looked at.
    pub fn suspect(&self, decoder: &Decoder, frame: &Stored<'_>) -> Option<String> {
        let suspects: Vec<_> = self.integrators.iter().filter_map(|integrator| integrator.first_look()).collect();
        if suspects.is_empty() {
            return None;
        }
        let mut pixels = vec![0; self.frame_bytes()];
        decoder.decode(frame.filter_mask, frame.bytes, &mut pixels).ok()?;
        suspects.into_iter().find_map(|suspect| suspect.look(&pixels))
    }

    /// The sums, by each integrator, of frames that are one chunk each. A frame that does not decode is an
    /// error of its own. Methods that take whole frames decode them by themselves.
    pub fn batch(
        &self,
        decoder: &Decoder,
        frames: &[Stored<'_>],
        scratch: &mut Scratch,
    ) -> Vec<Result<Vec<Sums>, DecodeError>> {
        let rows = kernels::integrate_by_all(decoder, &self.plans(), frames, scratch);
        self.with_by_bin(rows, decoder, frames, scratch)
    }

    /// Which recipes can't be left to an OpenCL device, and why.
    pub fn not_for_devices(&self) -> impl Iterator<Item = (usize, &'static str)> {
        let by_bin = |integrator: &Integrator| integrator.by_bin().map(|_| "clipping, quantiles and azimuthal errors");
        self.integrators.iter().enumerate().filter_map(move |(at, integrator)| by_bin(integrator).map(|why| (at, why)))
    }

    /// As [`Together::batch`], by an OpenCL device, but for what is not for devices; see [`opencl::Queues::integrate_by_all`].
    ///
    /// # Errors
    /// The device fails, and nothing is done.
    pub fn batch_on(
        &self,
        queues: &mut opencl::Queues,
        decoder: &Decoder,
        frames: &[Stored<'_>],
        scratch: &mut Scratch,
    ) -> Result<Vec<Result<Vec<Sums>, DecodeError>>, opencl::DeviceError> {
        let rows = queues.integrate_by_all(decoder, &self.plans(), frames)?;
        Ok(self.with_by_bin(rows, decoder, frames, scratch))
    }

    /// `rows`, the sums by those that sum pixels as they come, with those of the others between them.
    fn with_by_bin(
        &self,
        rows: Vec<Result<Vec<Sums>, DecodeError>>,
        decoder: &Decoder,
        frames: &[Stored<'_>],
        scratch: &mut Scratch,
    ) -> Vec<Result<Vec<Sums>, DecodeError>> {
        let by_bin = |integrator: &&Integrator| {
            let (plan, invalid) = (integrator.plan(), integrator.invalid());
            integrator.by_bin().map(|by_bin| by_bin.integrate(decoder, plan, invalid, frames, scratch).into_iter())
        };
        let mut by_bin: Vec<_> = self.integrators.iter().map(by_bin).collect();
        let all = |row: Result<Vec<Sums>, DecodeError>| {
            // A frame's sums are taken from each list, also where it did not decode.
            let own: Vec<_> = by_bin.iter_mut().map(|list| list.as_mut().and_then(Iterator::next)).collect();
            let mut summed = row?.into_iter();
            let sums = |own: Option<_>| own.unwrap_or_else(|| Ok(summed.next().expect("sums by each plan")));
            own.into_iter().map(sums).collect()
        };
        rows.into_iter().map(all).collect()
    }

    /// Puts a frame together whose chunks are no whole frames; see [`Assembler::frame`]. [`Together::native`] is then how it
    /// is decoded.
    ///
    /// # Errors
    /// A chunk can't be read or does not decode.
    pub fn assemble(
        &self,
        decoder: &Decoder,
        assembler: &mut Assembler,
        place: (u64, &[Chunk]),
        read: impl FnMut(&Chunk, &mut Vec<u8>) -> io::Result<()>,
        frame: &mut Vec<u8>,
    ) -> Result<u64, AssembleError> {
        assembler.frame(decoder, self.integrators[0].frames().0, place, read, frame)
    }

    /// How frames are decoded that are pixels as they are in memory already.
    pub fn native(&self) -> Decoder {
        Pipeline::native(self.integrators[0].frames().1)
    }

    /// Bytes of a frame's pixels.
    pub fn frame_bytes(&self) -> usize {
        let (shape, dtype) = self.integrators[0].frames();
        shape[0] * shape[1] * dtype.size()
    }

    /// Those of the integrators that sum pixels as they come.
    fn plans(&self) -> Vec<(&'a Plan, &'a Invalid)> {
        let summing = self.integrators.iter().filter(|integrator| integrator.by_bin().is_none());
        summing.map(|integrator| (integrator.plan(), integrator.invalid())).collect()
    }
}
