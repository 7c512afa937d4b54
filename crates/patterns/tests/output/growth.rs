//! A final grows with its scan without loss, and frames of changed or damaged sources are
//! integrated again.

use patterns::output::{Average, AverageMethod, OutputLayout, OutputOptions, WritePolicy};
use patterns::{FrameRow, coverage};
use recipe::ReferenceSetting;
use records::{Absent, AbsentKind, Acquisition, Span, Spans};

use crate::support::*;
use crate::{intensity, parts};

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
    let grown = build(
        out.path(),
        &long,
        &recipe,
        OutputOptions { layout: OutputLayout::Virtual, ..OutputOptions::default() },
    );
    assert_eq!((grown.layout, grown.integrated), (Some(OutputLayout::Copy), Spans::first_n(30)));

    let whole = tempfile::tempdir().unwrap();
    write_range(whole.path(), &long, &recipe, 0, 30);
    assert_eq!(
        build(whole.path(), &long, &recipe, OutputOptions::default()).data_digest,
        grown.data_digest
    );
}

#[test]
fn a_touched_source_is_integrated_again_and_nothing_else() {
    let out = tempfile::tempdir().unwrap();
    let (recipe, then) = (recipe(), acquisition(30, |_| 7));
    write_range(out.path(), &then, &recipe, 0, 30);
    build(out.path(), &then, &recipe, OutputOptions::default());

    let now = acquisition(30, |file| if file == 1 { 8 } else { 7 });
    let whole = task(&now, &recipe, &Spans::first_n(30));
    let done = coverage::find_coverage(out.path(), &whole, None).covered_frames();
    assert_eq!(whole.range.difference(&done), Span::new(10, 20).into());
    let stale = build(out.path(), &now, &recipe, OutputOptions::default());
    assert_eq!(stale.missing[0].range, Span::new(10, 20).into());

    let again = task(&now, &recipe, &Span::new(10, 20).into());
    write_part(
        out.path(),
        &again,
        &recipe,
        (10..20).map(|frame| FrameRow { frame, ..row(frame + 1) }),
    );
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
    let pattern: Vec<u8> =
        intensity(&open(out.path()), 9)[..4].iter().flat_map(|value| value.to_le_bytes()).collect();
    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(pattern.len()).position(|window| window == pattern).unwrap();
    flip(&path, at);
    let whole = task(&scan, &recipe, &Spans::first_n(20));
    let left =
        whole.range.difference(&coverage::find_coverage(out.path(), &whole, None).covered_frames());
    assert_eq!(left, Span::new(9, 10).into());
    write_range(out.path(), &scan, &recipe, 9, 10);
    let mended = build(out.path(), &scan, &recipe, OutputOptions::default());
    assert_eq!((mended.complete, mended.data_digest), (true, built.data_digest));
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
    let kept = build(
        out.path(),
        &scan,
        &recipe,
        OutputOptions { keep_sums: true, ..OutputOptions::default() },
    );
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
    assert_eq!(
        build(afresh.path(), &long, &recipe, OutputOptions::default()).data_digest,
        grown.data_digest
    );
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
fn a_frame_that_was_absent_once_is_missed_when_it_is_there() {
    let out = tempfile::tempdir().unwrap();
    let recipe = recipe();
    // The first `there` frames exist, the others do not yet.
    let scan = |there: u64, complete: bool, end_time: Option<String>| {
        let mut scan = Acquisition { complete, end_time, ..acquisition(30, |_| 7) };
        scan.sources = scan
            .sources
            .iter()
            .filter_map(|source| source.restricted_to(&Spans::first_n(there)))
            .collect();
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
    let kept = build(
        out.path(),
        &running,
        &recipe,
        OutputOptions { keep_parts: true, ..OutputOptions::default() },
    );
    assert_eq!(
        (kept.complete, kept.up_to_date, kept.is_final_state()),
        (false, true, false),
        "the scan is running"
    );
    let built = build(
        out.path(),
        &scan(30, true, acquisition(30, |_| 7).end_time),
        &recipe,
        OutputOptions::default(),
    );
    assert!(!built.complete);
    assert_eq!(
        (built.retryable_frames, built.missing[0].reason.as_str()),
        (Span::new(20, 30).into(), "not integrated")
    );

    // A file that came late, of a scan that is as aborted as it was.
    let other = tempfile::tempdir().unwrap();
    let (then, now) = (scan(20, false, None), scan(25, false, None));
    write_range(other.path(), &then, &recipe, 0, 20);
    assert_eq!(
        build(other.path(), &now, &recipe, OutputOptions::default()).retryable_frames,
        Span::new(20, 25).into()
    );
}
