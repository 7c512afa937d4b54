//! Writes files for the tests, and reads their pixels back through a [`SourceReader`].

use std::path::{Path, PathBuf};

use frames::discover::{AllScans, Discovery, DiscoveryKind, discover};
use frames::source::{Chunk, Dtype, FrameChunks, SourceReader};
use hdf5::types::VarLenUnicode;
use hdf5::{File, FileBuilder, Group, Hyperslab, Location, SliceOrIndex};
use ndarray::Array3;
use records::{Acquisition, Source};

/// A directory for test files, removed on drop.
pub struct TestDir(tempfile::TempDir);

impl TestDir {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    /// Puts a link to itself in place of a file, so that the system refuses to open it.
    pub fn make_unreadable(&self, name: &str) {
        let path = self.path(name);
        if path.exists() {
            std::fs::remove_file(&path).unwrap();
        }
        std::os::unix::fs::symlink(&path, &path).unwrap();
    }

    pub fn create(&self, name: &str) -> File {
        without_locks().create(self.path(name)).unwrap()
    }
}

/// Opens a file to write in it.
pub fn open_to_write(path: impl AsRef<Path>) -> File {
    without_locks().open_rw(path).unwrap()
}

/// A program that another test starts at this moment has the file open, too, and keeps its lock.
fn without_locks() -> FileBuilder {
    let mut options = File::with_options();
    options.with_fapl(|access| access.file_locking(false));
    options
}

/// Returns the value of a pixel: different for all pixels of a small stack, and small enough for
/// any type.
pub fn value(frame: usize, row: usize, column: usize) -> u8 {
    ((frame * 37 + row * 11 + column * 3) % 113) as u8
}

/// Returns a stack of frames with the values of [`value`].
pub fn stack<T: From<u8>>(shape: [usize; 3]) -> Array3<T> {
    Array3::from_shape_fn(shape, |(frame, row, column)| value(frame, row, column).into())
}

/// Returns the values of one frame.
pub fn frame(number: usize, shape: [usize; 2]) -> Vec<f64> {
    let rows = (0..shape[0]).flat_map(|row| (0..shape[1]).map(move |column| (row, column)));
    rows.map(|(row, column)| f64::from(value(number, row, column))).collect()
}

pub fn attribute(of: &Location, name: &str, text: &str) {
    let text: VarLenUnicode = text.parse().unwrap();
    of.new_attr::<VarLenUnicode>().create(name).unwrap().write_scalar(&text).unwrap();
}

pub fn group(parent: &Group, name: &str, class: &str) -> Group {
    let group = parent.create_group(name).unwrap();
    attribute(&group, "NX_class", class);
    group
}

pub fn text(parent: &Group, name: &str, text: &str) {
    let text: VarLenUnicode = text.parse().unwrap();
    parent.new_dataset::<VarLenUnicode>().create(name).unwrap().write_scalar(&text).unwrap();
}

/// Writes the dataset `name` with these frames as u16, one chunk per frame.
pub fn plain(parent: &Group, name: &str, shape: [usize; 3]) {
    plain_from(parent, name, 0, shape);
}

/// Writes a stack whose frames are numbered from `first` on.
pub fn plain_from(parent: &Group, name: &str, first: usize, shape: [usize; 3]) {
    let frames = Array3::from_shape_fn(shape, |(frame, row, column)| {
        u16::from(value(first + frame, row, column))
    });
    parent
        .new_dataset_builder()
        .with_data(&frames)
        .chunk((1, shape[1], shape[2]))
        .create(name)
        .unwrap();
}

/// Selects `frames` whole frames, every `step`-th from `first` on.
pub fn rotations(first: usize, step: usize, frames: usize) -> Hyperslab {
    let all = SliceOrIndex::from(..);
    Hyperslab::from(vec![
        SliceOrIndex::SliceTo { start: first, step, end: frames, block: 1 },
        all,
        all,
    ])
}

/// Returns a source for a dataset of a file.
pub fn source(file: &Path, dataset: &str) -> Source {
    Source { file: file.into(), dataset: dataset.to_owned(), ..Source::default() }
}

/// Returns the pixels of a row of an open source without filters.
pub fn pixels(reader: &SourceReader, row: u64, shape: [usize; 2]) -> Vec<f64> {
    let chunks = match reader.frame_chunks(row) {
        FrameChunks::Whole(chunk) => vec![chunk],
        FrameChunks::Pieces(chunks) => chunks,
        FrameChunks::NoData(why) | FrameChunks::Damaged(why) => panic!("row {row}: {why}"),
    };
    let mut out = vec![f64::NAN; shape[0] * shape[1]];
    for chunk in &chunks {
        copy_chunk(reader, chunk, row, shape, &mut out);
    }
    out
}

