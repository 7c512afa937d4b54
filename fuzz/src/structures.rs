//! Each dataset of a final and of a part in each other type and shape, under valid checksums: all
//! that judge whether the file is sound agree.

use std::fs;
use std::path::Path;

use hdf5::types::{FloatSize, H5Type as _, IntSize, TypeDescriptor, VarLenUnicode};
use hdf5::{Dataset, File};
use patterns::output::{self, OutputFile, OutputOptions, OutputSpec};
use patterns::{coverage, part};
use records::Spans;

use crate::sealed::{BASE, FINAL, FRAMES, averaged, task};
use crate::seals::{seal_digests, seal_part, seal_segments};

/// A change of a dataset.
#[derive(Clone, Debug)]
enum Change {
    /// Another type, with the values that can be converted to it.
    Type(TypeDescriptor),
    /// Dimension `.0` longer or shorter by one; a scalar becomes a list.
    Longer(usize),
    Shorter(usize),
    Empty,
    /// A further dimension of one, at the end.
    Deeper,
    /// All values in one dimension.
    Flat,
    Removed,
    Group,
    /// A link that leads to itself.
    Ring,
}

fn changes() -> Vec<Change> {
    let types = [
        TypeDescriptor::Float(FloatSize::U8),
        TypeDescriptor::Float(FloatSize::U4),
        TypeDescriptor::Unsigned(IntSize::U1),
        TypeDescriptor::Unsigned(IntSize::U4),
        TypeDescriptor::Unsigned(IntSize::U8),
        TypeDescriptor::Integer(IntSize::U8),
        TypeDescriptor::VarLenUnicode,
        TypeDescriptor::FixedAscii(5),
        TypeDescriptor::VarLenArray(Box::new(TypeDescriptor::Float(FloatSize::U8))),
        TypeDescriptor::Boolean,
    ];
    let shapes = [
        Change::Longer(0),
        Change::Longer(1),
        Change::Shorter(0),
        Change::Shorter(1),
        Change::Empty,
        Change::Deeper,
        Change::Flat,
        Change::Removed,
        Change::Group,
        Change::Ring,
    ];
    types.into_iter().map(Change::Type).chain(shapes).collect()
}

/// Makes the change, or returns `false` where the dataset is that already.
fn change(file: &File, name: &str, change: &Change) -> hdf5::Result<bool> {
    let old = file.dataset(name)?;
    let (mut shape, mut kind) = (old.shape(), old.dtype()?.to_descriptor()?);
    let before = (shape.clone(), kind.clone());
    let texts = |of: &Dataset, attribute: &str| {
        of.attr(attribute).and_then(|text| text.read_scalar::<VarLenUnicode>())
    };
    let attributes: Vec<(String, VarLenUnicode)> = old
        .attr_names()?
        .into_iter()
        .filter_map(|name| Some((name.clone(), texts(&old, &name).ok()?)))
        .collect();
    match change {
        Change::Type(other) => kind = other.clone(),
        Change::Longer(at) | Change::Shorter(at) => match (shape.get_mut(*at), change) {
            (Some(extent), Change::Longer(_)) => *extent += 1,
            (Some(extent), _) => *extent = extent.saturating_sub(1),
            (None, _) => shape.push(2),
        },
        Change::Empty => {
            shape = if shape.is_empty() { vec![0] } else { shape.iter().map(|_| 0).collect() }
        }
        Change::Deeper => shape.push(1),
        Change::Flat => shape = vec![shape.iter().product()],
        Change::Removed | Change::Group | Change::Ring => {
            drop(old);
            file.unlink(name)?;
            match change {
                Change::Group => drop(file.create_group(name)?),
                Change::Ring => file.link_soft(name, name)?,
                _ => (),
            }
            return Ok(true);
        }
    }
    if before == (shape.clone(), kind.clone()) {
        return Ok(false);
    }
    let (size, numbers) = (shape.iter().product::<usize>(), old.read_raw::<f64>());
    // Digests have more digits than f64.
    let digests = old.read_raw::<u64>().ok().filter(|_| kind == u64::type_descriptor());
    drop(old);
    file.unlink(name)?;
    let new = file.new_dataset_builder().empty_as(&kind).shape(shape).create(name)?;
    // Texts stay empty.
    match (digests, numbers) {
        (Some(digests), _) => new.write_raw(&resized(digests, size))?,
        (None, Ok(numbers)) => drop(new.write_raw(&resized(numbers, size))),
        (None, Err(_)) => (),
    }
    for (attribute, text) in attributes {
        new.new_attr::<VarLenUnicode>().create(attribute.as_str())?.write_scalar(&text)?;
    }
    Ok(true)
}

/// Returns values in another number: the first ones, or the last one repeated.
fn resized<T: Copy + Default>(mut values: Vec<T>, size: usize) -> Vec<T> {
    values.resize(size, values.last().copied().unwrap_or_default());
    values
}

