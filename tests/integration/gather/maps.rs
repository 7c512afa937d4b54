//! Maps over two motors: each pattern is in the cell of its position, whatever the order of frames.

use serde_json::{Value, json};

use super::viewers::run_script;
use crate::support::{NO_ARGUMENTS, Outcome, Workspace, open_hdf5_to_write, run, small_options};

/// The plot of a map that silx finds, and how its cells compare with the rows of the final file.
const LOOK: &str = r#"
import json, sys
import h5py, numpy
import silx.io
from silx.io.nxdata import get_default

with silx.io.open(sys.argv[1]) as file:
    plot = get_default(file)
    out = {"plot": [plot.is_valid, plot.signal_name, list(plot.signal.shape), plot.axes_names, plot.interpretation,
                    plot.is_scatter, plot.errors is not None]}
with h5py.File(sys.argv[1]) as file, h5py.File(sys.argv[2]) as final:
    data = file[file.attrs["default"]]["map"]
    process = final["1.1/pilatus_integrate"]
    rows = {name: process["integrated"][name][()] for name in ("intensity", "intensity_errors", "frame_status")}
    frames = data["frame"][()]
    cells = [(cell, frame) for cell, frame in numpy.ndenumerate(frames) if frame >= 0]
    out["frames"] = sorted(int(frame) for _, frame in cells)
    out["empty"] = [int((frames < 0).sum()), bool((data["frame_status"][()][frames < 0] == 255).all())]
    out["status"] = all(data["frame_status"][cell] == rows["frame_status"][frame] for cell, frame in cells)
    same = lambda one, two: numpy.array_equal(one, two, equal_nan=True)
    if "intensity" in data:
        out["patterns"] = all(same(data[name][cell], rows[name][frame])
                              for name in ("intensity", "intensity_errors") for cell, frame in cells)
        out["gaps"] = bool(numpy.isnan(data["intensity"][()][frames < 0]).all())
    else:
        q, norm = process["integrated/2th"][()], process["integrated/norm"][()]
        out["ranges"] = []
        for number, (low, high) in enumerate(json.loads(sys.argv[3]), 1):
            bins = (q >= low) & (q <= high) & (norm > 0)
            weights = norm[bins]
            means = rows["intensity"][:, bins].astype("f8") @ weights / weights.sum()
            squares = rows["intensity_errors"][:, bins].astype("f8") ** 2
            if process["integrated/intensity_errors"].attrs["long_name"].startswith("Standard deviation of a pixel"):
                norm_sq = process["integrated/norm_sq"][()][bins]
                errors = numpy.sqrt(squares @ norm_sq / norm_sq.sum())
            else:
                errors = numpy.sqrt(squares @ weights**2) / weights.sum()
            near = lambda name, all: numpy.allclose([data[name][cell] for cell, _ in cells], [all[frame] for _, frame in cells], 1e-12)
            name = f"range_{number}"
            out["ranges"].append([near(name, means), near(name + "_errors", errors), data[name].attrs["long_name"]])
    for axis, name in enumerate(["sampz", "sampy"]):
        measured = process[f"counters/{name}"][()]
        positions = data[name][()]
        there = data.get(f"{name}_measured", data[name])
        out[name] = [len(positions), data[name].attrs["units"], data[name].attrs["long_name"],
                     all(there[cell] == measured[frame] for cell, frame in cells),
                     max(abs(positions[cell[axis] if frames.ndim == 2 else cell[0]] - measured[frame]) for cell, frame in cells)]
print(json.dumps(out))
"#;

/// A scan of 24 frames, integrated, with the positions of two motors.
struct MappedScan {
    workspace: Workspace,
    results: String,
}

impl MappedScan {
    /// `position` gives slow and fast position of a frame.
    fn new(position: impl Fn(usize) -> [f64; 2]) -> Self {
        Self::with_flags(position, &[])
    }

