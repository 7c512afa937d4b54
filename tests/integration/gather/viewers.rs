//! Finals as other programs read them: silx with its default plot, h5py with every dataset and
//! link.
//!
//! Runs where `AZPIPE_PEERS`, or `.venv` in the root, is a virtual environment that has silx.

use serde_json::{Value, json};

use crate::support::{Workspace, run, run_python, small_options};

const LOOK: &str = r#"
import json, os, sys
import h5py, numpy
import silx.io
from silx.io.nxdata import get_default

def kind(group, name):
    return type(group.get(name, getlink=True)).__name__

out = {}
with silx.io.open(sys.argv[1]) as file:
    plot = get_default(file)
    out["plot"] = [plot.is_valid, plot.signal_name, list(plot.signal.shape), plot.axes_names, plot.interpretation]
    out["errors"] = list(plot.errors.shape)
with h5py.File(sys.argv[1]) as file:
    entry = file[file.attrs["default"]]
    process = entry["pilatus_integrate"]
    data = process["integrated"]
    out["classes"] = [group.attrs["NX_class"] for group in (file, entry, process, data, process["configuration"])]
    out["dtypes"] = {name: str(data[name].dtype) for name in data if isinstance(data[name], h5py.Dataset) and name != "title"}
    out["status"] = data["frame_status"][()].tolist()
    out["meanings"] = data["frame_status"].attrs["flag_meanings"]
    out["finite"] = [bool(numpy.isfinite(row).any()) for row in data["intensity"][()]]
    out["nans"] = sorted({hex(bits) for bits in data["intensity"][()].view("u4")[numpy.isnan(data["intensity"][()])]})
    out["texts"] = [entry["title"].asstr()[()], "Distance" in process["configuration/poni"].asstr()[()]]
    out["links"] = [kind(entry, name) for name in ("instrument", "sample", "instrument/positioners", "instrument/pilatus/image")]
    out["raw"] = [os.path.samefile(entry.attrs["raw_file"], sys.argv[2]), list(entry["instrument/pilatus/image"].shape)]
    out["counter"] = len(entry["measurement/monitor"])
    out["same"] = numpy.array_equal(entry["measurement/pilatus_integrated"], data["intensity"], equal_nan=True)
    out["sum"] = float(numpy.nansum(data["intensity"][()].astype("f8")))
    kept = {kind: {name: [len(group[name]) if group[name].shape else 1, group[name].attrs.get("units"), str(group[name].dtype)]
                   for name in group} for kind, group in process.items() if kind in ("counters", "positioners")}
    out["kept"] = kept
    out["copied"] = bool((process["counters/monitor"][()] == entry["measurement/monitor"][()]).all())
    averaged = process.get("averaged")
    out["averaged"] = averaged and [averaged.attrs["signal"], list(averaged.attrs["axes"]), list(averaged["intensity"].shape)]
print(json.dumps(out))
"#;

/// The fields of NXazint1d and NXazint2d that must be there, and what they say.
const NXAZINT: &str = r#"
import json, sys
import h5py, numpy
import silx.io
from silx.io.nxdata import get_default

out = {}
with silx.io.open(sys.argv[1]) as file:
    plot = get_default(file)
    out["plot"] = [plot.is_valid, plot.signal_name, plot.axes_names, plot.interpretation, plot.errors is not None]
