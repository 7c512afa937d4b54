//! A device at work: what the queues of all engines on it share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ocl::core::{self, Context, DeviceId, Event, ProfilingInfo, ProfilingInfoResult, Program};

use super::by_bin::{self, Bins};
use super::discovery::{Description, DeviceKind};
use super::error::DeviceError;
use super::layout::{Layout, tiles};
use super::memory::Buffer;
use super::program::{Method, Variant};
use crate::plan::Plan;
use crate::robust::ByBin;

/// Matrices that a device keeps beside those in use: recipes take turns where tasks of several are mixed.
const MATRICES: usize = 4;

/// How a device is used.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Lanes of a work-group; by default 64, and 1 where each lane is a thread's loop.
    pub group: Option<usize>,
    /// Sums in pairs of floats, also on devices that compute in doubles.
    pub without_doubles: bool,
    /// Where compiled kernels are kept.
    pub cache: Option<PathBuf>,
    /// Bytes of the device's memory that one queue may use.
    pub queue_memory: u64,
    /// A device that does not answer for so long is given up.
    pub patience: Duration,
    /// Whether to take the times of the stages; see [`Device::stages`].
    pub profile: bool,
}

/// Seconds that a device spent, as its events tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stages {
    /// Copying chunks to it.
    pub write: f64,
    /// Decoding and adding.
    pub integrate: f64,
    /// Adding up the shares of each bin.
    pub reduce: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        let patience = Duration::from_secs(120);
        Settings { group: None, without_doubles: false, cache: None, queue_memory: u64::MAX, patience, profile: false }
    }
}

/// An OpenCL device, its compiled kernels, and the matrices in its memory. Shared by all threads.
pub struct Device {
    description: Description,
    pub(super) id: DeviceId,
    pub(super) context: Context,
    pub(super) settings: Settings,
    programs: Mutex<HashMap<Variant, Arc<Program>>>,
    /// The one used last stands first.
    matrices: Mutex<Vec<Arc<DeviceMatrix>>>,
    /// Invalid values, as pairs of pixels: some bytes for each rule.
    ranges: Mutex<HashMap<Vec<u8>, Arc<Buffer>>>,
    trouble: OnceLock<DeviceError>,
    stages: Mutex<Stages>,
}

/// A plan's matrix in a device's memory.
pub(super) struct DeviceMatrix {
    plan: u64,
    elements: usize,
    /// Tiles of a frame.
    pub(super) tiles: u32,
    /// Pixels of a frame that are in blocks.
    pub(super) whole: u32,
    pub(super) entries: Entries,
}

/// A matrix in the order in which kernels walk it.
pub(super) enum Entries {
    /// For pixels that are summed as they come.
    BySlot(Slots),
    /// For methods that look at all pixels of a bin.
    ByBin(Bins),
}

/// A [`Layout`] in a device's memory.
pub(super) struct Slots {
    pub(super) span: u32,
    pub(super) slots: u32,
    pub(super) slot_starts: Buffer,
    pub(super) row_starts: Buffer,
    pub(super) entry_starts: Buffer,
    pub(super) places: Buffer,
    pub(super) weights: Buffer,
    pub(super) used: Buffer,
    pub(super) bin_starts: Buffer,
    pub(super) bin_slots: Buffer,
}