    /// Takes flags of plan-split besides.
    fn with_flags(position: impl Fn(usize) -> [f64; 2], flags: &[&str]) -> Self {
        let mut workspace = Workspace::new(&small_options());
        let positions: Vec<[f64; 2]> = (0..24).map(position).collect();
        let master = open_hdf5_to_write(&workspace.data.master);
        for (axis, name) in ["sampz", "sampy"].into_iter().enumerate() {
            let values: Vec<f64> = positions.iter().map(|position| position[axis]).collect();
            let builder = master.new_dataset_builder().with_data(&values);
            let dataset = builder.create(&*format!("/1.1/measurement/{name}")).unwrap();
            let units: hdf5::types::VarLenUnicode = "mm".parse().unwrap();
            let attribute =
                dataset.new_attr::<hdf5::types::VarLenUnicode>().create("units").unwrap();
            attribute.write_scalar(&units).unwrap();
        }
        master.close().unwrap();
        workspace.scans = run("scan-find", &[&workspace.data.raw], "").assert_success().stdout;
        // As pyFAI-diffmap does by default.
        let as_diffmap = ["--unit", "2th_deg", "--split", "full"];
        let tasks = workspace.plan("out", &[&as_diffmap, flags].concat());
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
        Self { workspace, results }
    }

    fn gather(&self, flags: &[&str]) -> Outcome {
        run("gather", &[&["--keep-parts"], flags].concat(), &self.results)
    }

    /// Gathers with a map, and looks at it.
    fn look(&self, flags: &[&str], ranges: &Value) -> Option<(Value, Outcome)> {
        let gathered = self.gather(flags);
        let summary = gathered.records("summary").remove(0);
        let [map, last] = ["map", "final"].map(|key| summary[key].as_str().unwrap().to_owned());
        assert_eq!(map, last.replace(".h5", ".map.h5"));
        Some((run_script(LOOK, &[&map, &last, &ranges.to_string()])?, gathered))
    }
}

/// Position of a frame of a snake of 4 lines of 6 frames, with jitter.
fn snake(frame: usize) -> [f64; 2] {
    let (row, column) = (frame / 6, frame % 6);
    let column = if row % 2 == 1 { 5 - column } else { column };
    let jitter = 0.02 * ((frame * 7 % 5) as f64 - 2.0) / 2.0;
    [10.0 + 0.5 * row as f64 + jitter, -3.0 + 0.25 * column as f64 - jitter]
}

#[test]
fn patterns_of_a_snake_are_a_cube_that_silx_shows() {
    let scan = MappedScan::new(snake);
    let Some((seen, gathered)) = scan.look(&["--map", "sampy,sampz"], &Value::Null) else { return };
    assert_eq!((gathered.status, gathered.stderr.as_str()), (0, ""));
    assert_eq!(
        seen["plot"],
        json!([
            true,
            "Intensity (counts)",
            [4, 6, 300],
            ["sampz (mm)", "sampy (mm)", "2θ (°)"],
            "spectrum",
            false,
            true
        ])
    );
    assert_eq!(seen["frames"], json!((0..24).collect::<Vec<_>>()));
    assert_eq!((&seen["patterns"], &seen["status"]), (&json!(true), &json!(true)));
    assert_eq!(seen["empty"], json!([0, true]));
    for (name, lines) in [("sampz", 4), ("sampy", 6)] {
        assert_eq!(
            seen[name].as_array().unwrap()[..4],
            [json!(lines), json!("mm"), json!(format!("{name} (mm)")), json!(true)]
        );
        assert!(seen[name][4].as_f64().unwrap() <= 0.04, "{}", seen[name]);
    }
}

#[test]
fn means_over_radial_ranges_are_images() {
    let scan = MappedScan::new(snake);
    let flags = ["--map", "sampy,sampz", "--map-range", "10,15.5", "--map-range=-1,100"];
    let ranges = json!([[10, 15.5], [-1, 100]]);
    let Some((seen, gathered)) = scan.look(&flags, &ranges) else { return };
    assert_eq!((gathered.status, gathered.stderr.as_str()), (0, ""));
    let plot = json!([
        true,
        "10 to 15.5 2θ (°)",
        [4, 6],
        ["sampz (mm)", "sampy (mm)"],
        "image",
        false,
        true
    ]);
    assert_eq!(seen["plot"], plot);
    let labels = ["10 to 15.5 2θ (°)", "-1 to 100 2θ (°)"];
    assert_eq!(seen["ranges"], json!(labels.map(|label| json!([true, true, label]))));
}