with h5py.File(sys.argv[1]) as file, h5py.File(sys.argv[2]) as final:
    entry = file[file.attrs["default"]]
    text = lambda path: entry[path].asstr()[()]
    out["definition"] = text("definition")
    flags = ("solid_angle", "polarization", "normalization", "monitor")
    out["applied"] = [bool(entry[f"{flag}_applied"][()]) for flag in flags]
    classes = {"instrument": "NXinstrument", "instrument/monochromator": "NXmonochromator",
               "instrument/source": "NXsource", "reduction": "NXprocess", "reduction/input": "NXparameters",
               "data": "NXdata"}
    out["classes"] = all(entry[name].attrs["NX_class"] == cls for name, cls in classes.items())
    names = ["instrument/name", "instrument/source/name", "instrument/source/type", "instrument/source/probe"]
    names += [f"reduction/{name}" for name in ("program", "version", "date", "reference")]
    out["texts"] = all(len(text(name)) > 0 for name in names)
    wavelength, energy = (entry[f"instrument/monochromator/{name}"] for name in ("wavelength", "energy"))
    out["units"] = [wavelength.attrs["units"], energy.attrs["units"], float(wavelength[()] * energy[()])]
    out["input"] = sorted(entry["reduction/input"])
    data = entry["data"]
    out["data"] = [data.attrs["signal"], list(data.attrs["axes"]), data.attrs["interpretation"]]
    out["names"] = {name: [list(data[name].shape), data[name].attrs.get("long_name"), data[name].attrs.get("units")]
                    for name in data}
    integrated = final[final.attrs["default"]]
    integrated = integrated[integrated.attrs["default"]]
    same = lambda one, two: bool(numpy.array_equal(data[one][()], integrated[two][()], equal_nan=True))
    out["same"] = [same("I", "intensity"), same("I_errors", "intensity_errors"), same("norm", "norm")]
    edges, centers = data["radial_axis_edges"][()], data["radial_axis"][()]
    out["edges"] = float(abs((edges[1:] + edges[:-1]) / 2 - centers).max())
    out["monitor"] = "monitor" in entry and entry["monitor/data"].shape[0]
print(json.dumps(out))
"#;

/// The default plot of each file, as silx finds it.
const PLOTS: &str = r#"
import json, sys
import silx.io
from silx.io.nxdata import get_default

def plot(name):
    with silx.io.open(name) as file:
        found = get_default(file)
        if found is None:
            return None
        return [found.is_valid, found.signal_name, found.axes_names, found.interpretation, found.errors is not None]
print(json.dumps([plot(name) for name in sys.argv[1:]]))
"#;

/// How far the patterns of two files are apart.
pub const LOOK_AT_ARRAYS: &str = r#"
import json, sys
import h5py, numpy

def read(name):
    with h5py.File(name) as file:
        entry = file[file.attrs["default"]]
        data = entry[entry.attrs["default"]]
        averaged = data.parent["averaged/intensity"][()]
        return [data[name][()].astype("f8") for name in ("intensity", "intensity_errors")] + [averaged]

one, two = map(read, sys.argv[1:])
apart = [float(numpy.nanmax(abs(a - b) / numpy.where(b == 0, 1, b))) for a, b in zip(one, two)]
nans = all(bool((numpy.isnan(a) == numpy.isnan(b)).all()) for a, b in zip(one, two))
print(json.dumps({"intensity": apart[0], "errors": apart[1], "averaged": apart[2], "same_nans": nans}))
"#;

/// Runs a script in the peers' environment, and returns the JSON that it prints.
pub fn run_script(script: &str, arguments: &[&str]) -> Option<Value> {
    Some(serde_json::from_slice(&run_python(script, arguments)?).unwrap())
}

fn seen(layout: &str) -> Option<Value> {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--by", "file", "--monitor", "monitor"]);
    let three: Vec<&str> = tasks.lines().take(3).collect();
    let results =
        run("ai-integrate", &["--threads", "1"], &(three.join("\n") + "\n")).assert_success();
    let gathered = run("gather", &["--layout", layout, "--average", "mean"], &results.stdout);
    assert_eq!(gathered.status, 1, "{}", gathered.stderr);
    let summary = gathered.records("summary").remove(0);
    run_script(LOOK, &[summary["final"].as_str().unwrap(), workspace.data.master.to_str().unwrap()])
}

