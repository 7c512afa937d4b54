//! FIFOs and devices in all places where a file is expected: an error at once that names them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{
    NO_ARGUMENTS, Outcome, Workspace, capture_within_a_minute, program, run_python, small_options,
};

/// Runs a filter that must not wait for the special file.
fn run_promptly(name: &str, arguments: &[&str], input: &str) -> Outcome {
    let mut command = Command::new(program(name));
    command.args(arguments);
    capture_within_a_minute(command, input)
}

/// Returns the paths of a FIFO that nobody writes and of a device without an end, each with the
/// expected words.
fn special_files(workspace: &Workspace) -> Vec<(PathBuf, &'static str)> {
    let fifo = workspace.path("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    vec![(fifo, "is a FIFO"), (PathBuf::from("/dev/zero"), "is a device")]
}

#[test]
fn an_operand_and_the_files_of_a_recipe_are_regular_files() {
    let workspace = Workspace::new(&small_options());
    for (file, why) in special_files(&workspace) {
        let name = file.to_str().unwrap();
        for operand in [name.to_owned(), format!("{name}::/entry/data")] {
            let found = run_promptly("scan-find", &[&operand], "");
            assert_eq!(
                (found.status, found.records("fail").len()),
                (1, 1),
                "{operand}: {}",
                found.stderr
            );
            assert!(found.stderr.contains(why), "{}", found.stderr);
        }
        let out = workspace.path("out");
        let base =
            ["--out", out.to_str().unwrap(), "--poni", workspace.data.poni.to_str().unwrap()];
        let flags: [&[&str]; 5] = [
            &["--mask", name],
            &["--dark", name],
            &["--flat", name],
            &["--recipe", name],
            &["--variance", name],
        ];
        for flags in flags {
            let planned =
                run_promptly("plan-split", &[&base[..], flags].concat(), &workspace.scans);
            assert_ne!(planned.status, 0, "{flags:?}: {}", planned.stderr);
            assert!(planned.stderr.contains(why), "{flags:?}: {}", planned.stderr);
        }
        let planned = run_promptly(
            "plan-split",
            &["--out", out.to_str().unwrap(), "--poni", name],
            &workspace.scans,
        );
        assert!(planned.status != 0 && planned.stderr.contains(why), "{}", planned.stderr);
    }
}

#[test]
fn a_source_and_a_monitor_are_regular_files() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "scan"]);
    for (file, _) in special_files(&workspace) {
        let mut record: Value = serde_json::from_str(tasks.lines().next().unwrap()).unwrap();
        record["sources"][0]["file"] = json!(file);
        let done = run_promptly("ai-integrate", &[], &format!("{record}\n"));
        assert_eq!(done.status, 1, "{}", done.stderr);
        // A record that tells of it as it is: size and time are those of the file.
        let metadata = std::fs::metadata(&file).unwrap();
        let mtime = {
            use std::os::unix::fs::MetadataExt as _;
            format!("{}.{:09}", metadata.mtime(), metadata.mtime_nsec())
        };
        (record["sources"][0]["size"], record["sources"][0]["mtime"]) =
            (json!(metadata.len()), json!(mtime));
        for dataset in [record["sources"][0]["dataset"].clone(), json!("")] {
            record["sources"][0]["dataset"] = dataset;
            let done = run_promptly("ai-integrate", &[], &format!("{record}\n"));
            assert_eq!(done.status, 1, "{}", done.stderr);
            assert!(done.stderr.contains("expected a regular file"), "{}", done.stderr);
        }
    }
}

#[test]
fn links_and_mappings_lead_to_regular_files() {
    let workspace = Workspace::new(&small_options());
    for (file, _) in special_files(&workspace) {
        let name = file.to_str().unwrap();
        let path =
            workspace.path(&format!("links-{}.h5", file.file_name().unwrap().to_str().unwrap()));
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
        if run_python(&script, NO_ARGUMENTS).is_none() {
            return;
        }
        let found = run_promptly("scan-find", &[path.to_str().unwrap()], "");
        assert!(found.status <= 1, "{}", found.stderr);
        assert!(found.stderr.contains(name), "{}", found.stderr);
        run_promptly("scan-find", &[&format!("{}::/data", path.display())], "");
    }
}

#[test]
fn an_input_without_a_line_break_ends_by_itself() {
    let workspace = Workspace::new(&small_options());
    let poni = workspace.data.poni.to_str().unwrap();
    for (name, flags) in [("gather", &["--plan", "/dev/zero"][..]), ("plan-split", &["/dev/zero"])]
    {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().to_str().unwrap();
        let more: &[&str] =
            if name == "gather" { &["--from", out] } else { &["--out", out, "--poni", poni] };
        let ran = run_promptly(name, &[flags, more].concat(), "");
        assert_ne!(ran.status, 0);
        assert!(ran.stderr.contains("/dev/zero"), "{}", ran.stderr);
    }
}

/// Lists the files below a directory.
fn list_files(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { list_files(&path, files) } else { files.push(path) }
    }
}

#[test]
fn nothing_waits_for_a_fifo_in_place_of_any_file_of_an_output_root() {
    let workspace = Workspace::new(&small_options());
    let (out, whole) = (workspace.path("out"), workspace.path("whole"));
    let plan = || {
        let base = ["--poni", workspace.data.poni.to_str().unwrap(), "--by", "frames=12"];
        let out = ["--out", out.to_str().unwrap()];
        run_promptly("plan-split", &[&base[..], &out].concat(), &workspace.scans)
    };
    let tasks = plan().assert_success().stdout;
    let results = run_promptly("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let flags = ["--keep-parts", "--export", "xye,nxazint"];
    run_promptly("gather", &flags, &results).assert_success();
    std::fs::rename(&out, &whole).unwrap();
    let mut files = Vec::new();
    list_files(&whole, &mut files);
    assert!(files.len() > 8, "{files:?}");
    let copy = |from: &Path, to: &Path| {
        let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
        assert!(status.success());
    };
    for file in files {
        copy(&whole, &out);
        let fifo = out.join(file.strip_prefix(&whole).unwrap());
        std::fs::remove_file(&fifo).unwrap();
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let root = out.to_str().unwrap();
        let runs = [
            plan(),
            run_promptly("ai-integrate", NO_ARGUMENTS, &tasks),
            run_promptly("gather", &flags, &results),
            run_promptly("gather", &["--from", root], ""),
            run_promptly("gather", &["--from", root, "--clean"], ""),
        ];
        for (place, ran) in runs.iter().enumerate() {
            let about = format!("{}, run {place}: {}", fifo.display(), ran.stderr);
            assert!((0..=2).contains(&ran.status), "{about}");
        }
        std::fs::remove_dir_all(&out).unwrap();
    }
}
