//! Dark, flat, mask, polarization and monitor together, against pyFAI: with values in each of them
//! that are no measurement.

use std::process::Command;

use sample::{Dtype, Options};
use serde_json::Value;

use super::parts;
use crate::support::{
    NO_ARGUMENTS, Workspace, open_hdf5_to_write, python, run, small_options, source_file,
};

/// A list of numbers.
pub fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn assert_close(found: &[f64], expected: &[f64], scale: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (bin, ((found, expected), scale)) in found.iter().zip(expected).zip(scale).enumerate() {
        assert!(
            (found - expected).abs() <= tolerance * scale,
            "{what}, bin {bin}: {found}, pyFAI {expected}"
        );
    }
}

#[test]
fn all_corrections_at_once_give_what_pyfai_gives() {
    let Some(python) = python() else { return };
    for dtype in [Dtype::I32, Dtype::U16] {
        let workspace = Workspace::new(&Options { frames: 3, dtype, ..small_options() });
        let detector = serde_json::from_str::<Value>(&workspace.scans).unwrap()["detector"]
            .as_str()
            .unwrap()
            .to_owned();
        let folder = workspace.path("x").parent().unwrap().to_owned();
        let mut command = Command::new(&python);
        command
            .arg(source_file("ai_integrate/corrections.py"))
            .args([&workspace.data.master])
            .arg(detector)
            .args([&workspace.data.poni, &folder]);
        let said = command.output().unwrap();
        let said: Value = serde_json::from_slice(&said.stdout)
            .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&said.stderr)));
        let image =
            |name: &str| workspace.path(&format!("{name}.npy")).to_str().unwrap().to_owned();
        let (dark, flat, mask) = (image("dark"), image("flat"), image("mask"));
        let mut flags =
            vec!["--dark", &dark, "--flat", &flat, "--mask", &mask, "--polarization", "0.95"];
        flags.extend(["--monitor", "monitor", "--monitor-reference", "1000"]);
        run("ai-integrate", NO_ARGUMENTS, &workspace.plan("out", &flags)).assert_success();

        let out = workspace.path("out");
        let radial = numbers(&said["radial"]);
        assert_close(&parts::read_per_bin(&out, "radial"), &radial, &radial, 1e-10, "radial");
        let wide = |rows: Vec<(u64, Vec<f32>)>| -> Vec<Vec<f64>> {
            rows.into_iter().map(|(_, row)| row.into_iter().map(f64::from).collect()).collect()
        };
        let patterns = wide(parts::read_rows(&out, "intensity"));
        let errors = wide(parts::read_rows(&out, "intensity_errors"));
        let all = said["patterns"].as_array().unwrap();
        assert_eq!((patterns.len(), errors.len(), all.len()), (3, 3, 3));
        for (frame, ((pattern, errors), peer)) in patterns.iter().zip(&errors).zip(all).enumerate()
        {
            let [intensity, sem, count] = [0, 1, 2].map(|index| numbers(&peer[index]));
            assert!(
                count.iter().all(|count| *count > 0.0),
                "pixels in every bin, so that none is left out"
            );
            // Counts less their dark may cancel: the scale is that of the counts.
            let scale: Vec<f64> =
                intensity.iter().zip(&sem).map(|(value, sem)| value.abs().max(*sem)).collect();
            assert_close(
                pattern,
                &intensity,
                &scale,
                1e-6,
                &format!("{dtype:?} frame {frame}, intensity"),
            );
            assert_close(errors, &sem, &sem, 1e-6, &format!("{dtype:?} frame {frame}, sem"));
        }
    }
}

#[test]
fn a_monitor_that_is_no_list_of_numbers_is_told_as_that() {
    let workspace = Workspace::new(&small_options());
    let master = open_hdf5_to_write(&workspace.data.master);
    let table = master
        .group("1.1/measurement")
        .unwrap()
        .new_dataset::<f64>()
        .shape((24, 3))
        .create("mca")
        .unwrap();
    drop((table, master));
    for (name, part) in [
        ("mca", "does not have one number per frame"),
        ("none", "monitor none: entry 1.1 has no such counter; its counters: "),
    ] {
        let ran = run("ai-integrate", NO_ARGUMENTS, &workspace.plan_without_counter(name, name));
        assert!(ran.status == 1 && ran.stderr.contains(part), "{}", ran.stderr);
    }
}
