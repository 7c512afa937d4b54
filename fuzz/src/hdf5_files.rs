//! HDF5 files of others with some bytes changed: what still reads is what lies where it was
//! written, or what the HDF5 library itself reads.
//!
//! The library may crash on a damaged file, or never return: filters have a worker process for it,
//! and `scripts/fuzz` tells these ends from findings.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use frames::discover::{AllScans, DiscoveryKind, discover};
use frames::hdf5_array::{list_group, read_array, read_text, read_written_numbers};
use frames::source::{Chunk, Dtype, FrameChunks, SourceReader};
use hdf5::file::LibraryVersion;
use hdf5::types::VarLenUnicode;
use hdf5::{File, Group, Hyperslab, Location, SliceOrIndex};
use ndarray::IxDyn;
use records::{Record, Scan, Source};

use crate::files::directory;
use crate::input::Input;

const FRAMES: usize = 4;
const SHAPE: [usize; 2] = [6, 8];

/// The datasets with frames, by the kind of their chunk index, or as they are stored without one.
const STORED: [&str; 7] =
    ["b-tree", "pairs", "fixed", "extensible", "b-tree-2", "contiguous", "checked"];

/// Where the files are.
static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let place = directory().join("hdf5");
    fs::create_dir_all(&place).expect("a directory");
    place
});

static BASES: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    let write = |name: &str, newest: bool, write: &dyn Fn(&File)| {
        let path = PLACE.join(name);
        let (from, to) = match newest {
            true => (LibraryVersion::V110, LibraryVersion::latest()),
            false => (LibraryVersion::Earliest, LibraryVersion::V110),
        };
        let file =
            File::with_options().with_fapl(|access| access.libver_bounds(from, to)).create(&path);
        let file = file.expect("a file");
        write(&file);
        file.close().expect("it is closed");
        fs::read(path).expect("it was written")
    };
    [
        write("lima.h5", false, &write_data),
        write("newest.h5", true, &write_data),
        write("master.h5", false, &write_master),
    ]
});

fn value(frame: usize, row: usize, column: usize) -> u16 {
    ((frame * 37 + row * 11 + column * 3) % 113) as u16
}

fn attribute(of: &Location, name: &str, text: &str) {
    let text: VarLenUnicode = text.parse().expect("a text");
    of.new_attr::<VarLenUnicode>()
        .create(name)
        .and_then(|made| made.write_scalar(&text))
        .expect("an attribute");
}

fn group(parent: &Group, name: &str, class: &str) -> Group {
    let group = parent.create_group(name).expect("a group");
    attribute(&group, "NX_class", class);
    group
}

fn text(parent: &Group, name: &str, text: &str) {
    let text: VarLenUnicode = text.parse().expect("a text");
    let made = parent.new_dataset::<VarLenUnicode>().create(name);
    made.and_then(|made| made.write_scalar(&text)).expect("a text");
}

/// A Lima file, with further detectors beside it.
fn write_data(file: &File) {
    attribute(file, "creator", "LIMA-1.10.0");
    let entry = group(file, "entry_0000", "NXentry");
    text(&entry, "start_time", "2026-03-04T09:20:30Z");
    let instrument = group(&entry, "ESRF-ID31", "NXinstrument");
    let frames: Vec<u16> = (0..FRAMES * SHAPE[0] * SHAPE[1])
        .map(|at| value(at / (SHAPE[0] * SHAPE[1]), at / SHAPE[1] % SHAPE[0], at % SHAPE[1]))
        .collect();
    for name in STORED {
        let detector = group(&instrument, name, "NXdetector");
        let new = detector.new_dataset_builder().empty::<u16>();
        let [rows, columns] = SHAPE;
        let new = match name {
            "b-tree" | "fixed" => new.chunk((1, 3, 4)).shape((FRAMES, rows, columns)),
            "pairs" => new.chunk((2, rows, columns)).shape((FRAMES, rows, columns)),
            "extensible" => new.chunk((1, rows, columns)).shape((FRAMES.., rows, columns)),
            "b-tree-2" => new.chunk((1, rows, columns)).shape((FRAMES.., rows.., columns)),
            "checked" => new.chunk((1, rows, columns)).fletcher32().shape((FRAMES, rows, columns)),
            _ => new.no_chunk().shape((FRAMES, rows, columns)),
        };
        let dataset = new.create("data").expect("a dataset");
        dataset.write_raw(&frames).expect("frames");
        let acquisition = group(&detector, "acquisition", "NXcollection");
        let time = acquisition.new_dataset::<f64>().create("exposure_time");
        time.and_then(|time| time.write_scalar(&0.25)).expect("a number");
    }
    let measurement = group(&entry, "measurement", "NXcollection");
    measurement.link_soft("//entry_0000/ESRF-ID31/b-tree/data", "data").expect("a link");
    text(&entry, "end_time", "2026-03-04T09:20:50Z");
}