fn copy_chunk(reader: &SourceReader, chunk: &Chunk, row: u64, shape: [usize; 2], out: &mut [f64]) {
    let mut bytes = Vec::new();
    reader.read_chunk(chunk, &mut bytes).unwrap();
    let coding = reader.coding();
    assert!(coding.filters.is_empty() || chunk.filter_mask == 1, "{coding:?}");
    let values = numbers(&bytes, coding.dtype, coding.big_endian);
    let [_, rows, columns] = chunk.shape.map(|extent| extent as usize);
    let layer = (row - chunk.origin[0]) as usize;
    for (at, value) in values[layer * rows * columns..][..rows * columns].iter().enumerate() {
        let (y, x) =
            (chunk.origin[1] as usize + at / columns, chunk.origin[2] as usize + at % columns);
        if y < shape[0] && x < shape[1] {
            out[y * shape[1] + x] = *value;
        }
    }
}

/// Converts stored bytes to numbers.
pub fn numbers(bytes: &[u8], kind: Dtype, big_endian: bool) -> Vec<f64> {
    let each = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        if big_endian != cfg!(target_endian = "big") {
            bytes.reverse();
        }
        match kind {
            Dtype::U8 => f64::from(bytes[0]),
            Dtype::I8 => f64::from(bytes[0] as i8),
            Dtype::U16 => f64::from(u16::from_ne_bytes(bytes.try_into().unwrap())),
            Dtype::I16 => f64::from(i16::from_ne_bytes(bytes.try_into().unwrap())),
            Dtype::U32 => f64::from(u32::from_ne_bytes(bytes.try_into().unwrap())),
            Dtype::I32 => f64::from(i32::from_ne_bytes(bytes.try_into().unwrap())),
            Dtype::U64 => u64::from_ne_bytes(bytes.try_into().unwrap()) as f64,
            Dtype::F32 => f64::from(f32::from_ne_bytes(bytes.try_into().unwrap())),
            Dtype::F64 => f64::from_ne_bytes(bytes.try_into().unwrap()),
            Dtype::I64 => panic!("i64 is no pixel type"),
        }
    };
    bytes.chunks_exact(kind.size()).map(each).collect()
}

/// Returns the scans of a file, and panics on any other result.
pub fn acquisitions(path: &Path) -> Vec<Acquisition> {
    let scan = |found: Discovery| match found.kind {
        DiscoveryKind::Scan(acquisition) => *acquisition,
        other => panic!("{}: {other:?}", path.display()),
    };
    discover(path, &AllScans).into_iter().map(scan).collect()
}

/// Returns the only scan of a file, and panics if there are others.
pub fn acquisition(path: &Path) -> Acquisition {
    let mut all = acquisitions(path);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// Returns the error of a file that holds nothing else.
pub fn refusal(path: &Path) -> String {
    match &discover(path, &AllScans)[..] {
        [Discovery { kind: DiscoveryKind::Failed { why, .. }, .. }] => why.clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns the pixels of a scan's frames as its sources hold them, and `None` for absent frames.
/// Panics if a frame is neither, or both.
pub fn all_pixels(scan: &Acquisition) -> Vec<Option<Vec<f64>>> {
    let shape = scan.shape.map(|extent| extent as usize);
    let mut out = vec![None; scan.frames as usize];
    let mut known = vec![0; scan.frames as usize];
    for source in &scan.sources {
        let reader = SourceReader::open(source, scan.shape).unwrap();
        assert_eq!(source.frames.count(), source.rows.count());
        for (number, row) in source.frames.iter().zip(source.rows.iter()) {
            out[number as usize] = Some(pixels(&reader, row, shape));
            known[number as usize] += 1;
        }
    }
    scan.absent
        .iter()
        .flat_map(|absent| absent.range.iter())
        .for_each(|number| known[number as usize] += 1);
    assert!(
        known.iter().all(|&times| times == 1),
        "sources and absent frames per frame: {known:?}"
    );
    out
}

/// Asserts that every frame of a scan has the pixels of [`frame`], in the right order.
pub fn assert_whole(scan: &Acquisition) {
    let shape = scan.shape.map(|extent| extent as usize);
    for (number, pixels) in all_pixels(scan).into_iter().enumerate() {
        assert_eq!(pixels.as_deref(), Some(&frame(number, shape)[..]), "frame {number}");
    }
}

/// Formats ranges as JSON, as in records.
pub fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}
