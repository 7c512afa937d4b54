//! Parts and finals whose checksums are right, though they hold what azpipe would not write.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use hdf5::File;
use hdf5::types::VarLenUnicode;
use patterns::output::{self, OutputFile, OutputOptions, OutputSpec};
use patterns::part::{self, PartMetadata, PartWriter};
use patterns::{BinWeights, FrameRow, PatternAxes, PatternAxis, SharedBins, Status, coverage};
use recipe::{Recipe, Settings};
use records::{Acquisition, Source, Span, Spans, Task};
use serde_json::{Value, json};
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

use crate::edits::{Catalog, edit};
use crate::files::directory;
use crate::input::Input;

pub const FRAMES: u64 = 6;
const BINS: usize = 6;
/// Bytes before the HDF5 of a part.
const BLOCK: usize = 512;
pub const FINAL: &str = "sample_scan0001_p3.h5";

/// The part of half of a scan, the finals of all of it, and what each of them has.
pub struct Base {
    pub recipe: Recipe,
    pub scan: Acquisition,
    /// With a pattern, and as a cake.
    pub parts: [Sealed; 2],
    /// With sums, and with only the weights of the frame that has its own.
    pub finals: [Sealed; 2],
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
    let part = |from: u64, to: u64, chi| {
        let task = task(&scan, &recipe, &Span::new(from, to).into());
        let head = PartMetadata { task: task.clone(), recipe: recipe.clone() };
        let mut writer =
            PartWriter::create(&out, &task.part, &head, &shared(chi), Default::default())
                .expect("a part");
        for frame in from..to {
            writer.push_row(&row(frame)).expect("a row");
        }
        writer.finish().expect("a part");
        out.join(task.part.as_path())
    };
    let cake = Sealed::read(&part(0, 3, Some(2)));
    let pattern = Sealed::read(&part(0, 3, None));
    part(3, FRAMES, None);
    let target =
        OutputSpec::new(&out, &task(&scan, &recipe, &Spans::first_n(FRAMES))).expect("a target");
    let finals = [true, false].map(|keep_sums| {
        output::build(&target, &averaged(keep_sums), &()).expect("a final");
        let final_file = Sealed::read(&out.join(FINAL));
        fs::remove_file(out.join(FINAL)).expect("it can be made again");
        final_file
    });
    Base { recipe, scan, parts: [pattern, cake], finals }
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
        weight_override: (frame == 2).then_some(own),
    }
}

