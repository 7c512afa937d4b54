//! A device at work: what the queues of all engines on it share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ocl::core::{self, Context, DeviceId, Event, ProfilingInfo, ProfilingInfoResult, Program};

use super::buffer::DeviceBuffer;
use super::csr::{self, CsrBuffers};
use super::discovery::{DeviceDescription, DeviceKind};
use super::error::DeviceError;
use super::program::{KernelKind, KernelVariant};
use super::slot_layout::{SlotLayout, tile_counts};
use crate::plan::IntegrationPlan;
use crate::robust::CsrMatrix;

/// Matrices that a device keeps beside those in use: recipes take turns where tasks of several are mixed.
const MAX_CACHED_MATRICES: usize = 4;

/// How a device is used.
#[derive(Clone, Debug)]
pub struct DeviceSettings {
    /// Lanes of a work-group; by default 64, and 1 where each lane is a thread's loop.
    pub work_group_size: Option<usize>,
    /// Sums in pairs of floats, also on devices that compute in doubles.
    pub force_float_pairs: bool,
    /// Where compiled kernels are kept.
    pub cache: Option<PathBuf>,
    /// Bytes of the device's memory that one queue may use.
    pub queue_memory: u64,
    /// A device that does not answer for so long is given up.
    pub timeout: Duration,
    /// Whether to take the times of the stages; see [`Device::stage_times`].
    pub profile: bool,
}

/// Seconds that a device spent, as its events tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageTimes {
    /// Copying chunks to it.
    pub write: f64,
    /// Decoding and adding.
    pub integrate: f64,
    /// Adding up the shares of each bin.
    pub reduce: f64,
}

impl Default for DeviceSettings {
    fn default() -> DeviceSettings {
        let patience = Duration::from_secs(120);
        DeviceSettings {
            work_group_size: None,
            force_float_pairs: false,
            cache: None,
            queue_memory: u64::MAX,
            timeout: patience,
            profile: false,
        }
    }
}

/// An OpenCL device, its compiled kernels, and the matrices in its memory. Shared by all threads.
pub struct Device {
    description: DeviceDescription,
    pub(super) id: DeviceId,
    pub(super) context: Context,
    pub(super) settings: DeviceSettings,
    programs: Mutex<HashMap<KernelVariant, Arc<Program>>>,
    /// The one used last stands first.
    matrices: Mutex<Vec<Arc<DeviceMatrix>>>,
    /// Invalid values, as pairs of pixels: some bytes for each rule.
    ranges: Mutex<HashMap<Vec<u8>, Arc<DeviceBuffer>>>,
    failure: OnceLock<DeviceError>,
    stages: Mutex<StageTimes>,
}

/// A plan's matrix in a device's memory.
pub(super) struct DeviceMatrix {
    plan: u64,
    elements: usize,
    /// Tiles of a frame.
    pub(super) tiles: u32,
    /// Pixels of a frame that are in blocks.
    pub(super) block_pixels: u32,
    pub(super) entries: MatrixBuffers,
}

/// A matrix in the order in which kernels walk it.
pub(super) enum MatrixBuffers {
    /// For pixels that are summed as they come.
    Slots(SlotBuffers),
    /// For methods that look at all pixels of a bin.
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
    pub(super) used: DeviceBuffer,
    pub(super) bin_starts: DeviceBuffer,
    pub(super) bin_slots: DeviceBuffer,
}

