//! The exposure time of a scan: in seconds, whatever unit the file has it in, and none if frames differ.

use hdf5::types::VarLenUnicode;
use serde_json::{Value, json};
use std::str::FromStr;

use crate::support::{Workspace, open_hdf5_to_write, run, small_options};

#[test]
fn an_exposure_time_is_in_seconds_or_none() {
    let mut workspace = Workspace::new(&small_options());
    let cases: [(&[f64], Option<&str>, Value); 9] = [
        (&[0.25], None, json!(0.25)),
        (&[0.25], Some("s"), json!(0.25)),
        (&[250.0], Some("ms"), json!(0.25)),
        (&[250e3], Some("\u{b5}s"), json!(0.25)),
        (&[0.5], Some("Minutes"), json!(30.0)),
        (&[250.0], Some("frames"), Value::Null),
        (&[0.5, 0.5, 0.5], Some("s"), json!(0.5)),
        (&[0.5, 1.0, 1.0], Some("s"), Value::Null),
        (&[f64::NAN], None, Value::Null),
    ];
    for (values, units, expected) in cases {
        let master = open_hdf5_to_write(&workspace.data.master);
        let parameters = master.group("/1.1/instrument/pilatus/acq_parameters").unwrap();
        parameters.unlink("acq_expo_time").unwrap();
        let builder = parameters.new_dataset::<f64>();
        let data = match values {
            [one] => {
                let data = builder.create("acq_expo_time").unwrap();
                data.write_scalar(one).unwrap();
                data
            }
            list => {
                let data = builder.shape(list.len()).create("acq_expo_time").unwrap();
                data.write_raw(list).unwrap();
                data
            }
        };
        if let Some(units) = units {
            let units = VarLenUnicode::from_str(units).unwrap();
            data.new_attr::<VarLenUnicode>().create("units").unwrap().write_scalar(&units).unwrap();
        }
        drop((data, parameters, master));
        workspace.find_scans();
        let scan: Value = serde_json::from_str(workspace.scans.trim()).unwrap();
        assert_eq!(scan["exposure_time"], expected, "{values:?} {units:?}");
    }
    // Without one, a recipe that needs it is refused.
    let (poni, out) = (workspace.data.poni.to_str().unwrap(), workspace.path("out"));
    let flags = ["--poni", poni, "--npt", "50", "--monitor", "exposure-time", "--out"];
    let planned =
        run("plan-split", &[&flags[..], &[out.to_str().unwrap()]].concat(), &workspace.scans);
    assert!(planned.status == 1 && planned.stderr.contains("exposure"), "{}", planned.stderr);
}

#[test]
fn a_counter_with_more_points_than_frames_is_warned_of() {
    let mut workspace = Workspace::new(&small_options());
    let warned = |workspace: &Workspace| {
        let (poni, out) = (workspace.data.poni.to_str().unwrap(), workspace.path("out"));
        let flags = ["--poni", poni, "--npt", "50", "--monitor", "monitor", "--out"];
        let flags = [&flags[..], &[out.to_str().unwrap()]].concat();
        run("plan-split", &flags, &workspace.scans).assert_success().stderr
    };
    assert_eq!(warned(&workspace), "");
    let master = open_hdf5_to_write(&workspace.data.master);
    let counter = master.group("/1.1/instrument/monitor").unwrap();
    counter.unlink("data").unwrap();
    let points: Vec<f64> = (0..48).map(|point| 1e6 + f64::from(point)).collect();
    counter.new_dataset::<f64>().shape(48).create("data").unwrap().write_raw(&points).unwrap();
    drop((counter, master));
    workspace.find_scans();
    let said = warned(&workspace);
    assert!(
        said.contains("monitor monitor: 48 values for 24 frames: the first 24 are taken"),
        "{said}"
    );
}
