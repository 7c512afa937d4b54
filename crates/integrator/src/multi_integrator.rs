//! Frames integrated by several recipes in one pass.

use std::io;

use frames::source::{Chunk, PixelCoding};
use kernels::{DecodeError, IntegrationSpec, Pipeline, Scratch, StoredFrame, Sums, opencl};

use crate::IntegratorError;
use crate::assemble::{AssembleError, Assembler};
use crate::integrator::{Decoder, Integrator};

/// Integrators for the same frames. A frame is read and decoded once for all of them, and its sums by each
/// are those that it would give alone, to the bit.
#[derive(Clone)]
pub struct MultiIntegrator<'a> {
    integrators: Vec<&'a Integrator>,
}

impl<'a> MultiIntegrator<'a> {
    /// All of these, which must be for frames of one shape and type.
    ///
    /// # Panics
    /// If they are for different frames, or there is none.
    pub fn new(integrators: Vec<&'a Integrator>) -> Self {
        assert!(!integrators.is_empty(), "frames are integrated by one recipe at the least");
        let same = integrators.windows(2).all(|pair| pair[0].frame_format() == pair[1].frame_format());
        assert!(same, "the integrators of a pass are for the same frames");
        Self { integrators }
    }

    /// The integrators.
    pub fn integrators(&self) -> &[&'a Integrator] {
        &self.integrators
    }

    /// Bins of all patterns of a frame.
    pub fn total_bins(&self) -> usize {
        self.integrators.iter().map(|integrator| integrator.plan().nbins()).sum()
    }

    /// How chunks of this coding are decoded.
    ///
    /// # Errors
    /// Another pixel type than that of the frames; a filter that is not known.
    pub fn decoder(&self, coding: &PixelCoding) -> Result<Decoder, IntegratorError> {
        self.integrators[0].decoder(coding)
    }

    /// A warning where the PONI names no detector, nobody says which values are no measurement, and this
    /// frame holds some that look like it. Only the first frame that it is asked for is looked at.
    pub fn warn_of_dummies(&self, decoder: &Decoder, frame: &StoredFrame<'_>) -> Option<String> {
        let suspects: Vec<_> = self.integrators.iter().filter_map(|integrator| integrator.take_dummy_check()).collect();
        if suspects.is_empty() {
            return None;
        }
        let mut pixels = vec![0; self.frame_bytes()];
        decoder.decode(frame.filter_mask, frame.bytes, &mut pixels).ok()?;
        suspects.into_iter().find_map(|suspect| suspect.check(&pixels))
    }

    /// The sums, by each integrator, of frames that are one chunk each. A frame that does not decode is an
    /// error of its own. Methods that take whole frames decode them by themselves.
    pub fn integrate(
        &self,
        decoder: &Decoder,
        frames: &[StoredFrame<'_>],
        scratch: &mut Scratch,
    ) -> Vec<Result<Vec<Sums>, DecodeError>> {
        kernels::integrate_frames(decoder, &self.specs(), frames, scratch)
    }

    /// Which recipes can't be left to this OpenCL device, and why.
    pub fn unsupported_on_device(&self, device: &opencl::Device) -> impl Iterator<Item = (usize, &'static str)> {
        let takes_by_bin = device.supports_csr();
        let why = move |integrator: &&Integrator| match integrator.csr() {
            Some(by_bin) if !by_bin.is_order_free() => Some("medians and quantiles"),
            Some(_) if !takes_by_bin => Some("clipping and azimuthal errors where a device lacks doubles"),
            _ => None,
        };
        self.integrators.iter().enumerate().filter_map(move |(at, integrator)| Some((at, why(integrator)?)))
    }

    /// As [`MultiIntegrator::integrate`], by an OpenCL device, but for what is not for devices; see [`opencl::Queues::integrate_by_all`].
    ///
    /// # Errors
    /// The device fails, and nothing is done.
    pub fn integrate_on_device(
        &self,
        queues: &mut opencl::DeviceQueues,
        decoder: &Decoder,
        frames: &[StoredFrame<'_>],
        scratch: &mut Scratch,
    ) -> Result<Vec<Result<Vec<Sums>, DecodeError>>, opencl::DeviceError> {
        let mut is_own = vec![false; self.integrators.len()];
        self.unsupported_on_device(queues.device()).for_each(|(at, _)| is_own[at] = true);
        let of = |own: bool| -> Vec<_> {
            self.specs().into_iter().zip(&is_own).filter(|(_, is)| **is == own).map(|(target, _)| target).collect()
        };
        let rows = queues.integrate_batch_multi(decoder, &of(false), frames)?;
        let own = kernels::integrate_frames(decoder, &of(true), frames, scratch);
        let all = |(row, own): (Result<Vec<Sums>, _>, Result<Vec<Sums>, _>)| {
            let (mut row, mut own) = (row?.into_iter(), own?.into_iter());
            Ok(is_own.iter().flat_map(|is| if *is { own.next() } else { row.next() }).collect())
        };
        Ok(rows.into_iter().zip(own).map(all).collect())
    }

    /// Puts a frame together whose chunks are no whole frames; see [`Assembler::assemble`]. [`MultiIntegrator::native_decoder`] is then how it
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
        assembler.assemble(decoder, self.integrators[0].frame_format().0, place, read, frame)
    }

    /// How frames are decoded that are pixels as they are in memory already.
    pub fn native_decoder(&self) -> Decoder {
        Pipeline::native(self.integrators[0].frame_format().1)
    }

    /// Bytes of a frame's pixels.
    pub fn frame_bytes(&self) -> usize {
        let (shape, dtype) = self.integrators[0].frame_format();
        shape[0] * shape[1] * dtype.size()
    }

    /// What the kernels integrate by.
    fn specs(&self) -> Vec<IntegrationSpec<'a>> {
        let target = |integrator: &&'a Integrator| {
            let (plan, invalid, by_bin) = (integrator.plan(), integrator.invalid_values(), integrator.csr());
            IntegrationSpec { plan, invalid, csr: by_bin }
        };
        self.integrators.iter().map(target).collect()
    }
}
