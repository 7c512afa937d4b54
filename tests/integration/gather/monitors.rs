//! The mean of a monitor as what it is divided by: that of the whole counter, and one for all that
//! is merged.

use std::path::Path;

use hdf5::File;
use sample::{Defect, Options};

use crate::support::{NO_ARGUMENTS, Outcome, Workspace, open_hdf5_to_write, run, small_options};

const BY_MEAN: [&str; 4] = ["--monitor", "monitor", "--monitor-reference", "mean"];

/// Patterns, frame by frame, and statuses of the final of the last summary.
pub(super) fn read_rows(gathered: &Outcome) -> (Vec<Vec<f32>>, Vec<u8>) {
    let summary = gathered.records("summary").pop().unwrap();
    let file = File::open(summary["final"].as_str().unwrap()).unwrap();
    let [entry, detector] =
        ["entry", "detector"].map(|field| summary[field].as_str().unwrap().to_owned());
    let group = file.group(&format!("/{entry}/{detector}_integrate/integrated")).unwrap();
    let intensity = group.dataset("intensity").unwrap().read_2d::<f32>().unwrap();
    let status = group.dataset("frame_status").unwrap().read_raw::<u8>().unwrap();
    (intensity.rows().into_iter().map(|row| row.to_vec()).collect(), status)
}

/// The largest relative difference of bins that both have.
fn largest_difference(one: &[Vec<f32>], two: &[Vec<f32>]) -> f32 {
    assert_eq!((one.len(), one[0].len()), (two.len(), two[0].len()));
    let pairs = one.iter().flatten().zip(two.iter().flatten());
    pairs
        .filter(|(one, _)| one.is_finite() && **one != 0.0)
        .map(|(one, two)| (two / one - 1.0).abs())
        .fold(0.0, f32::max)
}