#[test]
fn errors_over_radial_ranges_are_those_of_a_pixel_if_the_patterns_errors_are() {
    let scan = MappedScan::with_flags(snake, &["--error", "std"]);
    let flags = ["--map", "sampy,sampz", "--map-range", "10,15.5", "--map-range=-1,100"];
    let ranges = json!([[10, 15.5], [-1, 100]]);
    let Some((seen, _)) = scan.look(&flags, &ranges) else { return };
    let labels = ["10 to 15.5 2θ (°)", "-1 to 100 2θ (°)"];
    assert_eq!(seen["ranges"], json!(labels.map(|label| json!([true, true, label]))));
}

#[test]
fn frames_without_a_position_are_told_and_cells_without_a_frame_are_empty() {
    let scan = MappedScan::new(|frame| if frame == 8 { [f64::NAN, 0.0] } else { snake(frame) });
    let Some((seen, gathered)) = scan.look(&["--map", "sampy,sampz"], &Value::Null) else { return };
    assert_eq!(gathered.status, 1);
    let told = "1 frame (8) without a position are not in the map";
    assert!(gathered.stderr.contains(told), "{}", gathered.stderr);
    assert_eq!(seen["empty"], json!([1, true]));
    assert_eq!((&seen["patterns"], &seen["gaps"]), (&json!(true), &json!(true)));
    assert_eq!(seen["frames"].as_array().unwrap().len(), 23);
}

#[test]
fn frames_on_no_grid_are_a_list_with_their_positions() {
    let angle = |frame: usize| 2.4 * frame as f64;
    let spiral = |frame: usize| {
        let radius = (frame as f64).sqrt();
        [radius * angle(frame).cos(), radius * angle(frame).sin()]
    };
    let scan = MappedScan::new(spiral);
    let Some((seen, gathered)) = scan.look(&["--map", "sampy,sampz"], &Value::Null) else { return };
    assert_eq!(gathered.status, 0);
    let told = "the positions of sampy and sampz are on no grid with one frame in each cell";
    assert!(gathered.stderr.contains(told), "{}", gathered.stderr);
    assert_eq!((&seen["plot"][0], &seen["plot"][2]), (&json!(true), &json!([24, 300])));
    assert_eq!((&seen["patterns"], &seen["sampy"][3]), (&json!(true), &json!(true)));
    let ranges = json!([[10, 15]]);
    let flags = ["--map", "sampy,sampz", "--map-range", "10,15"];
    let Some((seen, _)) = scan.look(&flags, &ranges) else { return };
    let plot =
        json!([true, "10 to 15 2θ (°)", [24], ["sampy (mm)", "sampz (mm)"], "scalar", true, true]);
    assert_eq!(seen["plot"], plot);
    assert_eq!(seen["ranges"][0][0], true);
}

#[test]
fn a_slow_motor_that_moves_all_the_time_makes_a_list() {
    // A translation to and fro while the rotation goes on, and a line across both motors.
    let sinogram = |frame: usize| {
        let (line, column) = (frame / 6, frame % 6);
        let column = if line % 2 == 1 { 5 - column } else { column };
        [1.8 * frame as f64, 0.1 * column as f64]
    };
    let diagonal = |frame: usize| [0.3 * frame as f64, 0.001 * frame as f64];
    for scan in [MappedScan::new(sinogram), MappedScan::new(diagonal)] {
        let Some((seen, gathered)) = scan.look(&["--map", "sampy,sampz"], &Value::Null) else {
            return;
        };
        assert_eq!(gathered.status, 0);
        let told = "the positions of sampy and sampz are on no grid with one frame in each cell";
        assert!(gathered.stderr.contains(told), "{}", gathered.stderr);
        assert_eq!(seen["plot"][2], json!([24, 300]));
        for name in ["sampz", "sampy"] {
            let measured = (&seen[name][0], &seen[name][3], &seen[name][4]);
            assert_eq!(measured, (&json!(24), &json!(true), &json!(0.0)), "{name}");
        }
    }
}

/// The map of pyFAI-diffmap, in files of its own, and how far it is from ours.
const DIFFMAP: &str = r#"
import glob, json, os, subprocess, sys
import h5py, numpy

map, poni, raw, folder = sys.argv[1:]
frames = sorted(glob.glob(raw + "/**/scan*/*.h5", recursive=True))
command = [os.path.dirname(sys.executable) + "/pyFAI-diffmap", "--no-gui", "--zigzag", "-o", folder + "/map.h5", "-p", poni]
subprocess.run([*command, "-t", "6", "-r", "4", "-c", "300", *frames], check=True, stdout=sys.stderr)
with h5py.File(map) as ours, h5py.File(folder + "/map.h5") as theirs:
    ours = ours["entry/map/intensity"][()].reshape(24, 300)
    theirs = theirs["entry_0000/pyFAI/result/intensity"][()].reshape(24, 300)
