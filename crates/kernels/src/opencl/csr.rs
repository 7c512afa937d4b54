//! Methods that look at all pixels of a bin, on a device; see `by_bin.cl`.

use ocl::core::{self, CommandQueue, Context, Event, Kernel};

use super::buffer::{DeviceBuffer, NO_WAIT};
use super::error::DeviceError;
use super::launch::KernelArgument::{Double, Mem, Word};
use super::launch::{LaunchBuffers, set_arguments};
use super::queue::DevicePlan;
use crate::plan::{IntegrationPlan, VarianceModel};
use crate::robust::{CsrMatrix, Reduction, Statistic};

/// Lanes that sum one bin of one frame.
pub(super) const LANES_PER_BIN: usize = 16;

/// Sums by bin: signal, variance, norm, its square, count.
pub(super) const SUMS_PER_BIN: usize = 5;

/// A plan's matrix by bin in a device's memory.
pub(super) struct CsrBuffers {
    entries: usize,
    has_weights: bool,
    has_darks: bool,
    starts: DeviceBuffer,
    pixels: DeviceBuffer,
    weights: DeviceBuffer,
    norms: DeviceBuffer,
    darks: DeviceBuffer,
    variances: DeviceBuffer,
    /// By bin, norm, its square and count where all pixels are valid.
    static_sums: [DeviceBuffer; 3],
}

impl CsrBuffers {
    /// Entries are numbered in 32 bits.
    pub(super) fn new(
        context: &Context,
        plan: &IntegrationPlan,
        by_bin: &CsrMatrix,
    ) -> Result<CsrBuffers, DeviceError> {
        let starts: Vec<u32> = by_bin.starts.iter().map(|&start| start as u32).collect();
        Ok(CsrBuffers {
            entries: by_bin.norms.len(),
            has_weights: !by_bin.weights.is_empty(),
            has_darks: !by_bin.dark.is_empty(),
            starts: DeviceBuffer::from_slice(context, &starts)?,
            pixels: DeviceBuffer::from_slice(context, &by_bin.pixels)?,
            weights: DeviceBuffer::from_slice(context, &by_bin.weights)?,
            norms: DeviceBuffer::from_slice(context, &by_bin.norms)?,
            darks: DeviceBuffer::from_slice(context, &by_bin.dark)?,
            variances: DeviceBuffer::from_slice(context, &by_bin.variance)?,
            static_sums: [
                DeviceBuffer::from_slice(context, plan.norm())?,
                DeviceBuffer::from_slice(context, plan.norm_sq())?,
                DeviceBuffer::from_slice(context, plan.count())?,
            ],
        })
    }

    /// Bytes of a frame's room: its pixels, and the numbers of the entries that are left.
    pub(super) fn bytes_per_frame(&self, frame_bytes: usize) -> usize {
        frame_bytes.next_multiple_of(8) + (4 * self.entries).next_multiple_of(8)
    }

    /// Queues both kernels, `codec` and `choose`, for `count` frames and the launch's plan of this `number`.
    pub(super) fn enqueue(
        &self,
        [decode, choose]: [&Kernel; 2],
        queue: &CommandQueue,
        aim: &DevicePlan<'_>,
        count: u32,
        (memory, number): (&LaunchBuffers, usize),
        [decoded, chosen]: [&mut Event; 2],
    ) -> Result<(), DeviceError> {
        let (pixels, bins, entries) = (aim.plan.pixels() as u32, aim.plan.nbins() as u32, self.entries as u32);
        let results = &memory.results[number];
        set_arguments(
            decode,
            &[
                Mem(&memory.input),
                Word(count),
                Word(aim.matrix.tiles),
                Word(aim.matrix.block_pixels),
                Word(pixels),
                Word(entries),
                Mem(&memory.intermediate),
                Mem(&results.status),
            ],
        )?;
        let Some(Reduction { statistic, variance_model: errors }) = aim.by_bin.map(|by_bin| by_bin.reduction) else {
            unreachable!("a matrix by bin is of such a method")
        };
        let (threshold, rounds) = match statistic {
            Statistic::SigmaClip { threshold, max_iter: rounds } => (threshold, rounds),
            Statistic::Mean | Statistic::QuantileMean { .. } => (0., 0),
        };
        let [norm, norm_sq, sum] = &self.static_sums;
        set_arguments(
            choose,
            &[
                Mem(&memory.intermediate),
                Word(count),
                Word(pixels),
                Word(bins),
                Word(entries),
                Mem(&self.starts),
                Mem(&self.pixels),
                Word(self.has_weights.into()),
                Mem(&self.weights),
                Mem(&self.norms),
                Word(self.has_darks.into()),
                Mem(&self.darks),
                Word(error_model_code(errors)),
                Mem(&self.variances),
                Mem(norm),
                Mem(norm_sq),
                Mem(sum),
                Mem(&aim.ranges),
                Word(aim.range_count),
                Double(threshold),
                Word(rounds),
                Mem(&results.status),
                Mem(&results.sums),
            ],
        )?;
        let (group, lanes) = (aim.variant.group, LANES_PER_BIN * aim.variant.bins_per_group());
        let tiles = [aim.matrix.tiles as usize * count as usize * group, 1, 1];
        let teams = [bins as usize * lanes, (count as usize).div_ceil(aim.variant.bins_per_group()), 1];
        // SAFETY: the arguments are those of the kernels, which keep within them whatever the frames hold; see the sources.
        unsafe {
            core::enqueue_kernel(queue, decode, 1, None, &tiles, Some([group, 1, 1]), NO_WAIT, Some(decoded))?;
            core::enqueue_kernel(queue, choose, 2, None, &teams, Some([lanes, 1, 1]), NO_WAIT, Some(chosen))?;
        }
        Ok(())
    }
}

/// An error model as `choose` takes it.
fn error_model_code(errors: VarianceModel) -> u32 {
    match errors {
        VarianceModel::None => 0,
        VarianceModel::Poisson => 1,
        VarianceModel::Azimuthal => 2,
        VarianceModel::Hybrid => 3,
        VarianceModel::Given => 4,
    }
}
