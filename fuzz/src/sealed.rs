//! Parts and finals whose checksums are right, though they hold what azpipe would not write.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use hdf5::File;
use patterns::output::{self, OutputFile, OutputOptions, OutputSpec};
use patterns::part::{self, PartMetadata, PartStorage, PartWriter};
use patterns::sparse_pixels::{SparseFrame, SparsePixels};
use patterns::{
    BinWeights, Compression, FrameRow, PatternAxes, PatternAxis, SharedBins, Status, coverage,
};
use recipe::{Recipe, Settings};
use records::{Acquisition, Source, Span, Spans, Task};

use crate::edits::{Catalog, edit, read_stored};
use crate::files::directory;
use crate::input::Input;
use crate::seals::{delete_checksums, seal_digests, seal_part, seal_segments};

pub const FRAMES: u64 = 6;
pub const BINS: usize = 6;
pub const FINAL: &str = "sample_scan0001_p3.h5";

/// The part of half of a scan, the finals of all of it, and what each of them has.
pub struct Base {
    pub recipe: Recipe,
    pub scan: Acquisition,
    /// With a pattern; as a cake of each compression, without sums; with sparse pixels.
    pub parts: [Sealed; 5],
    /// With sums; with only the weights of the frame that has its own; as cakes; with sparse pixels.
    pub finals: [Sealed; 4],
}

pub struct Sealed {
    bytes: Vec<u8>,
    pub catalog: Catalog,
}

impl Sealed {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).expect("the file was written");
        let catalog = Catalog::new(&File::open(path).expect("it is sound"));
        Self { bytes, catalog }
    }

    /// Writes the file with the edits of an input. Returns what the library could still open.
    fn write_edited(&self, path: &Path, input: &mut Input) -> hdf5::Result<File> {
        let file = self.write(path)?;
        edit(&file, &self.catalog, input);
        Ok(file)
    }

    /// Writes the file, and opens it to be edited.
    pub fn write(&self, path: &Path) -> hdf5::Result<File> {
        fs::create_dir_all(path.parent().expect("a directory")).expect("it can be made");
        fs::write(path, &self.bytes).expect("inputs can be written");
        File::with_options().with_fapl(|access| access.file_locking(false)).open_rw(path)
    }
}

pub static BASE: LazyLock<Base> = LazyLock::new(|| {
    let geometry = Some("Distance: 0.1\nPoni1: 0\nPoni2: 0\nWavelength: 1e-10\n".to_owned());
    let settings = Settings { geometry, npt: Some(BINS as u64), ..Settings::default() };
    let recipe = Recipe {
        poni_file: "/data/lab6.poni".into(),
        ..Recipe::resolve(&settings).expect("a recipe")
    };
    let source = Source {
        file: "/raw/scan0001/p3_0000.h5".into(),
        dataset: "/entry_0000/measurement/data".to_owned(),
        size: 1000,
        mtime: 7,
        frames: Spans::first_n(FRAMES),
        rows: Spans::first_n(FRAMES),
        bytes: 600,
        ..Source::default()
    };
    let scan = Acquisition {
        file: "/raw/sample.h5".into(),
        below: "sample.h5".into(),
        entry: "1.1".to_owned(),
        detector: "p3".to_owned(),
        title: Some("ascan rot 0 90 100 0.1".to_owned()),
        start_time: Some("2026-01-02T03:04:05".to_owned()),
        complete: true,
        frames: FRAMES,
        shape: [4, 4],
        dtype: "u32".to_owned(),
        codec: "bslz4".to_owned(),
        sources: vec![source],
        ..Acquisition::default()
    };
    let out = directory().join("base");
    let part = |from: u64, to: u64, chi, storage: PartStorage| {
        let task = task(&scan, &recipe, &Span::new(from, to).into());
        let head = PartMetadata { task: task.clone(), recipe: recipe.clone() };
        let mut writer = PartWriter::create(&out, &task.part, &head, &shared(chi), storage)
            .expect("a part can be created");
        for frame in from..to {
            let sparse = storage.sparse.then(|| sparse_pixels(frame));
            writer.push_row(&FrameRow { sparse, ..row(frame) }).expect("a row");
        }
        writer.finish().expect("a part");
        out.join(task.part.as_path())
    };
    let target =
        OutputSpec::new(&out, &task(&scan, &recipe, &Spans::first_n(FRAMES))).expect("a target");
    let make_final = |keep_sums| {
        output::build(&target, &averaged(keep_sums), &()).expect("a final");
        let final_file = Sealed::read(&out.join(FINAL));
        fs::remove_file(out.join(FINAL)).expect("it can be made again");
        final_file
    };
    let compressed = |compression| PartStorage { compression, ..PartStorage::default() };
    // The last one, of LZ4, becomes the first half of the final.
    let cakes = [Compression::None, Compression::Gzip, Compression::Lz4]
        .map(|compression| Sealed::read(&part(0, 3, Some(2), compressed(compression))));
    part(3, FRAMES, Some(2), compressed(Compression::Lz4));
    let cake = make_final(false);
    let with_sparse = PartStorage { sparse: true, ..PartStorage::default() };
    let sparse = Sealed::read(&part(0, 3, None, with_sparse));
    part(3, FRAMES, None, with_sparse);
    let sparse_final = make_final(false);
    let pattern = Sealed::read(&part(0, 3, None, PartStorage::default()));
    part(3, FRAMES, None, PartStorage::default());
    let finals = [make_final(true), make_final(false), cake, sparse_final];
    let [none, gzip, lz4] = cakes;
    let parts = [pattern, none, gzip, lz4, sparse];
    Base { recipe, scan, parts, finals }
});

