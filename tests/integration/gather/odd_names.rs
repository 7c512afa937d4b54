//! Names of entries and detectors, and titles, that HDF5 and XML don't take as they are.

use std::fs;

use serde_json::{Value, json};

use crate::support::{NO_ARGUMENTS, Workspace, run, run_python, small_options};

/// Parses each SVG file, and prints what silx finds at the default of each NeXus file.
const READ: &str = r#"
import json, sys, xml.etree.ElementTree
import h5py, silx.io.nxdata
for path in sys.argv[1:]:
    if path.endswith(".svg"):
        xml.etree.ElementTree.parse(path)
        print(json.dumps("whole"))
    else:
        with h5py.File(path) as file:
            data = silx.io.nxdata.get_default(file)
            print(json.dumps([file.attrs["default"], list(data.signal.shape)]))
"#;

#[test]
fn odd_names_and_titles_are_drawn_and_exported() {
    let workspace = Workspace::new(&small_options());
    let all: String = (0..32).map(|code| char::from_u32(code).unwrap()).collect();
    let names = [
        ("", "", ""),
        (".", ".", "."),
        ("..", "..", ".."),
        ("a/../b", "./c", "]]> & <b>"),
        ("1.1", "p\u{1b}]0;x\u{7}", all.as_str()),
        ("1.1", "\u{fffe}\u{ffff}", "\u{fffe} \u{ffff} \u{85} \u{9b}"),
    ];
    for (index, (entry, detector, title)) in names.into_iter().enumerate() {
        let mut scan: Value = serde_json::from_str(workspace.scans.trim_end()).unwrap();
        scan["entry"] = entry.into();
        scan["detector"] = detector.into();
        scan["title"] = title.into();
        let out = workspace.path(&format!("out{index}"));
        let flags = ["--npt", "50", "--poni", workspace.data.poni.to_str().unwrap(), "--out"];
        let flags = [&flags[..], &[out.to_str().unwrap()]].concat();
        let tasks = run("plan-split", &flags, &format!("{scan}\n")).assert_success().stdout;
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
        let [plot, scans, report] = ["one.svg", "all.svg", "run.html"]
            .map(|name| workspace.path(&format!("{index}{name}")).to_str().unwrap().to_owned());
        let formats = "nxazint,nxcansas,dat,xye,csv,fxye";
        let flags = ["--export", formats, "--plot", &plot, "--plot-scans", &scans, "--report"];
        let gathered = run("gather", &[&flags[..], &[&report]].concat(), &results);
        let summary = gathered.assert_success().records("summary").remove(0);
        let nexus = summary["export"][0].as_str().unwrap();
        for path in [&plot, &scans, &report] {
            let text = fs::read_to_string(path).unwrap();
            assert!(!text.contains(['\u{1b}', '\u{fffe}', '\u{ffff}']), "{path}");
        }
        let Some(read) = run_python(READ, [&plot, &scans, nexus]) else { continue };
        let read = String::from_utf8(read).unwrap();
        let lines: Vec<&str> = read.lines().collect();
        assert_eq!(lines[..2], ["\"whole\""; 2], "{entry:?}");
        let nexus: Value = serde_json::from_str(lines[2]).unwrap();
        assert_eq!(nexus[1], json!([24, 50]), "{entry:?}");
    }
}

/// Its final has a name as an export or map of another one has.
#[test]
fn a_recipe_may_have_the_name_of_a_map_of_another() {
    let mut workspace = Workspace::new(&small_options());
    workspace.find_scans();
    // Of one digest, so that the parts of both are in one directory.
    for name in ["y.map", "y.mine", "y"] {
        let plan = workspace.plan("out", &["--recipe-name", name]);
        let results = run("ai-integrate", NO_ARGUMENTS, &plan).assert_success().stdout;
        run("gather", NO_ARGUMENTS, &results).assert_success();
    }
    let out = workspace.path("out");
    let ran = run("gather", &["--from", out.to_str().unwrap()], "").assert_success();
    let mut found: Vec<String> = ran
        .records("summary")
        .iter()
        .map(|summary| {
            summary["final"].as_str().unwrap().rsplit_once("pilatus").unwrap().1.to_owned()
        })
        .collect();
    found.sort();
    assert_eq!(found, ["_y.h5", "_y.map.h5", "_y.mine.h5"], "{}", ran.stderr);
}
