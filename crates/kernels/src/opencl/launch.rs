//! [`KernelPair`], the compiled kernels of a variant.

use ocl::core::{self, Event, Kernel};

use super::device::Device;
use super::error::DeviceError;
use super::launch_buffers::PlanLaunch;
use super::matrix::MatrixBuffers;
use super::program::KernelVariant;
use super::{csr, slots};

/// The two kernels of a variant, which run one after the other.
pub(super) struct KernelPair {
    pub(super) variant: KernelVariant,
    first: Kernel,
    second: Kernel,
}

impl KernelPair {
    /// Compiles the kernels of a variant, unless that has been done before.
    pub(super) fn new(device: &Device, variant: KernelVariant) -> Result<KernelPair, DeviceError> {
        let program = device.program(variant)?;
        let [first, second] = variant.kernels().map(|name| core::create_kernel(&program, name));
        Ok(KernelPair { variant, first: first?, second: second? })
    }

    /// Enqueues both kernels; `events` are set to their ends.
    pub(super) fn enqueue(
        &self,
        launch: &PlanLaunch<'_>,
        events: [&mut Event; 2],
    ) -> Result<(), DeviceError> {
        let kernels = [&self.first, &self.second];
        match &launch.device_plan.matrix.entries {
            MatrixBuffers::Slots(slots) => slots::enqueue(slots, kernels, launch, events),
            MatrixBuffers::Csr(csr) => csr::enqueue(csr, kernels, launch, events),
        }
    }
}
