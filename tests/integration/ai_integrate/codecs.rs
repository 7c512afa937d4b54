//! Frames in each codec, as the HDF5 library and hdf5plugin store them: the sums have the bytes of
//! those of unfiltered frames.

use std::ffi::OsString;

use super::parts;
use crate::support::{NO_ARGUMENTS, run, run_python};

/// Name of each coding in records, and the arguments by which h5py makes a dataset of it.
const CODECS: [(&str, &str); 9] = [
    ("none", ""),
    ("deflate", "compression='gzip'"),
    ("shuffle+deflate", "compression='gzip', shuffle=True"),
    ("lz4", "**hdf5plugin.LZ4()"),
    ("bslz4", "**hdf5plugin.Bitshuffle(cname='lz4')"),
    ("bszstd", "**hdf5plugin.Bitshuffle(cname='zstd')"),
    ("bitshuffle", "**hdf5plugin.Bitshuffle(cname='none')"),
    ("shuffle+zstd", "shuffle=True, **hdf5plugin.Zstd()"),
    ("blosc", "**hdf5plugin.Blosc(cname='lz4', shuffle=hdf5plugin.Blosc.BITSHUFFLE)"),
];

/// Writes a dataset `data` of 20 frames into each `CODEC.h5`: small numbers, some that need all
/// bits, and a frame of noise, which some codecs store as it is.
const WRITE: &str = r#"
import h5py, hdf5plugin, numpy, pathlib, sys
frames = (numpy.arange(20 * 61 * 43, dtype="u8") * 2654435761 % 2**32).astype("u4").reshape(20, 61, 43)
frames[:19] = numpy.where(frames[:19] % 97 == 0, frames[:19], frames[:19] % 5)
folder, *codecs = sys.argv[1:]
for codec in codecs:
    name, _, arguments = codec.partition("=")
    with h5py.File(pathlib.Path(folder) / f"{name}.h5", "w") as file:
        chunks = "" if name == "none" else "chunks=(1, 61, 43), "
        eval(f"file.create_dataset('data', data=frames, {chunks}{arguments})")
"#;

const PONI: &str = "poni_version: 2\nDetector: Detector\nDetector_config: {\"pixel1\": 1e-4, \"pixel2\": 1e-4}\n\
    Distance: 0.1\nPoni1: 0\nPoni2: 0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";

#[test]
fn frames_of_each_codec_have_the_sums_of_unfiltered_frames() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let codecs = CODECS.map(|(name, arguments)| OsString::from(format!("{name}={arguments}")));
    if run_python(WRITE, [folder.as_os_str().to_owned()].into_iter().chain(codecs)).is_none() {
        return;
    }
    let poni = folder.join("g.poni");
    std::fs::write(&poni, PONI).unwrap();
    let mut unfiltered = None;
    for (name, _) in CODECS {
        let dataset = format!("{}::/data", folder.join(format!("{name}.h5")).display());
        let scans = run("scan-find", &[dataset], "").assert_success();
        assert_eq!(scans.scan_fields(&["codec"]), [name]);
        let out = folder.join(name);
        let plan =
            ["--poni", poni.to_str().unwrap(), "--out", out.to_str().unwrap(), "--npt", "50"];
        let tasks = run("plan-split", &plan, &scans.stdout).assert_success().stdout;
        run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success();
        let rows = parts::read_rows::<f64>(&out, "signal");
        assert_eq!(rows.len(), 20, "{name}");
        match &unfiltered {
            None => unfiltered = Some(rows),
            Some(unfiltered) => assert!(*unfiltered == rows, "{name}"),
        }
    }
}
