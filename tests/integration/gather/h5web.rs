//! Finals in h5web, ESRF's viewer in browsers, which reads them by h5wasm in a headless Chromium.
//!
//! Runs where Chromium or Chrome and Node.js are installed, and h5web in `AZPIPE_PEERS`, or `.venv`
//! in the root, as by `scripts/setup tests`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Workspace, python, small_options};

/// Returns a program's path, looked up in `PATH`.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

/// Returns the Node.js modules and the browser; `None` if one is not installed.
///
/// # Panics
/// In CI if one is not installed.
pub(super) fn h5web_and_browser() -> Option<(PathBuf, PathBuf)> {
    let modules = python()?.parent()?.parent()?.join("h5web/node_modules");
    let browser =
        ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(find_program);
    if let (true, Some(browser), Some(_)) = (modules.is_dir(), browser, find_program("node")) {
        return Some((modules, browser));
    }
    let what = format!("{}, node or chromium", modules.display());
    assert!(
        std::env::var_os("CI").is_none(),
        "{what} does not exist: scripts/setup tests installs it"
    );
    eprintln!("skipped: {what} does not exist");
    None
}

#[test]
fn h5web_shows_the_pattern_and_all_frames_with_their_axes() {
    let Some((modules, browser)) = h5web_and_browser() else { return };
    let workspace = Workspace::new(&small_options());
    let summary = workspace
        .process("out", &["--unit", "2th_deg"], &[])
        .assert_success()
        .records("summary")
        .remove(0);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/h5web/look.mjs");
    let output = Command::new("node")
        .args([&script, &modules, &browser, Path::new(summary["final"].as_str().unwrap())])
        .arg(workspace.path("h5web.png"))
        .output()
        .expect("node starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page: Value = serde_json::from_slice(&output.stdout).unwrap();
    let line = page["line"].as_str().unwrap();
    for text in [
        "LaB6, scan 1.1, pilatus: ascan rot -90 90 23 0.1",
        "2θ (°)",
        "Intensity (counts)",
        "NX Line",
        "Errors",
    ] {
        assert!(line.contains(text), "{text} is not in\n{line}");
    }
    let heatmap = page["heatmap"].as_str().unwrap();
    assert!(["2θ (°)", "rot (°)"].iter().all(|axis| heatmap.contains(axis)), "{heatmap}");
}
