//! Checksums and digests of files that were edited: of parts, and of finals.

use std::fs;
use std::path::Path;

use hdf5::File;
use hdf5::types::VarLenUnicode;
use serde_json::{Value, json};
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

use crate::edits::read_stored;
use crate::sealed::BINS;

/// Bytes before the HDF5 of a part.
const BLOCK: usize = 512;

const PROCESS: &str = "1.1/p3_integrate";

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

/// As versions before wrote finals: without checksums, and without saying that there are any.
pub fn delete_checksums(file: &File) -> hdf5::Result<()> {
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
    let numbers =
        |name: &str| -> hdf5::Result<Vec<f64>> { read_stored(&integrated.dataset(name)?) };
    let list = |name: &str| -> hdf5::Result<Vec<u64>> { read_stored(&coverage.dataset(name)?) };
    if with_rows {
        let status: Vec<u8> = read_stored(&integrated.dataset("frame_status")?)?;
        let (intensity, errors): (Vec<f32>, Vec<f32>) = (
            read_stored(&integrated.dataset("intensity")?)?,
            read_stored(&integrated.dataset("intensity_errors")?)?,
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
    let is_cake = integrated.dataset("intensity")?.ndim() == 3;
    for name in ["chi", "q"].into_iter().skip(usize::from(!is_cake)) {
        let axis = integrated.dataset(name)?;
        add_text(&mut hash, name);
        add_text(&mut hash, axis.attr("units")?.read_scalar::<VarLenUnicode>()?.as_str());
        add_numbers(&mut hash, read_stored::<f64>(&axis)?.into_iter().map(f64::to_bits));
    }
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
