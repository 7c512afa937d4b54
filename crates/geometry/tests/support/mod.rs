//! Finds the virtual environment with pyFAI: `AZPIPE_PEERS`, or `.venv` in the root.

use std::path::PathBuf;
use std::process::Command;

/// Returns a command for the Python with pyFAI, limited to one thread; `None` if it is not
/// installed, which is an error in CI.
pub fn pyfai_python() -> Option<Command> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let peers = std::env::var_os("AZPIPE_PEERS").map_or_else(|| root.join(".venv"), PathBuf::from);
    let python = peers.join("bin/python");
    if python.exists() {
        let mut command = Command::new(python);
        // OpenMP threads that spin while they wait would slow down all other tests.
        command.env("OMP_NUM_THREADS", "1").env("NUMEXPR_NUM_THREADS", "1");
        return Some(command);
    }
    assert!(std::env::var_os("CI").is_none(), "no {}: scripts/test makes it", python.display());
    eprintln!("skipped: no {}", python.display());
    None
}