/// Changes a scan's counter, and returns it as it is then.
pub(super) fn change_counter(
    master: &Path,
    scan: usize,
    change: impl Fn(usize, f64) -> f64,
) -> Vec<f64> {
    let file = open_hdf5_to_write(master);
    let counter = file.dataset(&format!("/{scan}.1/measurement/monitor")).unwrap();
    let values: Vec<f64> = counter.read_raw().unwrap();
    let values: Vec<f64> =
        values.into_iter().enumerate().map(|(frame, value)| change(frame, value)).collect();
    counter.write_raw(&values).unwrap();
    values
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Integrates all scans and gathers them with these flags.
fn process(workspace: &Workspace, out: &str, plan: &[&str], gather: &[&str]) -> Outcome {
    run("gather", gather, &run("ai-integrate", NO_ARGUMENTS, &workspace.plan(out, plan)).stdout)
}

#[test]
fn merged_scans_are_divided_by_one_mean() {
    let mut workspace = Workspace::new(&Options { scans: 2, ..small_options() });
    let once = change_counter(&workspace.data.master, 1, |_, value| value);
    let thrice = change_counter(&workspace.data.master, 2, |_, value| 3.0 * value);
    let both = mean(&[once, thrice].concat()).to_string();
    let scans: Vec<String> = workspace.scans.lines().map(|scan| format!("{scan}\n")).collect();
    // A wide sector of one scan, and a narrow one of the other: with equal weights, any two means
    // would do.
    let mut results = |out: &str, reference: &str, cut: &str| {
        let mut results = String::new();
        for (scan, sector) in scans.iter().zip(["-180,60", "60,180"]) {
            workspace.scans.clone_from(scan);
            let bins =
                ["--radial-range", "8,30", "--split", "no", "--azimuth-range", sector, "--by", cut];
            let flags =
                [&bins[..], &["--monitor", "monitor", "--monitor-reference", reference]].concat();
            results += &run("ai-integrate", NO_ARGUMENTS, &workspace.plan(out, &flags))
                .assert_success()
                .stdout;
        }
        results
    };
    let merged = read_rows(
        &run("gather", &["--merge-all", "both"], &results("mean", "mean", "frames=5"))
            .assert_success(),
    )
    .0;
    let expected = read_rows(
        &run("gather", &["--merge-all", "both"], &results("number", &both, "scan"))
            .assert_success(),
    )
    .0;
    assert!(largest_difference(&expected, &merged) < 1e-6);
    // Sums that were kept do as well as those of parts.
    run("gather", &["--keep-sums"], &results("kept", "mean", "scan")).assert_success();
    let root = workspace.path("kept");
    let kept = run(
        "gather",
        &["--from", root.to_str().unwrap(), "--keep-sums", "--merge-all", "both"],
        "",
    )
    .assert_success();
    assert_eq!(format!("{:?}", read_rows(&kept).0), format!("{merged:?}"));
}

#[test]
fn merged_detectors_of_a_scan_have_the_mean_of_its_counter_whatever_each_of_them_lacks() {
    let workspace = Workspace::new(&small_options());
    let values =
        change_counter(&workspace.data.master, 1, |frame, value| value * (1.0 + frame as f64));
    let sectors = |out: &str, reference: &str| {
        let mut results = String::new();
        for (name, range) in [("upper", "0,180"), ("lower", "-180,0")] {
            let bins = [
                "--radial-range",
                "8,30",
                "--split",
                "no",
                "--recipe-name",
                name,
                "--azimuth-range",
                range,
            ];
            let flags = [
                &bins[..],
                &["--by", "file", "--monitor", "monitor", "--monitor-reference", reference],
            ]
            .concat();
            let tasks = workspace.plan(out, &flags);
            // The lower one lacks the last file's frames.
            let count = if name == "lower" { 3 } else { 4 };
            let tasks: String = tasks.lines().take(count).map(|line| format!("{line}\n")).collect();
            results += &run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
        }
        let gathered = run("gather", &["--merge", "all"], &results);
        assert_eq!(gathered.status, 1, "{}", gathered.stderr);
        read_rows(&gathered)
    };
    let (by_mean, status) = sectors("mean", "mean");
    let (by_number, _) = sectors("number", &mean(&values).to_string());
    assert!(
        status[..21].iter().all(|status| *status == 0)
            && status[21..].iter().all(|status| *status != 0)
    );
    assert!(largest_difference(&by_number[..21], &by_mean[..21]) < 1e-6);
}

#[test]
fn the_mean_is_of_the_scans_frames_and_of_no_reading_that_is_none() {
    let workspace = Workspace::new(&Options {
        scans: 0,
        defects: vec![Defect::MissingFile],
        ..small_options()
    });
    // The frames whose file is missing had ten times the flux; one reading of another is -100.
    let wild = |frame: usize, value: f64| match frame {
        3 => -100.0,
        7..14 => 10.0 * value,
        _ => value,
    };
    let mut values = change_counter(&workspace.data.master, 1, wild);
    values.remove(3);
    let by_mean =
        read_rows(&process(&workspace, "mean", &[&BY_MEAN[..], &["--by", "file"]].concat(), &[]));
    let reference = mean(&values).to_string();
    let by_number = read_rows(&process(
        &workspace,
        "number",
        &["--monitor", "monitor", "--monitor-reference", &reference],
        &[],
    ));
    assert_eq!(by_mean.1, by_number.1);
    assert_eq!((by_mean.1[3], by_mean.1[7]), (5, 2));
    assert!(largest_difference(&by_number.0, &by_mean.0) < 1e-6);
    // Frames that are integrated later, and those done before, have the same mean: nothing needs
    // the sums that are gone.
    let root = workspace.path("late");
    let tasks = workspace.plan("late", &[&BY_MEAN[..], &["--by", "file"]].concat());
    let (first, rest) = tasks.split_once('\n').unwrap();
    let early = run(
        "gather",
        NO_ARGUMENTS,
        &run("ai-integrate", NO_ARGUMENTS, &format!("{first}\n")).stdout,
    );
    assert_eq!(early.records("summary")[0]["integrated"], 6);
    run("gather", NO_ARGUMENTS, &run("ai-integrate", NO_ARGUMENTS, rest).stdout);
    let late = read_rows(&run("gather", &["--from", root.to_str().unwrap()], ""));
    assert_eq!(format!("{late:?}"), format!("{by_mean:?}"), "whatever the cut, the same bytes");
}

#[test]
fn means_of_two_monitors_have_no_mean_in_common() {
    let workspace = Workspace::new(&small_options());
    let mut results = String::new();
    for (name, range, monitor) in [("upper", "0,180", "monitor"), ("lower", "-180,0", "epoch")] {
        let bins = ["--radial-range", "8,30", "--recipe-name", name, "--azimuth-range", range];
        let flags = [&bins[..], &["--monitor", monitor, "--monitor-reference", "mean"]].concat();
        results += &run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &flags))
            .assert_success()
            .stdout;
    }
    let refused = run("gather", &["--merge", "all"], &results);
    assert_eq!((refused.status, refused.records("fail").len()), (1, 1), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("; integrate both with the same --monitor"),
        "{}",
        refused.stderr
    );
}

#[test]
fn readings_of_any_size_give_a_final() {
    let workspace = Workspace::new(&small_options());
    let as_it_was = change_counter(&workspace.data.master, 1, |_, value| value);
    let sizes = [f64::MAX, 1e308, 1e281, 1e-281, 1e-300, 5e-324, -1e308, f64::INFINITY, f64::NAN];
    for (number, size) in sizes.into_iter().enumerate() {
        // All readings, or one of them.
        for (spoiled, lost) in [(24, 24), (1, 1)] {
            change_counter(&workspace.data.master, 1, |frame, _| {
                if frame < spoiled { size } else { as_it_was[frame] }
            });
            for reference in ["mean", "1e6"] {
                let what = format!("{size:e}, {spoiled} of them, reference {reference}");
                let plan = ["--monitor", "monitor", "--monitor-reference", reference];
                let out = format!("out{number}_{spoiled}_{reference}");
                let gathered = process(&workspace, &out, &plan, &[]);
                assert_eq!(gathered.status, 1, "{what}: {}", gathered.stderr);
                let (rows, statuses) = read_rows(&gathered);
                let is_lost: Vec<bool> = rows.iter().map(|row| row[0].is_nan()).collect();
                let told = statuses.iter().filter(|&&status| status != 0).count();
                assert_eq!(
                    (told, is_lost.iter().filter(|is| **is).count()),
                    (lost, lost),
                    "{what}"
                );
                let summary = &gathered.records("summary")[0];
                let reason = &summary["missing"][0]["reason"];
                assert_eq!(reason, "monitor zero, negative, out of range, or missing", "{what}");
            }
        }
    }
}
