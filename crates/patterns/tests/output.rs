//! A final has a row for every frame, the same bytes whatever the cut, and grows without loss.
#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

mod support;

use std::path::Path;

use filter::ownership::OwnedFiles;
use patterns::output::{
    self, Average, AverageMethod, OutputFile, OutputLayout, OutputOptions, OutputSpec, WritePolicy,
};
use patterns::{FrameRow, Status, coverage};
use recipe::{EmptyBinValue, Recipe, ReferenceSetting};
use records::{Absent, AbsentKind, Acquisition, Span, Spans};
use support::*;

fn intensity(there: &OutputFile, frame: usize) -> Vec<f32> {
    there.rows().unwrap().pattern(frame).unwrap().0
}

fn parts(out: &Path, acquisition: &Acquisition, recipe: &Recipe) -> usize {
    coverage::list_parts(out, &acquisition.compute_id(), &recipe.digest()).unwrap().len()
}

#[test]
fn a_complete_final_takes_the_place_of_its_parts() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (recipe(), acquisition(25, |_| 7));
    write_range(out.path(), &scan, &recipe, 0, 10);
    write_range(out.path(), &scan, &recipe, 10, 25);
    let built = build(out.path(), &scan, &recipe, OutputOptions::default());
    assert!(built.complete && !built.was_current && built.missing.is_empty());
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
    assert!(again.was_current && again.complete);
    assert_eq!(again.data_digest, built.data_digest);
    let asked = coverage::find_coverage(out.path(), &task(&scan, &recipe, &Span::new(5, 20).into()));
    assert_eq!(asked.covered_frames(), Span::new(5, 20).into());
}

#[test]
fn no_cut_order_or_layout_changes_the_data() {
    let (recipe, scan) = (with_monitor(ReferenceSetting::Mean), acquisition(40, |_| 7));
    let mut digests = Vec::new();
    for (cut, layout) in
        [(40, OutputLayout::Copy), (7, OutputLayout::Copy), (13, OutputLayout::Virtual), (1, OutputLayout::Virtual)]
    {
        let out = tempfile::tempdir().unwrap();
        let starts: Vec<u64> = (0..40).step_by(cut).collect();
        for from in starts.into_iter().rev() {
            let to = (from + cut as u64).min(40);
            let task = task(&scan, &recipe, &Span::new(from, to).into());
            let rows = (from..to).map(|frame| if frame % 5 == 1 { with_weight_override(frame) } else { row(frame) });
            write_part(out.path(), &task, &recipe, rows);
        }
        let built = build(out.path(), &scan, &recipe, OutputOptions { layout, ..OutputOptions::default() });
        assert_eq!((built.layout, built.complete), (Some(layout), true));
        digests.push(built.data_digest);
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

#[test]
fn what_is_missing_is_nan_and_says_why() {
    let out = tempfile::tempdir().unwrap();
    let recipe = Recipe { empty: EmptyBinValue::Zero, ..with_monitor(ReferenceSetting::Value(50.0)) };
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
    let reason = |text: &str| built.missing.iter().find(|absent| absent.reason == text).unwrap().range.clone();
    assert_eq!(reason("not written"), Span::new(28, 30).into());
    assert_eq!(reason("not integrated"), Span::new(20, 28).into());
    assert_eq!(reason("does not decode"), Span::new(4, 5).into());
    assert_eq!(reason("monitor zero, not a number, or missing"), Span::strided(3, 2, 2).into());

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
fn the_mean_monitor_is_that_of_the_scan() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (with_monitor(ReferenceSetting::Mean), acquisition(20, |_| 7));
    write_range(out.path(), &scan, &recipe, 0, 12);
    build(out.path(), &scan, &recipe, OutputOptions::default());
    write_range(out.path(), &scan, &recipe, 12, 20);
    build(out.path(), &scan, &recipe, OutputOptions::default());
    let mean = (0..20).map(|frame| row(frame).monitor).sum::<f64>() / 20.0;
    let there = open(out.path());
    assert_eq!(there.reference, mean);
    let expected = (row(2).signal[0] / (shared().weights.norm[0] * (row(2).monitor / mean))) as f32;
    assert_eq!(intensity(&there, 2)[0], expected);
}

#[test]
fn a_final_without_parts_grows_and_loses_nothing() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, short) = (recipe(), acquisition(20, |_| 7));
    write_range(out.path(), &short, &recipe, 0, 20);
    build(out.path(), &short, &recipe, OutputOptions::default());
    assert_eq!(parts(out.path(), &short, &recipe), 0);
    let long = acquisition(30, |_| 7);
    write_range(out.path(), &long, &recipe, 20, 30);
    let grown =
        build(out.path(), &long, &recipe, OutputOptions { layout: OutputLayout::Virtual, ..OutputOptions::default() });
    assert_eq!((grown.layout, grown.integrated), (Some(OutputLayout::Copy), Spans::first_n(30)));

    let whole = tempfile::tempdir().unwrap();
    write_range(whole.path(), &long, &recipe, 0, 30);
    assert_eq!(build(whole.path(), &long, &recipe, OutputOptions::default()).data_digest, grown.data_digest);
}

