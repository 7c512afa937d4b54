//! All messages of gather side by side, so that their wording can be compared.

use std::path::Path;

use patterns::export::{
    CalibrantLine, Calibration, CalibrationFactor, Displacement, Drift, DriftDoubt, ExportError,
    LineUse, MapRequest, MarkedPixels, OutdatedSubtraction, Standard,
};
use patterns::output::{BuildOutcome, OutdatedMerge, OutputError, Replaced};
use records::{Absent, AbsentKind, Span, Spans};

use crate::messages::*;

#[test]
fn messages() {
    let path = Path::new("/out/s_scan0001_p3.h5");
    let absent = |range: Span| Absent {
        range: range.into(),
        kind: AbsentKind::NotIntegrated,
        reason: "not integrated".to_owned(),
    };
    let outcome = |frames, was_unchanged| BuildOutcome {
        integrated: Spans::first_n(frames),
        was_unchanged,
        ..BuildOutcome::default()
    };
    let merge =
        |what| OutdatedMerge { path: "/out/both.h5".into(), changed: vec![path.into()], what };
    let subtraction = OutdatedSubtraction {
        path: "/out/s_scan0002_p3.subtracted.h5".into(),
        background: path.into(),
        changed: Replaced::Data,
        exports: Vec::new(),
    };
    let with_exports = OutdatedSubtraction {
        path: "/out/s_scan0002_p3.subtracted.h5".into(),
        background: path.into(),
        changed: Replaced::Counters,
        exports: vec!["/out/s_scan0002_p3.subtracted.xye".into()],
    };
    let damaged =
        OutputError::Invalid { path: "/out/both.h5".into(), why: "damaged: bytes".to_owned() };
    let calibration = Calibration {
        factor: CalibrationFactor { value: 0.0123, error: Some(0.0004) },
        standard_relative_error: None,
        chi2: Some(1.1),
        bins: 30,
        range: [2.0, 5.0],
    };
    let request = MapRequest { fast: "y".to_owned(), slow: "z".to_owned(), ranges: Vec::new() };
    let line = |line_use| CalibrantLine { line_use, ..CalibrantLine::default() };
    let uses = [LineUse::Used, LineUse::Used, LineUse::TooWeak, LineUse::OutOfRange];
    let (value, error) = ([-1e-6, 12.34e-6, 1e-4], [1e-7, 2e-7, 3e-6]);
    let drift = |has_beam| Drift {
        calibrant: "LaB6".to_owned(),
        has_beam,
        lines: uses.map(line).to_vec(),
        average: Displacement { value, error, chi2: 7.5, ..Displacement::default() },
        ..Drift::default()
    };
    let messages = [
        frames_without_pattern(path, &absent(Span::new(8, 16))),
        frames_without_pattern(path, &absent(Span::new(3, 4))),
        final_written(path, &outcome(24, false)),
        final_written(path, &outcome(1, false)),
        final_written(path, &outcome(24, true)),
        scan_skipped(path),
        outdated_exports(path, &["/out/s_scan0001_p3.xye".into()], Replaced::Data),
        outdated_exports(path, &["/out/s_scan0001_p3.map.h5".into()], Replaced::Counters),
        earlier_plot(Path::new("p.png"), &["p_a.png", "p_b.png"].map(Path::new)),
        earlier_plot(
            Path::new("p.png"),
            &["p_a.png", "p_b.png", "p_c.png", "p_d.png"].map(Path::new),
        ),
        outdated_merge(&merge(Replaced::Data)),
        outdated_merge(&merge(Replaced::Counters)),
        outdated_subtraction(&subtraction),
        outdated_subtraction(&with_exports),
        subtraction_not_examined(&ExportError::NoAverage { path: path.into() }),
        merge_not_examined(&damaged),
        unchanged(path),
        compression_of_virtual_files().to_owned(),
        waits_for_other_gather(Path::new("/out/.azpipe/parts/5c/a1/.gather.lock")),
        map_axes().to_owned(),
        range().to_owned(),
        no_grid(Path::new("/out/s.map.h5"), &request),
        frames_without_position(Path::new("/out/s.map.h5"), &Spans::first_n(2)),
        frames_without_statistics(Path::new("/out/s.pixels.h5"), 10, &Spans::first_n(2)),
        suggested_mask(
            Path::new("/out/s.pixels.h5"),
            &MarkedPixels { dead: 2, hot: 3, saturated: 1, all: 5, of_frame: 100 },
        ),
        many_pixels_marked(Path::new("/out/s.pixels.h5")),
        drift_measured(Path::new("/out/s.drift.h5"), &drift(true)),
        drift_measured(Path::new("/out/s.drift.h5"), &drift(false)),
        frames_without_drift(Path::new("/out/s.drift.h5"), &Spans::first_n(2)),
        doubtful_drift(
            Path::new("/out/s.drift.h5"),
            &drift(true),
            DriftDoubt::FewLines { used: 2, sought: 17 },
        ),
        doubtful_drift(
            Path::new("/out/s.drift.h5"),
            &drift(true),
            DriftDoubt::Outliers { outliers: 20, fitted: 90 },
        ),
        doubtful_drift(Path::new("/out/s.drift.h5"), &drift(false), DriftDoubt::Scatter(0.031)),
        doubtful_drift(Path::new("/out/s.drift.h5"), &drift(true), DriftDoubt::Distance(0.0284)),
        frames_without_terms(
            Path::new("/out/s.subtracted.h5"),
            &Spans::first_n(2),
            "--transmission diode above 0",
        ),
        outdated_background(Path::new("/out/empty.h5")),
        background_frames_without_pattern(Path::new("/out/empty.h5"), &Spans::first_n(2)),
        background_frames_without_terms(
            Path::new("/out/empty.h5"),
            &Spans::first_n(2),
            "--transmission diode above 0",
        ),
        transmission_without_monitor(path),
        second_standard(path),
        poor_calibration(path, &Standard::open(Path::new("water")).unwrap(), 12.34),
        nothing_calibrated(Path::new("/out/empty.h5")),
        nothing_subtracted(Path::new("/out/empty.h5")),
        exports_of_other_reductions(
            Path::new("/out/s.absolute.h5"),
            &["/out/s.absolute.xye".into()],
        ),
        counters_of_background_only().to_owned(),
        calibrated(path, &Standard::open(Path::new("water")).unwrap(), &calibration),
        transmission_alone().to_owned(),
        transmission_of_no_background().to_owned(),
        transmission_of_sample_only().to_owned(),
        two_transmissions().to_owned(),
        background_changed(Path::new("/out/empty.h5")),
        no_plot_in_report(Path::new("run.html"), &"/out/s.h5: damaged"),
        scan_not_in_plot(Path::new("all.png"), path),
        no_output_root().to_owned(),
        no_tasks().to_owned(),
        removed_output_root().to_owned(),
        nothing_to_gather().to_owned(),
        report_name(Path::new("run.txt")),
        holds_records().to_owned(),
        is_other_output("--plot"),
        merge_name().to_owned(),
        leftovers_removed(Path::new("/out"), 2, 1, false),
        leftovers_removed(Path::new("/out"), 1, 1000, true),
        leftover_kept("/out/.azpipe/notes.txt: azpipe did not write it"),
    ];
    let expected = [
        "/out/s_scan0001_p3.h5: 8 frames (8 to 15) without a pattern: not integrated",
        "/out/s_scan0001_p3.h5: 1 frame (3) without a pattern: not integrated",
        "/out/s_scan0001_p3.h5: written, 24 frames with a pattern",
        "/out/s_scan0001_p3.h5: written, 1 frame with a pattern",
        "/out/s_scan0001_p3.h5: up to date, not written again",
        "/out/s_scan0001_p3.h5: not written: the scan is running, or frames wait to be integrated",
        "/out/s_scan0001_p3.h5: its data changed; exports of the earlier data: /out/s_scan0001_p3.xye; write them again with --export, --map, --drift, --subtract, --thickness or --pixel-images, or remove them",
        "/out/s_scan0001_p3.h5: its counters changed; exports of the earlier counters: /out/s_scan0001_p3.map.h5; write them again with --map, --subtract or --thickness, or remove them",
        "p.png: is a picture from before this run, of other data; those of this run are p_a.png, p_b.png; remove it if you don't need it",
        "p.png: is a picture from before this run, of other data; those of this run are p_a.png, p_b.png, p_c.png, 1 more; remove it if you don't need it",
        "/out/both.h5: was merged from earlier data of /out/s_scan0001_p3.h5; merge all its members again, with the same --merge or --merge-all, or remove it",
        "/out/both.h5: was merged from earlier counters of /out/s_scan0001_p3.h5; merge all its members again, with the same --merge or --merge-all, or remove it",
        "/out/s_scan0002_p3.subtracted.h5: earlier data of the background /out/s_scan0001_p3.h5 were subtracted; write it again with --subtract, or remove it",
        "/out/s_scan0002_p3.subtracted.h5: the background /out/s_scan0001_p3.h5 was scaled by earlier counters; write it again with --subtract, and its exports with --export, or remove them: /out/s_scan0002_p3.subtracted.xye",
        "/out/s_scan0001_p3.h5: has no average pattern to export; run gather with --average mean; can't tell whether the present data of its background were subtracted",
        "/out/both.h5: damaged: bytes; can't tell whether this merged final file was made from the present data",
        "/out/s_scan0001_p3.h5: unchanged since its last summary",
        "--compression: no effect on virtual files (--layout virtual), which show the parts as they are: give it to ai-integrate",
        "waiting for another gather of the same scan, which holds /out/.azpipe/parts/5c/a1/.gather.lock: it is at work on this \
         machine or another one, or stopped",
        "expected two motors or counters, the fast one first, as in sampy,sampz",
        "expected two numbers, the lower one first, as in 10.5,12",
        "/out/s.map.h5: the positions of y and z are on no grid with one frame in each cell; the map is a list of frames",
        "/out/s.map.h5: 2 frames (0 to 1) without a position are not in the map",
        "/out/s.pixels.h5: statistics of 10 frames only, without 2 frames (0 to 1), which have patterns: run ai-integrate --pixel-stats again with the same tasks, if their raw data is still there, and then gather",
        "/out/s.pixels.h5::/entry/suggested_mask/suggested_mask: a mask of 5 pixels: 2 dead, 3 hot, 1 saturated",
        "/out/s.pixels.h5: the suggested mask marks more than 1 % of the pixels; look at the images before you use it",
        "/out/s.drift.h5: by LaB6 from 2 of 4 lines, without 1 out of range, 1 too weak: x +12.3 +- 0.2 um, y -1.0 +- 0.1 um, distance +100.0 +- 3.0 um",
        "/out/s.drift.h5: by LaB6 from 2 of 4 lines, without 1 out of range, 1 too weak: distance +100.0 +- 3.0 um (the beam is not seen without azimuth)",
        "/out/s.drift.h5: 2 frames (0 to 1) with too few lines to fit: no displacement",
        "/out/s.drift.h5: the lines may not be those of LaB6: only 2 of 17 lines in range agree; check the calibrant, the PONI file and its wavelength",
        "/out/s.drift.h5: the lines may not be those of LaB6: 20 of 90 positions are outliers; check the calibrant, the PONI file and its wavelength",
        "/out/s.drift.h5: the lines may not be those of LaB6: they are 3.1 % of their width from where the displacement has them, which the errors of the intensities do not explain (chi2 7.5); check the calibrant, the PONI file and its wavelength, and integrate cakes (--npt-azim 36) if the beam may have moved",
        "/out/s.drift.h5: the lines may not be those of LaB6: the distance differs by 2.8 %, which is as far as lines are looked for; check the calibrant, the PONI file and its wavelength",
        "/out/s.subtracted.h5: 2 frames (0 to 1) without a value of --transmission diode above 0: they are NaN",
        "/out/empty.h5: counters or motors of its scan were written or corrected since: the background is of the old ones; gather its scan again (and merge it again, if it was merged), and then the others",
        "/out/empty.h5: 2 frames (0 to 1) without a pattern: not part of the background; `frame_status` there says why",
        "/out/empty.h5: 2 frames (0 to 1) without a value of --transmission diode above 0: they are not part of the background",
        "/out/s_scan0001_p3.h5: is divided by no monitor, while --transmission names counters: the flux must have been the same in all scans",
        "not calibrated, and its file of absolute patterns is kept: /out/s_scan0001_p3.h5 is the standard of this detector; --calibrate expects the scans of the standard only",
        "/out/s_scan0001_p3.h5: its pattern has another shape than water: chi2 12.340; expected about 1: check the scan, the background and --calibration-range",
        "/out/empty.h5: no scan but the background was gathered, which is not calibrated: expected the results of a standard",
        "/out/empty.h5: no scan but the background was gathered, from which nothing is subtracted: expected the results of a sample",
        "/out/s.absolute.h5: exports from an earlier run may have another background, transmission or factor: /out/s.absolute.xye; write them again with --export, or remove them",
        "--subtract-scale names counters, which scale the background only: of patterns in absolute units, expected --transmission, which divides the sample, too",
        "/out/s_scan0001_p3.h5: calibration factor 1.230000e-2 +- 4.0e-4 from water: 30 bins from 2.0000 to 5.0000, chi2 1.100",
        "expected --subtract or --thickness, too: they write the patterns that are divided by it",
        "the second value is that of a background: expected --subtract, too, or one value only",
        "expected two numbers, of sample and background, as in 0.62,0.95; the second is 1 if the first is relative to the background",
        "the background is scaled by the transmissions of both scans: expected a number, or nothing, as --subtract-scale",
        "/out/empty.h5: the background was written again in this run, after it was subtracted: run gather --subtract again",
        "run.html: the report lacks the plot of a final file that can't be read: /out/s.h5: damaged",
        "all.png: /out/s_scan0001_p3.h5 is not in it: its radial axis has another unit than those of the scans before it",
        "no such directory: expected the directory that plan-split --out named",
        "holds no tasks: expected those that plan-split wrote",
        "no such directory, though plan-split and ai-integrate wrote there: bring it back, or gather its new place by --from instead of results",
        "holds no results: expected the directory that plan-split --out named, after ai-integrate has run",
        "run.txt: expected a name that ends in .html",
        "holds records, the background, the standard or the calibrant of this run, which are never overwritten: choose another name",
        "is the file of --plot, too: choose another name",
        "expected part of a file name, without `/`, that does not begin with a dot",
        "/out: removed 2 files, 1 byte",
        "/out: would remove 1 file, 1000 bytes",
        "not removed: /out/.azpipe/notes.txt: azpipe did not write it",
    ];
    assert_eq!(messages, expected);
}
