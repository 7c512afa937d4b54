//! The OpenCL devices of a run: which engine has which, and what is said where one is of no use.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use filter::{Filter, Stop};
use integrator::opencl::{Device, DeviceDescription, DeviceSettings};

use super::select;
use crate::args::{Args, EngineKind};

/// The devices that a run uses.
#[derive(Default)]
pub struct DevicePool {
    slots: Vec<DeviceSlot>,
    warned: Mutex<BTreeSet<String>>,
}

/// A device, opened when it is first needed.
struct DeviceSlot {
    description: DeviceDescription,
    /// What results and warnings call it.
    label: String,
    device: OnceLock<Option<Arc<Device>>>,
}

impl DevicePool {
    /// What the arguments ask for: no devices where the processor is to integrate.
    ///
    /// # Errors
    /// Devices are asked for, and there are none.
    pub fn new(args: &Args, environment: select::EnvLookup<'_>) -> Result<Self, Stop> {
        let no_device = |why: select::DeviceSelectionError| Stop::fatal("OpenCL", why);
        let found = match (args.engine, &args.device[..]) {
            (EngineKind::Cpu, []) => Vec::new(),
            (EngineKind::Cpu, _) => return Err(Stop::fatal("--device", "--engine cpu uses none")),
            // A processor's OpenCL driver is slower than we are.
            (EngineKind::Auto, []) => {
                let found =
                    select::visible_devices(environment).and_then(|all| select::select_devices(&all, &[], environment));
                let mut found = found.unwrap_or_default();
                found.retain(|(_, device)| device.is_not_cpu());
                found
            }
            (_, words) => {
                let all = select::visible_devices(environment).map_err(no_device)?;
                select::select_devices(&all, words, environment).map_err(no_device)?
            }
        };
        Ok(Self { slots: make_slots(found), warned: Mutex::default() })
    }

    /// How many devices.
    pub fn device_count(&self) -> usize {
        self.slots.len()
    }

    /// The device of an engine, and what to call it: engines have the devices in turn. `matrix_cache` is where compiled kernels are kept.
    /// `None` without devices, and for one that is of no use any more, which is said once.
    pub fn device(&self, engine: usize, cache: Option<PathBuf>, filter: &Filter) -> Option<(Arc<Device>, String)> {
        let seat = self.slots.get(engine % self.slots.len().max(1))?;
        let open = || {
            let settings = DeviceSettings { cache, ..DeviceSettings::default() };
            let opened = Device::open(&seat.description, settings);
            filter.reinstall_signal_handlers();
            opened.map(Arc::new).inspect_err(|why| self.warn_once(filter, &seat.label, why)).ok()
        };
        let device = seat.device.get_or_init(open).clone()?;
        device.failure().inspect(|why| self.warn_once(filter, &seat.label, why));
        device.failure().is_none().then(|| (device, seat.label.clone()))
    }

    /// A warning that the processor does a device's work, once a reason.
    pub fn warn_once(&self, filter: &Filter, what: &str, why: impl std::fmt::Display) {
        let warning = format!("{what}: {why}: the processor integrates instead");
        if self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(warning.clone()) {
            filter.warn(&warning);
        }
    }
}

/// A seat for each device. Devices that PCI addresses don't tell apart are told apart by their numbers.
fn make_slots(devices: Vec<select::NumberedDevice>) -> Vec<DeviceSlot> {
    let labels: Vec<String> = devices.iter().map(|(_, device)| device.label()).collect();
    let of_name = |label: &String| labels.iter().filter(|other| *other == label).count();
    let seat = |((number, description), label): (select::NumberedDevice, &String)| {
        let label = if of_name(label) > 1 { format!("{label} ({number})") } else { label.clone() };
        DeviceSlot { description, label, device: OnceLock::new() }
    };
    devices.into_iter().zip(&labels).map(seat).collect()
}
