//! An open OpenCL device: its context, compiled kernels and cached matrices, shared by all queues.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ocl::core::{self, Context, DeviceId, Event, ProfilingInfo, ProfilingInfoResult, Program};

use super::buffer::DeviceBuffer;
use super::discovery::{DeviceDescription, DeviceKind};
use super::error::DeviceError;
use super::matrix::{DeviceMatrix, MatrixBuffers};
use super::program::{self, KernelKind, KernelVariant};
use crate::photon_sums::PhotonQuantities;
use crate::plan::IntegrationPlan;
use crate::robust::CsrMatrix;

/// Number of idle matrices that a device keeps. Tasks of several recipes may alternate, and need
/// their matrices again.
const MAX_CACHED_MATRICES: usize = 4;

/// Settings of an open device.
#[derive(Clone, Debug)]
pub struct DeviceSettings {
    /// Lanes per work-group. The default is 64, or fewer if the device allows no more, and 1 on
    /// CPUs, whose drivers run the lanes of a work-group in a loop.
    pub work_group_size: Option<usize>,
    /// Sums in pairs of floats even if the device computes in doubles; for tests.
    pub force_float_pairs: bool,
    /// Directory that caches compiled kernels; `None` disables the cache.
    pub cache: Option<PathBuf>,
    /// Bytes of the device's memory that one queue may use.
    pub queue_memory: u64,
    /// Time to wait for a command. A device that takes longer is disabled.
    pub timeout: Duration,
    /// Measures the times of the stages; see [`Device::stage_times`].
    pub profile: bool,
}

/// Seconds that a device spent in each stage, by its profiling events.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageTimes {
    /// Copying chunks to the device.
    pub write: f64,
    /// The first kernel: decoding frames and summing pixels, or with a CSR matrix decoding only.
    pub integrate: f64,
    /// The second kernel: adding up the partial sums of each bin, or with a CSR matrix the
    /// statistics of each bin.
    pub reduce: f64,
}

impl Default for DeviceSettings {
    fn default() -> DeviceSettings {
        DeviceSettings {
            work_group_size: None,
            force_float_pairs: false,
            cache: None,
            queue_memory: u64::MAX,
            timeout: Duration::from_secs(120),
            profile: false,
        }
    }
}

/// An open OpenCL device, with its compiled kernels and the matrices in its memory. All threads
/// share it.
pub struct Device {
    description: DeviceDescription,
    pub(super) id: DeviceId,
    pub(super) context: Context,
    pub(super) settings: DeviceSettings,
    programs: Mutex<HashMap<KernelVariant, Arc<Program>>>,
    /// Matrices in the device's memory, the most recently used first.
    matrices: Mutex<Vec<Arc<DeviceMatrix>>>,
    /// Buffers of invalid ranges, by their encoded bytes; see [`super::device_queues`].
    ranges: Mutex<HashMap<Vec<u8>, Arc<DeviceBuffer>>>,
    failure: OnceLock<DeviceError>,
    stages: Mutex<StageTimes>,
}

impl Device {
    /// Opens a device. Kernels are compiled later, when frames first need them.
    ///
    /// # Errors
    /// The device is not usable (see [`DeviceDescription::unusable`]), or its driver fails.
    pub fn open(
        description: &DeviceDescription,
        settings: DeviceSettings,
    ) -> Result<Device, DeviceError> {
        let id = description.id.filter(|_| description.unusable.is_none());
        let unusable = || {
            description
                .unusable
                .as_deref()
                .unwrap_or("expected a device from the list of devices")
                .to_owned()
        };
        let id = id.ok_or_else(|| DeviceError::Unsupported(unusable()))?;
        Ok(Device {
            description: description.clone(),
            id,
            context: core::create_context(None, &[id], None, None)?,
            settings,
            programs: Mutex::default(),
            matrices: Mutex::default(),
            ranges: Mutex::default(),
            failure: OnceLock::new(),
            stages: Mutex::default(),
        })
    }

    /// Returns the description that the device was opened with.
    pub fn description(&self) -> &DeviceDescription {
        &self.description
    }

    /// Returns true if the device can compute statistics that need all pixels of a bin: it has
    /// doubles and work-groups of at least 16 lanes. No device computes quantiles.
    pub fn supports_csr(&self) -> bool {
        self.has_doubles() && self.description.lanes >= program::LANES_PER_BIN
    }

