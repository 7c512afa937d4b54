//! Names with percent signs, which HDF5 expands in the names of a virtual dataset's sources.

use sample::Options;

use crate::support::{NO_ARGUMENTS, Workspace, run, small_options};

#[test]
fn detectors_and_merges_with_percent_signs_in_their_names_are_read_and_shown() {
    // `%b` stands for a number, `%%` for one percent sign, and all else is an error of HDF5.
    for device in ["p%b", "p%%q", "10% NaCl", "%s%n"] {
        let options = small_options();
        let detector = Box::leak(Box::new(options.detector.with_device(device)));
        let workspace = Workspace::new(&Options { detector, scans: 2, ..options });
        for (out, layout) in [("copied", "copy"), ("mapped", "virtual")] {
            let plan = workspace.plan(out, &["--by", "frames=10"]);
            let results = run("ai-integrate", NO_ARGUMENTS, &plan).assert_success().stdout;
            let merge = format!("all{device}");
            let flags = ["--layout", layout, "--merge-all", &merge];
            let flags = if layout == "copy" { &flags[..] } else { &flags[..2] };
            let gathered = run("gather", flags, &results).assert_success();
            let summaries = gathered.records("summary");
            assert_eq!(summaries.len(), if layout == "copy" { 3 } else { 2 });
            for summary in summaries {
                assert_eq!(summary["complete"], true, "{summary}");
                let file = hdf5::File::open(summary["final"].as_str().unwrap()).unwrap();
                let entry = file.groups().unwrap().remove(0);
                let process = entry.groups().unwrap();
                let process =
                    process.iter().find(|group| group.name().ends_with("_integrate")).unwrap();
                let data = process.dataset("integrated/intensity").unwrap();
                let expected = data.read_raw::<f32>().unwrap();
                assert!(expected.iter().any(|value| *value > 0.0), "{device}: no intensity");
                let measurement = entry.group("measurement").unwrap();
                let shown = measurement.member_names().unwrap();
                let shown = shown.iter().find(|name| name.ends_with("_integrated")).unwrap();
                let shown = measurement.dataset(shown).unwrap().read_raw::<f32>().unwrap();
                let bits = |all: &[f32]| all.iter().map(|one| one.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&shown), bits(&expected), "{device}, {layout}");
            }
        }
    }
}
