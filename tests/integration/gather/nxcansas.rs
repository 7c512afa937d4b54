//! Exports by the definition NXcanSAS, as SasView's reader finds them.

use serde_json::{Value, json};

use crate::support::{NO_ARGUMENTS, Workspace, python_with, run, run_python, small_options};

/// Prints what SasView's reader makes of the file, beside the average of the final file, and the
/// classes of the definition.
const READ: &str = r#"
import json, logging, sys
logging.disable(logging.WARNING)
import h5py, numpy
from sasdata.dataloader.loader import Loader

sets = Loader().load(sys.argv[1])
with h5py.File(sys.argv[2]) as final:
    process = final[final.attrs["default"]]
    process = process[process.attrs["default"].split("/")[0]]
    averaged = process["averaged"]
    q = averaged["q"][()]
    scale = {"nm^-1": 0.1, "A^-1": 1.0}[averaged["q"].attrs["units"]]
    intensity, errors = (numpy.atleast_2d(averaged[name][()]) for name in ("intensity", "intensity_errors"))
out = {"sets": []}
for number, found in enumerate(sets):
    there = numpy.isfinite(intensity[number]) & (errors[number] > 0)
    close = lambda one, two: bool(len(one) == len(two) and numpy.allclose(one, two, rtol=1e-12, atol=0))
    out["sets"].append({
        "title": found.title, "run": found.run, "points": int(there.sum()), "errors": found.errors,
        "same": [close(found.x, q[there] * scale), close(found.y, intensity[number][there]), close(found.dy, errors[number][there])],
        "units": [found.x_unit, found.y_unit],
        "detector": [found.detector[0].name, found.detector[0].distance, found.detector[0].distance_unit],
        "source": [found.source.radiation, found.source.wavelength, found.source.wavelength_unit],
        "process": [found.process[0].name, found.process[0].description, found.process[0].term[0].split(" ")[0]],
    })

wanted = {"SASentry": "NXentry", "SASdata": "NXdata", "SASinstrument": "NXinstrument", "SASdetector": "NXdetector",
          "SASsource": "NXsource", "SASprocess": "NXprocess", "SASprocessnote": "NXcollection", "SASroot": "NXroot"}
with h5py.File(sys.argv[1]) as file:
    groups = [file]
    file.visititems(lambda name, item: groups.append(item) if isinstance(item, h5py.Group) else None)
    out["classes"] = all(wanted[group.attrs["canSAS_class"]] == group.attrs["NX_class"] for group in groups)
    entry = file[file.attrs["default"]]
    data = entry[entry.attrs["default"]]
    out["entry"] = [len(file), entry.attrs["version"], entry["definition"].asstr()[()]]
    out["data"] = [data.attrs["signal"], data.attrs["I_axes"], int(data.attrs["Q_indices"]),
                   data["I"].attrs["uncertainties"], data["Q"].attrs["units"], data["Idev"].attrs["long_name"]]
    out["units"] = all("units" in item.attrs for group in groups for item in group.values()
                       if isinstance(item, h5py.Dataset) and item.dtype.kind in "iuf")
import pyFAI
geometry = pyFAI.load(sys.argv[3])
out["pyfai"] = [geometry.getFit2D()["directDist"], geometry.wavelength * 1e10]
out["sets"][0]["detector"][1] = round(out["sets"][0]["detector"][1], 9)
out["pyfai"][0] = round(out["pyfai"][0], 9)
print(json.dumps(out, default=str))
"#;

/// Exports the averages of a scan with more flags for plan-split and gather, and returns what is
/// read from the file.
fn export_and_read(plan_flags: &[&str], gather_flags: &[&str]) -> Option<Value> {
    python_with("sasdata")?;
    let workspace = Workspace::new(&small_options());
    let results = run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", plan_flags))
        .assert_success()
        .stdout;
    let flags = [&["--export", "nxcansas"], gather_flags].concat();
    let summary = run("gather", &flags, &results).assert_success().records("summary").remove(0);
    let export = summary["export"][0].as_str().unwrap();
    assert!(export.ends_with("_pilatus.nxcansas.h5"), "{export}");
    let out = run_python(
        READ,
        [export, summary["final"].as_str().unwrap(), workspace.data.poni.to_str().unwrap()],
    )?;
    Some(serde_json::from_slice(&out).unwrap())
}

#[test]
fn sasview_reads_the_mean_of_all_frames() {
    let Some(read) = export_and_read(&[], &[]) else { return };
    assert_eq!(read["entry"], json!([1, "1.1", "NXcanSAS"]));
    assert_eq!(read["data"], json!(["I", "Q", 0, "Idev", "1/nm", "standard error of the mean"]));
    assert_eq!((&read["classes"], &read["units"]), (&json!(true), &json!(true)));
    let mean = &read["sets"][0];
    assert_eq!(
        (&mean["same"], &mean["errors"]),
        (&json!([true, true, true]), &json!([])),
        "{mean}"
    );
    assert!(mean["points"].as_u64().unwrap() > 250, "{mean}");
    assert!(mean["title"].as_str().unwrap().ends_with(" pilatus: mean of 24 frames"), "{mean}");
    assert_eq!(mean["units"], json!(["A^{-1}", "a.u."]), "SasView converts q to its own unit");
    assert_eq!(mean["process"][0], "azpipe");
    assert_eq!(mean["detector"], json!(["pilatus", read["pyfai"][0], "mm"]));
    assert_eq!(mean["source"], json!(["x-ray", read["pyfai"][1], "angstrom"]));
}

#[test]
fn sasview_reads_each_average_as_a_data_set() {
    let Some(read) = export_and_read(&["--unit", "q_A^-1"], &["--average", "mean,10"]) else {
        return;
    };
    assert_eq!(read["entry"][0], 3);
    assert_eq!(read["data"][4], "1/angstrom");
    let sets = read["sets"].as_array().unwrap();
    assert_eq!(sets.len(), 3);
    for (set, frames) in sets.iter().zip([
        "10 frames from 0 to 9",
        "10 frames from 10 to 19",
        "4 frames from 20 to 23",
    ]) {
        assert_eq!(set["same"], json!([true, true, true]), "{set}");
        assert!(set["title"].as_str().unwrap().ends_with(frames), "{set}");
    }
}

#[test]
fn an_axis_other_than_q_is_refused_with_the_remedy() {
    let workspace = Workspace::new(&small_options());
    let tasks = workspace.plan("out", &["--unit", "2th_deg"]);
    let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
    let refused = run("gather", &["--export", "nxcansas"], &results);
    assert_eq!(refused.status, 1);
    let error = refused.records("fail")[0]["error"].as_str().unwrap().to_owned();
    assert!(
        error.contains(
            "--export nxcansas expects q, such as q_nm^-1: run plan-split with another --unit"
        ),
        "{error}"
    );
}
