//! Parts are read as they were written, and damage is reported.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

mod support;

use std::fs;

use patterns::part::{self, PartMetadata, PartWriter};
use patterns::{FrameRow, Status};
use records::{Span, Spans};
use support::*;

fn names(directory: &std::path::Path) -> Vec<String> {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn a_part_is_read_as_it_was_written() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(30, |_| 7));
    let task = task(&acquisition, &recipe, &Span::new(10, 20).into());
    let rows = [
        row(10),
        with_weight_override(11),
        FrameRow::without_sums(13, Status::Corrupt, f64::NAN),
        with_weight_override(14),
        row(19),
    ];
    let path = write_part(out.path(), &task, &recipe, rows.clone());

    let part = part::read_part(&path).unwrap();
    assert_eq!(part.metadata, PartMetadata { task, recipe });
    assert_eq!(*part.shared, shared());
    assert_eq!(part.frames, [10, 11, 13, 14, 19]);
    assert_eq!(part.status[2], Status::Corrupt);
    let mut read = part.open().unwrap();
    for index in [4, 0, 1, 2, 3] {
        let (read, written) = (&read.row(index).unwrap(), &rows[index]);
        assert!(are_bit_identical(read, written), "{read:?} is not {written:?}");
    }
    assert_eq!(read.row(0).unwrap().stored_digest, 109);
}

#[test]
fn a_part_of_several_chunks_is_read_as_it_was_written() {
    let out = tempfile::tempdir().unwrap();
    let frames = 30_000;
    let path = write_range(out.path(), &acquisition(frames, |_| 7), &recipe(), 0, frames);
    let part = part::read_part(&path).unwrap();
    let mut rows = part.open().unwrap();
    assert!(
        (0..frames).all(|frame| are_bit_identical(&rows.row(frame as usize).unwrap(), &row(frame)))
    );
}

#[test]
fn the_first_line_says_what_it_is() {
    let out = tempfile::tempdir().unwrap();
    let acquisition = acquisition(30, |_| 7);
    let path = write_range(out.path(), &acquisition, &recipe(), 10, 20);
    let bytes = fs::read(&path).unwrap();
    let line = std::str::from_utf8(&bytes[..512]).unwrap().lines().next().unwrap();
    let head: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        (&head["azpipe"], &head["scan"]),
        (&"part".into(), &acquisition.compute_id().into())
    );
    assert_eq!(
        (&head["first"], &head["last"], &head["count"]),
        (&10.into(), &19.into(), &10.into())
    );
    assert_eq!(&bytes[512..520], b"\x89HDF\r\n\x1a\n");
}

#[test]
fn a_flipped_bit_anywhere_is_seen() {
    let out = tempfile::tempdir().unwrap();
    let path = write_range(out.path(), &acquisition(10, |_| 7), &recipe(), 0, 10);
    let length = fs::metadata(&path).unwrap().len() as usize;
    part::read_part(&path).unwrap();
    for byte in (0..520).step_by(3).chain((520..length).step_by(997)).chain([length - 1]) {
        flip(&path, byte);
        let error = part::read_part(&path)
            .err()
            .unwrap_or_else(|| panic!("byte {byte} of {length}"))
            .to_string();
        assert!(error.starts_with(path.to_str().unwrap()), "{error}");
        flip(&path, byte);
    }
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length as u64 - 1).unwrap();
    assert!(part::read_part(&path).is_err());
}

#[test]
fn an_abandoned_part_leaves_nothing_and_stale_files_are_removed() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(10, |_| 7));
    let task = task(&acquisition, &recipe, &Spans::first_n(10));
    let head = PartMetadata { task: task.clone(), recipe: recipe.clone() };
    let path = out.path().join(task.part.as_path());
    let (directory, name) = (path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join(format!(".{name}.{}.tmp", ended_writer())), "half").unwrap();
    let mut writer =
        PartWriter::create(out.path(), &task.part, &head, &shared(), Default::default()).unwrap();
    writer.push_row(&row(0)).unwrap();
    drop(writer);
    assert!(names(directory).is_empty());
    write_part(out.path(), &task, &recipe, [row(0)]);
    assert_eq!(names(directory), [name]);
}