#[test]
fn a_touched_source_is_integrated_again_and_nothing_else() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, then) = (recipe(), acquisition(30, |_| 7));
    write_range(out.path(), &then, &recipe, 0, 30);
    build(out.path(), &then, &recipe, OutputOptions::default());

    let now = acquisition(30, |file| if file == 1 { 8 } else { 7 });
    let whole = task(&now, &recipe, &Spans::first_n(30));
    let done = coverage::find_coverage(out.path(), &whole).covered_frames();
    assert_eq!(whole.range.difference(&done), Span::new(10, 20).into());
    let stale = build(out.path(), &now, &recipe, OutputOptions::default());
    assert_eq!(stale.missing[0].range, Span::new(10, 20).into());

    let again = task(&now, &recipe, &Span::new(10, 20).into());
    write_part(out.path(), &again, &recipe, (10..20).map(|frame| FrameRow { frame, ..row(frame + 1) }));
    let built = build(out.path(), &now, &recipe, OutputOptions::default());
    assert!(built.complete);
    let there = open(out.path());
    assert_eq!(intensity(&there, 15)[0], (row(16).signal[0] / shared().weights.norm[0]) as f32);
    assert_eq!(intensity(&there, 5)[0], (row(5).signal[0] / shared().weights.norm[0]) as f32);
}

#[test]
fn a_damaged_row_is_done_again() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (recipe(), acquisition(20, |_| 7));
    write_range(out.path(), &scan, &recipe, 0, 20);
    let built = build(out.path(), &scan, &recipe, OutputOptions::default());
    let path = out.path().join("sample_scan0001_p3.h5");
    let pattern: Vec<u8> = intensity(&open(out.path()), 9)[..4].iter().flat_map(|value| value.to_le_bytes()).collect();
    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(pattern.len()).position(|window| window == pattern).unwrap();
    flip(&path, at);
    let whole = task(&scan, &recipe, &Spans::first_n(20));
    let left = whole.range.difference(&coverage::find_coverage(out.path(), &whole).covered_frames());
    assert_eq!(left, Span::new(9, 10).into());
    write_range(out.path(), &scan, &recipe, 9, 10);
    let mended = build(out.path(), &scan, &recipe, OutputOptions::default());
    assert_eq!((mended.complete, mended.data_digest), (true, built.data_digest));
}

#[test]
fn parts_that_disagree_are_both_named() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (recipe(), acquisition(20, |_| 7));
    let one = write_range(out.path(), &scan, &recipe, 0, 12);
    let later = task(&scan, &recipe, &Span::new(10, 20).into());
    let mut other = row(11);
    other.signal[2] += 1e-9;
    let rows = (10..20).map(|frame| if frame == 11 { other.clone() } else { row(frame) });
    let two = write_part(out.path(), &later, &recipe, rows);
    let error =
        output::build(&target(out.path(), &scan, &recipe), &OutputOptions::default(), &()).unwrap_err().to_string();
    assert!(error.starts_with("frame 11 is not the same in"), "{error}");
    assert!(error.contains(one.to_str().unwrap()) && error.contains(two.to_str().unwrap()), "{error}");
    assert!(!out.path().join("sample_scan0001_p3.h5").exists());
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
    assert!(build(out.path(), &scan, &recipe, options).was_current);
    let copied = build(out.path(), &scan, &recipe, OutputOptions::default());
    assert_eq!((copied.layout, copied.data_digest), (Some(OutputLayout::Copy), whole.data_digest));
    assert_eq!(parts(out.path(), &scan, &recipe), 0);
}

