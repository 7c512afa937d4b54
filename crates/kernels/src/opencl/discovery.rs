//! Which devices there are.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use ocl::core::{self, DeviceId, DeviceInfo, DeviceInfoResult, DeviceType, PlatformId, PlatformInfo, Status};

/// A device, and what its driver says of it. The default is none that could be used.
#[derive(Clone, Debug, Default)]
pub struct DeviceDescription {
    /// The driver's platform.
    pub platform: String,
    /// The device's name.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Its version of OpenCL.
    pub version: String,
    /// The driver's version.
    pub driver: String,
    /// Bytes of its memory.
    pub memory: u64,
    /// Bytes that a work-group has to itself.
    pub local_memory: u64,
    /// Lanes that a work-group may have.
    pub lanes: usize,
    /// Whether it computes in doubles.
    pub has_doubles: bool,
    /// Where it is plugged in, where the driver tells.
    pub pci: Option<PciAddress>,
    /// Why it is of no use to us, if so.
    pub unusable: Option<&'static str>,
    pub(super) id: Option<DeviceId>,
}

/// What a device is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// A graphics processor.
    #[default]
    Gpu,
    /// The machine's own processor, driven through OpenCL.
    Cpu,
    /// Anything else.
    Accelerator,
}

/// A place on the PCI bus, written `0000:3b:00.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

/// Why there are no devices.
#[derive(Debug, thiserror::Error)]
pub enum OpenClUnavailable {
    /// No OpenCL library.
    #[error("{0}: install an OpenCL loader (Debian: ocl-icd-libopencl1) and the GPU's driver")]
    NoLibrary(#[from] opencl_loader::OpenClNotLoaded),
    /// A library, but no driver that it knows of.
    #[error(
        "no driver: install the GPU's (nothing usable is listed in /etc/OpenCL/vendors; where the driver is there and the list is \
         not, as in some containers, OCL_ICD_VENDORS=libnvidia-opencl.so.1 names it, or OCL_ICD_FILENAMES to Khronos' loader)"
    )]
    NoDriver,
    /// The library fails.
    #[error("{0}")]
    Failed(String),
}

/// Local memory that a work-group needs: a block before and after it is unshuffled, and some words.
const MIN_LOCAL_MEMORY: u64 = 20 << 10;

/// The devices of all platforms, in the order in which they are listed: the indices that users know.
///
/// # Errors
/// No library, no driver. A platform that fails is left out as long as another has devices.
pub fn all_devices() -> Result<Vec<DeviceDescription>, OpenClUnavailable> {
    // Loaders may say that there is no platform while another thread makes them look for the drivers.
    static DISCOVERY_LOCK: Mutex<()> = Mutex::new(());
    let _one = DISCOVERY_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    opencl_loader::load()?;
    // `get_platform_ids` would wait ten seconds for a driver to appear.
    let mut count = 0;
    // SAFETY: no list is asked for, only its length.
    let status = unsafe { ocl::ffi::clGetPlatformIDs(0, std::ptr::null_mut(), &mut count) };
    if status == Status::CL_PLATFORM_NOT_FOUND_KHR as i32 || status == 0 && count == 0 {
        return Err(OpenClUnavailable::NoDriver);
    }
    let failed = |why: core::Error| OpenClUnavailable::Failed(error_text(&why));
    let mut found = Vec::new();
    let mut trouble = None;
    for platform in core::get_platform_ids().map_err(failed)? {
        match devices_of_platform(platform) {
            Ok(devices) => found.extend(devices),
            // A platform whose devices are hidden or unplugged.
            Err(why) if why.api_status() == Some(Status::CL_DEVICE_NOT_FOUND) => {}
            Err(why) => trouble = Some(why),
        }
    }
    match trouble {
        Some(why) if found.is_empty() => Err(failed(why)),
        _ => Ok(found),
    }
}

fn devices_of_platform(platform: PlatformId) -> core::Result<Vec<DeviceDescription>> {
    let name = core::get_platform_info(platform, PlatformInfo::Name)?.to_string();
    let ids = core::get_device_ids(platform, Some(DeviceType::ALL), None)?;
    ids.into_iter().map(|id| DeviceDescription::query(id, name.trim())).collect()
}

impl DeviceDescription {
    /// How records name it: by name, and by its place where that is known.
    pub fn label(&self) -> String {
        self.pci.map_or_else(|| self.name.clone(), |place| format!("{} ({place})", self.name))
    }

    /// Whether it is more than the machine's own processor under another name.
    pub fn is_not_cpu(&self) -> bool {
        self.kind != DeviceKind::Cpu
    }

