//! Final files with damaged bytes.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

mod support;

use std::path::{Path, PathBuf};

use patterns::output::{self, BuildOutcome, OutputFile, OutputOptions};
use patterns::{FrameRow, Status, coverage};
use records::{Acquisition, Spans};
use support::*;

const FRAMES: u64 = 6;

fn options() -> OutputOptions {
    OutputOptions {
        keep_sums: true,
        average: Some("mean".parse().unwrap()),
        ..OutputOptions::default()
    }
}

/// Writes a final file with everything that one can have, and no parts.
fn write(out: &Path) -> (Acquisition, PathBuf) {
    write_with(out, row(4))
}

/// Writes a final file as [`write`] does, with this row of the fifth frame.
fn write_with(out: &Path, fifth: FrameRow) -> (Acquisition, PathBuf) {
    let (recipe, scan) = (recipe(), acquisition(FRAMES, |_| 7));
    let rows = (0..FRAMES).map(|frame| match frame {
        2 => FrameRow { frame, ..with_weight_override(2) },
        4 => fifth.clone(),
        _ => row(frame),
    });
    write_part(out, &task(&scan, &recipe, &Spans::first_n(FRAMES)), &recipe, rows);
    build(out, &scan, &recipe, options());
    (scan, out.join("sample_scan0001_p3.h5"))
}

/// Reads all that a reader uses of a final file; `None` if damage is reported.
fn contents(path: &Path) -> Option<String> {
    let mut there = OutputFile::open(path).ok()?;
    there.verify(0..FRAMES as usize).ok()?;
    there.verify_sums(0..FRAMES as usize).ok()?;
    if !there.is_intact() {
        return None;
    }
    let mut rows = there.rows().ok()?;
    let patterns: Vec<_> = (0..FRAMES as usize).map(|frame| rows.pattern(frame).unwrap()).collect();
    let averaged = there.averaged.as_ref()?;
    let averages: Vec<_> =
        (0..averaged.frames.len()).map(|index| averaged.pattern(index).ok().flatten()).collect();
    averages.iter().all(Option::is_some).then(|| {
        format!(
            "{:?} {:?} {:?} {:?} {patterns:?} {averages:?}",
            there.task, there.status, there.monitor, there.shared
        )
    })
}

#[test]
fn no_flipped_bit_of_a_final_is_taken_for_a_value() {
    let out = tempfile::tempdir().unwrap();
    let (_, path) = write(out.path());
    let good = contents(&path).expect("nothing is damaged yet");
    let bytes = std::fs::read(&path).unwrap();
    let mut told = 0;
    // Texts are in global heaps: the library hangs on some that are damaged.
    let heaps = bytes.windows(4).enumerate().filter(|(_, word)| word == b"GCOL").map(|(at, _)| at);
    let in_heaps = heaps.flat_map(|at| (at..bytes.len().min(at + 4096)).step_by(7));
    for at in (0..bytes.len()).step_by(31).chain(in_heaps) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, damaged).unwrap();
        match contents(&path) {
            None => told += 1,
            // In a part of the file that nothing is made from.
            Some(found) => assert_eq!(found, good, "byte {at}"),
        }
    }
    assert!(told > bytes.len() / 31 / 4, "{told} of {}", bytes.len());
}

#[test]
fn a_flipped_bit_in_sums_is_reported_and_its_frame_integrated_again() {
    let out = tempfile::tempdir().unwrap();
    let (scan, path) = write(out.path());
    let signal: Vec<u8> = row(4).signal[..2].iter().flat_map(|value| value.to_le_bytes()).collect();
    let bytes = std::fs::read(&path).unwrap();
    flip(&path, bytes.windows(8).position(|window| window == &signal[8..16]).unwrap() + 3);
    let recipe = recipe();
    let done =
        coverage::find_coverage(out.path(), &task(&scan, &recipe, &Spans::first_n(FRAMES)), None)
            .in_output
            .all;
    assert!(done.count() < FRAMES, "{done:?}");
    // Nothing is averaged from it, its patterns and averages stay, and so does the damaged file.
    let target = target(out.path(), &scan, &recipe);
    let why = output::build(&target, &options(), &()).unwrap_err().to_string();
    assert!(why.contains("sums of") && why.contains("run ai-integrate"), "{why}");
    let (damaged, averages) = (std::fs::read(&path).unwrap(), averages(&path));
    let built = build(out.path(), &scan, &recipe, OutputOptions::default());
    assert!(built.complete);
    assert!(
        built.warnings.iter().any(|why| why.contains("the sums of frame")),
        "{:?}",
        built.warnings
    );
    assert_eq!(std::fs::read(path.with_extension("h5.damaged")).unwrap(), damaged);
    assert_eq!(self::averages(&path), averages);
    // Done again, they are parts, which go before the final.
    write_range(out.path(), &scan, &recipe, 0, FRAMES);
    assert!(build(out.path(), &scan, &recipe, options()).complete);
}

/// Returns the average patterns of a final file as text.
fn averages(path: &Path) -> String {
    let there = OutputFile::open(path).unwrap();
    let averaged = there.averaged.as_ref().expect("the final has averages");
    let patterns = (0..averaged.frames.len()).map(|at| averaged.pattern(at).unwrap());
    format!("{:?}", patterns.collect::<Vec<_>>())
}

