//! [`DeviceMatrix`], a plan's matrix in the memory of a device.

use ocl::core::Context;

use super::buffer::DeviceBuffer;
use super::error::DeviceError;
use super::slot_layout::{SlotLayout, tile_counts};
use crate::plan::IntegrationPlan;
use crate::robust::CsrMatrix;

/// A plan's matrix in a device's memory.
pub(super) struct DeviceMatrix {
    /// The plan's [`IntegrationPlan::id`].
    pub(super) plan_id: u64,
    /// Pixels per block.
    pub(super) elements: usize,
    /// Tiles per frame.
    pub(super) tiles: u32,
    /// Pixels of a frame that are in blocks. Up to seven pixels after the last block are not
    /// bitshuffled.
    pub(super) block_pixels: u32,
    pub(super) entries: MatrixBuffers,
}

/// A matrix in the layout of the kernels that use it.
pub(super) enum MatrixBuffers {
    /// The matrix for sums; see `integrate.cl`.
    Slots(SlotBuffers),
    /// The matrix for statistics that need all pixels of a bin; see `csr.cl`.
    Csr(CsrBuffers),
}

/// A [`SlotLayout`] in a device's memory.
pub(super) struct SlotBuffers {
    pub(super) span: u32,
    pub(super) slots: u32,
    pub(super) slot_starts: DeviceBuffer,
    pub(super) row_starts: DeviceBuffer,
    pub(super) entry_starts: DeviceBuffer,
    pub(super) pixel_in_tile: DeviceBuffer,
    pub(super) weights: DeviceBuffer,
    pub(super) product_weights: DeviceBuffer,
    pub(super) has_darks: bool,
    pub(super) twice_darks: DeviceBuffer,
    pub(super) used: DeviceBuffer,
    pub(super) bin_starts: DeviceBuffer,
    pub(super) bin_slots: DeviceBuffer,
}

impl DeviceMatrix {
    /// Copies a plan's matrix to a device, for blocks of `elements` pixels: the CSR matrix if `csr`
    /// is given.
    pub(super) fn new(
        context: &Context,
        plan: &IntegrationPlan,
        csr: Option<&CsrMatrix>,
        elements: usize,
    ) -> Result<DeviceMatrix, DeviceError> {
        let too_large = || {
            DeviceError::Unsupported(
                "matrix too large: expected fewer than 2^32 entries".to_owned(),
            )
        };
        let [tiles, block_pixels] = tile_counts(plan.pixels(), elements).ok_or_else(too_large)?;
        let entries = match csr {
            None => MatrixBuffers::Slots(SlotBuffers::new(
                context,
                &SlotLayout::new(plan, elements).ok_or_else(too_large)?,
            )?),
            Some(csr) if u32::try_from(csr.norms.len()).is_err() => return Err(too_large()),
            // The kernels rely on it.
            Some(csr) if !csr.fits(plan) => {
                return Err(DeviceError::Unsupported(
                    "expected the CSR matrix that was made from the plan".to_owned(),
                ));
            }
            Some(csr) => MatrixBuffers::Csr(CsrBuffers::new(context, plan, csr)?),
        };
        Ok(DeviceMatrix { plan_id: plan.id(), elements, tiles, block_pixels, entries })
    }
}

impl SlotBuffers {
    /// Copies a layout to a device.
    fn new(context: &Context, layout: &SlotLayout) -> Result<SlotBuffers, DeviceError> {
        Ok(SlotBuffers {
            span: layout.span,
            slots: layout.slot_count(),
            slot_starts: DeviceBuffer::from_slice(context, &layout.slot_starts)?,
            row_starts: DeviceBuffer::from_slice(context, &layout.row_starts)?,
            entry_starts: DeviceBuffer::from_slice(context, &layout.entry_starts)?,
            pixel_in_tile: DeviceBuffer::from_slice(context, &layout.pixel_in_tile)?,
            weights: DeviceBuffer::from_slice(context, &layout.weights)?,
            product_weights: DeviceBuffer::from_slice(context, &layout.product_weights)?,
            has_darks: !layout.twice_darks.is_empty(),
            twice_darks: DeviceBuffer::from_slice(context, &layout.twice_darks)?,
            used: DeviceBuffer::from_slice(context, &layout.used)?,
            bin_starts: DeviceBuffer::from_slice(context, &layout.bin_starts)?,
            bin_slots: DeviceBuffer::from_slice(context, &layout.bin_slots)?,
        })
    }
}

/// A [`CsrMatrix`] in a device's memory.
pub(super) struct CsrBuffers {
    pub(super) entries: usize,
    pub(super) has_weights: bool,
    pub(super) has_darks: bool,
    pub(super) starts: DeviceBuffer,
    pub(super) pixels: DeviceBuffer,
    pub(super) weights: DeviceBuffer,
    pub(super) norms: DeviceBuffer,
    pub(super) darks: DeviceBuffer,
    pub(super) variances: DeviceBuffer,
    /// Norm, norm² and count of each bin if all its pixels are valid.
    pub(super) static_sums: [DeviceBuffer; 3],
}

impl CsrBuffers {
    /// Copies a matrix to a device. The number of entries must fit in 32 bits.
    fn new(
        context: &Context,
        plan: &IntegrationPlan,
        csr: &CsrMatrix,
    ) -> Result<CsrBuffers, DeviceError> {
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

    /// Returns the bytes of a frame's intermediate results: its pixels, and for each entry
    /// whether it has been removed.
    pub(super) fn bytes_per_frame(&self, frame_bytes: usize) -> usize {
        frame_bytes.next_multiple_of(8) + self.entries.next_multiple_of(8)
    }
}