    fn query(id: DeviceId, platform: &str) -> core::Result<DeviceDescription> {
        let info = |request| core::get_device_info(id, request);
        let text = |request| info(request).map(|text| text.to_string().trim().to_owned());
        let extensions = text(DeviceInfo::Extensions)?;
        let has = |name: &str| extensions.split_whitespace().any(|extension| extension == name);
        let kind = match info(DeviceInfo::Type)? {
            DeviceInfoResult::Type(kind) if kind.contains(DeviceType::GPU) => DeviceKind::Gpu,
            DeviceInfoResult::Type(kind) if kind.contains(DeviceType::CPU) => DeviceKind::Cpu,
            _ => DeviceKind::Accelerator,
        };
        let number = |request| -> core::Result<u64> {
            Ok(match info(request)? {
                DeviceInfoResult::GlobalMemSize(bytes) | DeviceInfoResult::LocalMemSize(bytes) => bytes,
                DeviceInfoResult::MaxWorkGroupSize(lanes) => lanes as u64,
                DeviceInfoResult::Available(yes)
                | DeviceInfoResult::CompilerAvailable(yes)
                | DeviceInfoResult::EndianLittle(yes) => yes.into(),
                _ => 0,
            })
        };
        let local_memory = number(DeviceInfo::LocalMemSize)?;
        let unusable = [
            (number(DeviceInfo::Available)? == 0, "not available"),
            (number(DeviceInfo::CompilerAvailable)? == 0, "its driver has no compiler"),
            (number(DeviceInfo::EndianLittle)? == 0, "big-endian"),
            (local_memory < MIN_LOCAL_MEMORY, "less than 20 KiB of local memory"),
        ];
        Ok(DeviceDescription {
            platform: platform.to_owned(),
            name: text(DeviceInfo::Name)?,
            kind,
            version: text(DeviceInfo::Version)?,
            driver: text(DeviceInfo::DriverVersion)?,
            memory: number(DeviceInfo::GlobalMemSize)?,
            local_memory,
            lanes: number(DeviceInfo::MaxWorkGroupSize)? as usize,
            has_doubles: has("cl_khr_fp64"),
            pci: PciAddress::query(id, has),
            unusable: unusable.into_iter().find_map(|(is_so, why)| is_so.then_some(why)),
            id: Some(id),
        })
    }
}

impl PciAddress {
    /// By the extension of OpenCL 3, or those of the two vendors.
    fn query(id: DeviceId, has: impl Fn(&str) -> bool) -> Option<PciAddress> {
        const PCI_BUS_INFO_KHR: u32 = 0x410f;
        const PCI_BUS_ID_NV: u32 = 0x4008;
        const PCI_SLOT_ID_NV: u32 = 0x4009;
        const PCI_DOMAIN_ID_NV: u32 = 0x400a;
        const TOPOLOGY_AMD: u32 = 0x4037;
        let bytes = |request| core::get_device_info_raw(id, request).ok();
        let word = |request| bytes(request)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
        if has("cl_khr_pci_bus_info")
            && let Some(words) = bytes(PCI_BUS_INFO_KHR)
            && let [domain, bus, device, function] =
                words.as_chunks().0.iter().map(|w| u32::from_ne_bytes(*w)).collect::<Vec<_>>()[..]
        {
            return Some(PciAddress { domain, bus: bus as u8, device: device as u8, function: function as u8 });
        }
        if has("cl_nv_device_attribute_query") {
            // The slot is device and function, as in configuration addresses; older drivers know no domain.
            let slot = word(PCI_SLOT_ID_NV)?;
            let (domain, bus) = (word(PCI_DOMAIN_ID_NV).unwrap_or(0), word(PCI_BUS_ID_NV)? as u8);
            return Some(PciAddress { domain, bus, device: (slot >> 3) as u8, function: (slot & 7) as u8 });
        }
        if has("cl_amd_device_attribute_query") {
            // A type, 17 bytes of nothing, and bus, device, function.
            let topology = bytes(TOPOLOGY_AMD)?;
            let [bus, device, function] = *topology.get(21..24)?.first_chunk()?;
            return Some(PciAddress { domain: 0, bus, device, function });
        }
        None
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl FromStr for PciAddress {
    type Err = ();

    /// As `lspci` writes it: the domain and the function may be left out.
    fn from_str(text: &str) -> Result<PciAddress, ()> {
        let number = |digits: &str| u32::from_str_radix(digits, 16).map_err(|_| ());
        let byte = |digits: &str| number(digits).and_then(|number| u8::try_from(number).map_err(|_| ()));
        let (place, function) = text.split_once('.').unwrap_or((text, "0"));
        let (domain, bus, device) = match place.split(':').collect::<Vec<_>>()[..] {
            [domain, bus, device] => (number(domain)?, bus, device),
            [bus, device] => (0, bus, device),
            _ => return Err(()),
        };
        Ok(PciAddress { domain, bus: byte(bus)?, device: byte(device)?, function: byte(function)? })
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            DeviceKind::Gpu => "gpu",
            DeviceKind::Cpu => "cpu",
            DeviceKind::Accelerator => "accelerator",
        })
    }
}

/// What a driver says, in one line.
pub(super) fn error_text(why: &core::Error) -> String {
    match why.api_status() {
        Some(status) => format!("{status:?}"),
        None => why.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        let place = PciAddress { domain: 1, bus: 0x3b, device: 2, function: 1 };
        assert_eq!(place.to_string(), "0001:3b:02.1");
        assert_eq!("0001:3b:02.1".parse(), Ok(place));
        assert_eq!("3B:00".parse(), Ok(PciAddress { domain: 0, bus: 0x3b, device: 0, function: 0 }));
        for wrong in ["", "0", "3b:00:00:00", "gpu:1", "100:100:1", "A100"] {
            assert_eq!(wrong.parse::<PciAddress>(), Err(()), "{wrong}");
        }
    }
}
