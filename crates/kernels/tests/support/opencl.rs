//! The OpenCL device that tests run on, and the simulator that checks the kernels.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use kernels::opencl::{Device, DeviceSettings, all_devices};

/// Opens the first usable device. Returns `None` if there is none; in CI that is a failure.
pub fn device(settings: DeviceSettings) -> Option<Arc<Device>> {
    let found = all_devices().map(|all| all.into_iter().find(|device| device.unusable.is_none()));
    match found {
        Ok(Some(description)) => {
            Some(Arc::new(Device::open(&description, settings).expect("a device that works")))
        }
        why => {
            assert!(
                std::env::var_os("CI").is_none(),
                "no OpenCL device ({why:?}): scripts/setup tests installs PoCL"
            );
            None
        }
    }
}

/// Runs all tests of this program but those of the simulator with Intel's OpenCL driver for CPUs,
/// whose compiler and scheduling are independent of PoCL's. `scripts/setup tests` installs it and
/// sets the variable that names its library.
pub fn run_with_intel_driver(this_test: &str) {
    const LIBRARY: &str = "AZPIPE_INTEL_OPENCL";
    let Some(library) = std::env::var_os(LIBRARY) else {
        let is_needed = cfg!(target_arch = "x86_64") && std::env::var_os("CI").is_some();
        assert!(!is_needed, "no {LIBRARY}: scripts/setup tests installs the driver and sets it");
        return;
    };
    let vendor = tempfile::Builder::new().suffix(".icd").tempfile().expect("a file");
    std::fs::write(vendor.path(), library.as_encoded_bytes()).expect("it can be written");
    let ran = Command::new(std::env::current_exe().expect("this program"))
        .args(["--skip", this_test, "--skip", "kernels_are_sound_to_a_simulator"])
        // A test without a device fails in CI, and this driver is the only one that is seen.
        .envs([("CI", "1")])
        .env("OCL_ICD_VENDORS", vendor.path())
        .env_remove("AZPIPE_OPENCL_LIBRARY")
        .output()
        .expect("it starts");
    let stdout = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{stdout}{}", String::from_utf8_lossy(&ran.stderr));
}

/// Runs a test of this program under the simulator Oclgrind, and asserts that it reports nothing.
///
/// Oclgrind finds data races, barriers that some lanes don't reach, accesses out of bounds and
/// invalid API calls. PoCL finds none of these, as it runs the lanes of a work-group in a fixed
/// order. The simulation takes a thousand times as long.
pub fn simulate(test: &str) {
    let libraries =
        ["/usr/lib/oclgrind/liboclgrind-rt.so", "/usr/local/lib/oclgrind/liboclgrind-rt.so"];
    let Some(library) = libraries.into_iter().find(|path| Path::new(path).exists()) else {
        assert!(std::env::var_os("CI").is_none(), "no Oclgrind: scripts/setup tests installs it");
        return;
    };
    let log = tempfile::NamedTempFile::new().expect("a file");
    let ran = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test])
        .envs([
            ("AZPIPE_OPENCL_LIBRARY", library),
            ("OCLGRIND_DATA_RACES", "1"),
            ("OCLGRIND_CHECK_API", "1"),
        ])
        .env("OCLGRIND_LOG", log.path())
        .output()
        .expect("it starts");
    let said = std::fs::read_to_string(log.path()).expect("a log");
    let stdout = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && stdout.contains("1 passed"),
        "{stdout}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(said.is_empty(), "{said}");
}
