//! Tests damaged and absurd files: frames that are still readable agree with h5py, and others give
//! an error.

use std::path::{Path, PathBuf};
use std::process::Command;

use frames::discover::{AllScans, discover};
use frames::hdf5_array::{read_array, read_numbers, read_text, read_text_attribute};
use frames::source::{Chunk, FrameChunks, SourceReader};
use serde_json::Value;

use crate::support::{TestDir, frame, numbers, source};

/// Runs a Python program of the peers (`AZPIPE_PEERS`, or `.venv` in the root), and returns what it
/// prints.
fn python(program: &str, args: &[&Path]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let peers = std::env::var_os("AZPIPE_PEERS").map_or_else(|| root.join(".venv"), PathBuf::from);
    let ran = Command::new(peers.join("bin/python"))
        .arg("-c")
        .arg(program)
        .args(args)
        .output()
        .expect("python");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn texts_and_arrays_are_read_up_to_their_limits() {
    let dir = TestDir::new();
    let path = dir.path("x.h5");
    let program = r#"
import h5py, numpy, sys
with h5py.File(sys.argv[1], "w") as file:
    for name, length in (("longest", 2**24), ("longer", 2**24 + 1)):
        file.create_dataset("fixed " + name, data=numpy.bytes_(b"x" * length))
        file.create_dataset(name, data="x" * length)
    file.create_dataset("most texts", (2**16,), h5py.string_dtype(), chunks=(2**16,))[0] = "first"
    # Numbers are read; what is written of them is zero.
    file.create_dataset("numbers", (2**28 + 1,), "f8", chunks=(2**20,))
"#;
    python(program, &[&path]);
    for kind in ["/", "/fixed "] {
        assert_eq!(read_text(&path, &format!("{kind}longest")).unwrap().len(), 1 << 24);
        let why = read_text(&path, &format!("{kind}longer")).unwrap_err().to_string();
        assert!(why.contains("at most 16777216"), "{why}");
    }
    assert_eq!(read_text(&path, "/most texts").unwrap(), "first");
    let why = read_numbers(&path, "/numbers").unwrap_err().to_string();
    assert!(why.contains("at most 268435456"), "{why}");
}

#[test]
fn texts_and_arrays_beyond_all_bounds_are_refused_and_of_many_texts_one_is_read() {
    let dir = TestDir::new();
    let path = dir.path("x.h5");
    let program = r#"
import h5py, numpy, sys
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("long", (2**33,), "S2147483647", chunks=(1,))
    file.create_dataset("one long", (), "S2147483647", chunks=None)
    many = file.create_dataset("many", (2**40,), "S8", chunks=(4,))
    many[0] = b"first"
    texts = file.create_dataset("texts", (2**40, 2**20), h5py.string_dtype(), chunks=(1, 2))
    texts[0, 0] = "erster \u00fc"
    file.create_dataset("none", (0,), h5py.string_dtype())
    file.create_dataset("empty", data=h5py.Empty("S8"))
    file.create_dataset("numbers", (2**40,), "f8", chunks=(4,))
    file.create_dataset("product", (2**40, 2**40), "f8", chunks=(4, 4))
    file.create_dataset("vlen", (3,), h5py.vlen_dtype("i4"))
    file.create_dataset("frames", (2**40, 2**31, 2**31), "u2", chunks=(1, 2, 2))
    file.attrs.create("many", numpy.array([b"a" * 8] * 1000))
"#;
    python(program, &[&path]);
    let refused = |name: &str| read_text(&path, name).unwrap_err().to_string();
    assert!(refused("/long").contains("at most 16777216"), "{}", refused("/long"));
    assert!(refused("/one long").contains("at most 16777216"), "{}", refused("/one long"));
    assert_eq!(read_text(&path, "/many").unwrap(), "first");
    assert_eq!(read_text(&path, "/texts").unwrap(), "erster ü");
    for name in ["/none", "/empty", "/numbers", "/vlen"] {
        assert!(refused(name).contains("not text"), "{}", refused(name));
    }
    for name in ["/numbers", "/product", "/long", "/texts", "/vlen"] {
        assert!(read_numbers(&path, name).is_err() && read_array(&path, name).is_err(), "{name}");
    }
    assert_eq!(read_text_attribute(&path, "/", "many").unwrap().as_deref(), Some("aaaaaaaa"));
    let reader = SourceReader::open(&source(&path, "/frames"), [1 << 31, 1 << 31]);
    assert!(reader.is_err_and(|why| why.to_string().contains("chunks")));
    discover(&path, &AllScans);
}

const SHAPE: [usize; 2] = [6, 8];
const FRAMES: usize = 4;

/// Writes two datasets with the same frames and a B-tree as the chunk index: one with four chunks
/// per frame, and one with two frames per chunk.
const WRITE: &str = r#"
import h5py, numpy, sys
frames = numpy.fromfunction(lambda f, r, c: (f * 37 + r * 11 + c * 3) % 113, (4, 6, 8)).astype("u2")
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("d", data=frames, chunks=(1, 3, 4))
"#;

/// Prints the frames of each file in a directory as h5py reads them, or null if h5py fails.
const READ: &str = r#"
import h5py, json, pathlib, sys
out = {}
for path in pathlib.Path(sys.argv[1]).iterdir():
    out[path.name] = [None] * 4
    for number in range(4):
        try:
            with h5py.File(path) as file:
                out[path.name][number] = file["d"][number].ravel().tolist()
        except Exception:
            pass
print(json.dumps(out))
"#;

/// Returns the pixels of a frame, or `None` if the frame can't be read.
fn read(reader: &SourceReader, row: u64) -> Option<Vec<f64>> {
    let chunks = match reader.frame_chunks(row) {
        FrameChunks::Whole(chunk) => vec![chunk],
        FrameChunks::Pieces(chunks) => chunks,
        FrameChunks::NoData(_) | FrameChunks::Damaged(_) => return None,
    };
    // Pixels that no chunk covers are zero, as in the assembler.
    let mut pixels = vec![0.0; SHAPE[0] * SHAPE[1]];
    for Chunk { origin, shape, .. } in &chunks {
        assert!(origin[1] < SHAPE[0] as u64 && origin[2] < SHAPE[1] as u64, "{origin:?}");
        assert!(shape.iter().all(|extent| *extent > 0));
    }
    for chunk in chunks {
        let mut bytes = Vec::new();
        reader.read_chunk(&chunk, &mut bytes).ok()?;
        let values = numbers(&bytes, reader.coding().dtype, reader.coding().big_endian);
        let [depth, rows, columns] = chunk.shape.map(|extent| extent as usize);
        let layer = (row - chunk.origin[0]) as usize * rows * columns;
        if values.len() != depth * rows * columns {
            return None;
        }
        for (at, value) in values[layer..][..rows * columns].iter().enumerate() {
            let (y, x) =
                (chunk.origin[1] as usize + at / columns, chunk.origin[2] as usize + at % columns);
            if y < SHAPE[0] && x < SHAPE[1] {
                pixels[y * SHAPE[1] + x] = *value;
            }
        }
    }
    Some(pixels)
}

/// Flips each bit of the nodes of the chunk index (`AZPIPE_FUZZ=1`), or every eleventh.
#[test]
fn a_flipped_bit_of_a_chunk_index_is_told_or_harmless() {
    let dir = TestDir::new();
    let sound = dir.path("sound.h5");
    python(WRITE, &[&sound]);
    let bytes = std::fs::read(&sound).unwrap();
    let nodes: Vec<usize> =
        (0..bytes.len() - 5).filter(|&at| bytes[at..].starts_with(b"TREE\x01")).collect();
    assert_eq!(nodes.len(), 1, "one leaf");
    // Layout of a node: type, level, entries; neighbours; then keys (size, filter mask, four
    // offsets) and addresses in turn.
    let end = nodes[0] + 24 + 16 * (8 + 4 * 8 + 8) + 8 + 4 * 8;
    let step = if std::env::var_os("AZPIPE_FUZZ").is_some() { 1 } else { 11 };
    dir.path("flipped/x");
    let directory = sound.with_file_name("flipped");
    let flips: Vec<usize> = ((nodes[0] + 4) * 8..end * 8).step_by(step).collect();
    for &bit in &flips {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(directory.join(format!("{bit}")), bytes).unwrap();
    }
    let peer: Value = serde_json::from_str(&python(READ, &[&directory])).unwrap();
    let first = nodes[0] + 24;
    let expected: Vec<Vec<f64>> = (0..FRAMES).map(|number| frame(number, SHAPE)).collect();
    let (mut refused, mut right, mut as_peer, mut silent) = (0, 0, Vec::new(), Vec::new());
    for &bit in &flips {
        let path = directory.join(format!("{bit}"));
        let reader = SourceReader::open(&source(&path, "/d"), SHAPE.map(|extent| extent as u64));
        for (number, expected) in expected.iter().enumerate() {
            let theirs: Option<Vec<f64>> =
                serde_json::from_value(peer[bit.to_string()][number].clone()).unwrap();
            match reader.as_ref().ok().and_then(|reader| read(reader, number as u64)) {
                None => refused += 1,
                Some(pixels) if pixels == *expected => right += 1,
                Some(pixels) if Some(&pixels) == theirs.as_ref() => as_peer.push(bit / 8 - first),
                Some(_) => silent.push((bit - nodes[0] * 8, number)),
            }
        }
        // scan-find reads the same index.
        let mut name = path.into_os_string();
        name.push("::/d");
        discover(Path::new(&name), &AllScans);
    }
    eprintln!(
        "{} flips of {FRAMES} frames: refused {refused}, right {right}, not told and as h5py reads them {}, else {}",
        flips.len(),
        as_peer.len(),
        silent.len()
    );
    assert!(silent.is_empty(), "bits of the node and frames: {silent:?}");
    // The address of a chunk may become that of bytes that are no other chunk's. Nothing in the file
    // tells these from a chunk.
    let is_of_address = |at: &usize| at % (8 + 4 * 8 + 8) >= 8 + 4 * 8;
    assert!(as_peer.iter().all(is_of_address), "bytes of the entries: {as_peer:?}");
    assert!(as_peer.len() * 100 < flips.len() * FRAMES, "{} of them", as_peer.len());
}

#[test]
fn an_object_that_is_damaged_or_linked_to_nothing_is_not_said_to_be_absent() {
    let dir = TestDir::new();
    let path = dir.path("x.h5");
    let latest = hdf5::file::LibraryVersion::V110;
    let file = hdf5::File::with_options()
        .with_fapl(|fapl| fapl.libver_bounds(latest, latest))
        .create(&path)
        .unwrap();
    file.new_dataset::<u16>()
        .shape((2, 2))
        .create("d")
        .unwrap()
        .write_raw(&[1_u16, 2, 3, 4])
        .unwrap();
    file.link_soft("/gone", "soft").unwrap();
    file.link_external("gone.h5", "/d", "external").unwrap();
    drop(file);
    let mut bytes = std::fs::read(&path).unwrap();
    let header = bytes.windows(4).rposition(|window| window == b"OHDR").unwrap();
    bytes[header + 6] ^= 0xff;
    std::fs::write(&path, bytes).unwrap();
    let frames =
        |name: &str| SourceReader::open(&source(&path, name), [2, 2]).unwrap_err().to_string();
    let array = |name: &str| read_array(&path, name).unwrap_err().to_string();
    for why in [frames("/d"), array("/d")] {
        assert!(why.contains("::/d: not readable as HDF5: "), "{why}");
    }
    for why in [frames("/soft"), array("/soft")] {
        assert!(why.contains("::/soft: can't follow the link to /gone: "), "{why}");
    }
    for why in [frames("/external"), array("/external")] {
        assert!(why.contains("::/external: can't follow the link to gone.h5::/d: "), "{why}");
    }
    assert!(
        array("/soft/none").contains("can't follow the link to /gone: "),
        "{}",
        array("/soft/none")
    );
    for name in ["/none", "/none/at/all"] {
        assert!(array(name).ends_with(&format!("{name}: no such object")), "{}", array(name));
    }
}