/// A Bliss master, whose frames are in the Lima file.
fn write_master(file: &File) {
    let entry = group(file, "1.1", "NXentry");
    text(&entry, "title", "ascan rot -90 90 3 0.1");
    text(&entry, "start_time", "2026-03-04T10:20:30.000000+01:00");
    let instrument = group(&entry, "instrument", "NXinstrument");
    let measurement = group(&entry, "measurement", "NXcollection");
    let monitor = group(&instrument, "monitor", "NXdetector");
    monitor.new_dataset_builder().with_data(&[1.0, 2.0, 3.0, 4.0]).create("data").expect("numbers");
    measurement.link_soft("/1.1/instrument/monitor/data", "monitor").expect("a link");
    let detector = group(&instrument, "p3", "NXdetector");
    text(&detector, "type", "lima");
    let shape = [FRAMES, SHAPE[0], SHAPE[1]];
    let source = "/entry_0000/ESRF-ID31/b-tree/data";
    let frames = detector.new_dataset::<u16>().shape(shape);
    let frames =
        frames.virtual_map("lima.h5", source, shape, (0..2, .., ..), shape, (0..2, .., ..));
    let frames =
        frames.virtual_map("lima.h5", source, shape, (2..4, .., ..), shape, (2..4, .., ..));
    frames.create("data").expect("a virtual dataset");
    measurement.link_soft("/1.1/instrument/p3/data", "p3").expect("a link");
    text(&entry, "end_time", "2026-03-04T10:21:30.000000+01:00");
}

/// Where each pixel of each frame of a dataset lies in a file as it was written, in bytes.
type PixelOffsets = Vec<Vec<usize>>;

/// The places of the pixels of each dataset of each base.
static OFFSETS: LazyLock<Vec<BTreeMap<String, PixelOffsets>>> = LazyLock::new(|| {
    let of_dataset = |path: &Path, dataset: &str| -> Option<PixelOffsets> {
        let source = Source { file: path.into(), dataset: dataset.to_owned(), ..Source::default() };
        let store = SourceReader::open(&source, SHAPE.map(|extent| extent as u64)).ok()?;
        Some((0..FRAMES as u64).map(|frame| pixel_offsets(&store, frame)).collect())
    };
    let of_base = |(number, bytes): (usize, &Vec<u8>)| {
        let path = PLACE.join(format!("base{number}.h5"));
        fs::write(&path, bytes).expect("a base can be written");
        let names = STORED.map(dataset_path).into_iter();
        names.filter_map(|name| of_dataset(&path, &name).map(|offsets| (name, offsets))).collect()
    };
    BASES.iter().enumerate().map(of_base).collect()
});

fn dataset_path(name: &str) -> String {
    format!("/entry_0000/ESRF-ID31/{name}/data")
}

