//! Scans that ended well, of which the master's dataset has fewer frames than were requested.

use serde_json::json;

use crate::support::{NO_ARGUMENTS, Workspace, open_hdf5_to_write, run, small_options};

/// Gives the master of a scan of 24 frames this many points, and requests so many frames.
fn rewrite_master(workspace: &Workspace, points: usize, requested: i64) {
    let master = open_hdf5_to_write(&workspace.data.master);
    let instrument = master.group("1.1/instrument").unwrap();
    let values: Vec<f64> = (0..points).map(|point| point as f64).collect();
    for group in instrument.groups().unwrap() {
        for name in group.member_names().unwrap() {
            if group.dataset(&name).is_ok_and(|data| data.shape() == [small_options().frames]) {
                group.unlink(&name).unwrap();
                group.new_dataset_builder().with_data(&values).create(name.as_str()).unwrap();
            }
        }
    }
    let parameters = instrument.group("pilatus/acq_parameters").unwrap();
    parameters.unlink("acq_nb_frames").unwrap();
    let scalar = parameters.new_dataset::<i64>().create("acq_nb_frames").unwrap();
    scalar.write_scalar(&requested).unwrap();
}

#[test]
fn frames_with_points_that_the_dataset_lacks_are_lost() {
    // Where the counters or the detector have another number of their own, nothing is lost.
    for (points, requested, frames) in
        [(30, 30, 30), (30, 28, 28), (24, 30, 24), (30, 24, 24), (30, 1, 24), (30, -1, 24)]
    {
        let case = format!("{points} points, {requested} frames");
        let mut workspace = Workspace::new(&small_options());
        rewrite_master(&workspace, points, requested);
        workspace.find_scans();
        let gathered = workspace.process("out", NO_ARGUMENTS, &[]);
        let summary = gathered.records("summary").remove(0);
        let is_whole = frames == 24;
        assert_eq!(
            [&summary["frames"], &summary["integrated"], &summary["complete"]],
            [&json!(frames), &json!(24), &json!(is_whole)],
            "{case}: {summary}"
        );
        assert_eq!(gathered.status, i32::from(!is_whole), "{case}: {}", gathered.stderr);
        let reason = format!("not in the dataset, which has 24 of {frames} frames");
        let lost = json!([{"range": [[24, frames]], "kind": "not_written", "reason": reason}]);
        let missing = if is_whole { json!(null) } else { lost };
        assert_eq!(summary.get("missing").unwrap_or(&json!(null)), &missing, "{case}");
    }
    let workspace = Workspace::new(&small_options());
    rewrite_master(&workspace, 30, 30);
    let found = run("scan-find", &[&workspace.data.raw], "");
    assert_eq!(found.records("scan")[0]["complete"], false, "{}", found.stdout);
}
