//! A final has a row for every frame, and the same bytes whatever the cut, order and layout.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

mod growth;
mod other_versions;
mod other_writers;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;

use patterns::output::{self, OutputFile, OutputLayout, OutputOptions, OutputSpec};
use patterns::{FrameRow, Status, coverage, part};
use recipe::{EmptyBinValue, Recipe, ReferenceSetting};
use records::{Absent, AbsentKind, Acquisition, Span, Spans};
use support::*;

fn intensity(there: &OutputFile, frame: usize) -> Vec<f32> {
    there.rows().unwrap().pattern(frame).unwrap().0
}

fn parts(out: &Path, acquisition: &Acquisition, recipe: &Recipe) -> usize {
    part::list_parts(out, &acquisition.compute_id(), &recipe.digest()).unwrap().len()
}

#[test]
fn a_complete_final_takes_the_place_of_its_parts() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (recipe(), acquisition(25, |_| 7));
    write_range(out.path(), &scan, &recipe, 0, 10);
    write_range(out.path(), &scan, &recipe, 10, 25);
    let built = build(out.path(), &scan, &recipe, OutputOptions::default());
    assert!(built.complete && !built.was_unchanged && built.missing.is_empty());
    assert_eq!(built.integrated, Spans::first_n(25));
    assert_eq!(parts(out.path(), &scan, &recipe), 0);

    let there = open(out.path());
    assert!(there.is_intact() && !there.has_sums);
    assert_eq!(there.status, [Status::Ok; 25]);
    let (made, shared) = (row(17), shared());
    for (bin, value) in intensity(&there, 17).into_iter().enumerate() {
        match bin {
            5 => assert!(value.is_nan()),
            _ => assert_eq!(value, (made.signal[bin] / shared.weights.norm[bin]) as f32),
        }
    }
    assert_eq!(there.stored_digest[17], made.stored_digest);

    let again = build(out.path(), &scan, &recipe, OutputOptions::default());
    assert!(again.was_unchanged && again.complete);
    assert_eq!(again.data_digest, built.data_digest);
    let asked =
        coverage::find_coverage(out.path(), &task(&scan, &recipe, &Span::new(5, 20).into()), None);
    assert_eq!(asked.covered_frames(), Span::new(5, 20).into());
}