impl Device {
    /// A device, ready to work.
    ///
    /// # Errors
    /// It can't be used, or its driver fails.
    pub fn open(description: &DeviceDescription, settings: DeviceSettings) -> Result<Device, DeviceError> {
        let id = description.id.filter(|_| description.unusable.is_none());
        let id = id.ok_or_else(|| DeviceError::Unsupported(description.unusable.unwrap_or("no device").to_owned()))?;
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

    /// What it is.
    pub fn description(&self) -> &DeviceDescription {
        &self.description
    }

    /// Whether it takes methods that look at all pixels of a bin: these need doubles, and lanes that sum a bin together.
    pub fn supports_csr(&self) -> bool {
        self.has_doubles() && self.description.lanes >= csr::LANES_PER_BIN
    }

    fn has_doubles(&self) -> bool {
        self.description.has_doubles && !self.settings.force_float_pairs
    }

    /// Why it is of no use any more, if so.
    pub fn failure(&self) -> Option<&DeviceError> {
        self.failure.get()
    }

    /// Gives it up: whoever asks it for something gets this error from now on. The first reason counts.
    pub fn disable(&self, why: DeviceError) {
        let _ = self.failure.set(why);
    }

    /// Where its time went so far, if its settings ask for it.
    pub fn stage_times(&self) -> StageTimes {
        *self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the times of a launch: of writing, and of integrating and reducing by each plan.
    pub(super) fn record_times(&self, written: &Event, steps: &[[Event; 3]]) {
        if !self.settings.profile {
            return;
        }
        let at = |event, what| match core::get_event_profiling_info(event, what) {
            Ok(ProfilingInfoResult::Start(nanoseconds) | ProfilingInfoResult::End(nanoseconds)) => nanoseconds as f64,
            _ => 0.,
        };
        let seconds = |event| (at(event, ProfilingInfo::End) - at(event, ProfilingInfo::Start)) * 1e-9;
        let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        stages.write += seconds(written);
        for [integrated, reduced, _] in steps {
            stages.integrate += seconds(integrated);
            stages.reduce += seconds(reduced);
        }
    }

    /// The variant of the kernels for frames of this type, in blocks of so many bytes.
    pub(super) fn variant(&self, dtype: crate::PixelType, block_bytes: usize, method: KernelKind) -> KernelVariant {
        let group = if self.description.kind == DeviceKind::Cpu { 1 } else { self.description.lanes.clamp(1, 64) };
        let doubles = self.has_doubles();
        KernelVariant { dtype, block_bytes, method, group: self.settings.work_group_size.unwrap_or(group), doubles }
    }

    /// The compiled kernels. Each variant is compiled once; who asks in the meantime waits.
    pub(super) fn program(&self, variant: KernelVariant) -> Result<Arc<Program>, DeviceError> {
        if variant.dtype == crate::PixelType::F64 && !variant.doubles {
            return Err(DeviceError::Unsupported("pixels of type f64: expected a device that has doubles".to_owned()));
        }
        if variant.method == KernelKind::Csr && !self.supports_csr() {
            let why = "clipping and azimuthal errors: expected a device that has doubles, and work-groups of 16";
            return Err(DeviceError::Unsupported(why.to_owned()));
        }
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = programs.get(&variant) {
            return Ok(program.clone());
        }
        let DeviceDescription { platform, name, version, driver, .. } = &self.description;
        let driver = [platform, name, version, driver].map(String::as_str).join("\n");
        let program = variant.build(&self.context, self.id, &driver, self.settings.cache.as_deref())?;
        let program = Arc::new(program);
        programs.insert(variant, program.clone());
        Ok(program)
    }

    /// A plan's matrix for blocks of so many pixels, by bin where the method is of such. It is copied to the device once; who asks
    /// in the meantime waits.
    pub(super) fn matrix(
        &self,
        plan: &IntegrationPlan,
        by_bin: Option<&CsrMatrix>,
        elements: usize,
    ) -> Result<Arc<DeviceMatrix>, DeviceError> {
        let mut matrices = self.matrices.lock().unwrap_or_else(PoisonError::into_inner);
        let is = |matrix: &DeviceMatrix| matches!(matrix.entries, MatrixBuffers::Csr(_)) == by_bin.is_some();
        let known = matrices.iter().position(|one| (one.plan, one.elements) == (plan.id(), elements) && is(one));
        let matrix = match known {
            Some(at) => matrices.remove(at),
            None => {
                let make = || DeviceMatrix::new(&self.context, plan, by_bin, elements).map(Arc::new);
                evict_idle(&mut matrices, MAX_CACHED_MATRICES - 1);
                make().or_else(|why| match why {
                    DeviceError::OutOfMemory(_) if evict_idle(&mut matrices, 0) => make(),
                    why => Err(why),
                })?
            }
        };
        // The newest stands first, so that the one used least is the first to go.
        matrices.insert(0, matrix.clone());
        Ok(matrix)
    }

    /// Invalid values as the kernels take them.
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

/// Drops matrices that nobody uses, but for the newest `most`. Whether there were any to drop.
fn evict_idle(matrices: &mut Vec<Arc<DeviceMatrix>>, most: usize) -> bool {
    let (before, mut idle) = (matrices.len(), 0);
    matrices.retain(|matrix| {
        let is_idle = Arc::strong_count(matrix) == 1;
        idle += usize::from(is_idle);
        !is_idle || idle <= most
    });
    matrices.len() < before
}

impl DeviceMatrix {
    fn new(
        context: &Context,
        plan: &IntegrationPlan,
        by_bin: Option<&CsrMatrix>,
        elements: usize,
    ) -> Result<DeviceMatrix, DeviceError> {
        let too_large = || DeviceError::Unsupported("a matrix of 2^32 entries or more".to_owned());
        let [tiles, whole] = tile_counts(plan.pixels(), elements).ok_or_else(too_large)?;
        let entries = match by_bin {
            None => MatrixBuffers::Slots(SlotBuffers::new(
                context,
                &SlotLayout::new(plan, elements).ok_or_else(too_large)?,
            )?),
            Some(by_bin) if u32::try_from(by_bin.norms.len()).is_err() => return Err(too_large()),
            Some(by_bin) => MatrixBuffers::Csr(CsrBuffers::new(context, plan, by_bin)?),
        };
        Ok(DeviceMatrix { plan: plan.id(), elements, tiles, block_pixels: whole, entries })
    }
}

impl SlotBuffers {
    fn new(context: &Context, layout: &SlotLayout) -> Result<SlotBuffers, DeviceError> {
        Ok(SlotBuffers {
            span: layout.span,
            slots: layout.slot_count(),
            slot_starts: DeviceBuffer::from_slice(context, &layout.slot_starts)?,
            row_starts: DeviceBuffer::from_slice(context, &layout.row_starts)?,
            entry_starts: DeviceBuffer::from_slice(context, &layout.entry_starts)?,
            pixel_in_tile: DeviceBuffer::from_slice(context, &layout.pixel_in_tile)?,
            weights: DeviceBuffer::from_slice(context, &layout.weights)?,
            used: DeviceBuffer::from_slice(context, &layout.used)?,
            bin_starts: DeviceBuffer::from_slice(context, &layout.bin_starts)?,
            bin_slots: DeviceBuffer::from_slice(context, &layout.bin_slots)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opencl::all_devices;
    use crate::{TiledCsc, VarianceModel};

    fn plan() -> IntegrationPlan {
        let matrix = TiledCsc::new(&[0; 17], &[], &[], 1).expect("a good matrix");
        IntegrationPlan::new(matrix, &[1.; 16], VarianceModel::None, None).expect("norms")
    }

    #[test]
    fn engines_share_a_matrix_and_those_in_use_stay() {
        let found = all_devices().ok().and_then(|all| all.into_iter().find(|device| device.unusable.is_none()));
        let Some(description) = found else {
            assert!(std::env::var_os("CI").is_none(), "no OpenCL device: scripts/setup tests installs PoCL");
            return;
        };
        let device = Device::open(&description, DeviceSettings::default()).expect("a device that works");
        let plans: Vec<IntegrationPlan> = (0..3 * MAX_CACHED_MATRICES).map(|_| plan()).collect();
        let matrix = |plan: &IntegrationPlan| device.matrix(plan, None, 2048).expect("memory");
        let held: Vec<Arc<DeviceMatrix>> = std::thread::scope(|scope| {
            let twice = plans[..=MAX_CACHED_MATRICES].iter().chain(&plans[..=MAX_CACHED_MATRICES]);
            let engines: Vec<_> = twice.map(|plan| scope.spawn(|| matrix(plan))).collect();
            engines.into_iter().map(|engine| engine.join().expect("no panic")).collect()
        });
        let (ours, theirs) = held.split_at(MAX_CACHED_MATRICES + 1);
        assert!(ours.iter().zip(theirs).all(|(one, other)| Arc::ptr_eq(one, other)), "made once each");
        // Many more, which nobody keeps.
        plans[MAX_CACHED_MATRICES + 1..].iter().for_each(|plan| drop(matrix(plan)));
        assert!(plans.iter().zip(ours).all(|(plan, held)| Arc::ptr_eq(&matrix(plan), held)), "those in use stay");
        let kept = device.matrices.lock().expect("no panic").len();
        assert!(kept <= ours.len() + MAX_CACHED_MATRICES, "{kept} matrices: the others go");
    }
}
