//! The Python of the peers: a virtual environment with pyFAI, silx, h5py, dask-jobqueue and Ray, at
//! `AZPIPE_PEERS`, or `.venv` in the root. Tests that need it are skipped on a machine without it,
//! but fail in CI.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the interpreter's path, or `None` if it is not installed.
///
/// # Panics
/// In CI if it is not installed.
pub fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let peers = std::env::var_os("AZPIPE_PEERS").map_or_else(|| root.join(".venv"), PathBuf::from);
    let python = peers.join("bin/python");
    if python.exists() {
        return Some(python);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "{} does not exist: scripts/setup tests installs it",
        python.display()
    );
    eprintln!("skipped: {} does not exist", python.display());
    None
}

/// Returns the interpreter's path if it has these modules, with commas between them. Nothing is
/// imported: some take seconds.
///
/// # Panics
/// In CI if it can't.
pub fn python_with(modules: &str) -> Option<String> {
    let python = python()?;
    let find = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))";
    let found = Command::new(&python).args(["-c", find]).args(modules.split(", ")).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python.to_str().expect("a path in UTF-8").to_owned());
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "{} has no {modules}: scripts/setup tests installs it",
        python.display()
    );
    eprintln!("skipped: {} has no {modules}", python.display());
    None
}

/// Runs Python source code with arguments, and returns what it prints; `None` if the interpreter is
/// not installed.
///
/// # Panics
/// If the program fails.
pub fn run_python<S: AsRef<OsStr>>(
    source: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Option<Vec<u8>> {
    let output = Command::new(python()?)
        .args(["-c", source])
        .args(arguments)
        // Threads that spin for each other would take the time of everything else.
        .env("OMP_WAIT_POLICY", "passive")
        .output()
        .expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}
