//! A report that lacks something says so, and so does the exit status.

use super::pipe::{Pipe, STEPS};

#[test]
fn a_report_without_its_plot_is_status_1() {
    let pipe = Pipe::new(2);
    let steps = pipe.quiet(&STEPS);
    let step = steps.iter().find(|step| step.filter == "gather-exports").expect("a step");
    // The last that it reads are the patterns that the report shows.
    let last =
        step.calls.iter().find(|(call, _)| *call == "pread").map_or(0, |(_, places)| places.len());
    step.before.write(&pipe.state());
    let ran =
        pipe.run("gather-exports", &step.input, &[("FAULTS_AT", &format!("pread {last} EIO"))]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("report.html: the report lacks the plot"), "{}", ran.stderr);
    assert!(ran.stderr.contains("Input/output error"), "{}", ran.stderr);
}
