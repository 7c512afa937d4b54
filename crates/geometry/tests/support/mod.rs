//! The virtual environment that holds pyFAI: `AZPIPE_PEERS`, or `.venv` in the root.

use std::path::PathBuf;
use std::process::Command;

/// The Python that has pyFAI, told to compute on one thread; none where a developer has not set it up, an error
/// in CI.
pub fn pyfai_python() -> Option<Command> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let peers = std::env::var_os("AZPIPE_PEERS").map_or_else(|| root.join(".venv"), PathBuf::from);
    let python = peers.join("bin/python");
    if python.exists() {
        let mut command = Command::new(python);
        // Threads that spin for each other would take the time of everything else.
        command.env("OMP_NUM_THREADS", "1").env("NUMEXPR_NUM_THREADS", "1");
        return Some(command);
    }
    assert!(std::env::var_os("CI").is_none(), "no {}: scripts/test makes it", python.display());
    eprintln!("skipped: no {}", python.display());
    None
}
