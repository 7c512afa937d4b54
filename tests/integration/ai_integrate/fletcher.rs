//! HDF5's Fletcher-32: a chunk that does not agree with its checksum is damage of its frame alone.

use std::ffi::OsStr;

use serde_json::json;

use crate::support::{NO_ARGUMENTS, run, run_python};

/// A dataset of 4 frames, a chunk each, with a byte of frame 2 flipped behind the library's back.
const DAMAGED: &str = r#"
import h5py, numpy, sys
frames = (numpy.arange(4 * 6 * 8) % 113).reshape(4, 6, 8).astype(sys.argv[2])
options = {"compression": "gzip", "shuffle": True} if sys.argv[3] == "gzip" else {}
with h5py.File(sys.argv[1], "w") as file:
    data = file.create_dataset("data", data=frames, chunks=(1, 6, 8), fletcher32=True, **options)
    file.flush()
    mask, stored = data.id.read_direct_chunk((2, 0, 0))
    at = len(stored) // 2
    data.id.write_direct_chunk((2, 0, 0), stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1:])
"#;

const PONI: &str = "poni_version: 2\nDetector: Detector\nDetector_config: {\"pixel1\": 1e-4, \"pixel2\": 1e-4}\n\
    Distance: 0.1\nPoni1: 0\nPoni2: 0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";

#[test]
fn a_chunk_that_does_not_agree_with_its_checksum_is_a_corrupt_frame() {
    for (dtype, filters) in
        [("u1", "none"), ("u2", "none"), ("u2", "gzip"), ("i4", "gzip"), ("f8", "none")]
    {
        let place = tempfile::tempdir().unwrap();
        let (raw, poni, out) =
            (place.path().join("a.h5"), place.path().join("g.poni"), place.path().join("out"));
        if run_python(DAMAGED, [raw.as_os_str(), OsStr::new(dtype), OsStr::new(filters)]).is_none()
        {
            return;
        }
        std::fs::write(&poni, PONI).unwrap();
        let scans = run("scan-find", &[format!("{}::/data", raw.display())], "").assert_success();
        let plan = [
            "--poni".as_ref(),
            poni.as_os_str(),
            "--out".as_ref(),
            out.as_os_str(),
            "--npt".as_ref(),
            "5".as_ref(),
        ];
        let ran = run(
            "ai-integrate",
            NO_ARGUMENTS,
            &run("plan-split", &plan, &scans.stdout).assert_success().stdout,
        );
        assert_eq!(ran.status, 1, "{}", ran.stderr);
        let result = &ran.records("result")[0];
        assert_eq!(result["done"], json!([[0, 2], [3, 4]]), "{}", ran.stderr);
        assert_eq!(result["missing"][0]["kind"], "corrupt", "{result}");
        assert_eq!(result["missing"][0]["range"], json!([[2, 3]]), "{result}");
        assert!(
            ran.stderr.contains("fletcher32: the chunk is corrupt: checksum "),
            "{}",
            ran.stderr
        );
    }
}
