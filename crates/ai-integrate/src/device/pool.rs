//! The OpenCL devices of a run: assigns one to each engine, and warns when one can't be used.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use filter::{Filter, Stop};
use integrator::opencl::{Device, DeviceDescription, DeviceSettings};

use super::probe::{self, ProbeAnswer};
use super::queue_pool::QueuePool;
use super::select;
use crate::args::{Args, EngineKind};

/// The devices that a run uses.
#[derive(Default)]
pub struct DevicePool {
    slots: Vec<DeviceSlot>,
    warned: Mutex<BTreeSet<String>>,
}

/// A device that is opened when an engine first needs it.
struct DeviceSlot {
    description: DeviceDescription,
    /// The device's name in results and warnings.
    label: String,
    queues: OnceLock<Option<Arc<QueuePool>>>,
}

impl DevicePool {
    /// Selects the devices that the arguments ask for: none with `--engine cpu`. If no argument
    /// asks for one, warns of those that the machine has and that can't be listed or used; having
    /// none is no reason to warn.
    ///
    /// # Errors
    /// Fails if the arguments ask for devices and there are none.
    pub fn new(
        args: &Args,
        environment: select::EnvLookup<'_>,
        filter: &Filter,
    ) -> Result<Self, Stop> {
        let no_device = |why: select::DeviceSelectionError| Stop::fatal("OpenCL", why);
        let found = match (args.engine, &args.device[..]) {
            (EngineKind::Cpu, []) => Vec::new(),
            (EngineKind::Cpu, _) => {
                return Err(Stop::fatal(
                    "--device",
                    "--engine cpu uses no device: pass one of the two",
                ));
            }
            (EngineKind::Auto, []) => select_accelerators(environment, filter)?,
            (_, words) => {
                probe::ask(probe::read_timeout(environment)?)
                    .map_err(|why| Stop::fatal("OpenCL", why))?;
                let all = select::visible_devices(environment).map_err(no_device)?;
                select::select_devices(&all, words, environment).map_err(no_device)?
            }
        };
        Ok(Self { slots: make_slots(found), warned: Mutex::default() })
    }

    /// Returns the number of devices.
    pub fn device_count(&self) -> usize {
        self.slots.len()
    }

    /// Returns the queues of an engine's device, which has `threads` threads, and the device's name;
    /// engines are assigned to devices in turn. Compiled kernels are kept in `cache`. Returns `None`
    /// without devices, and for a device that can't be used any more, with a single warning.
    pub fn device(
        &self,
        engine_number: usize,
        threads: usize,
        cache: Option<PathBuf>,
        filter: &Filter,
    ) -> Option<(Arc<QueuePool>, String)> {
        let slot = self.slots.get(engine_number % self.slots.len().max(1))?;
        let open = || {
            let settings = DeviceSettings { cache, ..DeviceSettings::default() };
            let opened = Device::open(&slot.description, settings);
            filter.reinstall_signal_handlers();
            let opened = opened.inspect_err(|why| self.warn_once(filter, &slot.label, why)).ok()?;
            // A single thread overlaps two launches; with more threads, the launches of different
            // threads overlap.
            let queues_each = if threads == 1 { 2 } else { 1 };
            Some(Arc::new(QueuePool::new(Arc::new(opened), queues_each)))
        };
        let queues = slot.queues.get_or_init(open).clone()?;
        let failure = queues.device().failure();
        failure.inspect(|why| self.warn_once(filter, &slot.label, why));
        failure.is_none().then(|| (queues, slot.label.clone()))
    }

    /// Warns that the processor takes over a device's work, once per reason.
    pub fn warn_once(&self, filter: &Filter, what: &str, why: impl std::fmt::Display) {
        let warning = format!("{what}: {why}: the CPU integrates instead");
        if self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(warning.clone()) {
            filter.warn(&warning);
        }
    }
}

/// Returns the devices for a run that asks for none in particular: all but CPUs, because an OpenCL
/// driver for the CPU is slower than the kernels written for it. Warns of what can't be used.
fn select_accelerators(
    environment: select::EnvLookup<'_>,
    filter: &Filter,
) -> Result<Vec<select::NumberedDevice>, Stop> {
    let answer = probe::ask(probe::read_timeout(environment)?).unwrap_or_else(|why| ProbeAnswer {
        warnings: vec![format!("OpenCL: {why}: {}", probe::INSTEAD)],
        has_accelerator: false,
    });
    answer.warnings.iter().for_each(|warning| filter.warn(warning));
    if !answer.has_accelerator {
        return Ok(Vec::new());
    }
    let chosen = select::visible_devices(environment)
        .and_then(|all| select::select_devices(&all, &[], environment));
    let mut chosen = chosen.unwrap_or_else(|why| {
        filter.warn(&format!("OpenCL: {why}: {}", probe::INSTEAD));
        Vec::new()
    });
    chosen.retain(|(_, device)| device.is_not_cpu());
    Ok(chosen)
}

/// Creates a slot for each device. The label holds the PCI address, or the device's number where
/// addresses are not unique.
fn make_slots(devices: Vec<select::NumberedDevice>) -> Vec<DeviceSlot> {
    let labels: Vec<String> = devices.iter().map(|(_, device)| device.label()).collect();
    let of_name = |label: &String| labels.iter().filter(|other| *other == label).count();
    let slot = |((number, description), label): (select::NumberedDevice, &String)| {
        let label = if of_name(label) > 1 { format!("{label} ({number})") } else { label.clone() };
        DeviceSlot { description, label, queues: OnceLock::new() }
    };
    devices.into_iter().zip(&labels).map(slot).collect()
}
