//! Finals as notebooks and validators read them: xarray by its dimensions, nexusformat by the rules
//! of NeXus, and what is left of a final without its raw file.
//!
//! Runs where `AZPIPE_PEERS`, or `.venv` in the root, is a virtual environment that has xarray and
//! nexusformat.

use std::fs;

use serde_json::{Value, json};

use super::viewers::run_script;
use crate::support::{NO_ARGUMENTS, Workspace, python_with, run, small_options};

/// Prints dimensions, coordinates and units of the patterns of each file, by each library that
/// xarray reads HDF5 with.
const XARRAY: &str = r#"
import json, sys
import numpy, xarray

def look(file, group, engine):
    with xarray.open_dataset(file, group=group, engine=engine) as data:
        intensity = data.intensity
        first = intensity.dims[0]
        half = data.sizes[first] // 2
        chosen = intensity.sel({first: float(data[first][half])}, method="nearest")
        return {
            "dims": list(intensity.dims),
            "same": [list(data[name].dims) for name in ("intensity_errors", "signal") if name in data],
            "coordinates": sorted(data.coords),
            "labels": {name: [data[name].attrs.get("long_name"), data[name].attrs.get("units")]
                       for name in [*intensity.dims, "intensity", "intensity_errors"] if name in data.variables},
            "chosen": bool(numpy.array_equal(chosen, intensity[half], equal_nan=True)),
            "dangling": [name for name in data.dims if name not in data.coords],
        }

print(json.dumps([[look(file, group, engine) for engine in ("h5netcdf", "netcdf4")]
                  for file, group in zip(sys.argv[1::2], sys.argv[2::2])]))
"#;

/// Validates a copy of the file by nexusformat, whose validator opens files for writing, and finds
/// the default plot of the file.
const NEXUS: &str = r#"
import json, logging, shutil, sys
from nexusformat.nexus import nxload
from nexusformat.nexus.validate import logger, validate_file

