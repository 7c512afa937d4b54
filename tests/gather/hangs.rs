//! HDF5 files without checksums on which the library never returns: the filters that read them end with words.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::site::{NOTHING, Ran, Site, binary, run, small};

/// Makes the library look for the end of each heap of texts for ever: its first object is said to be free space of no length.
fn damage_heaps(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    // Finals of earlier versions have no checksums behind their end.
    if let Some(foot) = bytes.len().checked_sub(32).filter(|&foot| bytes[foot..].starts_with(b"azpipe checks")) {
        let size = u64::from_le_bytes(*bytes[foot + 16..].first_chunk().unwrap());
        bytes.truncate(size as usize);
    }
    let heaps: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(b"GCOL")).collect();
    assert!(!heaps.is_empty(), "no heap of texts");
    heaps.iter().for_each(|heap| bytes[heap + 16..heap + 32].fill(0));
    fs::write(path, bytes).unwrap();
}

/// Runs a filter whose files may take a second.
fn run_with_limit(filter: &str, flags: &[&str], input: &str) -> Ran {
    let site = tempfile::NamedTempFile::new().unwrap();
    fs::write(site.path(), input).unwrap();
    let mut child = Command::new(binary(filter))
        .args(flags)
        .arg(site.path())
        .env("AZPIPE_FILE_TIMEOUT", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{filter} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let ran = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { status: ran.status.code().unwrap_or(-1), stdout: text(ran.stdout), stderr: text(ran.stderr) }
}

fn assert_told(ran: &Ran, file: &Path) {
    let said = format!("{}: the HDF5 library made no progress for 1 s", file.display());
    assert!(ran.status == 2 && ran.stderr.contains(&said), "{}: {}", ran.status, ran.stderr);
}

#[test]
fn a_final_on_which_the_library_hangs_is_named() {
    let site = Site::new(&small());
    let plan = site.plan("out", &["--unit", "2th_deg"]);
    let results = run("ai-integrate", NOTHING, &plan).good().stdout;
    let summary = run("gather", NOTHING, &results).good().records("summary").remove(0);
    let path = Path::new(summary["final"].as_str().unwrap());
    damage_heaps(path);
    assert_told(&run_with_limit("ai-integrate", &[], &plan), path);
    assert_told(&run_with_limit("gather", &[], &results), path);
    // Once it is moved away, a rerun makes it anew.
    fs::remove_file(path).unwrap();
    let results = run("ai-integrate", NOTHING, &plan).good().stdout;
    let again = run("gather", NOTHING, &results).good().records("summary").remove(0);
    assert_eq!(again["data_digest"], summary["data_digest"]);
}

#[test]
fn an_export_on_which_the_library_hangs_is_named() {
    let site = Site::new(&small());
    let results = run("ai-integrate", NOTHING, &site.plan("out", &["--unit", "2th_deg"])).good().stdout;
    let export = ["--export", "nxazint"];
    let written = run("gather", &export, &results).good().records("summary").remove(0)["export"][0].clone();
    let path = Path::new(written.as_str().unwrap());
    damage_heaps(path);
    assert_told(&run_with_limit("gather", &export, &results), path);
}

#[test]
fn a_master_on_which_the_library_hangs_is_named() {
    let site = Site::new(&small());
    let results = run("ai-integrate", NOTHING, &site.plan("out", &["--unit", "2th_deg"])).good();
    let file = results.records("result")[0]["file"].as_str().unwrap().to_owned();
    let path = Path::new(&file);
    damage_heaps(path);
    assert_told(&run_with_limit("gather", &[], &results.stdout), path);
}
