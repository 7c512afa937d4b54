//! The virtual environment that holds pyFAI: `AZPIPE_PEERS`, or `.venv` in the root.

use std::path::PathBuf;

/// The Python that has pyFAI; none where a developer has not set it up, an error in CI.
pub fn python() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let peers = std::env::var_os("AZPIPE_PEERS").map_or_else(|| root.join(".venv"), PathBuf::from);
    let python = peers.join("bin/python");
    if python.exists() {
        return Some(python);
    }
    assert!(std::env::var_os("CI").is_none(), "no {}: scripts/test makes it", python.display());
    eprintln!("skipped: no {}", python.display());
    None
}