class Keep(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []
    def emit(self, record):
        self.lines.append([record.levelname, record.getMessage().strip()])

copy = sys.argv[1] + ".copy.h5"
shutil.copy(sys.argv[1], copy)
keep = Keep()
logger.handlers = [keep]
logger.setLevel(logging.WARNING)
validate_file(copy)
root = nxload(sys.argv[1])
plot = root.get_default()
print(json.dumps({
    "errors": [line for level, line in keep.lines if level == "ERROR"],
    "warnings": [line for level, line in keep.lines if level == "WARNING"],
    "plot": [plot.nxpath, plot.nxsignal.nxname, [axis.nxname for axis in plot.nxaxes]],
    "tree": len(root.tree) > 1000,
}))
"#;

/// Prints names, geometry, title and links of a final.
const ORIGIN: &str = r#"
import json, sys
import h5py

with h5py.File(sys.argv[1]) as file:
    entry = file[file.attrs["default"]]
    data = entry[entry.attrs["default"]]
    number = lambda path: [float(entry[path][()]), entry[path].attrs["units"]]
    def shape(path):
        try:
            return list(entry[path].shape)
        except KeyError:
            return None
    detector = "instrument/" + sys.argv[2]
    out = {
        "title": data["title"].asstr()[()],
        "axes": list(data.attrs["axes"]),
        "names": [entry[path].asstr()[()] for path in ("instrument/name", "sample/name", detector + "/description")],
        "classes": [entry[name].attrs["NX_class"] for name in ("instrument", "sample", detector, "instrument/beam")],
        "distance": number(detector + "/distance"),
        "pixel": number(detector + "/x_pixel_size"),
        "wavelength": number("instrument/beam/incident_wavelength"),
        "rot1": number(detector + "/poni/rot1"),
        "raw_file": entry.attrs["raw_file"],
        "links": sorted(name for name in entry["instrument"]
                        if isinstance(entry["instrument"].get(name, getlink=True), h5py.ExternalLink)),
        "frames": shape(detector + "/image"),
        "counter": shape("measurement/monitor"),
    }
print(json.dumps(out))
"#;

#[test]
fn xarray_finds_named_dimensions_and_coordinates() {
    if python_with("xarray, h5netcdf, netCDF4").is_none() {
        return;
    }
    let workspace = Workspace::new(&small_options());
    let kinds: &[(&[&str], &[&str])] = &[
        (&["--unit", "q_A^-1", "--monitor", "monitor"], &["--average", "mean,6"]),
        (&["--npt-azim", "4", "--unit", "2th_deg"], &["--keep-sums"]),
        (
            &["--unit", "d*2_nm^-2", "--monitor", "exposure-time", "--error", "std"],
            &["--layout", "virtual"],
        ),
        (&["--unit", "r_mm", "--npt-azim", "2"], &["--layout", "integrator"]),
    ];
    let mut arguments = Vec::new();
    for (number, (plan, gather)) in kinds.iter().enumerate() {
        let results =
            run("ai-integrate", &["--keep-sums"], &workspace.plan(&format!("out{number}"), plan))
                .assert_success();
        let summary =
            run("gather", gather, &results.stdout).assert_success().records("summary").remove(0);
        arguments.extend([summary["final"].clone(), json!("1.1/pilatus_integrate/integrated")]);
        if gather.contains(&"mean,6") {
            arguments.extend([summary["final"].clone(), json!("1.1/pilatus_integrate/averaged")]);
        }
    }
    let arguments: Vec<&str> =
        arguments.iter().map(|argument| argument.as_str().unwrap()).collect();
    let seen = run_script(XARRAY, &arguments).unwrap();
    let rot = json!(["rot (°)", "deg"]);
    let error = |units: &str| format!("Standard error of the mean ({units})");
    let counts = json!(["Intensity (counts)", "counts"]);
    let monitor = "counts / monitor";
    let expected = [
        (
            json!(["rot", "q"]),
            json!(["frame_status", "monitor", "points", "q", "rot"]),
            json!({"rot": rot, "q": ["q (Å⁻¹)", "A^-1"], "intensity": [format!("Intensity ({monitor})"), "a.u."],
                "intensity_errors": [error(monitor), "a.u."]}),
        ),
        (
            json!(["points", "q"]),
            json!(["points", "q"]),
            json!({"points": ["first frame", null], "q": ["q (Å⁻¹)", "A^-1"],
                "intensity": [format!("Intensity ({monitor})"), "a.u."], "intensity_errors": [error(monitor), "a.u."]}),
        ),
        (
            json!(["rot", "chi", "2th"]),
            json!(["2th", "chi", "frame_status", "points", "rot"]),
            json!({"rot": rot, "chi": ["χ (°)", "deg"], "2th": ["2θ (°)", "deg"], "intensity": counts,
                "intensity_errors": [error("counts"), "counts"]}),
        ),
        (
            json!(["rot", "d*2"]),
            json!(["d*2", "frame_status", "monitor", "points", "rot"]),
            json!({"rot": rot, "d*2": ["d*² (nm⁻²)", "nm^-2"], "intensity": ["Intensity (counts / s)", "counts/s"],
                "intensity_errors": ["Standard deviation of a pixel (counts / s)", "counts/s"]}),
        ),
        (
            json!(["rot", "chi", "r"]),
            json!(["chi", "frame_status", "points", "r", "rot"]),
            json!({"rot": rot, "chi": ["χ (°)", "deg"], "r": ["r (mm)", "mm"], "intensity": counts,
                "intensity_errors": [error("counts"), "counts"]}),
        ),
    ];
    for (found, (dims, coordinates, labels)) in seen.as_array().unwrap().iter().zip(expected) {
        for found in found.as_array().unwrap() {
            assert_eq!((&found["dims"], &found["coordinates"]), (&dims, &coordinates));
            assert_eq!(found["labels"], labels);
            assert!(found["same"].as_array().unwrap().iter().all(|same| *same == dims), "{found}");
            assert_eq!((&found["chosen"], &found["dangling"]), (&json!(true), &json!([])));
        }
    }
}

#[test]
fn finals_keep_the_rules_of_nexus() {
    if python_with("nexusformat").is_none() {
        return;
    }
    for (flags, axes) in
        [(&[][..], json!(["rot", "q"])), (&["--npt-azim", "3"], json!(["rot", "chi", "q"]))]
    {
        let workspace = Workspace::new(&small_options());
        let summary =
            workspace.process("out", flags, &[]).assert_success().records("summary").remove(0);
        let seen = run_script(NEXUS, &[summary["final"].as_str().unwrap()]).unwrap();
        // Entries are named as Bliss names them. Of the warnings, these are about the raw file and
        // about texts that no class has.
        assert_eq!(seen["errors"], json!(["\"1.1\" is an invalid name"]));
        let ours = |line: &&Value| {
            let known =
                ["@raw_file", "Units of NX_ANY not specified", "This field is not defined in NX"];
            !known.iter().any(|known| line.as_str().unwrap().contains(known))
        };
        assert_eq!(seen["warnings"].as_array().unwrap().iter().find(ours), None);
        assert_eq!(seen["plot"], json!(["/1.1/pilatus_integrate/integrated", "intensity", axes]));
        assert_eq!(seen["tree"], true);
    }
}

#[test]
fn names_and_geometry_outlive_the_raw_file() {
    let workspace = Workspace::new(&small_options());
    let results =
        run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &[])).assert_success().stdout;
    let summary =
        run("gather", &["--keep-sums"], &results).assert_success().records("summary").remove(0);
    let of_final = |name: &Value| run_script(ORIGIN, &[name.as_str().unwrap(), "pilatus"]);
    let Some(before) = of_final(&summary["final"]) else { return };
    assert_eq!(before["title"], "LaB6, scan 1.1, pilatus: ascan rot -90 90 23 0.1");
    assert_eq!(before["axes"], json!(["rot", "q"]));
    assert_eq!(before["names"], json!(["ESRF-ID31", "LaB6", "Pilatus100k"]));
    assert_eq!(before["classes"], json!(["NXinstrument", "NXsample", "NXdetector", "NXbeam"]));
    assert_eq!((&before["pixel"], &before["distance"][1]), (&json!([0.000172, "m"]), &json!("m")));
    assert_eq!((&before["wavelength"][1], &before["rot1"][1]), (&json!("angstrom"), &json!("rad")));
    assert_eq!(before["raw_file"], workspace.data.master.to_str().unwrap());
    assert_eq!((&before["frames"], &before["counter"]), (&json!([24, 195, 487]), &json!([24])));
    // Both trees are moved together: the links lead to the raw file at its new place.
    let moved = workspace.path("moved");
    fs::create_dir(&moved).unwrap();
    let old_raw = workspace.data.raw.clone();
    fs::rename(&old_raw, moved.join(old_raw.file_name().unwrap())).unwrap();
    fs::rename(workspace.path("out"), moved.join("out")).unwrap();
    let file = summary["final"].as_str().unwrap();
    let at_new_place =
        json!(moved.join(std::path::Path::new(file).strip_prefix(workspace.path("")).unwrap()));
    assert_eq!(of_final(&at_new_place).unwrap(), before);
    // Without the raw tree, the links are broken, and all else is there, also in a final that is
    // written anew.
    fs::remove_dir_all(moved.join(old_raw.file_name().unwrap())).unwrap();
    let without_frames = json!({"frames": null, "counter": null});
    let expected = merge(&before, &without_frames);
    assert_eq!(of_final(&at_new_place).unwrap(), expected);
    let moved_out = moved.join("out");
    let arguments = ["--from", moved_out.to_str().unwrap(), "--average", "mean", "--keep-sums"];
    let again = run("gather", &arguments, "").assert_success().records("summary").remove(0);
    assert_eq!((&again["final"], &again["data_digest"]), (&at_new_place, &summary["data_digest"]));
    assert_eq!(of_final(&at_new_place).unwrap(), expected);
}

fn merge(one: &Value, other: &Value) -> Value {
    let mut merged = one.clone();
    merged.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    merged
}
