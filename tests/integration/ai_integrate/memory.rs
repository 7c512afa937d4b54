//! Where memory is limited (`ulimit -v`, a job's `--mem`), what does not fit is lost frames, and
//! never an abort.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{program, run, run_python};

/// 500 frames of a million pixels in one chunk, and 4 in two.
const DATA: &str = r#"
import h5py, numpy, sys
with h5py.File(sys.argv[1], "w") as file:
    options = {"dtype": "u1", "compression": "gzip", "compression_opts": 1}
    options.update({"shuffle": True} if sys.argv[3] == "shuffle" else {})
    data = file.create_dataset("data", shape=(500, 1000, 1000), chunks=(500, 1000, 1000), **options)
    data[0, 0, 0] = 1
with h5py.File(sys.argv[2], "w") as file:
    file.create_dataset("data", data=numpy.ones((4, 1000, 1000), "u1"), chunks=(2, 1000, 1000), **options)
"#;

const PONI: &str = "poni_version: 2\nDetector: Detector\nDetector_config: {\"pixel1\": 1e-4, \"pixel2\": 1e-4}\n\
    Distance: 0.1\nPoni1: 0\nPoni2: 0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";

fn run_with_memory_limit(kilobytes: u64, tasks: &Path) -> (i32, Vec<Value>, String) {
    let script = format!("ulimit -v {kilobytes}; exec \"$@\"");
    let mut command = Command::new("bash");
    command
        .args(["-c", &script, "bash", program("ai-integrate"), "--threads", "1", "--force"])
        .arg(tasks);
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let records = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (
        output.status.code().unwrap_or(-1),
        records,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn a_chunk_beyond_the_memory_is_lost_frames_and_the_others_are_integrated() {
    // Behind another filter, the chunk is in memory twice. Threads reserve much of the address
    // space for their allocations.
    for (filter, little, much) in
        [("deflate", 1_000_000, 4_000_000), ("shuffle", 1_300_000, 4_000_000)]
    {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let arguments = [path("big.h5"), path("small.h5"), PathBuf::from(filter)];
        if run_python(DATA, arguments).is_none() {
            return;
        }
        std::fs::write(path("g.poni"), PONI).unwrap();
        let data = ["big.h5", "small.h5"].map(|name| format!("{}::/data", path(name).display()));
        let scans = run("scan-find", &data, "").assert_success().stdout;
        let (poni, out) = (path("g.poni"), path("out"));
        let plan = [
            "--poni".as_ref(),
            poni.as_os_str(),
            "--out".as_ref(),
            out.as_os_str(),
            "--npt".as_ref(),
            "5".as_ref(),
        ];
        std::fs::write(path("tasks"), run("plan-split", &plan, &scans).assert_success().stdout)
            .unwrap();
        let (status, records, said) = run_with_memory_limit(little, &path("tasks"));
        let of = |kind: &str| {
            records.iter().filter(|record| record["type"] == kind).cloned().collect::<Vec<_>>()
        };
        assert_eq!(status, 1, "{said}");
        let (fails, results) = (of("fail"), of("result"));
        assert_eq!((fails.len(), results.len()), (1, 2), "{said}");
        assert_eq!(fails[0]["retryable"], true, "{}", fails[0]);
        assert!(
            fails[0]["error"].as_str().unwrap().contains("not enough memory: "),
            "{}",
            fails[0]
        );
        let lost = results.iter().find(|result| result["missing"].is_array()).expect("lost frames");
        assert_eq!(lost["missing"][0]["kind"], "unreadable", "{lost}");
        assert_eq!(lost["missing"][0]["range"], json!([[0, 500]]), "{lost}");
        assert!(results.iter().any(|result| result["done"] == json!([[0, 4]])), "{said}");
        let (status, records, said) = run_with_memory_limit(much, &path("tasks"));
        assert_eq!(status, 0, "{said}");
        assert!(records.iter().all(|record| record["missing"].is_null()), "{said}");
    }
}