fn pixel_offsets(store: &SourceReader, frame: u64) -> Vec<usize> {
    let chunks = match store.frame_chunks(frame) {
        FrameChunks::Whole(chunk) => vec![chunk],
        FrameChunks::Pieces(chunks) => chunks,
        FrameChunks::NoData(why) | FrameChunks::Damaged(why) => panic!("a base is sound: {why:?}"),
    };
    let mut offsets = vec![0; SHAPE[0] * SHAPE[1]];
    for Chunk { origin, shape, offset, .. } in &chunks {
        let [_, high, wide] = shape.map(|extent| extent as usize);
        let first =
            *offset as usize + (frame - origin[0]) as usize * high * wide * size_of::<u16>();
        for at in 0..high * wide {
            let (y, x) = (origin[1] as usize + at / wide, origin[2] as usize + at % wide);
            if y < SHAPE[0] && x < SHAPE[1] {
                offsets[y * SHAPE[1] + x] = first + at * size_of::<u16>();
            }
        }
    }
    offsets
}

/// A file with up to sixteen bytes changed.
pub fn hdf5(data: &[u8]) {
    let mut input = Input::new(data);
    let base = input.below(BASES.len());
    let mut bytes = BASES[base].clone();
    for _ in 0..16 {
        if input.is_empty() {
            break;
        }
        let at = input.below(bytes.len());
        let value = input.byte();
        bytes[at] = match input.byte() {
            kind @ 0..128 => bytes[at] ^ 1 << (kind % 8),
            128..160 => bytes[at].wrapping_add(value),
            160..192 => 0,
            192..224 => 255,
            _ => value,
        };
    }
    let path = PLACE.join("x.h5");
    fs::write(&path, &bytes).expect("inputs can be written");
    for found in discover(&path, &AllScans) {
        if let DiscoveryKind::Scan(scan) = found.kind {
            for source in scan.sources.iter().take(8) {
                check_source(&path, &bytes, &OFFSETS[base], source, scan.shape);
            }
            // What scan-find writes, plan-split reads.
            let line = Record::Scan(Box::new(Scan { id: scan.compute_id(), acquisition: *scan }))
                .to_line();
            assert!(Record::parse(&line).is_ok(), "{line}");
        }
    }
    for dataset in STORED.map(dataset_path) {
        let source = Source { file: path.as_path().into(), dataset, ..Source::default() };
        check_source(&path, &bytes, &OFFSETS[base], &source, SHAPE.map(|extent| extent as u64));
    }
    let _ = (read_text(&path, "/1.1/title"), list_group(&path, "/1.1/instrument"));
    let monitor = "/1.1/instrument/monitor/data";
    let _ = (read_array(&path, monitor), read_written_numbers(&path, monitor));
}

/// Panics if a frame reads neither as what now lies where it was written, nor as what the library
/// reads.
fn check_source(
    path: &Path,
    bytes: &[u8],
    offsets: &BTreeMap<String, PixelOffsets>,
    source: &Source,
    shape: [u64; 2],
) {
    let Ok(store) = SourceReader::open(source, shape) else { return };
    for frame in 0..store.frames().min(FRAMES as u64 + 1) {
        let Some(pixels) = read(&store, frame, shape) else { continue };
        // A changed byte of a pixel is no damage that a reader could notice.
        let written = |offsets: &PixelOffsets| -> Option<Vec<f64>> {
            let pixel = |at: &usize| f64::from(u16::from_le_bytes([bytes[*at], bytes[at + 1]]));
            Some(offsets.get(frame as usize)?.iter().map(pixel).collect())
        };
        // With a name that was changed, it may be any of the datasets.
        let written: Vec<Vec<f64>> = match offsets.get(&source.dataset) {
            Some(own) => written(own).into_iter().collect(),
            None => offsets.values().filter_map(written).collect(),
        };
        if source.file.as_path() == path && !written.contains(&pixels) {
            let theirs = read_by_library(source, frame);
            assert!(
                theirs.as_deref() == Some(&pixels),
                "{} frame {frame}: {pixels:?}, the library reads {theirs:?}, and in its place is {written:?}",
                source.dataset
            );
        }
    }
}