#[test]
fn silx_and_h5py_find_their_way() {
    let Some(seen) = seen("copy") else { return };
    assert_eq!(
        seen["plot"],
        json!([
            true,
            "Intensity (counts / monitor)",
            [24, 300],
            ["rot (°)", "q (nm⁻¹)"],
            "spectrum"
        ])
    );
    assert_eq!(seen["errors"], json!([24, 300]));
    assert_eq!(seen["classes"], json!(["NXroot", "NXentry", "NXprocess", "NXdata", "NXnote"]));
    let f64s = ["monitor", "norm", "norm_sq", "count", "q", "rot"].map(|name| (name, "float64"));
    let others = [("intensity", "float32"), ("intensity_errors", "float32"), ("points", "int64")];
    for (name, dtype) in f64s.into_iter().chain(others).chain([("frame_status", "uint8")]) {
        assert_eq!(seen["dtypes"][name], dtype, "{name}");
    }
    let done = |frame: usize| frame < 21;
    assert_eq!(
        seen["status"],
        json!((0..24).map(|frame| u8::from(!done(frame))).collect::<Vec<_>>())
    );
    assert!(seen["meanings"].as_str().unwrap().starts_with("ok not_integrated absent"));
    assert_eq!(seen["finite"], json!((0..24).map(done).collect::<Vec<_>>()));
    assert_eq!(seen["nans"], json!(["0x7fc00000"]), "one NaN pattern");
    assert_eq!(seen["texts"][1], true);
    assert_eq!(seen["links"], json!(["HardLink", "HardLink", "ExternalLink", "ExternalLink"]));
    assert_eq!(seen["raw"], json!([true, [24, 195, 487]]));
    assert_eq!((&seen["counter"], &seen["same"]), (&json!(24), &json!(true)));
    assert_eq!(seen["kept"]["counters"]["elapsed_time"], json!([24, "s", "float64"]));
    assert_eq!(seen["kept"]["positioners"]["rot"], json!([24, "deg", "float64"]));
    assert_eq!(seen["kept"]["positioners"]["samy"], json!([1, "mm", "float64"]));
    assert_eq!(seen["copied"], true);
    assert_eq!(seen["averaged"], json!(["intensity", ["q"], [300]]));
}

#[test]
fn a_virtual_final_shows_the_same() {
    let (Some(mut copied), Some(mut mapped)) = (seen("copy"), seen("virtual")) else { return };
    assert_eq!(mapped["dtypes"]["signal"], "float64", "the sums are there for nothing");
    for seen in [&mut copied, &mut mapped] {
        seen["dtypes"].take();
    }
    assert_eq!(copied, mapped);
}

#[test]
fn silx_finds_a_plot_with_its_units_in_every_kind_of_final() {
    let workspace = Workspace::new(&small_options());
    let kinds: &[(&[&str], &[&str], &str)] = &[
        (&["--unit", "q_A^-1"], &[], "q (Å⁻¹)"),
        (&["--unit", "r_mm", "--split", "no"], &["--average", "median,5"], "r (mm)"),
        (&["--unit", "2th_rad", "--error-model", "no"], &[], "2θ (rad)"),
        (
            &["--unit", "d_A", "--median", "50", "--radial-range", "0.3,2"],
            &["--layout", "virtual"],
            "d (Å)",
        ),
        (
            &["--unit", "d*2_nm^-2", "--sigma-clip", "4"],
            &["--layout", "integrator", "--average", "mean"],
            "d*² (nm⁻²)",
        ),
        (&["--npt-azim", "7", "--unit", "2th_deg"], &["--average", "sum"], "2θ (°)"),
        (
            &["--npt-azim", "7", "--split", "full"],
            &["--layout", "virtual", "--keep-sums"],
            "q (nm⁻¹)",
        ),
        (&["--npt-azim", "3"], &["--layout", "integrator"], "q (nm⁻¹)"),
        (&["--radial-range", "8,30"], &["--merge", "both"], "q (nm⁻¹)"),
    ];
    let (mut files, mut expected) = (Vec::new(), Vec::new());
    for (number, (plan, gather, radial)) in kinds.iter().enumerate() {
        let out = format!("out{number}");
        let mut tasks = workspace.plan(&out, plan);
        if gather.contains(&"--merge") {
            tasks += &workspace.plan(
                &out,
                &[plan, &["--recipe-name", "other", "--azimuth-range", "0,90"][..]].concat(),
            );
        }
        let results = run("ai-integrate", &["--keep-sums"], &tasks).assert_success().stdout;
        let summary =
            run("gather", gather, &results).assert_success().records("summary").pop().unwrap();
        files.push(summary["final"].as_str().unwrap().to_owned());
        let is_cake = plan.contains(&"--npt-azim");
        let axes = if is_cake {
            json!(["rot (°)", "χ (°)", radial])
        } else {
            json!(["rot (°)", radial])
        };
        let interpretation = if is_cake { "image" } else { "spectrum" };
        expected.push(json!([
            true,
            "Intensity (counts)",
            axes,
            interpretation,
            !plan.contains(&"no") || plan.contains(&"r_mm")
        ]));
    }
    let Some(seen) = run_script(PLOTS, &files.iter().map(String::as_str).collect::<Vec<_>>())
    else {
        return;
    };
    for ((found, expected), (kind, file)) in
        seen.as_array().unwrap().iter().zip(&expected).zip(kinds.iter().zip(&files))
    {
        assert_eq!(found, expected, "{kind:?}: {file}");
    }
}

