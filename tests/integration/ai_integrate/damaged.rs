//! HDF5 files on which the library hangs or fails: an error of the file alone, and the rest goes
//! on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sample::Random;

use crate::support::{Outcome, capture, new_seed, program, run, run_python};

/// A master of two scans whose texts lie in a heap, as h5py and Bliss write them.
const MASTER: &str = r#"
import h5py, numpy, sys
frames = (numpy.arange(4 * 6 * 8) % 113).reshape(4, 6, 8).astype("u2")
with h5py.File(sys.argv[1], "w") as file:
    for number in (1, 2):
        entry = file.create_group(f"{number}.1")
        entry.attrs["NX_class"] = "NXentry"
        entry["title"] = f"ascan samx {number}"
        entry["start_time"] = "2026-01-01T10:00:00+01:00"
        entry["end_time"] = "2026-01-01T10:10:00+01:00"
        instrument = entry.create_group("instrument")
        instrument.attrs["NX_class"] = "NXinstrument"
        detector = instrument.create_group("det")
        detector.attrs["NX_class"] = "NXdetector"
        detector["type"] = "lima"
        detector.create_dataset("data", data=frames, chunks=(1, 6, 8))
        entry["measurement/det"] = h5py.SoftLink(f"/{number}.1/instrument/det/data")
        entry["measurement/mon"] = numpy.arange(4.0) + 1
"#;

/// Writes the master and returns its bytes; `None` on a machine without the peers' Python.
fn write_master(path: &Path) -> Option<Vec<u8>> {
    run_python(MASTER, [path])?;
    Some(std::fs::read(path).unwrap())
}

/// Returns the offset of the heap of texts.
fn find_heap(bytes: &[u8]) -> usize {
    bytes.windows(4).position(|window| window == b"GCOL").expect("a heap")
}

/// Returns bytes that hang the library: the first object of the heap claims a kilobyte more than it
/// has, so that the library looks for the end of the heap for ever.
fn make_hanging(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let size = find_heap(&bytes) + 16 + 8;
    bytes[size + 1] = 4;
    bytes
}

fn find_with_timeout(operand: &Path, seconds: &str) -> Outcome {
    let mut command = Command::new(program("scan-find"));
    command.arg(operand).env("AZPIPE_FILE_TIMEOUT", seconds);
    capture(command, "").into()
}

#[test]
fn a_file_that_hangs_the_library_fails_and_the_others_are_found() {
    let place = tempfile::tempdir().unwrap();
    let Some(bytes) = write_master(&place.path().join("a.h5")) else { return };
    std::fs::write(place.path().join("b.h5"), make_hanging(&bytes)).unwrap();
    std::fs::write(place.path().join("c.h5"), &bytes).unwrap();
    let found = find_with_timeout(place.path(), "1");
    assert_eq!(found.status, 1, "{}", found.stderr);
    let files: Vec<PathBuf> = found
        .records("scan")
        .iter()
        .map(|scan| PathBuf::from(scan["file"].as_str().unwrap()))
        .collect();
    let name = |name: &str| place.path().join(name);
    assert_eq!(files, [name("a.h5"), name("a.h5"), name("c.h5"), name("c.h5")], "{}", found.stderr);
    let fails = found.records("fail");
    assert_eq!(fails.len(), 1, "{}", found.stderr);
    assert_eq!(fails[0]["about"], name("b.h5").to_str().unwrap());
    assert!(
        fails[0]["error"].as_str().unwrap().contains("made no progress for 1 s"),
        "{}",
        fails[0]
    );
    assert_eq!(fails[0]["retryable"], true);
}

#[test]
fn one_sigterm_ends_a_filter_whose_file_hangs_and_its_worker() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.h5");
    let Some(bytes) = write_master(&path) else { return };
    std::fs::write(&path, make_hanging(&bytes)).unwrap();
    let mut child = Command::new(program("scan-find"))
        .arg(&path)
        .env("AZPIPE_FILE_TIMEOUT", "0")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let task = format!("/proc/{}/task", child.id());
    let children = || -> Vec<i32> {
        let threads = std::fs::read_dir(&task).into_iter().flatten().flatten();
        let of_thread = |thread: std::fs::DirEntry| {
            std::fs::read_to_string(thread.path().join("children")).ok()
        };
        threads
            .filter_map(of_thread)
            .flat_map(|list| {
                list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()
            })
            .collect()
    };
    let began = Instant::now();
    let wait_for = |what: &str, is_so: &mut dyn FnMut() -> bool| {
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(120), "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait_for("a worker", &mut || !children().is_empty());
    let worker = children()[0];
    // In clock ticks of 10 ms: the library is at it.
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .nth(11)
            .and_then(|user| user.parse::<u64>().ok())
    };
    wait_for("a worker at work", &mut || used().is_some_and(|ticks| ticks > 50));
    kill(Pid::from_raw(worker), Signal::SIGTERM).unwrap();
    assert!(
        child.try_wait().unwrap().is_none(),
        "what is sent to the worker is for the filter to decide"
    );
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let mut status = None;
    wait_for("its end", &mut || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status.unwrap()), Some(15));
    wait_for("the worker's end", &mut || !Path::new(&format!("/proc/{worker}")).exists());
}

