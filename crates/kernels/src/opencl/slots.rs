//! Sums over all valid pixels of a bin, on a device; see `integrate.cl`.

use ocl::core::{self, Event, Kernel};

use super::arguments::kernel_arguments;
use super::buffer::{DeviceBuffer, NO_WAIT};
use super::error::DeviceError;
use super::launch_buffers::PlanLaunch;
use super::matrix::SlotBuffers;

kernel_arguments! {
    /// The arguments of `integrate`, which decodes frames and adds their pixels to slots.
    IntegrateArguments {
        input: &'a DeviceBuffer,
        frames: u32,
        tiles: u32,
        span: u32,
        block_pixels: u32,
        pixels_of_frame: u32,
        slot_starts: &'a DeviceBuffer,
        row_starts: &'a DeviceBuffer,
        entry_starts: &'a DeviceBuffer,
        pixel_in_tile: &'a DeviceBuffer,
        weights: &'a DeviceBuffer,
        product_weights: &'a DeviceBuffer,
        has_darks: u32,
        twice_darks: &'a DeviceBuffer,
        used: &'a DeviceBuffer,
        ranges: &'a DeviceBuffer,
        range_count: u32,
        partial: &'a DeviceBuffer,
        invalid: &'a DeviceBuffer,
        status: &'a DeviceBuffer,
    }
}

kernel_arguments! {
    /// The arguments of `reduce`, which adds up the slots of each bin.
    ReduceArguments {
        partial: &'a DeviceBuffer,
        frames: u32,
        bins: u32,
        slots: u32,
        bin_starts: &'a DeviceBuffer,
        bin_slots: &'a DeviceBuffer,
        sums: &'a DeviceBuffer,
    }
}

/// Enqueues both kernels, `integrate` and `reduce`.
pub(super) fn enqueue(
    slots: &SlotBuffers,
    [integrate, reduce]: [&Kernel; 2],
    launch: &PlanLaunch<'_>,
    [integrated, reduced]: [&mut Event; 2],
) -> Result<(), DeviceError> {
    let PlanLaunch { queue, device_plan, frames, memory, results } = *launch;
    let (plan, matrix) = (device_plan.plan, &device_plan.matrix);
    IntegrateArguments {
        input: &memory.input,
        frames: frames as u32,
        tiles: matrix.tiles,
        span: slots.span,
        block_pixels: matrix.block_pixels,
        pixels_of_frame: plan.pixels() as u32,
        slot_starts: &slots.slot_starts,
        row_starts: &slots.row_starts,
        entry_starts: &slots.entry_starts,
        pixel_in_tile: &slots.pixel_in_tile,
        weights: &slots.weights,
        product_weights: &slots.product_weights,
        has_darks: slots.has_darks.into(),
        twice_darks: &slots.twice_darks,
        used: &slots.used,
        ranges: &device_plan.ranges,
        range_count: device_plan.range_count,
        partial: &memory.intermediate,
        invalid: &results.invalid,
        status: &results.status,
    }
    .set(integrate)?;
    ReduceArguments {
        partial: &memory.intermediate,
        frames: frames as u32,
        bins: plan.nbins() as u32,
        slots: slots.slots,
        bin_starts: &slots.bin_starts,
        bin_slots: &slots.bin_slots,
        sums: &results.sums,
    }
    .set(reduce)?;
    let group = device_plan.variant.group;
    let spans = matrix.tiles.div_ceil(slots.span) as usize;
    let integrate_lanes = [spans * frames * group, 1, 1];
    let reduce_lanes = [plan.nbins().next_multiple_of(group), frames, 1];
    let group = Some([group, 1, 1]);
    // SAFETY: A kernel may read or write outside of its buffers if arguments, buffers and work size
    // don't match. `IntegrateArguments` and `ReduceArguments` have the order and types of
    // `integrate` and `reduce` in `integrate.cl`, and the driver refuses a wrong number or size.
    // `BufferSizes::new` has sized input, intermediate and results for at least `frames` frames of
    // this plan. The matrix is a `SlotLayout`, whose slots, rows and pixels are in range by
    // construction. Block offsets are from `write_input`, within the input, and all plans of a
    // launch are for frames of one size (`DeviceQueues::try_integrate`). The kernels check the only
    // untrusted data, the compressed blocks (`lz4.cl`). The buffers stay alive until
    // `wait_and_read` has seen the last event. A change to a kernel's parameters or to `SlotLayout`
    // on one side only would break this.
    unsafe {
        core::enqueue_kernel(
            queue,
            integrate,
            1,
            None,
            &integrate_lanes,
            group,
            NO_WAIT,
            Some(integrated),
        )?;
        core::enqueue_kernel(queue, reduce, 2, None, &reduce_lanes, group, NO_WAIT, Some(reduced))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::arguments::parameters_in_source;
    use super::*;

    #[test]
    fn arguments_are_in_the_order_of_the_parameters() {
        let source = include_str!("integrate.cl");
        assert_eq!(IntegrateArguments::PARAMETERS, parameters_in_source(source, "integrate"));
        assert_eq!(ReduceArguments::PARAMETERS, parameters_in_source(source, "reduce"));
    }
}