impl Device {
    /// A device, ready to work.
    ///
    /// # Errors
    /// It can't be used, or its driver fails.
    pub fn open(description: &Description, settings: Settings) -> Result<Device, DeviceError> {
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
            trouble: OnceLock::new(),
            stages: Mutex::default(),
        })
    }

    /// What it is.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Whether it takes methods that look at all pixels of a bin: these need doubles, and lanes that sum a bin together.
    pub fn takes_by_bin(&self) -> bool {
        self.has_doubles() && self.description.lanes >= by_bin::TEAM
    }

    fn has_doubles(&self) -> bool {
        self.description.has_doubles && !self.settings.without_doubles
    }

    /// Why it is of no use any more, if so.
    pub fn trouble(&self) -> Option<&DeviceError> {
        self.trouble.get()
    }

    /// Gives it up: whoever asks it for something gets this error from now on. The first reason counts.
    pub fn give_up(&self, why: DeviceError) {
        let _ = self.trouble.set(why);
    }

    /// Where its time went so far, if its settings ask for it.
    pub fn stages(&self) -> Stages {
        *self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the times of a launch: of writing, and of integrating and reducing by each plan.
    pub(super) fn note(&self, written: &Event, steps: &[[Event; 3]]) {
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
    pub(super) fn variant(&self, dtype: crate::PixelType, block_bytes: usize, method: Method) -> Variant {
        let group = if self.description.kind == DeviceKind::Cpu { 1 } else { self.description.lanes.clamp(1, 64) };
        let doubles = self.has_doubles();
        Variant { dtype, block_bytes, method, group: self.settings.group.unwrap_or(group), doubles }
    }

    /// The compiled kernels. Each variant is compiled once; who asks in the meantime waits.
    pub(super) fn program(&self, variant: Variant) -> Result<Arc<Program>, DeviceError> {
        if variant.dtype == crate::PixelType::F64 && !variant.doubles {
            return Err(DeviceError::Unsupported("pixels of type f64: expected a device that has doubles".to_owned()));
        }
        if variant.method == Method::ByBin && !self.takes_by_bin() {
            let why = "clipping and azimuthal errors: expected a device that has doubles, and work-groups of 16";
            return Err(DeviceError::Unsupported(why.to_owned()));
        }
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = programs.get(&variant) {
            return Ok(program.clone());
        }
        let Description { platform, name, version, driver, .. } = &self.description;
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
        plan: &Plan,
        by_bin: Option<&ByBin>,
        elements: usize,
    ) -> Result<Arc<DeviceMatrix>, DeviceError> {
        let mut matrices = self.matrices.lock().unwrap_or_else(PoisonError::into_inner);
        let is = |matrix: &DeviceMatrix| matches!(matrix.entries, Entries::ByBin(_)) == by_bin.is_some();
        let known = matrices.iter().position(|one| (one.plan, one.elements) == (plan.id(), elements) && is(one));
        let matrix = match known {
            Some(at) => matrices.remove(at),
            None => {
                let make = || DeviceMatrix::new(&self.context, plan, by_bin, elements).map(Arc::new);
                keep(&mut matrices, MATRICES - 1);
                make().or_else(|why| match why {
                    DeviceError::Memory(_) if keep(&mut matrices, 0) => make(),
                    why => Err(why),
                })?
            }
        };
        // The newest stands first, so that the one used least is the first to go.
        matrices.insert(0, matrix.clone());
        Ok(matrix)
    }

    /// Invalid values as the kernels take them.
    pub(super) fn ranges(&self, ranges: Vec<u8>) -> Result<Arc<Buffer>, DeviceError> {
        let mut known = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(buffer) = known.get(&ranges) {
            return Ok(buffer.clone());
        }
        let buffer = Arc::new(Buffer::of(&self.context, &ranges)?);
        known.insert(ranges, buffer.clone());
        Ok(buffer)
    }
}

/// Drops matrices that nobody uses, but for the newest `most`. Whether there were any to drop.
fn keep(matrices: &mut Vec<Arc<DeviceMatrix>>, most: usize) -> bool {
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
        plan: &Plan,
        by_bin: Option<&ByBin>,
        elements: usize,
    ) -> Result<DeviceMatrix, DeviceError> {
        let too_large = || DeviceError::Unsupported("a matrix of 2^32 entries or more".to_owned());
        let [tiles, whole] = tiles(plan.pixels(), elements).ok_or_else(too_large)?;
        let entries = match by_bin {
            None => Entries::BySlot(Slots::new(context, &Layout::new(plan, elements).ok_or_else(too_large)?)?),
            Some(by_bin) if u32::try_from(by_bin.norm.len()).is_err() => return Err(too_large()),
            Some(by_bin) => Entries::ByBin(Bins::new(context, plan, by_bin)?),
        };
        Ok(DeviceMatrix { plan: plan.id(), elements, tiles, whole, entries })
    }
}

impl Slots {
    fn new(context: &Context, layout: &Layout) -> Result<Slots, DeviceError> {
        Ok(Slots {
            span: layout.span,
            slots: layout.slots(),
            slot_starts: Buffer::of(context, &layout.slot_starts)?,
            row_starts: Buffer::of(context, &layout.row_starts)?,
            entry_starts: Buffer::of(context, &layout.entry_starts)?,
            places: Buffer::of(context, &layout.places)?,
            weights: Buffer::of(context, &layout.weights)?,
            used: Buffer::of(context, &layout.used)?,
            bin_starts: Buffer::of(context, &layout.bin_starts)?,
            bin_slots: Buffer::of(context, &layout.bin_slots)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opencl::devices;
    use crate::{ErrorModel, Matrix};

    fn plan() -> Plan {
        let matrix = Matrix::new(&[0; 17], &[], &[], 1).expect("a good matrix");
        Plan::new(matrix, &[1.; 16], ErrorModel::No, None).expect("norms")
    }

    #[test]
    fn engines_share_a_matrix_and_those_in_use_stay() {
        let found = devices().ok().and_then(|all| all.into_iter().find(|device| device.unusable.is_none()));
        let Some(description) = found else {
            assert!(std::env::var_os("CI").is_none(), "no OpenCL device: scripts/setup tests installs PoCL");
            return;
        };
        let device = Device::open(&description, Settings::default()).expect("a device that works");
        let plans: Vec<Plan> = (0..3 * MATRICES).map(|_| plan()).collect();
        let matrix = |plan: &Plan| device.matrix(plan, None, 2048).expect("memory");
        let held: Vec<Arc<DeviceMatrix>> = std::thread::scope(|scope| {
            let twice = plans[..=MATRICES].iter().chain(&plans[..=MATRICES]);
            let engines: Vec<_> = twice.map(|plan| scope.spawn(|| matrix(plan))).collect();
            engines.into_iter().map(|engine| engine.join().expect("no panic")).collect()
        });
        let (ours, theirs) = held.split_at(MATRICES + 1);
        assert!(ours.iter().zip(theirs).all(|(one, other)| Arc::ptr_eq(one, other)), "made once each");
        // Many more, which nobody keeps.
        plans[MATRICES + 1..].iter().for_each(|plan| drop(matrix(plan)));
        assert!(plans.iter().zip(ours).all(|(plan, held)| Arc::ptr_eq(&matrix(plan), held)), "those in use stay");
        let kept = device.matrices.lock().expect("no panic").len();
        assert!(kept <= ours.len() + MATRICES, "{kept} matrices: the others go");
    }
}
