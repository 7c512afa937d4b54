//! A dataset is what its options say, to this crate and to the programs that users read it with.

use std::path::{Path, PathBuf};
use std::process::Command;

use sample::{Dataset, Defect, Detector, Options};

fn small() -> Options {
    Options {
        scans: 1,
        frames: 5,
        frames_per_file: 2,
        distinct: 4,
        detector: Detector::named("pilatus-300k").expect("a detector of the table"),
        ..Options::default()
    }
}

fn write(directory: &Path, options: &Options) -> Dataset {
    sample::write(directory, options).expect("a temporary directory can be written to")
}

fn stored(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the dataset has it")
}

/// The bytes of a stored frame.
fn chunk(path: &Path, row: usize) -> Vec<u8> {
    let file = hdf5::File::open(path).expect("a Lima file");
    let data = file.dataset("/entry_0000/measurement/data").expect("a dataset of frames");
    let chunk = data.chunk_info(row).expect("a written chunk");
    stored(path)[chunk.addr as usize..][..chunk.size as usize].to_vec()
}

#[test]
fn equal_options_give_equal_frames_and_another_seed_others() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let one = write(&directory.path().join("one"), &small());
    let same = write(&directory.path().join("same"), &small());
    let other = write(&directory.path().join("other"), &Options { seed: 2, ..small() });
    assert_eq!(chunk(&one.lima[0][1], 1), chunk(&same.lima[0][1], 1));
    assert_ne!(chunk(&one.lima[0][1], 1), chunk(&other.lima[0][1], 1));
    // Frames 0 and 1 differ; frame 4 is frame 0 again.
    assert_ne!(chunk(&one.lima[0][0], 0), chunk(&one.lima[0][0], 1));
    assert_eq!(chunk(&one.lima[0][0], 0), chunk(&one.lima[0][2], 0));
    assert_eq!(stored(&one.mask), stored(&other.mask));
}

#[test]
fn a_defect_is_in_the_files() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let defects = vec![
        Defect::MissingFile,
        Defect::UnwrittenChunk,
        Defect::TruncatedChunk,
        Defect::Aborted,
        Defect::Running,
    ];
    let dataset = write(directory.path(), &Options { scans: 0, defects, ..small() });
    let chunks = |scan: usize, file: usize| -> Vec<u64> {
        let Ok(file) = hdf5::File::open(&dataset.lima[scan][file]) else { return Vec::new() };
        let data = file.dataset("/entry_0000/measurement/data").expect("a dataset of frames");
        (0..data.num_chunks().unwrap_or(0))
            .filter_map(|index| data.chunk_info(index))
            .map(|chunk| chunk.size)
            .collect()
    };
    let there =
        |scan: usize| dataset.lima[scan].iter().map(|file| file.exists()).collect::<Vec<_>>();
    assert_eq!(there(0), [true, false, true]);
    assert_eq!(chunks(1, 1).len(), 1, "frame 2 of 5 was not written");
    let [broken, whole] = chunks(2, 1)[..] else { panic!("both chunks are there") };
    assert!(broken < whole * 6 / 10, "{broken} of {whole} bytes");
    assert_eq!(there(3), [true, false, false]);
    let master = hdf5::File::open(&dataset.master).expect("a master");
    let points = |path: &str| master.dataset(path).expect("a dataset of the master").shape()[0];
    assert_eq!((points("4.1/measurement/monitor"), points("4.1/measurement/pilatus")), (3, 5));
    assert!(
        master.dataset("5.1/end_time").is_err()
            && master.dataset("5.1/measurement/pilatus").is_err()
    );
}

#[test]
fn h5py_and_pyfai_find_the_rings_where_the_powder_has_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let peers =
        std::env::var_os("AZPIPE_PEERS").map_or_else(|| root.join("../../.venv"), PathBuf::from);
    let python = peers.join("bin/python");
    if !python.exists() && std::env::var_os("CI").is_none() {
        return;
    }
    for name in ["pilatus-300k", "eiger2-cdte-1m"] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let detector = Detector::named(name).expect("a detector of the table");
        write(
            directory.path(),
            &Options { detector, dtype: detector.dtype, mean: 20.0, ..small() },
        );
        let output = Command::new(&python)
            .arg(root.join("tests/read_back.py"))
            .arg(directory.path())
            .output();
        let output = output.unwrap_or_else(|why| panic!("{}: {why}", python.display()));
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