#[test]
fn sums_are_kept_on_request_and_serve_later() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (with_monitor(ReferenceSetting::Mean), acquisition(10, |_| 7));
    let whole = task(&scan, &recipe, &Spans::first_n(10));
    write_part(
        out.path(),
        &whole,
        &recipe,
        (0..10).map(|frame| if frame == 4 { with_weight_override(4) } else { row(frame) }),
    );
    let kept = build(out.path(), &scan, &recipe, OutputOptions { keep_sums: true, ..OutputOptions::default() });
    assert_eq!(parts(out.path(), &scan, &recipe), 0);
    let options = OutputOptions {
        average: Some(Average::all_frames(AverageMethod::Mean)),
        keep_sums: true,
        ..OutputOptions::default()
    };
    assert_eq!(build(out.path(), &scan, &recipe, options).data_digest, kept.data_digest);

    // A longer scan has another mean: its first frames are made anew from the sums that were kept.
    let long = acquisition(20, |_| 7);
    write_range(out.path(), &long, &recipe, 10, 20);
    let grown = build(out.path(), &long, &recipe, OutputOptions::default());
    let afresh = tempfile::tempdir().unwrap();
    let whole = task(&long, &recipe, &Spans::first_n(20));
    let rows = (0..20).map(|frame| if frame == 4 { with_weight_override(4) } else { row(frame) });
    write_part(afresh.path(), &whole, &recipe, rows);
    assert_eq!(build(afresh.path(), &long, &recipe, OutputOptions::default()).data_digest, grown.data_digest);
}

#[test]
fn complete_only_writes_nothing_before() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (recipe(), acquisition(20, |_| 7));
    let options = OutputOptions { policy: WritePolicy::WhenComplete, ..OutputOptions::default() };
    write_range(out.path(), &scan, &recipe, 0, 10);
    assert_eq!(build(out.path(), &scan, &recipe, options).layout, None);
    assert!(!out.path().join("sample_scan0001_p3.h5").exists());
    write_range(out.path(), &scan, &recipe, 10, 20);
    assert_eq!(build(out.path(), &scan, &recipe, options).layout, Some(OutputLayout::Copy));
}

#[test]
fn what_the_dead_left_goes_whatever_it_was_to_become() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (recipe(), acquisition(5, |_| 7));
    let part = write_range(out.path(), &scan, &recipe, 0, 5);
    let directory = part.parent().unwrap();
    let alive =
        filter::atomic::AtomicFile::create(directory.join("00000007-00000009.h5"), &OwnedFiles::in_azpipe_dir())
            .unwrap();
    std::fs::write(alive.temporary_path(), "half").unwrap();
    let dead = dead_writer();
    for name in [".00000000-00000002.h5.DEAD.tmp", ".final.DEAD.tmp", ".final.DEAD.lock"] {
        std::fs::write(directory.join(name.replace("DEAD", &dead)), "half").unwrap();
    }
    build(out.path(), &scan, &recipe, OutputOptions::default());
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.contains(&dead)).collect();
    assert_eq!(left, [""; 0]);
    assert!(alive.temporary_path().exists());
}

/// A gather of another node, which no lock keeps apart from this one: it is faster.
struct Overtaking<'a> {
    better: &'a std::path::Path,
    path: &'a std::path::Path,
    part: &'a std::path::Path,
    done: std::cell::Cell<bool>,
}

impl output::BuildObserver for Overtaking<'_> {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn advance(&self, _frames: u64) {
        if !self.done.replace(true) {
            std::fs::copy(self.better, self.path.with_extension("new")).unwrap();
            std::fs::rename(self.path.with_extension("new"), self.path).unwrap();
            std::fs::remove_file(self.part).unwrap();
        }
    }
}