#[test]
fn a_record_that_names_somebody_elses_file_as_its_part_is_refused() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(10, |_| 7));
    let task = task(&acquisition, &recipe, &Spans::first_n(10));
    let head = PartMetadata { task: task.clone(), recipe: recipe.clone() };
    fs::write(out.path().join("raw.h5"), "the only copy").unwrap();
    let refusal =
        PartWriter::create(out.path(), &"raw.h5".into(), &head, &shared(), Default::default())
            .err()
            .unwrap()
            .to_string();
    assert!(refusal.contains("raw.h5: exists, and azpipe did not write it as a part"), "{refusal}");
    assert_eq!(fs::read(out.path().join("raw.h5")).unwrap(), b"the only copy");
    assert_eq!(names(out.path()), ["raw.h5"]);
    // A part elsewhere is known by its first line.
    let mut task = task;
    task.part = "elsewhere.h5".into();
    write_part(out.path(), &task, &recipe, [row(0)]);
    write_part(out.path(), &task, &recipe, [row(0), row(1)]);
}

#[test]
fn rows_and_weights_that_do_not_fit_are_refused() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, acquisition) = (recipe(), acquisition(10, |_| 7));
    let task = task(&acquisition, &recipe, &Spans::first_n(10));
    let head = PartMetadata { task: task.clone(), recipe };
    let refusal = PartWriter::create(out.path(), &outside(), &head, &shared(), Default::default())
        .err()
        .unwrap()
        .to_string();
    assert!(refusal.contains("outside of the output directory"), "{refusal}");

    let mut narrow = shared();
    narrow.weights.norm.pop();
    assert!(
        PartWriter::create(out.path(), &task.part, &head, &narrow, Default::default()).is_err()
    );

    let mut writer =
        PartWriter::create(out.path(), &task.part, &head, &shared(), Default::default()).unwrap();
    writer.push_row(&row(3)).unwrap();
    let mut refuse = |row: FrameRow| writer.push_row(&row).unwrap_err().to_string();
    assert!(refuse(row(3)).contains("added after frame 3; expected ascending order"));
    assert!(refuse(row(10)).contains("not in the task's range"));
    assert!(
        refuse(FrameRow { variance: None, ..row(4) }).contains("0 values of variance; expected 6")
    );
    assert!(
        refuse(FrameRow { signal: vec![1.0; 5], ..row(4) })
            .contains("5 values of signal; expected 6")
    );
}

#[test]
fn a_directory_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt as _;
    let top = tempfile::tempdir().unwrap();
    let out = top.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9 \"1\" $x\n"));
    let path = write_range(&out, &acquisition(10, |_| 7), &recipe(), 0, 10);
    assert!(are_bit_identical(
        &part::read_part(&path).unwrap().open().unwrap().row(9).unwrap(),
        &row(9)
    ));
}

/// Changes a part through the HDF5 library, and sets the right checksum.
fn edit(path: &std::path::Path, change: impl FnOnce(&hdf5::File)) {
    let file = hdf5::File::open_rw(path).unwrap();
    change(&file);
    file.close().unwrap();
    let mut bytes = fs::read(path).unwrap();
    let digest = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&bytes[512..]));
    let at = bytes.windows(8).position(|window| window == b"\"xxh3\":\"").unwrap() + 8;
    bytes[at..at + 32].copy_from_slice(digest.as_bytes());
    fs::write(path, bytes).unwrap();
}