/// A part that was edited and has the right checksum: whatever it says is read or refused, in
/// ai-integrate's way and gather's.
pub fn sealed_part(data: &[u8]) {
    let mut input = Input::new(data);
    let out = directory().join("parts");
    let choice = input.byte();
    let base = &*BASE;
    let path = out.join(task(&base.scan, &base.recipe, &Spans::first_n(3)).part.as_path());
    let Ok(file) = base.parts[usize::from(choice % 2)].write_edited(&path, &mut input) else {
        return;
    };
    let frames: Vec<u64> =
        file.dataset("frames").and_then(|frames| frames.read_raw()).unwrap_or_default();
    if file.close().is_err() {
        return;
    }
    seal_part(&path, &frames, choice & 2 != 0);
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

/// Makes a part's first line agree with its frames, and its checksum with its bytes.
pub fn seal_part(path: &Path, frames: &[u64], keeps_sources: bool) {
    let mut bytes = fs::read(path).expect("the file is there");
    let line = bytes[..BLOCK].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut head: Value = serde_json::from_slice(line).expect("the block is not edited");
    head["first"] = json!(frames.first().copied().unwrap_or_default());
    head["last"] = json!(frames.last().copied().unwrap_or_default());
    head["count"] = json!(frames.len());
    head["xxh3"] = json!(format!("{:032x}", xxh3_128(&bytes[BLOCK..])));
    if !keeps_sources {
        // As version 1 wrote it: what the sources are known by is then read from the task.
        head["v"] = json!(1);
        head.as_object_mut().expect("an object").shift_remove("sources");
    }
    let mut line = serde_json::to_vec(&head).expect("it was JSON");
    line.push(b'\n');
    bytes[..BLOCK].fill(b' ');
    bytes[..line.len()].copy_from_slice(&line);
    bytes[BLOCK - 1] = b'\n';
    fs::write(path, bytes).expect("the file can be written");
}

/// A final that was edited, with the right digests and checksums.
pub fn sealed_final(data: &[u8]) {
    let mut input = Input::new(data);
    let out = directory().join("finals");
    let choice = input.byte();
    let (base, path) = (&*BASE, out.join(FINAL));
    let sealed = &base.finals[usize::from(choice >> 6 & 1)];
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

const PROCESS: &str = "1.1/p3_integrate";

/// As versions before wrote finals: without checksums, and without saying that there are any.
fn delete_checksums(file: &File) -> hdf5::Result<()> {
    file.group(&format!("{PROCESS}/coverage"))?.delete_attr("checksums")
}

/// Computes the digests of a final anew, so far as what they are of is there.
pub fn seal_digests(file: &File, with_rows: bool) -> hdf5::Result<()> {
    let process = file.group(PROCESS)?;
    let (integrated, coverage) = (process.group("integrated")?, process.group("coverage")?);
    let text = |name: &str| -> hdf5::Result<String> {
        Ok(file
            .dataset(&format!("{PROCESS}/{name}"))?
            .read_scalar::<VarLenUnicode>()?
            .as_str()
            .to_owned())
    };
    let numbers = |name: &str| -> hdf5::Result<Vec<f64>> { integrated.dataset(name)?.read_raw() };
    let list = |name: &str| -> hdf5::Result<Vec<u64>> { coverage.dataset(name)?.read_raw() };
    if with_rows {
        let status: Vec<u8> = integrated.dataset("frame_status")?.read_raw()?;
        let (intensity, errors): (Vec<f32>, Vec<f32>) = (
            integrated.dataset("intensity")?.read_raw()?,
            integrated.dataset("intensity_errors")?.read_raw()?,
        );
        let digest = |(frame, status): (usize, &u8)| {
            let of = |values: &[f32]| -> Vec<u8> {
                let row = values.iter().skip(frame * BINS).take(BINS);
                row.flat_map(|value| value.to_le_bytes()).collect()
            };
            xxh3_64(&[&[*status][..], &of(&intensity), &of(&errors)].concat())
        };
        let digests: Vec<u64> = status.iter().enumerate().map(digest).collect();
        coverage.dataset("row_digest")?.write_raw(&digests)?;
    }
    let rows = list("row_digest")?;
    let mut hash = Xxh3::new();
    add_text(&mut hash, "q");
    let radial = integrated.dataset("q")?;
    add_text(&mut hash, radial.attr("units")?.read_scalar::<VarLenUnicode>()?.as_str());
    add_numbers(&mut hash, radial.read_raw::<f64>()?.into_iter().map(f64::to_bits));
    for name in ["norm", "norm_sq", "count"] {
        add_numbers(&mut hash, numbers(name)?.into_iter().map(f64::to_bits));
    }
    add_numbers(&mut hash, rows.iter().copied());
    write_digest(&coverage, "data_digest", &hash)?;
    let mut hash = Xxh3::new();
    for name in ["coverage/task", "configuration/data", "coverage/parts"] {
        add_text(&mut hash, &text(name)?);
    }
    let frames = rows.len();
    let monitor =
        numbers("monitor").unwrap_or_else(|_| vec![f64::from_bits(0x7ff8_0000_0000_0000); frames]);
    add_numbers(&mut hash, monitor.into_iter().map(f64::to_bits));
    add_numbers(&mut hash, list("stored_digest")?.into_iter());
    add_numbers(&mut hash, rows.into_iter());
    write_digest(&coverage, "coverage_digest", &hash)
}

fn write_digest(coverage: &hdf5::Group, name: &str, hash: &Xxh3) -> hdf5::Result<()> {
    let text: VarLenUnicode = format!("{:032x}", hash.digest128()).parse().expect("digits");
    coverage.attr(name)?.write_scalar(&text)
}

fn add_text(hash: &mut Xxh3, text: &str) {
    hash.update(&(text.len() as u64).to_le_bytes());
    hash.update(text.as_bytes());
}

fn add_numbers(hash: &mut Xxh3, numbers: impl Iterator<Item = u64>) {
    let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    hash.update(&(bytes.len() as u64).to_le_bytes());
    hash.update(&bytes);
}

/// Puts checksums of all bytes behind the end of a file, as `patterns::h5::checksums` describes
/// them.
pub fn seal_segments(path: &Path) {
    let mut bytes = fs::read(path).expect("the file is there");
    let size = bytes.len() as u64;
    let mut table = Vec::new();
    let mut end = 0_u64;
    for segment in bytes.chunks(1 << 16) {
        end += segment.len() as u64;
        table.extend_from_slice(&end.to_le_bytes());
        table.extend_from_slice(&xxh3_64(segment).to_le_bytes());
    }
    let digest = xxh3_64(&[&table[..], &size.to_le_bytes()].concat());
    bytes.extend_from_slice(&table);
    bytes.extend_from_slice(b"azpipe checks 1\n");
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&digest.to_le_bytes());
    fs::write(path, bytes).expect("the file can be written");
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