#[test]
fn a_final_that_another_node_wrote_meanwhile_is_not_lost() {
    let (out, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (recipe, scan) = (recipe(), acquisition(20, |_| 7));
    write_range(other.path(), &scan, &recipe, 0, 10);
    write_range(other.path(), &scan, &recipe, 10, 20);
    assert!(build(other.path(), &scan, &recipe, OutputOptions::default()).complete);
    let name = "sample_scan0001_p3.h5";
    for had_one in [false, true] {
        let part = write_range(out.path(), &scan, &recipe, 0, if had_one { 15 } else { 10 });
        let (better, path) = (other.path().join(name), out.path().join(name));
        if had_one {
            let _ = std::fs::remove_file(&path);
            build(out.path(), &scan, &recipe, OutputOptions::default());
            write_range(out.path(), &scan, &recipe, 15, 16);
        }
        let watch = Overtaking { better: &better, path: &path, part: &part, done: false.into() };
        let target = OutputSpec::new(out.path(), &task(&scan, &recipe, &Spans::first_n(20))).unwrap();
        let built = output::build(&target, &OutputOptions::default(), &watch).unwrap();
        assert!(watch.done.get() && built.complete, "{had_one} {built:?}");
        assert!(OutputFile::open(&path).unwrap().status.iter().all(|status| *status == patterns::Status::Ok));
    }
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
        let task = records::Task { final_file: name.into(), ..task(&scan, &recipe, &Spans::first_n(12)) };
        write_part(&out, &task, &recipe, (0..12).map(row));
        let target = OutputSpec::new(&out, &task).unwrap();
        assert!(output::build(&target, &OutputOptions { layout, ..OutputOptions::default() }, &()).unwrap().complete);
        let there = OutputFile::open(&out.join(name)).unwrap();
        assert_eq!(intensity(&there, 11)[0], (row(11).signal[0] / shared().weights.norm[0]) as f32, "{layout:?}");
        assert_eq!(output::find_outputs(&out).len(), 1);
    }
}

#[test]
fn a_file_of_somebody_else_is_not_overwritten() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, scan) = (recipe(), acquisition(5, |_| 7));
    write_range(out.path(), &scan, &recipe, 0, 5);
    let path = out.path().join("sample_scan0001_p3.h5");
    std::fs::write(&path, "the only copy").unwrap();
    let error =
        output::build(&target(out.path(), &scan, &recipe), &OutputOptions::default(), &()).unwrap_err().to_string();
    assert!(error.contains("not a file of azpipe") && error.contains("remove it"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"the only copy");
}

#[test]
fn a_frame_that_was_absent_once_is_missed_when_it_is_there() {
    let out = tempfile::tempdir().unwrap();
    let recipe = recipe();
    // The first `there` frames exist, the others do not yet.
    let scan = |there: u64, complete: bool, end_time: Option<String>| {
        let mut scan = Acquisition { complete, end_time, ..acquisition(30, |_| 7) };
        scan.sources = scan.sources.iter().filter_map(|source| source.restricted_to(&Spans::first_n(there))).collect();
        scan.absent = vec![Absent {
            range: Span::new(there, 30).into(),
            kind: AbsentKind::NotWritten,
            reason: "not written".to_owned(),
        }];
        scan.absent.retain(|absent| !absent.range.is_empty());
        scan
    };
    let running = scan(20, false, None);
    write_range(out.path(), &running, &recipe, 0, 20);
    let kept = build(out.path(), &running, &recipe, OutputOptions { keep_parts: true, ..OutputOptions::default() });
    assert_eq!((kept.complete, kept.up_to_date, kept.is_final_state()), (false, true, false), "the scan is running");
    let built = build(out.path(), &scan(30, true, acquisition(30, |_| 7).end_time), &recipe, OutputOptions::default());
    assert!(!built.complete);
    assert_eq!((built.unsettled, built.missing[0].reason.as_str()), (Span::new(20, 30).into(), "not integrated"));

    // A file that came late, of a scan that is as aborted as it was.
    let other = tempfile::tempdir().unwrap();
    let (then, now) = (scan(20, false, None), scan(25, false, None));
    write_range(other.path(), &then, &recipe, 0, 20);
    assert_eq!(build(other.path(), &now, &recipe, OutputOptions::default()).unsettled, Span::new(20, 25).into());
}

#[test]
fn a_record_leads_nowhere_else() {
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
        digests
            .push(build(out.path(), &scan, &recipe, OutputOptions { layout, ..OutputOptions::default() }).data_digest);
        let there = open(out.path());
        assert_eq!(there.shared.axes.shape(), [2, 3]);
        assert_eq!(intensity(&there, 8)[4], (row(8).signal[4] / shared().weights.norm[4]) as f32);
    }
    assert_eq!(digests[0], digests[1]);
}
