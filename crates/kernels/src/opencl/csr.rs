//! Statistics that need all pixels of a bin, on a device; see `csr.cl`.

use ocl::core::{self, CommandQueue, Context, Event, Kernel};

use super::buffer::{DeviceBuffer, NO_WAIT};
use super::error::DeviceError;
use super::launch::KernelArgument::{Double, Mem, Word};
use super::launch::{LaunchBuffers, set_arguments};
use super::queue::DevicePlan;
use crate::plan::{IntegrationPlan, VarianceModel};
use crate::robust::{CsrMatrix, Reduction, Statistic};

/// Number of lanes that sum one bin of one frame together.
pub(super) const LANES_PER_BIN: usize = 16;

/// Number of sums of a bin: signal, variance, norm, norm², count.
pub(super) const SUMS_PER_BIN: usize = 5;

/// A [`CsrMatrix`] in a device's memory.
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
    /// Norm, norm² and count of each bin if all its pixels are valid.
    static_sums: [DeviceBuffer; 3],
}

impl CsrBuffers {
    /// Copies a matrix to a device. The number of entries must fit in 32 bits.
    pub(super) fn new(context: &Context, plan: &IntegrationPlan, csr: &CsrMatrix) -> Result<CsrBuffers, DeviceError> {
        let starts: Vec<u32> = csr.starts.iter().map(|&start| start as u32).collect();
        Ok(CsrBuffers {
            entries: csr.norms.len(),
            has_weights: !csr.weights.is_empty(),
            has_darks: !csr.dark.is_empty(),
            starts: DeviceBuffer::from_slice(context, &starts)?,
            pixels: DeviceBuffer::from_slice(context, &csr.pixels)?,
            weights: DeviceBuffer::from_slice(context, &csr.weights)?,
            norms: DeviceBuffer::from_slice(context, &csr.norms)?,
            darks: DeviceBuffer::from_slice(context, &csr.dark)?,
            variances: DeviceBuffer::from_slice(context, &csr.variance)?,
            static_sums: [
                DeviceBuffer::from_slice(context, plan.norm())?,
                DeviceBuffer::from_slice(context, plan.norm_sq())?,
                DeviceBuffer::from_slice(context, plan.count())?,
            ],
        })
    }

    /// Returns the bytes of a frame's intermediate results: its pixels, and the indices of the entries that remain
    /// after clipping.
    pub(super) fn bytes_per_frame(&self, frame_bytes: usize) -> usize {
        frame_bytes.next_multiple_of(8) + (4 * self.entries).next_multiple_of(8)
    }

    /// Enqueues both kernels, `decode` and `choose`, for `count` frames and the plan number `plan_index` of the launch.
    pub(super) fn enqueue(
        &self,
        [decode, choose]: [&Kernel; 2],
        queue: &CommandQueue,
        device_plan: &DevicePlan<'_>,
        count: u32,
        (memory, plan_index): (&LaunchBuffers, usize),
        [decoded, chosen]: [&mut Event; 2],
    ) -> Result<(), DeviceError> {
        let (pixels, bins, entries) =
            (device_plan.plan.pixels() as u32, device_plan.plan.nbins() as u32, self.entries as u32);
        let results = &memory.results[plan_index];
        set_arguments(
            decode,
            &[
                Mem(&memory.input),
                Word(count),
                Word(device_plan.matrix.tiles),
                Word(device_plan.matrix.block_pixels),
                Word(pixels),
                Word(entries),
                Mem(&memory.intermediate),
                Mem(&results.status),
            ],
        )?;
        let Some(Reduction { statistic, variance_model }) = device_plan.csr.map(|csr| csr.reduction) else {
            unreachable!("a plan with CSR buffers has a CSR matrix")
        };
        let (threshold, max_iter) = match statistic {
            Statistic::SigmaClip { threshold, max_iter } => (threshold, max_iter),
            Statistic::Mean | Statistic::QuantileMean { .. } => (0., 0),
        };
        let [norm, norm_sq, weight_sum] = &self.static_sums;
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
                Word(variance_model_code(variance_model)),
                Mem(&self.variances),
                Mem(norm),
                Mem(norm_sq),
                Mem(weight_sum),
                Mem(&device_plan.ranges),
                Word(device_plan.range_count),
                Double(threshold),
                Word(max_iter),
                Mem(&results.status),
                Mem(&results.sums),
            ],
        )?;
        let (group, lanes) = (device_plan.variant.group, LANES_PER_BIN * device_plan.variant.bins_per_group());
        let tiles = [device_plan.matrix.tiles as usize * count as usize * group, 1, 1];
        let bin_lanes = [bins as usize * lanes, (count as usize).div_ceil(device_plan.variant.bins_per_group()), 1];
        // SAFETY: A kernel may read or write outside of its buffers if arguments, buffers and work size don't match.
        // Both argument lists above have the order and types of `decode` and `choose` in `csr.cl`, and the driver
        // refuses a wrong number or size. `BufferSizes::new` has sized input, intermediate and results for at least
        // `count` frames of this plan, and `CsrBuffers::new` the matrix: `starts` and `pixels` come from a checked
        // matrix, so all entries and pixels are in range. Block offsets are from `write_input`, within the input. The
        // kernels check the only untrusted data, the compressed blocks (`lz4.cl`), and frames of other sizes than the
        // plan's never get here. The buffers stay alive until `wait_and_read` has seen the last event. A change to a
        // kernel's parameters or to the intermediate layout without `bytes_per_frame` would break this.
        unsafe {
            core::enqueue_kernel(queue, decode, 1, None, &tiles, Some([group, 1, 1]), NO_WAIT, Some(decoded))?;
            core::enqueue_kernel(queue, choose, 2, None, &bin_lanes, Some([lanes, 1, 1]), NO_WAIT, Some(chosen))?;
        }
        Ok(())
    }
}

/// Returns the code of a variance model in `csr.cl`.
fn variance_model_code(variance_model: VarianceModel) -> u32 {
    match variance_model {
        VarianceModel::None => 0,
        VarianceModel::Poisson => 1,
        VarianceModel::Azimuthal => 2,
        VarianceModel::Hybrid => 3,
        VarianceModel::Given => 4,
    }
}