/// Options with a mean over all frames, and with or without sums.
pub fn averaged(keep_sums: bool) -> OutputOptions {
    OutputOptions {
        keep_sums,
        keep_parts: true,
        average: "mean".parse().ok(),
        ..OutputOptions::default()
    }
}

pub fn task(scan: &Acquisition, recipe: &Recipe, range: &Spans) -> Task {
    let (id, digest) = (scan.compute_id(), recipe.digest());
    let sources = scan.sources.iter().filter_map(|source| source.restricted_to(range)).collect();
    Task {
        id: Task::compute_id(&id, [digest.as_str()], range),
        part: Task::part_path(&id, &digest, range),
        range: range.clone(),
        recipe: "/out/.azpipe/recipe.toml".into(),
        out: "/out".into(),
        final_file: FINAL.into(),
        more: Vec::new(),
        monitor_readings: None,
        bytes: 0,
        acquisition: Acquisition { sources, ..scan.clone() },
        scan: id,
        recipe_digest: digest,
    }
}

fn shared(chi: Option<usize>) -> SharedBins {
    let axis = |name: &str, bins: usize| PatternAxis {
        name: name.to_owned(),
        units: "nm^-1".to_owned(),
        centers: (0..bins).map(|bin| 0.5 + bin as f64).collect(),
    };
    let axes = PatternAxes {
        radial: axis("q", BINS / chi.unwrap_or(1)),
        chi: chi.map(|bins| axis("chi", bins)),
    };
    let norm: Vec<f64> =
        (0..BINS).map(|bin| if bin == 5 { 0.0 } else { 2.0 + bin as f64 }).collect();
    let scaled = |factor: f64| norm.iter().map(|norm| norm * factor).collect();
    SharedBins { axes, weights: BinWeights { norm_sq: scaled(0.7), count: scaled(1.1), norm } }
}

/// Some sums; frame 2 has weights of its own.
fn row(frame: u64) -> FrameRow {
    let value =
        |bin: usize| if bin == 5 { 0.0 } else { (frame * 7 + 3) as f64 * (1.3 + bin as f64) };
    let mut own = shared(None).weights;
    (own.norm[1], own.norm_sq[1], own.count[1]) = (1.75, 1.2, 2.0);
    FrameRow {
        frame,
        status: Status::Ok,
        stored_digest: frame + 99,
        monitor: 100.0 + (frame % 7) as f64,
        signal: (0..BINS).map(value).collect(),
        variance: Some((0..BINS).map(|bin| value(bin) * 0.9).collect()),
        weight_override: (frame == 2).then_some(own.into()),
        sparse: None,
    }
}

/// The sparse pixels of a frame: of frame 1 none, of frame 4 too many, of the others some.
fn sparse_pixels(frame: u64) -> SparseFrame {
    let pixels: Vec<u32> = match frame {
        1 => Vec::new(),
        4 => return SparseFrame::TooMany { shares: 1000 },
        _ => (0..3).map(|pixel| 4 * pixel + frame as u32 % 4).collect(),
    };
    let values = pixels.iter().map(|pixel| f64::from(1000 * pixel + 7)).collect();
    SparseFrame::Pixels(SparsePixels { pixels, values, other_shares: frame })
}