    /// Returns true if the device can compute the sums of a plan. The spread of the pixels in a bin
    /// is a small difference of sums, for which pairs of floats have too few bits.
    pub fn supports_sums(&self, plan: &IntegrationPlan) -> bool {
        self.has_doubles() || !plan.sums_spread()
    }

    fn has_doubles(&self) -> bool {
        self.description.has_doubles && !self.settings.force_float_pairs
    }

    /// Returns the error that has disabled the device, if any.
    pub fn failure(&self) -> Option<&DeviceError> {
        self.failure.get()
    }

    /// Disables the device: all later calls return this error. If it is disabled twice, the first
    /// error stays.
    pub fn disable(&self, why: DeviceError) {
        let _ = self.failure.set(why);
    }

    /// Returns the seconds spent in each stage so far; 0 unless [`DeviceSettings::profile`] is set.
    pub fn stage_times(&self) -> StageTimes {
        *self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the times of a launch: of its write, and of the two kernels of each plan.
    pub(super) fn record_times(&self, written: &Event, steps: &[[Event; 3]]) {
        if !self.settings.profile {
            return;
        }
        let at = |event, what| match core::get_event_profiling_info(event, what) {
            Ok(ProfilingInfoResult::Start(nanoseconds) | ProfilingInfoResult::End(nanoseconds)) => {
                nanoseconds as f64
            }
            _ => 0.,
        };
        let seconds =
            |event| (at(event, ProfilingInfo::End) - at(event, ProfilingInfo::Start)) * 1e-9;
        let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        stages.write += seconds(written);
        for [integrated, reduced, _] in steps {
            stages.integrate += seconds(integrated);
            stages.reduce += seconds(reduced);
        }
    }

    /// Returns the variant of the kernels for frames of a pixel type, in blocks of `block_bytes`
    /// decoded bytes.
    pub(super) fn variant(
        &self,
        dtype: crate::PixelType,
        block_bytes: usize,
        kind: KernelKind,
    ) -> KernelVariant {
        let group = if self.description.kind == DeviceKind::Cpu {
            1
        } else {
            self.description.lanes.clamp(1, 64)
        };
        let doubles = self.has_doubles();
        KernelVariant {
            dtype,
            block_bytes,
            kind,
            group: self.settings.work_group_size.unwrap_or(group),
            doubles,
        }
    }

    /// Returns the compiled kernels of a variant. Each variant is compiled once; meanwhile other
    /// threads wait.
    pub(super) fn program(&self, variant: KernelVariant) -> Result<Arc<Program>, DeviceError> {
        if variant.dtype == crate::PixelType::F64 && !variant.doubles {
            let why = "float64 pixels: expected a device with doubles (cl_khr_fp64)";
            return Err(DeviceError::Unsupported(why.to_owned()));
        }
        let is_spread = variant.kind == KernelKind::Sums(PhotonQuantities::SignalAndSpread);
        if is_spread && !variant.doubles {
            let why = "azimuthal errors: expected a device with doubles (cl_khr_fp64)";
            return Err(DeviceError::Unsupported(why.to_owned()));
        }
        if variant.kind == KernelKind::Csr && !self.supports_csr() {
            let why = "sigma clipping: expected a device with doubles (cl_khr_fp64) and work-groups of \
                       16 lanes or more";
            return Err(DeviceError::Unsupported(why.to_owned()));
        }
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = programs.get(&variant) {
            return Ok(program.clone());
        }
        let DeviceDescription { platform, name, version, driver, .. } = &self.description;
        let driver = [platform, name, version, driver].map(String::as_str).join("\n");
        let program =
            variant.build(&self.context, self.id, &driver, self.settings.cache.as_deref())?;
        let program = Arc::new(program);
        programs.insert(variant, program.clone());
        Ok(program)
    }

    /// Returns a plan's matrix in the device's memory, for blocks of `elements` pixels: the CSR
    /// matrix if `csr` is given.
    ///
    /// A matrix is copied to the device once; meanwhile other threads wait. If memory is short,
    /// idle matrices are dropped.
    pub(super) fn matrix(
        &self,
        plan: &IntegrationPlan,
        csr: Option<&CsrMatrix>,
        elements: usize,
    ) -> Result<Arc<DeviceMatrix>, DeviceError> {
        let mut matrices = self.matrices.lock().unwrap_or_else(PoisonError::into_inner);
        let is_wanted = |matrix: &Arc<DeviceMatrix>| {
            let is_csr = matches!(matrix.entries, MatrixBuffers::Csr(_));
            (matrix.plan_id, matrix.elements, is_csr) == (plan.id(), elements, csr.is_some())
        };
        let matrix = match matrices.iter().position(is_wanted) {
            Some(index) => matrices.remove(index),
            None => {
                let make = || DeviceMatrix::new(&self.context, plan, csr, elements).map(Arc::new);
                evict_idle(&mut matrices, MAX_CACHED_MATRICES - 1);
                make().or_else(|why| match why {
                    DeviceError::OutOfMemory(_) if evict_idle(&mut matrices, 0) => make(),
                    why => Err(why),
                })?
            }
        };
        // The most recently used matrix is first, so that `evict_idle` drops the least recently
        // used ones.
        matrices.insert(0, matrix.clone());
        Ok(matrix)
    }

    /// Returns a buffer with the encoded invalid ranges. Equal ranges share one buffer.
    pub(super) fn ranges(&self, ranges: Vec<u8>) -> Result<Arc<DeviceBuffer>, DeviceError> {
        let mut known = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(buffer) = known.get(&ranges) {
            return Ok(buffer.clone());
        }
        let buffer = Arc::new(DeviceBuffer::from_slice(&self.context, &ranges)?);
        known.insert(ranges, buffer.clone());
        Ok(buffer)
    }
}

/// Drops all matrices that no launch uses, except the `max_idle` most recently used ones. Returns
/// true if any was dropped.
fn evict_idle(matrices: &mut Vec<Arc<DeviceMatrix>>, max_idle: usize) -> bool {
    let (count_before, mut idle) = (matrices.len(), 0);
    matrices.retain(|matrix| {
        let is_idle = Arc::strong_count(matrix) == 1;
        idle += usize::from(is_idle);
        !is_idle || idle <= max_idle
    });
    matrices.len() < count_before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opencl::all_devices;
    use crate::{TiledCsc, VarianceModel};

    fn plan() -> IntegrationPlan {
        let matrix = TiledCsc::new(&[0; 17], &[], &[], 1).expect("a good matrix");
        IntegrationPlan::new(matrix, vec![1.; 16], VarianceModel::NONE, None).expect("norms")
    }

    #[test]
    fn engines_share_a_matrix_and_those_in_use_stay() {
        let found = all_devices()
            .ok()
            .and_then(|all| all.into_iter().find(|device| device.unusable.is_none()));
        let Some(description) = found else {
            assert!(
                std::env::var_os("CI").is_none(),
                "no OpenCL device: scripts/setup tests installs PoCL"
            );
            return;
        };
        let device =
            Device::open(&description, DeviceSettings::default()).expect("a device that works");
        let plans: Vec<IntegrationPlan> = (0..3 * MAX_CACHED_MATRICES).map(|_| plan()).collect();
        let matrix = |plan: &IntegrationPlan| device.matrix(plan, None, 2048).expect("memory");
        let held: Vec<Arc<DeviceMatrix>> = std::thread::scope(|scope| {
            let twice = plans[..=MAX_CACHED_MATRICES].iter().chain(&plans[..=MAX_CACHED_MATRICES]);
            let engines: Vec<_> = twice.map(|plan| scope.spawn(|| matrix(plan))).collect();
            engines.into_iter().map(|engine| engine.join().expect("no panic")).collect()
        });
        let (ours, theirs) = held.split_at(MAX_CACHED_MATRICES + 1);
        assert!(
            ours.iter().zip(theirs).all(|(one, other)| Arc::ptr_eq(one, other)),
            "made once each"
        );
        // Many more, which nobody keeps.
        plans[MAX_CACHED_MATRICES + 1..].iter().for_each(|plan| drop(matrix(plan)));
        assert!(
            plans.iter().zip(ours).all(|(plan, held)| Arc::ptr_eq(&matrix(plan), held)),
            "those in use stay"
        );
        let kept = device.matrices.lock().expect("no panic").len();
        assert!(kept <= ours.len() + MAX_CACHED_MATRICES, "{kept} matrices: the others go");
    }
}
