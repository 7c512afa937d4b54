//! [`MultiIntegrator`], several integrators that share the reading and decoding of frames.

use std::io;

use frames::source::{Chunk, PixelCoding};
use kernels::{
    CsrMatrix, DecodeError, EncodedFrame, FrameResults, IntegrationSpec, Pipeline, PixelType,
    Scratch, Sums, SumsConsumer, opencl,
};

use crate::IntegratorError;
use crate::frame_assembly::{AssembleError, Assembler};
use crate::integrator::{Decoder, Integrator, new_decoder};

/// Several integrators for frames of one shape and pixel type. A frame is read and decoded once for
/// all of them. The sums by each integrator are equal to the bit to those that it gives alone.
#[derive(Clone)]
pub struct MultiIntegrator<'a> {
    integrators: Vec<&'a Integrator>,
    shape: [usize; 2],
    dtype: PixelType,
    collects_rejected: bool,
}

impl<'a> MultiIntegrator<'a> {
    /// Combines integrators for frames of one shape and pixel type.
    ///
    /// # Panics
    /// If there is no integrator, or they are for frames of different shapes or types.
    pub fn new(integrators: Vec<&'a Integrator>) -> Self {
        assert!(!integrators.is_empty(), "at least one integrator");
        let is_same =
            integrators.windows(2).all(|pair| pair[0].frame_format() == pair[1].frame_format());
        assert!(is_same, "integrators for frames of one shape and type");
        let (shape, dtype) = integrators[0].frame_format();
        Self { integrators, shape, dtype, collects_rejected: false }
    }

    /// Combines no integrator: frames of this shape and pixel type are read and decoded, and have no
    /// sums.
    pub fn without_integrators(shape: [usize; 2], dtype: PixelType) -> Self {
        Self { integrators: Vec::new(), shape, dtype, collects_rejected: false }
    }

    /// Adds to the sums the pixels that sigma clipping rejects above the mean, by the integrators
    /// that clip. The CPU does all the work of these.
    pub fn collecting_rejected(self, collects_rejected: bool) -> Self {
        Self { collects_rejected, ..self }
    }

    /// Returns whether the sums by an integrator come with the pixels that clipping rejects.
    fn collects_rejected(&self, integrator: &Integrator) -> bool {
        self.collects_rejected && integrator.csr().is_some_and(CsrMatrix::clips)
    }

    /// Returns the most rejected pixels of a frame, summed over all integrators; 0 unless they are
    /// collected.
    pub fn max_rejected(&self) -> usize {
        let collecting =
            self.integrators.iter().filter(|integrator| self.collects_rejected(integrator));
        collecting.filter_map(|integrator| integrator.csr()).map(CsrMatrix::max_rejected).sum()
    }

    /// Returns the integrators in the order of [`MultiIntegrator::new`], which is the order of the
    /// sums.
    pub fn integrators(&self) -> &[&'a Integrator] {
        &self.integrators
    }

    /// Returns the number of bins of all integrators together.
    pub fn total_bins(&self) -> usize {
        self.integrators.iter().map(|integrator| integrator.plan().nbins()).sum()
    }

    /// Returns the number of bins whose errors follow from the spread of their pixels, without
    /// clipping.
    pub fn azimuthal_bins(&self) -> usize {
        let plain = self.integrators.iter().filter(|integrator| integrator.csr().is_none());
        let plans = plain.map(|integrator| integrator.plan());
        plans.filter(|plan| plan.sums_spread()).map(|plan| plan.nbins()).sum()
    }

    /// Returns how chunks of this coding are decoded.
    ///
    /// # Errors
    /// A coding with another pixel type than the frames', or with a filter that is not supported.
    pub fn decoder(&self, coding: &PixelCoding) -> Result<Decoder, IntegratorError> {
        new_decoder(coding, self.dtype)
    }