/// A part that was edited and has the right checksum: whatever it says is read or refused, in
/// ai-integrate's way and gather's.
pub fn sealed_part(data: &[u8]) {
    let mut input = Input::new(data);
    let out = directory().join("parts");
    let choice = input.byte();
    let base = &*BASE;
    let path = out.join(task(&base.scan, &base.recipe, &Spans::first_n(3)).part.as_path());
    let Ok(file) =
        base.parts[usize::from(choice) % base.parts.len()].write_edited(&path, &mut input)
    else {
        return;
    };
    let frames: Vec<u64> =
        file.dataset("frames").and_then(|frames| read_stored(&frames)).unwrap_or_default();
    if file.close().is_err() {
        return;
    }
    seal_part(&path, &frames, choice & 4 != 0);
    if let Ok(part) = part::read_part(&path)
        && let Ok(mut rows) = part.open()
    {
        for row in 0..part.frames.len() {
            let _ = (rows.row(row), rows.pattern(row));
        }
    }
    gather(&out, base, choice);
    let _ = fs::remove_file(path);
}

/// A final that was edited, with the right digests and checksums.
pub fn sealed_final(data: &[u8]) {
    let mut input = Input::new(data);
    let out = directory().join("finals");
    let choice = input.byte();
    let (base, path) = (&*BASE, out.join(FINAL));
    let sealed = &base.finals[usize::from(choice >> 6) % base.finals.len()];
    let Ok(file) = sealed.write_edited(&path, &mut input) else { return };
    if choice & 1 == 0 {
        let _ = delete_checksums(&file);
    }
    let _ = seal_digests(&file, choice & 2 == 0);
    if file.close().is_err() {
        return;
    }
    if choice & 1 != 0 {
        seal_segments(&path);
    }
    if let Ok(mut there) = OutputFile::open(&path) {
        let frames = there.status.len();
        let _ = (there.verify(0..frames), there.verify_sums(0..frames));
        if let Ok(mut rows) = there.rows() {
            for frame in 0..frames {
                let _ = rows.pattern(frame);
            }
        }
        if let Some(averaged) = &there.averaged {
            for index in 0..averaged.frames.len() {
                let _ = averaged.pattern(index);
            }
        }
    }
    gather(&out, base, choice);
    for entry in fs::read_dir(&out).expect("a directory").flatten() {
        let _ = fs::remove_file(entry.path());
    }
}

/// Does with an output what filters do: looks what is done, and makes a final, which then holds
/// what it should. Bits of `choice` say whose task the final is of, and with which options it is
/// made: once, as that takes most of an input's time, or twice, so that the second is made from the
/// first.
fn gather(out: &Path, base: &Base, choice: u8) {
    let all = task(&base.scan, &base.recipe, &Spans::first_n(FRAMES));
    let done = coverage::find_coverage(out, &all, None);
    assert!(done.covered_frames().iter().all(|frame| frame < FRAMES), "{done:?}");
    let targets = match choice >> 2 & 3 {
        0 => vec![OutputSpec::new(out, &all)],
        1 => vec![OutputSpec::from_file(out, &all)],
        _ => output::find_outputs(out),
    };
    let options = match choice >> 4 & 3 {
        0 => vec![OutputOptions::default()],
        1 => vec![averaged(true)],
        2 => vec![averaged(false)],
        _ => vec![OutputOptions::default(), averaged(true)],
    };
    for target in targets {
        let Ok(target) = target else { continue };
        for options in &options {
            let Ok(built) = output::build(&target, options, &()) else { continue };
            // Without a pattern there is nothing to write, and a final that can't be used stays
            // until there is.
            if built.layout.is_none() {
                continue;
            }
            let path = target.path();
            let mut there = OutputFile::open(&path)
                .unwrap_or_else(|why| panic!("{why} after {:?}", built.warnings));
            let frames = there.status.len();
            there.verify(0..frames).expect("a new final can be read");
            assert!(
                !there.layout.holds_patterns() || there.is_intact(),
                "a new final is as it was written: {:?}",
                built.warnings
            );
        }
        let _ = fs::remove_file(target.path());
    }
}