#[test]
fn datasets_that_do_not_fit_each_other_are_refused_though_the_checksum_is_right() {
    type Change = (&'static str, &'static [usize]);
    let cases: [(&[Change], &str); 7] = [
        (&[("intensity", &[0, BINS])], "intensity has shape [0, 6]; expected [10, 6]"),
        (&[("intensity", &[10, BINS - 1])], "intensity has shape [10, 5]"),
        (&[("intensity", &[])], "intensity has shape []"),
        (&[("intensity_errors", &[10, BINS + 1])], "intensity_errors has shape [10, 7]"),
        (&[("intensity_errors", &[9, BINS])], "intensity_errors has shape [9, 6]"),
        (&[("variance", &[10])], "variance has shape [10]"),
        (
            &[
                ("norm", &[0]),
                ("norm_sq", &[0]),
                ("count", &[0]),
                ("radial", &[0]),
                ("signal", &[10, 0]),
            ],
            "its weights don't fit its 0 bins",
        ),
    ];
    for (changes, expected) in cases {
        let out = tempfile::tempdir().unwrap();
        let path = write_range(out.path(), &acquisition(30, |_| 7), &recipe(), 10, 20);
        edit(&path, |_| ());
        assert!(part::read_part(&path).is_ok());
        edit(&path, |file| {
            for &(name, shape) in changes {
                let of = file.dataset(name).unwrap();
                let texts: Vec<(String, hdf5::types::VarLenUnicode)> = of
                    .attr_names()
                    .unwrap()
                    .into_iter()
                    .map(|name| (name.clone(), of.attr(&name).unwrap().read_scalar().unwrap()))
                    .collect();
                drop(of);
                file.unlink(name).unwrap();
                let new = file.new_dataset::<f64>().shape(shape).create(name).unwrap();
                for (name, text) in texts {
                    let attribute =
                        new.new_attr::<hdf5::types::VarLenUnicode>().create(name.as_str()).unwrap();
                    attribute.write_scalar(&text).unwrap();
                }
            }
        });
        let why = part::read_part(&path).err().unwrap().to_string();
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn weight_overrides_shorter_than_their_starts_are_refused_though_the_checksum_is_right() {
    for name in ["exceptions/bins", "exceptions/norm", "exceptions/norm_sq", "exceptions/count"] {
        let out = tempfile::tempdir().unwrap();
        let (recipe, acquisition) = (recipe(), acquisition(30, |_| 7));
        let task = task(&acquisition, &recipe, &Span::new(10, 20).into());
        let path = write_part(out.path(), &task, &recipe, [row(10), with_weight_override(11)]);
        edit(&path, |file| {
            let (is_bins, len) = (name.ends_with("bins"), file.dataset(name).unwrap().size());
            file.unlink(name).unwrap();
            match is_bins {
                true => drop(file.new_dataset::<u32>().shape([len - 1]).create(name).unwrap()),
                false => drop(file.new_dataset::<f64>().shape([len - 1]).create(name).unwrap()),
            }
        });
        let why =
            part::read_part(&path).and_then(|part| part.open().map(drop)).unwrap_err().to_string();
        assert!(why.contains(&format!("{name} has shape")), "{why}");
    }
}

#[test]
fn cakes_without_sums_need_digests_and_patterns_though_the_checksum_is_right() {
    let out = tempfile::tempdir().unwrap();
    let path = write_cake(out.path(), &acquisition(30, |_| 7), &recipe(), 10, 20);
    let whole = fs::read(&path).unwrap();
    let part = part::read_part(&path).unwrap();
    let mut rows = part.open().unwrap();
    let expected = rows.pattern(3).unwrap().expect("a pattern");
    assert!(!rows.row(3).unwrap().has_sums());
    drop(rows);
    for (name, why) in [
        ("row_digest", "signal"),
        ("intensity", "intensity"),
        ("intensity_errors", "intensity_errors"),
    ] {
        edit(&path, |file| file.unlink(name).unwrap());
        let refusal = part::read_part(&path).err().unwrap().to_string();
        assert!(refusal.contains(&format!("no object {why:?}")), "{name}: {refusal}");
        fs::write(&path, &whole).unwrap();
    }
    edit(&path, |file| {
        file.unlink("row_digest").unwrap();
        file.new_dataset::<u64>().shape([9]).create("row_digest").unwrap();
    });
    let refusal = part::read_part(&path).err().unwrap().to_string();
    assert!(refusal.contains("9 values of row_digest; expected 10"), "{refusal}");
    fs::write(&path, &whole).unwrap();
    // As earlier versions wrote it: sums, and cakes that are not compressed, without digests.
    edit(&path, |file| {
        for name in ["intensity", "intensity_errors"] {
            let values: Vec<f32> = file.dataset(name).unwrap().read_raw().unwrap();
            file.unlink(name).unwrap();
            let new = file.new_dataset::<f32>().chunk([5, 2, 3]).shape([10, 2, 3]).create(name);
            new.unwrap().write_raw(&values).unwrap();
        }
        file.unlink("row_digest").unwrap();
        for name in ["signal", "variance"] {
            file.new_dataset::<f64>().shape([10, 2, 3]).create(name).unwrap();
        }
    });
    let part = part::read_part(&path).unwrap();
    let mut rows = part.open().unwrap();
    assert_eq!(format!("{:?}", rows.pattern(3).unwrap()), format!("{:?}", Some(expected)));
    assert!(rows.row(3).unwrap().has_sums());
}

#[test]
fn cakes_are_compared_with_their_digests_though_the_checksum_is_right() {
    let out = tempfile::tempdir().unwrap();
    let path = write_cake(out.path(), &acquisition(30, |_| 7), &recipe(), 10, 20);
    edit(&path, |file| {
        let digests = file.dataset("row_digest").unwrap();
        let mut values: Vec<u64> = digests.read_raw().unwrap();
        values[3] ^= 1;
        digests.write_raw(&values).unwrap();
    });
    let part = part::read_part(&path).unwrap();
    let mut rows = part.open().unwrap();
    assert!(rows.pattern(2).unwrap().is_some());
    let refusal = rows.pattern(3).unwrap_err().to_string();
    assert!(refusal.ends_with("damaged: the pattern of frame 13"), "{refusal}");
}
