//! The script that integrates one batch wherever it is started, for engines that start a program
//! for each batch.

use std::ffi::OsStr;

use crate::job_settings::{GatherRun, JobSettings};
use crate::scripts::{
    SETTINGS, Script, assign, assign_list, assign_programs, change_directory, concat, fill_template,
};
use crate::targets::slot::{slot_command, slot_script};

/// Returns the script, which first runs the lines of bash in `setup`, and those that it needs.
pub fn batch_scripts(job: &JobSettings, setup: &OsStr) -> Vec<Script> {
    let settings = concat(&[
        &change_directory(job),
        setup,
        &assign_programs(job, GatherRun::Early),
        &assign("with_slot", slot_command(job).unwrap_or_default()),
        &assign_list("ai_integrate", &job.sizeless_arguments()),
    ]);
    let text = fill_template(include_str!("batch"), &[(SETTINGS, &settings)]);
    let mut scripts = vec![Script::new_executable("batch", text)];
    scripts.extend(slot_script(job));
    scripts
}