#[test]
fn no_cut_order_or_layout_changes_the_data() {
    let (recipe, scan) = (with_monitor(ReferenceSetting::Mean), acquisition(40, |_| 7));
    let mut digests = Vec::new();
    for (cut, layout) in [
        (40, OutputLayout::Copy),
        (7, OutputLayout::Copy),
        (13, OutputLayout::Virtual),
        (1, OutputLayout::Virtual),
    ] {
        let out = tempfile::tempdir().unwrap();
        let starts: Vec<u64> = (0..40).step_by(cut).collect();
        for from in starts.into_iter().rev() {
            let to = (from + cut as u64).min(40);
            let task = task(&scan, &recipe, &Span::new(from, to).into());
            let rows = (from..to)
                .map(|frame| if frame % 5 == 1 { with_weight_override(frame) } else { row(frame) });
            write_part(out.path(), &task, &recipe, rows);
        }
        let built =
            build(out.path(), &scan, &recipe, OutputOptions { layout, ..OutputOptions::default() });
        assert_eq!((built.layout, built.complete), (Some(layout), true));
        digests.push(built.data_digest);
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

#[test]
fn a_missing_frame_is_nan_with_a_reason() {
    let out = tempfile::tempdir().unwrap();
    let recipe =
        Recipe { empty: EmptyBinValue::Zero, ..with_monitor(ReferenceSetting::Value(50.0)) };
    let mut scan = acquisition(30, |_| 7);
    scan.absent = vec![Absent {
        range: Span::new(28, 30).into(),
        kind: AbsentKind::NotWritten,
        reason: "not written".to_owned(),
    }];
    let task = task(&scan, &recipe, &Span::new(0, 20).into());
    let rows = (0..20).map(|frame| match frame {
        3 => FrameRow { monitor: 0.0, ..row(3) },
        4 => FrameRow::without_sums(4, Status::Corrupt, 100.0),
        5 => FrameRow { monitor: f64::NAN, ..row(5) },
        _ => row(frame),
    });
    write_part(out.path(), &task, &recipe, rows);
    let built = build(out.path(), &scan, &recipe, OutputOptions::default());
    assert!(!built.complete);
    let reason = |text: &str| {
        built.missing.iter().find(|absent| absent.reason == text).unwrap().range.clone()
    };
    assert_eq!(reason("not written"), Span::new(28, 30).into());
    assert_eq!(reason("not integrated"), Span::new(20, 28).into());
    assert_eq!(reason("can't be decoded: scan0001/p3_0000.h5"), Span::new(4, 5).into());
    assert_eq!(
        reason("monitor zero, negative, out of range, or missing"),
        Span::strided(3, 2, 2).into()
    );

    let there = open(out.path());
    assert_eq!(there.status[2..6], [Status::Ok, Status::Monitor, Status::Corrupt, Status::Monitor]);
    assert_eq!((there.status[20], there.status[28]), (Status::NotIntegrated, Status::Absent));
    for frame in [3, 4, 5, 20, 28] {
        assert!(intensity(&there, frame).iter().all(|value| value.is_nan()), "frame {frame}");
    }
    let expected = (row(6).signal[1] / (shared().weights.norm[1] * (row(6).monitor / 50.0))) as f32;
    assert_eq!((intensity(&there, 6)[1], intensity(&there, 6)[5]), (expected, 0.0));
    assert_eq!(parts(out.path(), &scan, &recipe), 1, "parts stay until the final is complete");
}
#[test]
fn a_virtual_final_keeps_its_parts_and_becomes_a_copy_on_request() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (recipe(), acquisition(30, |_| 7));
    write_range(out.path(), &scan, &recipe, 0, 15);
    write_range(out.path(), &scan, &recipe, 20, 30);
    let options = OutputOptions { layout: OutputLayout::Virtual, ..OutputOptions::default() };
    let gaps = build(out.path(), &scan, &recipe, options);
    assert_eq!((gaps.complete, parts(out.path(), &scan, &recipe)), (false, 2));
    let there = open(out.path());
    assert!(intensity(&there, 17).iter().all(|value| value.is_nan()));
    assert_eq!(intensity(&there, 22)[1], (row(22).signal[1] / shared().weights.norm[1]) as f32);
    assert!(there.has_sums);
    drop(there);

    write_range(out.path(), &scan, &recipe, 15, 20);
    let whole = build(out.path(), &scan, &recipe, options);
    assert_eq!((whole.complete, parts(out.path(), &scan, &recipe)), (true, 3));
    assert!(build(out.path(), &scan, &recipe, options).was_unchanged);
    let copied = build(out.path(), &scan, &recipe, OutputOptions::default());
    assert_eq!((copied.layout, copied.data_digest), (Some(OutputLayout::Copy), whole.data_digest));
    assert_eq!(parts(out.path(), &scan, &recipe), 0);
}

#[test]
fn finals_of_any_name_can_be_made_and_read() {
    use std::os::unix::ffi::OsStrExt as _;
    for layout in [OutputLayout::Copy, OutputLayout::Virtual] {
        let top = tempfile::tempdir().unwrap();
        let out = top.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9 \"1\" $x\n"));
        let (recipe, mut scan) = (recipe(), acquisition(12, |_| 7));
        scan.file = std::path::Path::new(std::ffi::OsStr::from_bytes(b"/raw/\xff.h5")).into();
        let name = std::path::Path::new(std::ffi::OsStr::from_bytes(b"s\xff/50%_scan0001_p3.h5"));
        let task =
            records::Task { final_file: name.into(), ..task(&scan, &recipe, &Spans::first_n(12)) };
        write_part(&out, &task, &recipe, (0..12).map(row));
        let target = OutputSpec::new(&out, &task).unwrap();
        assert!(
            output::build(&target, &OutputOptions { layout, ..OutputOptions::default() }, &())
                .unwrap()
                .complete
        );
        let there = OutputFile::open(&out.join(name)).unwrap();
        assert_eq!(
            intensity(&there, 11)[0],
            (row(11).signal[0] / shared().weights.norm[0]) as f32,
            "{layout:?}"
        );
        assert_eq!(output::find_outputs(&out).len(), 1);
    }
}

#[test]
fn paths_that_lead_out_of_the_root_are_refused() {
    let out = tempfile::tempdir().unwrap();
    let good = task(&acquisition(5, |_| 7), &recipe(), &Spans::first_n(5));
    for bad in [
        records::Task { final_file: outside(), ..good.clone() },
        records::Task { final_file: "/etc/final.h5".into(), ..good.clone() },
        records::Task { scan: "../../x".to_owned(), ..good.clone() },
        records::Task { recipe_digest: "..".to_owned(), ..good.clone() },
    ] {
        assert!(OutputSpec::new(out.path(), &bad).is_err());
    }
}

#[test]
fn cakes_have_two_axes_in_either_layout() {
    let mut digests = Vec::new();
    for layout in [OutputLayout::Copy, OutputLayout::Virtual] {
        let out = tempfile::tempdir().unwrap();
        let (recipe, scan) = (Recipe { npt: 3, npt_azim: 2, ..recipe() }, acquisition(12, |_| 7));
        write_cake(out.path(), &scan, &recipe, 0, 5);
        write_cake(out.path(), &scan, &recipe, 5, 12);
        digests.push(
            build(out.path(), &scan, &recipe, OutputOptions { layout, ..OutputOptions::default() })
                .data_digest,
        );
        let there = open(out.path());
        assert_eq!(there.shared.axes.shape(), [2, 3]);
        assert_eq!(intensity(&there, 8)[4], (row(8).signal[4] / shared().weights.norm[4]) as f32);
    }
    assert_eq!(digests[0], digests[1]);
}
