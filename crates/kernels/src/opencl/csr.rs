//! Statistics that need all pixels of a bin, on a device; see `csr.cl`.

use ocl::core::{self, Event, Kernel};

use super::arguments::kernel_arguments;
use super::buffer::{DeviceBuffer, NO_WAIT};
use super::error::DeviceError;
use super::launch_buffers::PlanLaunch;
use super::matrix::CsrBuffers;
use super::program::LANES_PER_BIN;
use crate::robust::{Reduction, Statistic};
use crate::variance_model::{PixelVarianceModel, SpreadRole};

kernel_arguments! {
    /// The arguments of `decode`, which writes the pixels of frames to the intermediate buffer.
    DecodeArguments {
        input: &'a DeviceBuffer,
        frames: u32,
        tiles: u32,
        block_pixels: u32,
        pixels_of_frame: u32,
        entries: u32,
        intermediate: &'a DeviceBuffer,
        status: &'a DeviceBuffer,
    }
}

kernel_arguments! {
    /// The arguments of `choose`, which selects the pixels of each bin and sums them.
    ChooseArguments {
        intermediate: &'a DeviceBuffer,
        frames: u32,
        pixels_of_frame: u32,
        bins: u32,
        entries: u32,
        starts: &'a DeviceBuffer,
        pixels: &'a DeviceBuffer,
        has_weights: u32,
        weights: &'a DeviceBuffer,
        norms: &'a DeviceBuffer,
        has_darks: u32,
        darks: &'a DeviceBuffer,
        pixel_variance: u32,
        spread: u32,
        variances: &'a DeviceBuffer,
        full_norm: &'a DeviceBuffer,
        full_norm_sq: &'a DeviceBuffer,
        full_count: &'a DeviceBuffer,
        ranges: &'a DeviceBuffer,
        range_count: u32,
        threshold: f64,
        max_iter: u32,
        status: &'a DeviceBuffer,
        sums: &'a DeviceBuffer,
    }
}

/// Enqueues both kernels, `decode` and `choose`.
pub(super) fn enqueue(
    csr: &CsrBuffers,
    [decode, choose]: [&Kernel; 2],
    launch: &PlanLaunch<'_>,
    [decoded, chosen]: [&mut Event; 2],
) -> Result<(), DeviceError> {
    let PlanLaunch { queue, device_plan, frames, memory, results } = *launch;
    let (plan, matrix, variant) = (device_plan.plan, &device_plan.matrix, device_plan.variant);
    let Some(Reduction { statistic, variance_model }) = device_plan.csr.map(|csr| csr.reduction)
    else {
        unreachable!("a plan with CSR buffers has a CSR matrix")
    };
    let (threshold, max_iter) = match statistic {
        Statistic::SigmaClip { threshold, max_iter } => (threshold, max_iter),
        Statistic::QuantileMean { .. } => unreachable!("no device computes quantiles"),
    };
    DecodeArguments {
        input: &memory.input,
        frames: frames as u32,
        tiles: matrix.tiles,
        block_pixels: matrix.block_pixels,
        pixels_of_frame: plan.pixels() as u32,
        entries: csr.entries as u32,
        intermediate: &memory.intermediate,
        status: &results.status,
    }
    .set(decode)?;
    let [full_norm, full_norm_sq, full_count] = &csr.static_sums;
    ChooseArguments {
        intermediate: &memory.intermediate,
        frames: frames as u32,
        pixels_of_frame: plan.pixels() as u32,
        bins: plan.nbins() as u32,
        entries: csr.entries as u32,
        starts: &csr.starts,
        pixels: &csr.pixels,
        has_weights: csr.has_weights.into(),
        weights: &csr.weights,
        norms: &csr.norms,
        has_darks: csr.has_darks.into(),
        darks: &csr.darks,
        pixel_variance: pixel_variance_code(variance_model.pixel),
        spread: spread_code(variance_model.spread),
        variances: &csr.variances,
        full_norm,
        full_norm_sq,
        full_count,
        ranges: &device_plan.ranges,
        range_count: device_plan.range_count,
        threshold,
        max_iter,
        status: &results.status,
        sums: &results.sums,
    }
    .set(choose)?;
    let (decode_group, choose_group) = (variant.group, LANES_PER_BIN * variant.bins_per_group());
    let decode_lanes = [matrix.tiles as usize * frames * decode_group, 1, 1];
    let choose_lanes = [plan.nbins() * choose_group, frames.div_ceil(variant.bins_per_group()), 1];
    let [decode_group, choose_group] =
        [decode_group, choose_group].map(|lanes| Some([lanes, 1, 1]));
    // SAFETY: A kernel may read or write outside of its buffers if arguments, buffers and work size
    // don't match. `DecodeArguments` and `ChooseArguments` have the order and types of `decode` and
    // `choose` in `csr.cl`, and the driver refuses a wrong number or size. `BufferSizes::new` has
    // sized input, intermediate and results for at least `frames` frames of this plan, and
    // `CsrBuffers::new` the matrix: `starts` and `pixels` come from a checked matrix, so all
    // entries and pixels are in range. Block offsets are from `write_input`, within the input. The
    // kernels check the only untrusted data, the compressed blocks (`lz4.cl`), and frames of other
    // sizes than the plan's never get here. The buffers stay alive until `wait_and_read` has seen
    // the last event. A change to a kernel's parameters or to the intermediate layout without
    // `bytes_per_frame` would break this.
    unsafe {
        core::enqueue_kernel(
            queue,
            decode,
            1,
            None,
            &decode_lanes,
            decode_group,
            NO_WAIT,
            Some(decoded),
        )?;
        core::enqueue_kernel(
            queue,
            choose,
            2,
            None,
            &choose_lanes,
            choose_group,
            NO_WAIT,
            Some(chosen),
        )?;
    }
    Ok(())
}

/// Returns the code in `csr.cl` of the source of a pixel's variance.
fn pixel_variance_code(model: PixelVarianceModel) -> u32 {
    match model {
        PixelVarianceModel::None => 0,
        PixelVarianceModel::Counts => 1,
        PixelVarianceModel::Given => 2,
    }
}

/// Returns the code in `csr.cl` of the place where the spread is used.
fn spread_code(role: SpreadRole) -> u32 {
    match role {
        SpreadRole::Unused => 0,
        SpreadRole::Clipping => 1,
        SpreadRole::ClippingAndResult => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments::parameters_in_source;
    use super::*;

    #[test]
    fn arguments_are_in_the_order_of_the_parameters() {
        let source = include_str!("csr.cl");
        assert_eq!(DecodeArguments::PARAMETERS, parameters_in_source(source, "decode"));
        assert_eq!(ChooseArguments::PARAMETERS, parameters_in_source(source, "choose"));
    }
}