/// A script that reads a final as users of the ESRF integrator do.
const INTEGRATOR: &str = r#"
import json, sys
import h5py, numpy
import silx.io
from silx.io.nxdata import get_default

out = {}
with silx.io.open(sys.argv[1]) as file:
    plot = get_default(file)
    out["plot"] = [plot.is_valid, plot.signal_name, plot.axes_names]
with h5py.File(sys.argv[1]) as file:
    data = file[file.attrs["default"]]
    data = data[data.attrs["default"]]
    slices = sorted(name for name in file if name.startswith("azim_"))
    out["slices"] = slices
    same = lambda one, two: bool(numpy.array_equal(one, two, equal_nan=True))
    whole = {name: data[name][()].reshape(24, len(slices), -1) for name in ("intensity", "intensity_errors")}
    out["same"] = all(same(file[f"{name}/{theirs}"][()], whole[ours][:, k])
                      for k, name in enumerate(slices) for ours, theirs in (("intensity", "intensities"), ("intensity_errors", "error")))
    first = file[slices[0]]
    out["intensities"] = [str(first["intensities"].dtype), list(first["intensities"].shape)]
    out["ranges"] = [file[name]["azimuthal_range"][()].tolist() for name in slices]
    out["mean"] = [list(first["intensities_mean_xy"].shape), list(first["error_mean_xy"].shape)]
    spread = numpy.nanmax(abs(first["intensities_mean_xy"][()] / numpy.nanmean(first["intensities"][()].astype("f8"), axis=0) - 1))
    out["close"] = bool(spread < 1e-5)
    out["radial"] = [int(file["2th_deg"].attrs["radial"]), same(file["2th_deg"][()], data["2th"][()])]
    out["info"] = {name: file["info"][name].attrs.get("unit") for name in file["info"]}
    out["distance"] = float(file["info/S-D distance (mm)"][0])
    out["files"] = len(file["info/datafiles"])
    out["positions"] = sorted(file["positions"])
    out["keys"] = {name: file["configuration/configuration/azimuthal integration"][name].asstr()[()]
                   for name in ("n_pts", "unit", "pixel_splitting", "error_model")}
    out["program"] = [file[name].asstr()[()] for name in ("program", "version")]
print(json.dumps(out))
"#;

#[test]
fn scripts_for_the_integrator_find_its_names() {
    for slices in [1, 3] {
        let workspace = Workspace::new(&small_options());
        let slicing = ["--npt-azim".to_owned(), slices.to_string()];
        let flags = ["--unit", "2th_deg", "--split", "no", &slicing[0], &slicing[1]];
        let integrate = ["--threads", "1", "--keep-sums"];
        let results = run("ai-integrate", &integrate, &workspace.plan("out", &flags));
        let results = results.assert_success();
        // Sums that are kept serve what comes later.
        run("gather", &["--keep-sums"], &results.stdout).assert_success();
        let arguments = ["--layout", "integrator", "--average", "mean", "--keep-sums"];
        let summary = run("gather", &arguments, &results.stdout)
            .assert_success()
            .records("summary")
            .remove(0);
        assert_eq!(summary["layout"], "integrator");
        let Some(seen) = run_script(INTEGRATOR, &[summary["final"].as_str().unwrap()]) else {
            return;
        };
        let axes = if slices == 1 {
            json!(["rot (°)", "2θ (°)"])
        } else {
            json!(["rot (°)", "χ (°)", "2θ (°)"])
        };
        assert_eq!(seen["plot"], json!([true, "Intensity (counts)", axes]));
        assert_eq!(
            seen["slices"],
            json!((1..=slices).map(|slice| format!("azim_{slice:02}")).collect::<Vec<_>>())
        );
        assert_eq!((&seen["same"], &seen["close"]), (&json!(true), &json!(true)));
        assert_eq!(seen["intensities"], json!(["float32", [24, 300]]));
        let ranges = if slices == 1 {
            json!([[-180.0, 180.0]])
        } else {
            json!([[-180.0, -60.0], [-60.0, 60.0], [60.0, 180.0]])
        };
        assert_eq!(seen["ranges"], ranges);
        assert_eq!(seen["mean"], json!([[300], [300]]));
        assert_eq!(seen["radial"], json!([1, true]));
        assert_eq!(
            (&seen["info"]["S-D distance (mm)"], &seen["info"]["wavelength (A)"]),
            (&json!("mm"), &json!("A"))
        );
        assert!(seen["distance"].as_f64().unwrap() > 50.0);
        assert_eq!(seen["files"], 4);
        let positions = seen["positions"].as_array().unwrap();
        assert!(
            ["exposure_time", "epoch", "rot", "monitor"]
                .iter()
                .all(|name| positions.contains(&json!(name)))
        );
        let keys = json!({"n_pts": "300", "unit": "2th_deg", "pixel_splitting": "no", "error_model": "poisson"});
        assert_eq!((&seen["keys"], &seen["program"][0]), (&keys, &json!("azpipe")));
        // The names stay where a later gather asks for nothing special.
        let again = run("gather", &["--keep-sums"], &results.stdout)
            .assert_success()
            .records("summary")
            .remove(0);
        assert_eq!(
            (&again["layout"], &again["data_digest"]),
            (&json!("integrator"), &summary["data_digest"])
        );
    }
}