#[test]
fn a_worker_goes_with_a_filter_that_is_killed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.h5");
    let Some(bytes) = write_master(&path) else { return };
    std::fs::write(&path, make_hanging(&bytes)).unwrap();
    let before: BTreeSet<String> = list_processes();
    let mut child = Command::new(program("scan-find"))
        .arg(&path)
        .env("AZPIPE_FILE_TIMEOUT", "0")
        .env("AZPIPE_TEST", place.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    // The worker has the mark in its environment, too.
    let mark = format!("AZPIPE_TEST={}", place.path().display());
    let marked = || {
        let has_mark = |id: &String| {
            std::fs::read(format!("/proc/{id}/environ")).is_ok_and(|all| {
                all.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
            })
        };
        list_processes().difference(&before).filter(|id| has_mark(id)).count()
    };
    while marked() < 2 {
        assert!(began.elapsed() < Duration::from_secs(120), "no worker");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    while marked() > 0 {
        assert!(began.elapsed() < Duration::from_secs(120), "the worker is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn list_processes() -> BTreeSet<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .collect()
}

/// Changes bytes of the file at random, every other one in the heap of its texts, `AZPIPE_FUZZ`
/// times (200 by default): scan-find ends by itself and says something of each file.
#[test]
fn whatever_byte_is_changed_scan_find_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let Some(bytes) = write_master(&place.path().join("base")) else { return };
    let seed = new_seed();
    let (heap, mut random) = (find_heap(&bytes), Random::new(&[seed]));
    let count: usize =
        std::env::var("AZPIPE_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(200);
    let directory = place.path().join("all");
    std::fs::create_dir(&directory).unwrap();
    for number in 0..count {
        let mut bytes = bytes.clone();
        let at = if number % 2 == 0 { random.index(bytes.len()) } else { heap + random.index(600) };
        bytes[at] = match random.below(4) {
            0 => 0,
            1 => 255,
            2 => random.below(256) as u8,
            _ => bytes[at] ^ (1 << random.below(8)),
        };
        std::fs::write(directory.join(format!("{number}.h5")), bytes).unwrap();
    }
    let found = find_with_timeout(&directory, "0.5");
    assert!(found.status <= 1, "status {}: {}", found.status, found.stderr);
    let lines = |what: &str| found.stderr.lines().filter(|line| line.contains(what)).count();
    let (hung, died, bugs) =
        (lines("made no progress"), lines("with the HDF5 library ended"), lines("bug of azpipe"));
    eprintln!(
        "AZPIPE_SEED={seed}: {count} files: {} scans, {} fail records, hung {hung}, died {died}, panics {bugs}",
        found.records("scan").len(),
        found.records("fail").len()
    );
    assert_eq!(bugs, 0, "{}", found.stderr);
    assert_eq!(lines("panicked"), 0, "{}", found.stderr);
}

const PONI: &str = "poni_version: 2\nDetector: Detector\nDetector_config: {\"pixel1\": 1e-4, \"pixel2\": 1e-4}\n\
    Distance: 0.1\nPoni1: 0\nPoni2: 0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";

#[test]
fn images_without_their_checksum_are_told() {
    let whole = include_bytes!("../../../crates/frames/tests/data/counts.cbf");
    let at = whole.windows(12).position(|window| window == b"Content-MD5:").expect("a checksum");
    let end = at + whole[at..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let without = [&whole[..at], &whole[end..]].concat();
    for (images, told) in [
        ([&whole[..], &whole[..]], None),
        ([&without, &without], Some("2 CBF images ")),
        ([whole, &without], Some("1 CBF image ")),
    ] {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        (0..2).for_each(|number| {
            std::fs::write(path(&format!("a_{number}.cbf")), images[number]).unwrap()
        });
        std::fs::write(path("g.poni"), PONI).unwrap();
        let scans = run("scan-find", &[place.path()], "").assert_success().stdout;
        let (poni, out) = (path("g.poni"), path("out"));
        let plan = [
            "--poni".as_ref(),
            poni.as_os_str(),
            "--out".as_ref(),
            out.as_os_str(),
            "--npt".as_ref(),
            "5".as_ref(),
        ];
        let tasks = run("plan-split", &plan, &scans).assert_success().stdout;
        let said = run("ai-integrate", &["-v"], &tasks).assert_success().stderr;
        assert_eq!(said.contains("without Content-MD5"), told.is_some(), "{said}");
        assert!(told.is_none_or(|told| said.contains(told)), "{said}");
        assert!(!run("ai-integrate", &["--force"], &tasks).assert_success().stderr.contains("CBF"));
    }
}

#[test]
fn a_worker_has_32_gib_or_what_its_filter_has() {
    for (limited, expected) in [(None, 32_u64 << 30), (Some(8_000_000_u64), 8_192_000_000)] {
        let ulimit =
            limited.map(|kilobytes| format!("ulimit -v {kilobytes}; ")).unwrap_or_default();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.h5");
        let Some(bytes) = write_master(&path) else { return };
        std::fs::write(&path, make_hanging(&bytes)).unwrap();
        // A shell that becomes the filter, whose worker hangs until it is ended.
        let mut child = Command::new("bash")
            .args(["-c", &format!("{ulimit}exec \"$@\""), "bash", program("scan-find")])
            .arg(&path)
            .env("AZPIPE_FILE_TIMEOUT", "0")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        let id = child.id();
        let limit = |process: &str| -> Option<u64> {
            let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).ok()?;
            let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let worker_has_it = || {
            let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))
                .unwrap_or_default();
            let of_threads =
                std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
            let of_threads = of_threads
                .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
            let all: Vec<String> = of_threads.chain([children]).collect();
            all.iter()
                .flat_map(|all| all.split_whitespace())
                .any(|worker| limit(worker) == Some(expected))
        };
        while !worker_has_it() {
            assert!(began.elapsed() < Duration::from_secs(60), "no worker with {expected} bytes");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(
            limit(&id.to_string()),
            limited.map(|kilobytes| kilobytes * 1024),
            "the filter has its own"
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