    /// Returns a warning if the PONI file names no detector, the recipe gives no dummy value, and
    /// this frame has values that photon counters use as dummy. Only one frame is checked: the
    /// first one that can be decoded. The others are reported when they are integrated.
    pub fn warn_of_dummies(&self, decoder: &Decoder, frame: &EncodedFrame<'_>) -> Option<String> {
        if !self.integrators.iter().any(|integrator| integrator.awaits_dummy_check()) {
            return None;
        }
        let mut pixels = vec![0; self.frame_bytes()];
        decoder.decode(frame.filter_mask, frame.bytes, &mut pixels).ok()?;
        let checks: Vec<_> = self
            .integrators
            .iter()
            .filter_map(|integrator| integrator.take_dummy_check())
            .collect();
        checks.into_iter().find_map(|check| check.check(&pixels))
    }

    /// Decodes and integrates frames that are one chunk each. Returns for each frame the sums by
    /// each integrator, in order. The result of a frame that can't be decoded is an error.
    ///
    /// Methods that need all pixels of a bin decode the frames a second time.
    pub fn integrate(
        &self,
        decoder: &Decoder,
        frames: &[EncodedFrame<'_>],
        scratch: &mut Scratch,
    ) -> Vec<Result<Vec<Sums>, DecodeError>> {
        kernels::integrate_frames(decoder, &self.specs(), frames, scratch)
    }

    /// Returns whether all integrators give [blocks of sums](Self::integrate_blocks): those whose
    /// method needs all pixels of a bin do not.
    pub fn gives_blocks(&self) -> bool {
        self.integrators.iter().all(|integrator| integrator.csr().is_none())
    }

    /// Decodes and integrates frames as [`MultiIntegrator::integrate`] does, and passes the sums to
    /// `consumer` block by block. The blocks of a frame whose result is an error are of no use.
    ///
    /// # Panics
    /// Unless the integrators [give blocks](Self::gives_blocks).
    pub fn integrate_blocks(
        &self,
        decoder: &Decoder,
        frames: &[EncodedFrame<'_>],
        scratch: &mut Scratch,
        consumer: &mut dyn SumsConsumer,
    ) -> Vec<Result<(), DecodeError>> {
        assert!(self.gives_blocks(), "integrators that need no pixels by bin");
        let plans = self.integrators.iter();
        let plans: Vec<_> =
            plans.map(|integrator| (integrator.plan(), integrator.invalid_values())).collect();
        kernels::integrate_blocks_by_plans(decoder, &plans, frames, scratch, consumer)
    }

    /// Iterates over the integrators whose method this OpenCL device does not support: the index,
    /// and the name of the method for messages.
    pub fn unsupported_on_device(
        &self,
        device: &opencl::Device,
    ) -> impl Iterator<Item = (usize, &'static str)> {
        let why = move |integrator: &&Integrator| match integrator.csr() {
            _ if integrator.plan().corrects_dead_time() => {
                Some("counts that are corrected for dead time")
            }
            Some(_) if self.collects_rejected(integrator) => {
                Some("the pixels that --sparse writes")
            }
            Some(csr) if !csr.is_order_free() => Some("medians and quantiles"),
            Some(_) if !device.supports_csr() => Some("clipping where a device lacks doubles"),
            None if !device.supports_sums(integrator.plan()) => {
                Some("azimuthal errors where a device lacks doubles")
            }
            _ => None,
        };
        self.integrators
            .iter()
            .enumerate()
            .filter_map(move |(at, integrator)| Some((at, why(integrator)?)))
    }

    /// Decodes and integrates frames on an OpenCL device; otherwise like
    /// [`MultiIntegrator::integrate`]. The integrators that
    /// [`MultiIntegrator::unsupported_on_device`] lists run on the CPU. See
    /// [`opencl::DeviceQueues::integrate_batch_by_plans`].
    ///
    /// # Errors
    /// The device fails; no frame is integrated.
    pub fn integrate_on_device(
        &self,
        queues: &mut opencl::DeviceQueues,
        decoder: &Decoder,
        frames: &[EncodedFrame<'_>],
        scratch: &mut Scratch,
    ) -> Result<Vec<Result<Vec<Sums>, DecodeError>>, opencl::DeviceError> {
        let on_cpu: Vec<usize> =
            self.unsupported_on_device(queues.device()).map(|(index, _)| index).collect();
        let on_device: Vec<usize> =
            (0..self.integrators.len()).filter(|index| !on_cpu.contains(index)).collect();
        let specs = self.specs();
        let specs_at =
            |indices: &[usize]| -> Vec<_> { indices.iter().map(|&index| specs[index]).collect() };
        let mut results = FrameResults::new(frames.len(), specs.len());
        results.put(
            &on_device,
            queues.integrate_batch_by_plans(decoder, &specs_at(&on_device), frames)?,
        );
        scratch.add_decode_paths(queues.take_decode_paths());
        results
            .put(&on_cpu, kernels::integrate_frames(decoder, &specs_at(&on_cpu), frames, scratch));
        Ok(results.into_frames())
    }

    /// Puts a frame together from chunks that hold parts of it, or several frames; see
    /// [`Assembler::assemble`]. The result is decoded by [`MultiIntegrator::native_decoder`].
    ///
    /// # Errors
    /// A chunk can't be read or decoded, or there is no memory for it.
    pub fn assemble(
        &self,
        decoder: &Decoder,
        assembler: &mut Assembler,
        row_and_chunks: (u64, &[Chunk]),
        read: impl FnMut(&Chunk, &mut Vec<u8>) -> io::Result<()>,
        frame: &mut Vec<u8>,
    ) -> Result<u64, AssembleError> {
        assembler.assemble(decoder, self.shape, row_and_chunks, read, frame)
    }

    /// Returns the decoder for uncompressed pixels in native byte order, such as those of assembled
    /// frames.
    pub fn native_decoder(&self) -> Decoder {
        Pipeline::native(self.dtype)
    }

    /// Returns the bytes of a decoded frame.
    pub fn frame_bytes(&self) -> usize {
        self.shape[0] * self.shape[1] * self.dtype.size()
    }

    /// Returns the inputs of the kernels, one per integrator.
    fn specs(&self) -> Vec<IntegrationSpec<'a>> {
        let spec = |integrator: &&'a Integrator| {
            let (plan, invalid, csr) =
                (integrator.plan(), integrator.invalid_values(), integrator.csr());
            let collects_rejected = self.collects_rejected(integrator);
            IntegrationSpec { plan, invalid, csr, collects_rejected }
        };
        self.integrators.iter().map(spec).collect()
    }
}

#[cfg(test)]
mod tests {
    use recipe::{Recipe, Settings};
    use records::FrameLayout;

    use super::*;

    #[test]
    fn the_first_frame_that_can_be_decoded_is_checked_for_dummies() {
        let poni = "poni_version: 2\nDetector: Detector\nDetector_config: {\"pixel1\": 1e-4, \"pixel2\": 1e-4, \
                    \"max_shape\": [4, 5]}\nDistance: 0.1\nPoni1: 0\nPoni2: 0\nWavelength: 1e-10\n";
        let settings =
            Settings { geometry: Some(poni.to_owned()), npt: Some(3), ..Settings::default() };
        let recipe = Recipe::resolve(&settings).unwrap();
        let integrator =
            Integrator::new(&recipe, &FrameLayout::full_frame([4, 5]), PixelType::U16).unwrap();
        let integrators = MultiIntegrator::new(vec![&integrator]);
        let warning = |bytes: &[u8]| {
            integrators.warn_of_dummies(
                &integrators.native_decoder(),
                &EncodedFrame { bytes, filter_mask: 0 },
            )
        };
        let frame = 65534_u16.to_ne_bytes().repeat(20);
        assert_eq!(warning(&frame[1..]), None);
        assert!(warning(&frame).is_some_and(|warning| warning.starts_with("20 unmasked pixels")));
        assert_eq!(warning(&frame), None);
    }
}