#[test]
fn exports_are_by_the_definition_of_nxazint() {
    for (flags, definition) in
        [(&["--unit", "2th_deg"][..], "NXazint1d"), (&["--npt-azim", "8"], "NXazint2d")]
    {
        let workspace = Workspace::new(&small_options());
        let tasks =
            workspace.plan("out", &[flags, &["--by", "frames=9", "--monitor", "monitor"]].concat());
        let some: Vec<&str> = tasks.lines().take(2).collect();
        let results =
            run("ai-integrate", &["--threads", "1"], &(some.join("\n") + "\n")).assert_success();
        let summary =
            run("gather", &["--export", "nxazint"], &results.stdout).records("summary").remove(0);
        let (file, of) =
            (summary["export"][0].as_str().unwrap(), summary["final"].as_str().unwrap());
        assert!(file.ends_with("pilatus.nxs"), "{file}");
        let Some(seen) = run_script(NXAZINT, &[file, of]) else { return };
        let is_cake = definition == "NXazint2d";
        let (radial, units) = if is_cake { ("q", "nm^-1") } else { ("2theta", "deg") };
        let names = if is_cake {
            json!([null, "azimuthal bin center", "q"])
        } else {
            json!([null, "2theta"])
        };
        let interpretation = if is_cake { "image" } else { "spectrum" };
        assert_eq!(seen["plot"], json!([true, "intensity", names, interpretation, true]));
        assert_eq!(seen["definition"], definition);
        assert_eq!(seen["applied"], json!([true, false, true, true]));
        assert_eq!((&seen["classes"], &seen["texts"]), (&json!(true), &json!(true)));
        assert_eq!(seen["units"], json!(["angstrom", "keV", seen["units"][2]]));
        assert!(
            (seen["units"][2].as_f64().unwrap() - 12.398_419_8).abs() < 1e-6,
            "h c in keV angstrom"
        );
        let axes: &[&str] =
            if is_cake { &[".", "azimuthal_axis", "radial_axis"] } else { &[".", "radial_axis"] };
        assert_eq!(seen["data"], json!(["I", axes, interpretation]));
        let row: &[u64] = if is_cake { &[8, 300] } else { &[300] };
        let shape = [&[24], row].concat();
        assert_eq!(seen["names"]["I"], json!([shape, "intensity", "arbitrary units"]));
        assert_eq!(
            seen["names"]["I_errors"],
            json!([shape, "estimated intensity error", "arbitrary units"])
        );
        assert_eq!(seen["names"]["radial_axis"], json!([[300], radial, units]));
        assert_eq!(
            seen["names"]["radial_axis_edges"],
            json!([[301], format!("{radial} bin edges"), units])
        );
        assert_eq!(seen["names"]["norm"][0], json!(row));
        assert_eq!(seen["same"], json!([true, true, true]), "the numbers of the final");
        assert!(seen["edges"].as_f64().unwrap() < 1e-9);
        assert_eq!(seen["monitor"], 24);
        assert!(seen["input"].as_array().unwrap().contains(&json!("poni")), "{}", seen["input"]);
    }
}