/// Reads what a final has, sums and averages only if they are needed, and returns which frames are
/// sound.
fn read_final(path: &Path, needs_all: bool) -> Result<Vec<bool>, String> {
    let mut there = OutputFile::open(path).map_err(|why| why.to_string())?;
    let frames = there.status.len();
    there.verify(0..frames).map_err(|why| format!("verify: {why}"))?;
    if needs_all {
        there.verify_sums(0..frames).map_err(|why| format!("verify_sums: {why}"))?;
    }
    let mut rows = there.rows().map_err(|why| format!("rows: {why}"))?;
    let mut sound = |frame: usize| there.is_intact_at(frame as u64) && rows.pattern(frame).is_ok();
    let sound: Vec<bool> = (0..frames).map(&mut sound).collect();
    if let Some(averaged) = there.averaged.as_ref().filter(|_| needs_all) {
        for index in 0..averaged.frames.len() {
            if averaged.pattern(index).map_err(|why| format!("averaged: {why}"))?.is_none() {
                return Err("an averaged pattern that is not as it was written".to_owned());
            }
        }
    }
    Ok(sound)
}

/// Reads a final; an error where some of what is needed is refused.
fn read_whole_final(path: &Path, needs_all: bool) -> Result<(), String> {
    match read_final(path, needs_all)?.iter().all(|sound| *sound) {
        true => Ok(()),
        false => Err("rows that are not as they were written".to_owned()),
    }
}

/// Asks build and coverage of a final that was changed, and returns where they take for done what a
/// reader refuses.
fn judge_final(out: &Path, path: &Path, keep_sums: bool) -> Vec<String> {
    let base = &*BASE;
    let whole = task(&base.scan, &base.recipe, &Spans::first_n(FRAMES));
    let mut breaches = Vec::new();
    let covered = coverage::find_coverage(out, &whole, None).covered_frames();
    let sound = read_final(path, true);
    let is_sound = |frame: u64| sound.as_ref().is_ok_and(|sound| sound[frame as usize]);
    if let Some(frame) = covered.iter().find(|frame| !is_sound(*frame)) {
        breaches
            .push(format!("coverage has frame {frame}, and a reader {:?}", sound.as_ref().err()));
    }
    for needs_all in [false, true] {
        let target = OutputSpec::new(out, &whole).expect("a target");
        let read = read_whole_final(path, needs_all);
        let options = if needs_all { averaged(keep_sums) } else { OutputOptions::default() };
        match (output::build(&target, &options, &()), read) {
            (Ok(built), Err(why)) if built.was_unchanged => {
                breaches.push(format!("build takes it for done, and a reader says {why}"));
            }
            (Ok(built), _) if built.layout.is_some() => {
                if let Err(why) = read_whole_final(path, needs_all) {
                    breaches.push(format!("build made of it what a reader refuses: {why}"));
                }
            }
            (Ok(_), Ok(())) => breaches.push("build can't use it, and a reader can".to_owned()),
            (Err(why), Ok(())) => {
                breaches.push(format!("a reader can use it, and build says {why}"))
            }
            (Ok(_) | Err(_), Err(_)) => (),
        }
    }
    breaches
}

/// A directory in memory, where there is one: build syncs what it writes.
fn fast_directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
        .expect("a directory")
}

#[test]
fn whoever_reads_a_final_judges_its_structure_alike() {
    let base = &*BASE;
    let place = fast_directory();
    let (out, mut breaches, mut tried) = (place.path().join("out"), Vec::new(), 0);
    let path = out.join(FINAL);
    for (sealed, keep_sums) in base.finals.iter().zip([true, false, false, false]) {
        for name in &sealed.catalog.datasets {
            for change_to in changes() {
                let _ = fs::remove_dir_all(&out);
                let file = sealed.write(&path).expect("it is sound");
                if !change(&file, name, &change_to).unwrap_or(false) {
                    continue;
                }
                // What the digests are of may have gone.
                let _ = seal_digests(&file, true);
                file.close().expect("it is closed");
                seal_segments(&path);
                tried += 1;
                breaches.extend(
                    judge_final(&out, &path, keep_sums)
                        .into_iter()
                        .map(|why| format!("{name} {change_to:?}: {why}")),
                );
            }
        }
    }
    assert!(tried > 400, "{tried}");
    assert!(breaches.is_empty(), "{} of {tried}:\n{}", breaches.len(), breaches.join("\n"));
}

#[test]
fn a_part_that_is_read_has_rows_that_can_be_read() {
    let base = &*BASE;
    let place = fast_directory();
    let (mut breaches, mut tried) = (Vec::new(), 0);
    for sealed in &base.parts {
        for name in &sealed.catalog.datasets {
            for change_to in changes() {
                let path = place.path().join("part.h5");
                let file = sealed.write(&path).expect("it is sound");
                if !change(&file, name, &change_to).unwrap_or(false) {
                    continue;
                }
                let frames: Vec<u64> =
                    file.dataset("frames").and_then(|frames| frames.read_raw()).unwrap_or_default();
                file.close().expect("it is closed");
                seal_part(&path, &frames, false);
                tried += 1;
                let Ok(part) = part::read_part(&path) else { continue };
                let mut breach =
                    |why: String| breaches.push(format!("{name} {change_to:?}: {why}"));
                match part.open() {
                    Ok(mut rows) => (0..part.frames.len()).for_each(|row| {
                        if let Err(why) = rows.row(row) {
                            breach(format!("row: {why}"));
                        }
                        if let Err(why) = rows.pattern(row) {
                            breach(format!("pattern: {why}"));
                        }
                    }),
                    Err(why) => breach(why.to_string()),
                }
            }
        }
    }
    assert!(tried > 300, "{tried}");
    assert!(breaches.is_empty(), "{} of {tried}:\n{}", breaches.len(), breaches.join("\n"));
}
