//! The script that numbers the processes of a machine, for targets that start one process per
//! engine.

use std::path::PathBuf;

use crate::job_settings::JobSettings;
use crate::scripts::{SETTINGS, Script, change_directory, fill_template};

/// The name of the script.
const NAME: &str = "with_slot";

/// Returns the script, if `--device slot` needs it.
pub fn slot_script(job: &JobSettings) -> Option<Script> {
    let text = || {
        fill_template(
            include_str!("single_machine/with_slot"),
            &[(SETTINGS, &change_directory(job))],
        )
    };
    job.uses_device_slot().then(|| Script::new_executable(NAME, text()))
}

/// Returns the path of the script, which comes before the words of a command, if `--device slot`
/// needs it.
pub fn slot_command(job: &JobSettings) -> Option<PathBuf> {
    job.uses_device_slot().then(|| job.dir.join(NAME))
}
