//! A disk that is full, or fails, ends a filter that writes results with status 2 that names the
//! file, at whichever write.

use super::pipe::{PIPE, Pipe};

#[test]
fn a_result_that_cannot_be_written_is_status_2_with_its_name() {
    let pipe = Pipe::new(2);
    let steps = pipe.quiet(&PIPE);
    for filter in ["ai-integrate", "gather"] {
        let step = steps.iter().find(|step| step.filter == filter).expect("a step");
        for call in ["pwrite", "ftruncate"] {
            let count = step
                .calls
                .iter()
                .find(|(counted, _)| *counted == call)
                .map_or(0, |(_, places)| places.len());
            assert!(count > 0, "{filter} makes results without {call}");
            for k in 1..=count {
                // It may fail once, and be free again when the file is closed; or fail from then
                // on.
                for last in [k, usize::MAX >> 1] {
                    step.before.write(&pipe.state());
                    let ran = pipe.run(
                        filter,
                        &step.input,
                        &[("FAULTS_AT", &format!("{call} {k}-{last} ENOSPC"))],
                    );
                    assert_eq!(ran.status, 2, "{filter}: {call} {k}-{last}: {}", ran.stderr);
                    assert!(
                        ran.stderr.contains(".h5: No space left"),
                        "{filter}: {call} {k}: {}",
                        ran.stderr
                    );
                }
            }
        }
    }
}
