//! Images of a recipe, such as masks, that can't be read for a while.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;

use sample::Options;

use crate::support::{Outcome, Workspace, capture, fault_shim, npy, program, small_options};

#[test]
fn a_scan_whose_mask_can_not_be_read_now_can_be_tried_again() {
    let mut workspace = Workspace::new(&Options { scans: 2, ..small_options() });
    let masks = workspace.path("masks");
    fs::create_dir(&masks).unwrap();
    fs::write(masks.join("mask.npy"), npy("|u1", [195, 487], &[0; 195 * 487])).unwrap();
    let (mask, out) = (masks.join("mask.npy"), workspace.path("out"));
    let (poni, scans) = (workspace.data.poni.clone(), std::mem::take(&mut workspace.scans));
    let plan = [
        "--poni".as_ref(),
        poni.as_os_str(),
        "--mask".as_ref(),
        mask.as_os_str(),
        "--out".as_ref(),
        out.as_os_str(),
    ];
    let run = |filter: &str, arguments: &[&OsStr], input: &str, fault: &str| -> Outcome {
        let mut command = Command::new(program(filter));
        fault_shim::preload(command.args(arguments), &masks).env("FAULTS_AT", fault);
        capture(command, input).into()
    };
    let mut retried = 0;
    let tasks = (1..100).find_map(|k| {
        let ran = run("plan-split", &plan, &scans, &format!("open {k} EIO"));
        let fails = ran.records("fail");
        assert!(fails.iter().all(|fail| fail["retryable"] == true), "open {k}: {ran:?}");
        // The recipe is checked before the first scan, and for the first scan of a layout. The
        // second scan asks again.
        assert_eq!(
            (fails.len(), ran.records("task").is_empty()),
            (usize::from(ran.status == 1), ran.status == 2),
            "{ran:?}"
        );
        retried += fails.len();
        (ran.status == 0).then_some(ran.stdout)
    });
    assert!(retried > 0, "plan-split opens the mask for the first scan");
    let tasks = tasks.expect("a run that opens the mask less often");
    let mut refused = 0;
    let ended = (1..100).find(|k| {
        let ran = run("ai-integrate", &[], &tasks, &format!("open {k} EIO"));
        let fails = ran.records("fail");
        assert!(fails.iter().all(|fail| fail["retryable"] == true), "open {k}: {ran:?}");
        refused += fails.len();
        ran.status == 0
    });
    assert!(ended.is_some() && refused > 0, "{ended:?}, {refused}");
}