#[test]
fn no_gather_loses_sums_or_averages_of_a_final_with_a_flipped_bit() {
    let out = tempfile::tempdir().unwrap();
    let without = FrameRow::without_sums(4, Status::Geometry, f64::NAN);
    let (scan, path) = write_with(out.path(), without);
    let recipe = recipe();
    let (bytes, good) = (std::fs::read(&path).unwrap(), averages(&path));
    let aside = path.with_extension("h5.damaged");
    let (mut set_aside, mut mended) = (0, 0);
    for at in (0..bytes.len()).step_by(251) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, &damaged).unwrap();
        drop(std::fs::remove_file(&aside));
        let target = target(out.path(), &scan, &recipe);
        let built = output::build(&target, &OutputOptions::default(), &());
        let built = built.unwrap_or_else(|why| panic!("byte {at}: {why}"));
        if aside.exists() {
            set_aside += 1;
            assert_eq!(std::fs::read(&aside).unwrap(), damaged, "byte {at}");
            continue;
        }
        let now = std::fs::read(&path).unwrap();
        if now == damaged {
            continue;
        }
        mended += 1;
        let there = OutputFile::open(&path).unwrap();
        assert!(there.has_sums, "byte {at}: {:?}", built.warnings);
        let is_whole = built.integrated.count() == FRAMES - 1;
        assert!(!is_whole || averages(&path) == good, "byte {at}: {:?}", built.warnings);
    }
    assert!(set_aside > 0 && mended > 0, "{set_aside} {mended}");
}

#[test]
fn a_damaged_final_is_reported_and_kept_beside_the_new_one() {
    let out = tempfile::tempdir().unwrap();
    let (scan, path) = write(out.path());
    // The name of a group, in the structure.
    let bytes = std::fs::read(&path).unwrap();
    flip(&path, bytes.windows(10).position(|window| window == b"integrated").unwrap());
    let damaged = std::fs::read(&path).unwrap();
    let recipe = recipe();
    write_range(out.path(), &scan, &recipe, 0, FRAMES);
    let BuildOutcome { complete, warnings, .. } = build(out.path(), &scan, &recipe, options());
    assert!(complete);
    let aside = path.with_file_name("sample_scan0001_p3.h5.damaged");
    assert_eq!(std::fs::read(&aside).unwrap(), damaged);
    assert!(
        warnings.iter().any(|why| why.contains("sample_scan0001_p3.h5: damaged: ")),
        "{warnings:?}"
    );
    assert!(warnings.iter().any(|why| why.contains(aside.to_str().unwrap())), "{warnings:?}");
    assert!(open(out.path()).is_intact());
}

#[test]
fn a_final_that_was_cut_off_is_kept_beside_the_new_one() {
    let recipe = recipe();
    for (kept, whole) in [(1, 2), (1, 5), (9, 10)] {
        let out = tempfile::tempdir().unwrap();
        let (scan, path) = write(out.path());
        let bytes = std::fs::read(&path).unwrap();
        let cut = &bytes[..bytes.len() * kept / whole];
        std::fs::write(&path, cut).unwrap();
        assert!(contents(&path).is_none(), "{kept} of {whole}");
        write_range(out.path(), &scan, &recipe, 0, FRAMES);
        let BuildOutcome { complete, warnings, .. } = build(out.path(), &scan, &recipe, options());
        assert!(complete);
        assert!(warnings.iter().any(|why| why.contains("the file was cut off")), "{warnings:?}");
        let aside = path.with_file_name("sample_scan0001_p3.h5.damaged");
        assert_eq!(std::fs::read(&aside).unwrap(), cut);
        assert!(open(out.path()).is_intact());
    }
}

/// Removes the checksums, and the attribute that tells of them, as in final files of early
/// versions.
fn without_checksums(path: &Path) {
    let file = hdf5::File::open_rw(path).unwrap();
    file.group("1.1/p3_integrate/coverage").unwrap().delete_attr("checksums").unwrap();
    file.close().unwrap();
}

#[test]
fn finals_of_earlier_versions_are_read_and_their_sums_warned_of() {
    let out = tempfile::tempdir().unwrap();
    let (scan, path) = write(out.path());
    let good = contents(&path);
    without_checksums(&path);
    assert_eq!(contents(&path), good);
    let recipe = recipe();
    let built = build(
        out.path(),
        &scan,
        &recipe,
        OutputOptions { average: Some("sum".parse().unwrap()), ..options() },
    );
    assert!(built.warnings[0].contains("without checksums"), "{:?}", built.warnings);
}

#[test]
fn a_final_that_another_program_changed_is_reported() {
    let out = tempfile::tempdir().unwrap();
    let (_, path) = write(out.path());
    hdf5::File::open_rw(&path).unwrap().create_group("note").unwrap();
    let why = OutputFile::open(&path).err().unwrap().to_string();
    assert!(why.contains("checksums are missing"), "{why}");
}

#[test]
fn text_that_is_not_utf_8_is_damage_and_no_panic() {
    let out = tempfile::tempdir().unwrap();
    let (_, path) = write(out.path());
    without_checksums(&path);
    let bytes = std::fs::read(&path).unwrap();
    // The task and the recipe, wherever they stand.
    let places: Vec<usize> = (0..bytes.len() - 6)
        .filter(|&at| &bytes[at..at + 6] == b"\"type\"" || bytes[at..].starts_with(b"poni ="))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        let mut damaged = bytes.clone();
        damaged[at + 2] = 0xff;
        std::fs::write(&path, damaged).unwrap();
        let why = OutputFile::open(&path).err().map(|why| why.to_string()).unwrap_or_default();
        assert!(why.contains("UTF-8"), "{at}: {why}");
    }
}
