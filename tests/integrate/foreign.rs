//! FIFOs and devices in all places where a file is expected: refused at once, and told by name.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::site::{Ran, Site, small};

/// Runs a filter that must not wait: one that does is ended, and fails the test.
fn promptly(program: &str, args: &[&str], input: &str) -> Ran {
    let path = Path::new(env!("CARGO_BIN_EXE_scan-find")).with_file_name(program);
    let mut source = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut source, input.as_bytes()).unwrap();
    std::io::Seek::rewind(&mut source).unwrap();
    let (mut out, mut err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let (stdout, stderr) = (Stdio::from(out.try_clone().unwrap()), Stdio::from(err.try_clone().unwrap()));
    let mut child = Command::new(path).args(args).stdin(source).stdout(stdout).stderr(stderr).spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{program} {args:?} waits");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let read = |file: &mut std::fs::File| {
        let mut text = String::new();
        std::io::Seek::rewind(file).unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    };
    Ran { status: status.code().unwrap_or(-1), stdout: read(&mut out), stderr: read(&mut err) }
}

/// A name that leads to a FIFO that nobody writes, and one to a device without an end.
fn traps(site: &Site) -> Vec<(PathBuf, &'static str)> {
    let fifo = site.path("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    vec![(fifo, "is a FIFO"), (PathBuf::from("/dev/zero"), "is a device")]
}

#[test]
fn an_operand_and_the_files_of_a_recipe_are_regular_files() {
    let site = Site::new(&small());
    for (trap, why) in traps(&site) {
        let name = trap.to_str().unwrap();
        for operand in [name.to_owned(), format!("{name}::/entry/data")] {
            let found = promptly("scan-find", &[&operand], "");
            assert_eq!((found.status, found.records("fail").len()), (1, 1), "{operand}: {}", found.stderr);
            assert!(found.stderr.contains(why), "{}", found.stderr);
        }
        let out = site.path("out");
        let base = ["--out", out.to_str().unwrap(), "--poni", site.data.poni.to_str().unwrap()];
        let flags: [&[&str]; 5] =
            [&["--mask", name], &["--dark", name], &["--flat", name], &["--recipe", name], &["--variance", name]];
        for flags in flags {
            let planned = promptly("plan-split", &[&base[..], flags].concat(), &site.scans);
            assert_ne!(planned.status, 0, "{flags:?}: {}", planned.stderr);
            assert!(planned.stderr.contains(why), "{flags:?}: {}", planned.stderr);
        }
        let planned = promptly("plan-split", &["--out", out.to_str().unwrap(), "--poni", name], &site.scans);
        assert!(planned.status != 0 && planned.stderr.contains(why), "{}", planned.stderr);
    }
}

#[test]
fn a_source_and_a_monitor_are_regular_files() {
    let site = Site::new(&small());
    let tasks = site.plan("out", &["--by", "scan"]);
    for (trap, _) in traps(&site) {
        let mut record: Value = serde_json::from_str(tasks.lines().next().unwrap()).unwrap();
        record["sources"][0]["file"] = json!(trap);
        let done = promptly("ai-integrate", &[], &format!("{record}\n"));
        assert_eq!(done.status, 1, "{}", done.stderr);
        // A record that tells of it as it is: size and time are those of the trap.
        let metadata = std::fs::metadata(&trap).unwrap();
        let mtime = {
            use std::os::unix::fs::MetadataExt as _;
            format!("{}.{:09}", metadata.mtime(), metadata.mtime_nsec())
        };
        (record["sources"][0]["size"], record["sources"][0]["mtime"]) = (json!(metadata.len()), json!(mtime));
        for dataset in [record["sources"][0]["dataset"].clone(), json!("")] {
            record["sources"][0]["dataset"] = dataset;
            let done = promptly("ai-integrate", &[], &format!("{record}\n"));
            assert_eq!(done.status, 1, "{}", done.stderr);
            assert!(done.stderr.contains("expected a regular file"), "{}", done.stderr);
        }
    }
}

#[test]
fn links_and_mappings_lead_to_regular_files() {
    let site = Site::new(&small());
    for (trap, _) in traps(&site) {
        let name = trap.to_str().unwrap();
        let path = site.path(&format!("links-{}.h5", trap.file_name().unwrap().to_str().unwrap()));
        let script = format!(
            r#"
import h5py, numpy
with h5py.File({path:?}, "w") as file:
    entry = file.create_group("entry")
    entry.attrs["NX_class"] = "NXentry"
    entry["title"] = h5py.ExternalLink({name:?}, "/title")
    detector = entry.create_group("instrument/detector")
    entry["instrument"].attrs["NX_class"] = "NXinstrument"
    detector.attrs["NX_class"] = "NXdetector"
    layout = h5py.VirtualLayout((3, 8, 8), "u2")
    layout[:] = h5py.VirtualSource({name:?}, "/data", (3, 8, 8))
    detector.create_virtual_dataset("data", layout)
    texts = h5py.VirtualLayout((1,), h5py.string_dtype())
    texts[:] = h5py.VirtualSource({name:?}, "/text", (1,))
    entry.create_virtual_dataset("start_time", texts)
    entry.create_dataset("end_time", (1,), "S8", external=[({name:?}, 0, 8)])
    file["data"] = h5py.ExternalLink({name:?}, "/data")
"#
        );
        let made = Command::new(python()).args(["-c", &script]).output().expect("python");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let found = promptly("scan-find", &[path.to_str().unwrap()], "");
        assert!(found.status <= 1, "{}", found.stderr);
        assert!(found.stderr.contains(name), "{}", found.stderr);
        promptly("scan-find", &[&format!("{}::/data", path.display())], "");
    }
}

#[test]
fn an_input_without_a_line_break_ends_by_itself() {
    let site = Site::new(&small());
    let poni = site.data.poni.to_str().unwrap();
    for (program, flags) in [("gather", &["--plan", "/dev/zero"][..]), ("plan-split", &["/dev/zero"])] {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().to_str().unwrap();
        let more: &[&str] = if program == "gather" { &["--from", out] } else { &["--out", out, "--poni", poni] };
        let ran = promptly(program, &[flags, more].concat(), "");
        assert_ne!(ran.status, 0);
        assert!(ran.stderr.contains("/dev/zero"), "{}", ran.stderr);
    }
}

/// The Python of the peers, `AZPIPE_PEERS` or `.venv` in the root.
pub fn python() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::env::var_os("AZPIPE_PEERS").map_or_else(|| root.join(".venv"), PathBuf::from).join("bin/python")
}
