//! Lists the OpenCL devices of the machine.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use ocl::core::{
    self, DeviceId, DeviceInfo, DeviceInfoResult, DeviceType, PlatformId, PlatformInfo, Status,
};

/// A device and its properties, as its driver reports them. The default describes no device and
/// can't be opened.
#[derive(Clone, Debug, Default)]
pub struct DeviceDescription {
    /// Name of the platform: the driver.
    pub platform: String,
    /// Name of the device.
    pub name: String,
    /// GPU, CPU or other accelerator.
    pub kind: DeviceKind,
    /// Version of OpenCL that the device supports.
    pub version: String,
    /// Version of the driver.
    pub driver: String,
    /// Bytes of global memory.
    pub memory: u64,
    /// Bytes of local memory of a work-group.
    pub local_memory: u64,
    /// Maximum number of lanes (work-items) in a work-group.
    pub lanes: usize,
    /// True if the device computes in doubles (`cl_khr_fp64`).
    pub has_doubles: bool,
    /// PCI address, if the driver reports it.
    pub pci: Option<PciAddress>,
    /// Reason why the device can't be used; `None` if it can.
    pub unusable: Option<Cow<'static, str>>,
    pub(super) id: Option<DeviceId>,
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// A graphics processor.
    #[default]
    Gpu,
    /// The CPU of the machine, through an OpenCL driver such as PoCL.
    Cpu,
    /// Any other device, such as an FPGA.
    Accelerator,
}

/// A PCI address, written `0000:3b:00.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

/// The reason why no devices can be listed.
#[derive(Debug, thiserror::Error)]
pub enum OpenClUnavailable {
    /// No OpenCL library can be loaded.
    #[error("{0}")]
    NoLibrary(#[from] opencl_loader::OpenClNotLoaded),
    /// The OpenCL library finds no driver.
    #[error(
        "no OpenCL driver found: install the GPU's driver, which must be listed in /etc/OpenCL/vendors; if it is installed but not \
         listed, as in some containers, set OCL_ICD_VENDORS=libnvidia-opencl.so.1, or OCL_ICD_FILENAMES for the Khronos loader; if it is listed, \
         `ldd` on its library says whether one that it needs is missing"
    )]
    NoDriver,
    /// A call of the OpenCL library failed.
    #[error("OpenCL: listing the devices failed: {0}")]
    Failed(String),
}

impl OpenClUnavailable {
    /// Returns `true` if the machine has no OpenCL, and `false` if what it has is broken.
    pub fn is_absence(&self) -> bool {
        use opencl_loader::OpenClNotLoaded::NotInstalled;
        matches!(self, Self::NoDriver | Self::NoLibrary(NotInstalled(_)))
    }
}

/// Minimum local memory of a work-group, in bytes: a block before and after unshuffling, and a few
/// words.
const MIN_LOCAL_MEMORY: u64 = 20 << 10;

/// Lists the devices of all platforms, in the order of the OpenCL library. Users select devices by
/// the index in this list. If only some platforms can list theirs, an unusable device for each of
/// the others comes last, so that the indices stay.
///
/// # Errors
/// There is no OpenCL library, no driver, or no platform that can list its devices.
pub fn all_devices() -> Result<Vec<DeviceDescription>, OpenClUnavailable> {
    // Some loaders report no platform while another thread makes them look for drivers.
    static DISCOVERY_LOCK: Mutex<()> = Mutex::new(());
    let _lock = DISCOVERY_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    opencl_loader::load()?;
    // `get_platform_ids` would wait ten seconds for a driver to appear.
    let mut count = 0;
    // SAFETY: With 0 entries and a null list, `clGetPlatformIDs` writes only the number of
    // platforms, to `count`, which is a `cl_uint` that outlives the call. The library has been
    // loaded by the line above, so the symbol that `opencl_loader` forwards to is present. The lock
    // keeps two threads from initializing the loader at once.
    let status = unsafe { ocl::ffi::clGetPlatformIDs(0, std::ptr::null_mut(), &mut count) };
    if status == Status::CL_PLATFORM_NOT_FOUND_KHR as i32 || status == 0 && count == 0 {
        return Err(OpenClUnavailable::NoDriver);
    }
    let failed = |why: core::Error| OpenClUnavailable::Failed(error_text(&why));
    let (mut found, mut failed_platforms) = (Vec::new(), Vec::new());
    for platform in core::get_platform_ids().map_err(failed)? {
        match devices_of_platform(platform) {
            Ok(devices) => found.extend(devices),
            // The devices of the platform are hidden or unplugged.
            Err(why) if why.api_status() == Some(Status::CL_DEVICE_NOT_FOUND) => {}
            Err(why) => failed_platforms.push((platform, why)),
        }
    }
    if found.is_empty()
        && let Some((_, why)) = failed_platforms.pop()
    {
        return Err(failed(why));
    }
    found.extend(
        failed_platforms
            .iter()
            .map(|(platform, why)| DeviceDescription::for_failed_platform(*platform, why)),
    );
    Ok(found)
}

