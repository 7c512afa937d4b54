//! The cookbook's commands, pasted from top to bottom into one shell in an empty directory.

use std::path::Path;

use crate::support::{command_succeeds, fenced_blocks, files_below, paste_into_bash, search_path, shown_commands};

const COOKBOOK: &str = include_str!("../../docs/cookbook.md");

/// Commands that need Snakemake's workers or a cluster, each the first line of a `console` block.
const NOT_RUN: [&str; 2] = ["$ flow/submit", "$ sbatch --wait integrate.sbatch"];

/// Programs that entries use, beside the filters and the programs that each Linux has.
const PROGRAMS: [&str; 5] = ["jq", "make", "parallel", "python3", "sha256sum"];

/// Modules that the entries in Python use.
const PYTHON_MODULES: &str = "fabio, h5py, hdf5plugin, matplotlib, numpy, pyFAI, silx";

/// Each directory of results, with the endings of the names of its finals for each scan.
const FINALS: [(&str, &[&str]); 13] = [
    ("PROCESSED", &["pilatus"]),
    ("AUDITED", &["pilatus"]),
    ("BY_XARGS", &["pilatus"]),
    ("BY_PARALLEL", &["pilatus"]),
    ("BY_MAKE", &["pilatus"]),
    ("BY_SBATCH", &["pilatus"]),
    ("LIVE", &["pilatus"]),
    ("HALVES", &["pilatus_left", "pilatus_right", "whole"]),
    ("KEPT", &["pilatus"]),
    ("EXPORTED", &["pilatus"]),
    ("FROM_WORKER", &["pilatus"]),
    ("FROM_INTEGRATOR", &["pilatus"]),
    ("defects/OUT", &["pilatus"]),
];

/// Other files that entries write.
const FILES: [&str; 12] = [
    "audit/messages.log",
    "audit/run.html",
    "audit/settings.sha256",
    "flow/Snakefile",
    "frames.png",
    "integrator-jobs/submit",
    "parallel/log",
    "worker.toml",
    "visitor/ma1234/id31/20260304/PROCESSED_DATA/azpipe/LaB6/LaB6_0001/LaB6_0001_scan0001_pilatus.h5",
    "KEPT/LaB6/LaB6_0001/LaB6_0001_scan0001_pilatus_00003-00005.xye",
    "EXPORTED/LaB6/LaB6_0001/LaB6_0001_scan0002_pilatus.fxye",
    "EXPORTED/LaB6/LaB6_0001/LaB6_0001_scan0002_pilatus.nxs",
];

#[test]
fn pasted_into_a_shell_it_runs_from_top_to_bottom() {
    let path = search_path();
    for program in PROGRAMS {
        let found = command_succeeds(&format!("command -v {program}"), &path);
        assert!(found, "{program} is not installed: scripts/setup tests installs it");
    }
    let modules = PYTHON_MODULES.split(", ").map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let find_modules = format!("python3 -c \"import importlib.util as i; assert all(map(i.find_spec, [{modules}]))\"");
    assert!(
        command_succeeds(&find_modules, &path),
        "python3 lacks one of {PYTHON_MODULES}: scripts/setup tests installs them, and AZPIPE_PEERS names their directory"
    );

    let directory = tempfile::tempdir().expect("a temporary directory");
    let outcome = paste_into_bash(&fenced_blocks(COOKBOOK, "sh").concat(), directory.path(), &path);
    for (results, endings) in FINALS {
        for (scan, ending) in [1, 2].into_iter().flat_map(|scan| endings.iter().map(move |ending| (scan, ending))) {
            assert_exists(directory.path(), &format!("{results}/LaB6/LaB6_0001/LaB6_0001_scan000{scan}_{ending}.h5"));
        }
    }
    for file in FILES {
        assert_exists(directory.path(), file);
    }
    for line in ["all frames have a pattern", "2.1\t[[3,6]]\tmissing\tfile missing: scan0002/pilatus_0001.h5"] {
        assert!(outcome.stdout.lines().any(|printed| printed == line), "{line}\n{}", outcome.stdout);
    }
    let parts = files_below(&directory.path().join("BY_SBATCH/.azpipe/parts"));
    assert!(parts.iter().all(|file| file.extension().is_none_or(|ending| ending != "h5")), "parts remain: {parts:?}");
}

#[test]
fn only_known_commands_are_shown_and_not_run() {
    assert_eq!(shown_commands(COOKBOOK), NOT_RUN);
}

#[test]
fn the_contents_lead_to_every_entry() {
    let entries = COOKBOOK.lines().filter_map(|line| line.strip_prefix("### ").or(line.strip_prefix("## From ")));
    let mut count = 0;
    for entry in entries {
        // As GitHub makes the anchor of a heading.
        let words = entry.to_lowercase().replace('\'', "").replace(' ', "-");
        assert!(COOKBOOK.contains(&format!("#{words})")) || COOKBOOK.contains(&format!("#from-{words})")), "{entry}");
        count += 1;
    }
    assert!(count > 15, "the cookbook has entries");
}

#[track_caller]
fn assert_exists(directory: &Path, file: &str) {
    assert!(directory.join(file).exists(), "{file} is missing");
}