# diffmap takes the marks of invalid pixels for counts, and makes 0 of bins without a pixel.
ours = numpy.nan_to_num(ours)
apart = numpy.median(abs(ours[:, None] - theirs[None]) / numpy.maximum(theirs, 1)[None], axis=2)
print(json.dumps([float(apart.diagonal().max()), int((apart < 1e-5).sum())]))
"#;

#[test]
fn the_map_of_a_snake_is_that_of_pyfai_diffmap() {
    let scan = MappedScan::new(snake);
    let gathered = scan.gather(&["--map", "sampy,sampz"]).assert_success();
    let map = gathered.records("summary")[0]["map"].as_str().unwrap().to_owned();
    let data = &scan.workspace.data;
    let [poni, raw] = [&data.poni, &data.raw].map(|path| path.to_str().unwrap().to_owned());
    let folder = scan.workspace.path("");
    let arguments = [&map, &poni, &raw, folder.to_str().unwrap()];
    let Some(found) = run_script(DIFFMAP, &arguments) else { return };
    assert!(found[0].as_f64().unwrap() < 1e-5, "{found}");
    // Of the sample's frames, eight are repeated; no others are alike.
    assert_eq!(found[1], 24 + 2 * 8, "each pattern is in its cell");
}

#[test]
fn unknown_motors_and_empty_ranges_are_refused() {
    let scan = MappedScan::new(snake);
    for (flags, told) in [
        (
            &["--map", "sampx,sampz"][..],
            "no counter or motor `sampx` with a value for each of the 24 frames; there are: ",
        ),
        (&["--map", "sampy,samy"], "no counter or motor `samy`"),
        (
            &["--map", "sampy,sampz", "--map-range", "500,600"],
            "--map-range 500,600: no bin with pixels there; bins are at ",
        ),
    ] {
        let refused = scan.gather(flags);
        assert!(refused.status == 1 && refused.stderr.contains(told), "{}", refused.stderr);
    }
    for flags in [
        &["--map", "sampy"][..],
        &["--map", "sampy,sampy"],
        &["--map", "a,b,c"],
        &["--map", "a,b", "--map-range", "3,2"],
        &["--map", "a,b", "--map-range", "nan,2"],
        &["--map-range", "1,2"],
    ] {
        assert_eq!(scan.gather(flags).status, 2, "{flags:?}");
    }
}

#[test]
fn members_of_a_merge_have_maps_and_the_merge_has_none() {
    let scan = MappedScan::new(snake);
    let sectors = [("0,90", "one"), ("-180,-90", "two")].map(|(sector, name)| {
        let sector = format!("--azimuth-range={sector}");
        let flags = [&*sector, "--radial-range", "5,15", "--recipe-name", name];
        let tasks = scan.workspace.plan("sectors", &flags);
        run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout
    });
    let flags = ["--keep-parts", "--map", "sampy,sampz", "--merge-all", "both"];
    let gathered = run("gather", &flags, &sectors.concat());
    let summaries = gathered.records("summary");
    let maps: Vec<bool> = summaries.iter().map(|summary| summary.get("map").is_some()).collect();
    assert_eq!((gathered.status, maps), (0, vec![true, true, false]), "{}", gathered.stderr);
}

#[test]
fn a_map_of_other_data_is_named_and_a_foreign_file_stays() {
    let scan = MappedScan::new(snake);
    let gathered = scan.gather(&["--map", "sampy,sampz"]).assert_success();
    let map = gathered.records("summary")[0]["map"].as_str().unwrap().to_owned();
    std::fs::write(&map, "mine").unwrap();
    let refused = scan.gather(&["--map", "sampy,sampz"]);
    assert!(
        refused.status == 1 && refused.stderr.contains(".map.h5: exists"),
        "{}",
        refused.stderr
    );
    assert_eq!(std::fs::read(&map).unwrap(), b"mine");
    scan.gather(&["--map", "sampy,sampz", "--overwrite"]).assert_success();
    assert_ne!(std::fs::read(&map).unwrap(), b"mine");
}