/// Describes the devices of one platform.
fn devices_of_platform(platform: PlatformId) -> core::Result<Vec<DeviceDescription>> {
    let name = core::get_platform_info(platform, PlatformInfo::Name)?.to_string();
    let ids = core::get_device_ids(platform, Some(DeviceType::ALL), None)?;
    ids.into_iter().map(|id| DeviceDescription::query(id, name.trim())).collect()
}

impl DeviceDescription {
    /// Returns the text that identifies the device in records: its name, and its PCI address if
    /// known.
    pub fn label(&self) -> String {
        self.pci.map_or_else(|| self.name.clone(), |address| format!("{} ({address})", self.name))
    }

    /// Returns false if the device is the machine's CPU, for which `--engine cpu` is faster.
    pub fn is_not_cpu(&self) -> bool {
        self.kind != DeviceKind::Cpu
    }

    /// Describes the devices of a platform that can't list them, as a single one that is not
    /// usable.
    fn for_failed_platform(platform: PlatformId, why: &core::Error) -> DeviceDescription {
        let name = core::get_platform_info(platform, PlatformInfo::Name)
            .map(|name| name.to_string().trim().to_owned());
        DeviceDescription {
            platform: name.unwrap_or_else(|_| "unknown platform".to_owned()),
            name: "unknown".to_owned(),
            // As of a GPU, nothing is said of it where the environment hides all GPUs.
            kind: DeviceKind::Gpu,
            unusable: Some(
                format!("listing the platform's devices failed: {}", error_text(why)).into(),
            ),
            ..DeviceDescription::default()
        }
    }

    /// Asks the driver for the properties of a device.
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
                DeviceInfoResult::GlobalMemSize(bytes) | DeviceInfoResult::LocalMemSize(bytes) => {
                    bytes
                }
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
            (number(DeviceInfo::CompilerAvailable)? == 0, "the driver has no compiler"),
            (number(DeviceInfo::EndianLittle)? == 0, "big-endian: expected a little-endian device"),
            (local_memory < MIN_LOCAL_MEMORY, "local memory too small: expected at least 20 KiB"),
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
            unusable: unusable.into_iter().find_map(|(is_so, why)| is_so.then_some(why.into())),
            id: Some(id),
        })
    }
}

impl PciAddress {
    /// Asks for the address, by the extension of OpenCL 3 or those of NVIDIA and AMD.
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
            return Some(PciAddress {
                domain,
                bus: bus as u8,
                device: device as u8,
                function: function as u8,
            });
        }
        if has("cl_nv_device_attribute_query") {
            // The slot holds device and function, as in PCI configuration addresses. Older drivers
            // report no domain.
            let slot = word(PCI_SLOT_ID_NV)?;
            let (domain, bus) = (word(PCI_DOMAIN_ID_NV).unwrap_or(0), word(PCI_BUS_ID_NV)? as u8);
            return Some(PciAddress {
                domain,
                bus,
                device: (slot >> 3) as u8,
                function: (slot & 7) as u8,
            });
        }
        if has("cl_amd_device_attribute_query") {
            // The structure is a 32-bit type, 17 unused bytes, then bus, device and function.
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

    /// Parses an address as `lspci` writes it. The domain and the function may be omitted.
    fn from_str(text: &str) -> Result<PciAddress, ()> {
        let number = |digits: &str| u32::from_str_radix(digits, 16).map_err(|_| ());
        let byte =
            |digits: &str| number(digits).and_then(|number| u8::try_from(number).map_err(|_| ()));
        let (slot, function) = text.split_once('.').unwrap_or((text, "0"));
        let (domain, bus, device) = match slot.split(':').collect::<Vec<_>>()[..] {
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

/// Returns a driver's error in one line.
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
    fn pci_addresses_are_parsed_as_they_are_printed() {
        let address = PciAddress { domain: 1, bus: 0x3b, device: 2, function: 1 };
        assert_eq!(address.to_string(), "0001:3b:02.1");
        assert_eq!("0001:3b:02.1".parse(), Ok(address));
        assert_eq!(
            "3B:00".parse(),
            Ok(PciAddress { domain: 0, bus: 0x3b, device: 0, function: 0 })
        );
        for wrong in ["", "0", "3b:00:00:00", "gpu:1", "100:100:1", "A100"] {
            assert_eq!(wrong.parse::<PciAddress>(), Err(()), "{wrong}");
        }
    }
}
