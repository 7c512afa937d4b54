//! The driver that the tests use.

use std::process::Command;
use std::sync::OnceLock;

/// A command of a filter that sees PoCL and no other driver, as two devices.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ai-integrate"));
    command.env("POCL_DEVICES", "pthread pthread");
    for variable in ["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "AZPIPE_OPENCL_LIBRARY"] {
        command.env_remove(variable);
    }
    command
}

/// Whether PoCL is installed; an error in CI where it is not.
pub fn is_there() -> bool {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    *IS_THERE.get_or_init(|| {
        let listed = command().arg("--list-devices").output().expect("the filter starts");
        let is_there = String::from_utf8_lossy(&listed.stdout).contains("Portable Computing Language");
        assert!(is_there || std::env::var_os("CI").is_none(), "no PoCL: scripts/setup tests installs it");
        is_there
    })
}
