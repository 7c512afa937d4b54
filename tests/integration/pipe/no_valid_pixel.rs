//! Frames of which each pixel has a value that stands for no measurement: they have no pattern, whatever the
//! method, and count nowhere.

use hdf5::File;
use serde_json::json;

use crate::support::{NO_ARGUMENTS, Workspace, create_hdf5, run, small_options};

const SHAPE: [usize; 2] = [195, 487];
/// Number of frames, and the one without a valid pixel.
const FRAMES: [usize; 2] = [4, 2];

/// A workspace with a file of raw frames, and its scan record.
fn workspace() -> Workspace {
    let mut workspace = Workspace::new(&small_options());
    let file = create_hdf5(workspace.path("lost.h5"));
    let pixels = SHAPE[0] * SHAPE[1];
    let value = |at: usize| if at / pixels == FRAMES[1] { -1 } else { (5 + at % 7) as i32 };
    let frames: Vec<i32> = (0..FRAMES[0] * pixels).map(value).collect();
    let (shape, chunk) = ((FRAMES[0], SHAPE[0], SHAPE[1]), (1, SHAPE[0], SHAPE[1]));
    let data = file.new_dataset::<i32>().shape(shape).chunk(chunk).create("data").unwrap();
    data.write_raw(&frames).unwrap();
    drop((data, file));
    let scans = run("scan-find", &[workspace.path("lost.h5::/data")], "").assert_success().stdout;
    workspace.scans = scans;
    workspace
}

#[test]
fn frames_without_a_valid_pixel_have_no_pattern_by_any_method() {
    let workspace = workspace();
    let methods: [&[&str]; 7] = [
        &[],
        &["--empty", "0"],
        &["--sigma-clip", "3"],
        &["--median", "10,90"],
        &["--npt-azim", "8"],
        &["--npt-azim", "8", "--empty", "0"],
        &["--mean", "unweighted"],
    ];
    for (number, method) in methods.into_iter().enumerate() {
        let case = format!("{method:?}");
        let tasks = workspace.plan(&format!("out{number}"), method);
        let integrated = run("ai-integrate", NO_ARGUMENTS, &tasks);
        assert_eq!(integrated.status, 1, "{case}: {}", integrated.stderr);
        let why = "1 frame without a pattern: no valid pixel";
        assert!(integrated.stderr.contains(why), "{case}: {}", integrated.stderr);
        let gathered = run("gather", &["--average", "mean"], &integrated.stdout);
        let summary = gathered.records("summary").remove(0);
        assert_eq!(gathered.status, 1, "{case}: {summary}");
        let lost = &summary["missing"][0];
        assert_eq!(
            [&summary["integrated"], &lost["kind"], &lost["range"]],
            [&json!(3), &json!("no_valid_pixel"), &json!([[2, 3]])],
            "{case}"
        );
        let file = File::open(summary["final"].as_str().unwrap()).unwrap();
        let entry = file.group(summary["entry"].as_str().unwrap()).unwrap();
        let process = entry
            .groups()
            .unwrap()
            .into_iter()
            .find(|group| group.link_exists("integrated"))
            .unwrap();
        let values = process.dataset("integrated/intensity").unwrap().read_raw::<f32>().unwrap();
        let rows: Vec<&[f32]> = values.chunks(values.len() / FRAMES[0]).collect();
        let has_pattern: Vec<bool> =
            rows.iter().map(|row| row.iter().any(|value| *value > 0.0)).collect();
        assert_eq!(has_pattern, [true, true, false, true], "{case}");
        assert!(rows[FRAMES[1]].iter().all(|value| value.is_nan()), "{case}");
        let status = process.dataset("integrated/frame_status").unwrap();
        assert_eq!(status.read_raw::<u8>().unwrap(), [0, 0, 12, 0], "{case}");
        let averaged = process.dataset("averaged/frames").unwrap();
        assert_eq!(averaged.read_raw::<u64>().unwrap(), [3], "{case}");
        // Its task can't give it a pattern, so that it is not tried again.
        let again = run("ai-integrate", &["--allow-missing"], &tasks).assert_success();
        assert!(again.stderr.contains("no valid pixel"), "{case}: {}", again.stderr);
        assert_eq!(again.records("result")[0]["skipped"], true, "{case}: {}", again.stdout);
    }
}

#[test]
fn averages_of_no_frame_are_not_exported() {
    let workspace = workspace();
    let tasks = workspace.plan("out", NO_ARGUMENTS);
    let results = run("ai-integrate", &["--allow-missing"], &tasks).assert_success().stdout;
    let export = |average: &str| {
        let flags = ["--allow-missing", "--export", "xye,nxcansas", "--average", average];
        run("gather", &flags, &results)
    };
    let gathered = export("mean,1").assert_success();
    let why = "no pattern of frame 2: their averages are not exported";
    assert!(gathered.stderr.contains(why), "{}", gathered.stderr);
    let files = |end: &str| -> Vec<String> {
        let names = std::fs::read_dir(workspace.path("out")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(end)).collect();
        names.sort();
        names
    };
    let expected = [0, 1, 3].map(|frame| format!("lost_scan0001_data_0000{frame}.xye"));
    assert_eq!(files(".xye"), expected);
    let [cansas] = &files(".nxcansas.h5")[..] else { panic!("one file") };
    let cansas = File::open(workspace.path("out").join(cansas)).unwrap();
    assert_eq!(cansas.groups().unwrap().len(), 3);
    assert!(!export("mean,2").assert_success().stderr.contains("not exported"));

    // Of a scan without any pattern.
    let only_lost = workspace.plan("none", &["--valid-max", "1"]);
    let results = run("ai-integrate", &["--allow-missing"], &only_lost).stdout;
    let gathered = run("gather", &["--allow-missing", "--export", "xye"], &results);
    let why = "no frame has a pattern: there is no average to export";
    assert!(gathered.status == 1 && gathered.stderr.contains(why), "{}", gathered.stderr);
}
