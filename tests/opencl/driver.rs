//! The driver that the tests use.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::site::Ran;

/// A command of a filter that sees PoCL and no other driver, as two devices.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ai-integrate"));
    command.env("POCL_DEVICES", "pthread pthread").env("OCL_ICD_VENDORS", "/etc/OpenCL/vendors/pocl.icd");
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

/// Runs ai-integrate over tasks, with more variables.
pub fn integrate(arguments: &[&str], tasks: &str, variables: &[(&str, &str)]) -> Ran {
    let mut command = command();
    command.args(arguments).envs(variables.iter().copied());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the filter starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let output = std::thread::scope(|scope| {
        // A filter that refuses its arguments does not read.
        scope.spawn(move || drop(stdin.write_all(tasks.as_bytes())));
        child.wait_with_output().expect("the filter ends")
    });
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { status: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}
