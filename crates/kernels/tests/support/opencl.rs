//! The device that tests run on.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use kernels::opencl::{Device, DeviceSettings, all_devices};

/// The first device that there is. Its lack is a failure in CI.
pub fn device(settings: DeviceSettings) -> Option<Arc<Device>> {
    let found = all_devices().map(|all| all.into_iter().find(|device| device.unusable.is_none()));
    match found {
        Ok(Some(description)) => Some(Arc::new(Device::open(&description, settings).expect("a device that works"))),
        why => {
            assert!(std::env::var_os("CI").is_none(), "no OpenCL device ({why:?}): scripts/setup tests installs PoCL");
            None
        }
    }
}

/// Has a test of this program run by Oclgrind, which must find nothing wrong. PoCL runs the lanes of a group in an order of its own: it
/// does not see a barrier that misses, or that not all lanes reach. Oclgrind sees these, whatever is read or written out of bounds, and
/// calls that drivers may refuse. It takes a thousand times as long.
pub fn simulate(test: &str) {
    let libraries = ["/usr/lib/oclgrind/liboclgrind-rt.so", "/usr/local/lib/oclgrind/liboclgrind-rt.so"];
    let Some(library) = libraries.into_iter().find(|path| Path::new(path).exists()) else {
        assert!(std::env::var_os("CI").is_none(), "no Oclgrind: scripts/setup tests installs it");
        return;
    };
    let log = tempfile::NamedTempFile::new().expect("a file");
    let ran = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test])
        .envs([("AZPIPE_OPENCL_LIBRARY", library), ("OCLGRIND_DATA_RACES", "1"), ("OCLGRIND_CHECK_API", "1")])
        .env("OCLGRIND_LOG", log.path())
        .output()
        .expect("it starts");
    let said = std::fs::read_to_string(log.path()).expect("a log");
    let stdout = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && stdout.contains("1 passed"), "{stdout}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.is_empty(), "{said}");
}