/// The pixels of a frame, put together as the integrator does; `None` where they are refused.
fn read(store: &SourceReader, row: u64, shape: [u64; 2]) -> Option<Vec<f64>> {
    let [rows, columns] = shape.map(|extent| extent as usize);
    let chunks = match store.frame_chunks(row) {
        FrameChunks::Whole(chunk) => vec![chunk],
        FrameChunks::Pieces(chunks) => chunks,
        FrameChunks::NoData(_) | FrameChunks::Damaged(_) => return None,
    };
    if shape[0].checked_mul(shape[1])? > 1 << 20 {
        return None;
    }
    let mut pixels = vec![0.0; rows * columns];
    for chunk @ Chunk { origin, shape, filter_mask, .. } in &chunks {
        let filters = &store.coding().filters;
        // The checksum is the kernels' to look at, and other filters can only have come from
        // damage.
        let is_checked = filters.len() == 1 && filters[0].id == 3 && filter_mask & 1 == 0;
        let has_filters = filters.iter().zip(0..32).any(|(_, bit)| filter_mask >> bit & 1 == 0);
        if (has_filters && !is_checked) || chunk.len > 1 << 20 {
            return None;
        }
        let mut bytes = Vec::new();
        store.read_chunk(chunk, &mut bytes).ok()?;
        if is_checked {
            let kind = store.coding().dtype;
            let native: kernels::PixelType = kind.name().parse().ok()?;
            let pipeline = kernels::Pipeline::from_hdf5(&[(3, &[])], native, false).ok()?;
            let mut plain = vec![0; bytes.len().checked_sub(4)?];
            pipeline.decode(0, &bytes, &mut plain).ok()?;
            bytes = plain;
        }
        let values = numbers(&bytes, store.coding().dtype, store.coding().big_endian);
        let [_, high, wide] = shape.map(|extent| extent as usize);
        let whole = shape.iter().try_fold(1, |all: u64, extent| all.checked_mul(*extent))?;
        if values.len() as u64 != whole {
            return None;
        }
        let layer = (row - origin[0]) as usize * high * wide;
        for (at, value) in values[layer..][..high * wide].iter().enumerate() {
            let (y, x) = (origin[1] as usize + at / wide, origin[2] as usize + at % wide);
            if y < rows && x < columns {
                pixels[y * columns + x] = *value;
            }
        }
    }
    Some(pixels)
}

fn read_by_library(source: &Source, frame: u64) -> Option<Vec<f64>> {
    let file = File::with_options()
        .with_fapl(|access| access.file_locking(false))
        .open(source.file.as_path())
        .ok()?;
    let dataset = file.dataset(&source.dataset).ok()?;
    let shape = dataset.shape();
    let size = shape.iter().try_fold(1, |all: usize, extent| all.checked_mul(*extent))?;
    if size > 1 << 20 {
        return None;
    }
    // The frame alone: whatever else of the dataset is damaged is not asked for here either.
    let mut one: Vec<SliceOrIndex> =
        shape.iter().map(|_| SliceOrIndex::Unlimited { start: 0, step: 1, block: 1 }).collect();
    *one.first_mut()? = SliceOrIndex::Index(frame as usize);
    let pixels = dataset.read_slice::<f64, _, IxDyn>(Hyperslab::from(one)).ok()?;
    Some(pixels.into_iter().collect())
}

/// Stored bytes as numbers.
fn numbers(bytes: &[u8], kind: Dtype, big_endian: bool) -> Vec<f64> {
    let number = |bytes: &[u8]| {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        if big_endian {
            eight[..bytes.len()].reverse();
        }
        let bits = u64::from_le_bytes(eight);
        match kind {
            Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => bits as f64,
            Dtype::I8 => f64::from(bits as i8),
            Dtype::I16 => f64::from(bits as i16),
            Dtype::I32 => f64::from(bits as i32),
            Dtype::I64 => bits as i64 as f64,
            Dtype::F32 => f64::from(f32::from_bits(bits as u32)),
            Dtype::F64 => f64::from_bits(bits),
        }
    };
    bytes.chunks_exact(kind.size()).map(number).collect()
}
