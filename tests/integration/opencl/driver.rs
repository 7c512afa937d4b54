//! PoCL, the OpenCL driver of these tests.

use std::process::Command;
use std::sync::OnceLock;

use crate::support::{Outcome, capture, program};

/// Returns a command of ai-integrate that sees PoCL as two devices, and no other driver.
pub fn command() -> Command {
    let mut command = Command::new(program("ai-integrate"));
    command
        .env("POCL_DEVICES", "pthread pthread")
        // PoCL 3.1 aborts in threads of its own, in 4 of 54 runs of a test, where two of them end a
        // kernel at once (pocl_release_dlhandle_cache).
        .env("POCL_MAX_PTHREAD_COUNT", "1")
        .env("OCL_ICD_VENDORS", "/etc/OpenCL/vendors/pocl.icd");
    for variable in [
        "CUDA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        "AZPIPE_OPENCL_LIBRARY",
    ] {
        command.env_remove(variable);
    }
    command
}

/// Returns whether PoCL is installed; fails in CI if it is not.
pub fn is_installed() -> bool {
    static IS_INSTALLED: OnceLock<bool> = OnceLock::new();
    *IS_INSTALLED.get_or_init(|| {
        let listed = command().arg("--list-devices").output().expect("the filter starts");
        let is_installed =
            String::from_utf8_lossy(&listed.stdout).contains("Portable Computing Language");
        assert!(
            is_installed || std::env::var_os("CI").is_none(),
            "no PoCL: scripts/setup tests installs it"
        );
        is_installed
    })
}

/// Runs ai-integrate over tasks, with more variables.
pub fn integrate(arguments: &[&str], tasks: &str, variables: &[(&str, &str)]) -> Outcome {
    let mut command = command();
    command.args(arguments).envs(variables.iter().copied());
    capture(command, tasks).into()
}
