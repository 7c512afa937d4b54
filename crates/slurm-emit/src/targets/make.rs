//! The plan as a makefile, with a target for each task and one for each scan.

use std::collections::BTreeMap;
use std::ffi::OsString;

use filter::quote;

use crate::batches::Batch;
use crate::error::EmitError;
use crate::job_settings::{GatherRun, JobSettings};
use crate::job_size::JobSize;
use crate::required_tool::RequiredTool;
use crate::scripts::{SETTINGS, Script, concat, fill_template};
use crate::targets::JobTarget;
use crate::targets::single_machine::{self, submit_script, with_control_scripts};
use crate::targets::slot::{slot_command, slot_script};
use crate::targets::unused_flags::BATCH_FLAGS;
use crate::task_plan::TaskPlan;

/// A makefile.
pub struct Make;

impl JobTarget for Make {
    fn name(&self) -> &'static str {
        "make"
    }

    fn help(&self) -> &'static str {
        "A makefile, on this machine"
    }

    fn batches(&self, _: &JobSettings, plan: &TaskPlan) -> Result<Option<Vec<Batch>>, EmitError> {
        task_batches(plan).map(Some)
    }

    fn scripts(
        &self,
        job: &JobSettings,
        plan: &TaskPlan,
        _: &[Batch],
    ) -> Result<Vec<Script>, EmitError> {
        let makefile =
            fill_template(include_str!("make/Makefile"), &[(SETTINGS, &rules(job, plan))]);
        let mut scripts = vec![Script::new_source("Makefile", makefile)];
        scripts.extend(slot_script(job));
        scripts.push(submit_script(job, include_str!("make/submit")));
        Ok(with_control_scripts(job, "workers * engines", scripts))
    }

    fn unused_flags(&self) -> Vec<&'static str> {
        [&single_machine::unused_flags(), BATCH_FLAGS].concat()
    }

    fn required_tools(&self, _: &JobSettings) -> Vec<RequiredTool> {
        vec![RequiredTool::Make4]
    }

    fn ai_integrate_arguments(&self, job: &JobSettings, size: &JobSize) -> Vec<String> {
        job.engine_arguments(size)
    }
}

/// Returns a batch for each task, named by the task's id.
///
/// # Errors
/// Fails if an id can't be the name of a target.
fn task_batches(plan: &TaskPlan) -> Result<Vec<Batch>, EmitError> {
    let is_target_name = |id: &str| {
        !id.is_empty()
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let mut batches = Vec::new();
    for (index, (task, scan)) in plan.ids().enumerate() {
        if let Some(id) = [task, scan].into_iter().find(|id| !is_target_name(id)) {
            return Err(EmitError::MakeTarget { id: id.to_owned() });
        }
        batches.push(Batch { name: task.to_owned(), tasks: index..index + 1 });
    }
    Ok(batches)
}

/// Returns the rules of the makefile.
fn rules(job: &JobSettings, plan: &TaskPlan) -> OsString {
    let mut scans: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (task, scan) in plan.ids() {
        scans.entry(scan).or_default().push(task);
    }
    let slot = slot_command(job)
        .map(|path| concat(&[&quote::make(path.as_os_str()), " ".as_ref()]))
        .unwrap_or_default();
    let program = |name: &str| quote::make(job.bin.join(name).as_os_str());
    // The number of threads is a variable, which ./submit sets for the machine that it runs on.
    let arguments = job.engine_arguments(&job.size);
    let arguments = arguments.iter().scan("", |flag, word| {
        let is_thread_count = *flag == "--threads";
        *flag = word;
        Some(if is_thread_count { "$(THREADS)".into() } else { quote::make(word.as_ref()) })
    });
    let arguments = arguments.collect::<Vec<_>>().join(" ".as_ref());
    let gather_arguments = job.gather_arguments(GatherRun::Early);
    let gather_arguments: OsString =
        gather_arguments.iter().flat_map(|word| [" ".into(), quote::make(word.as_ref())]).collect();
    let scan_targets: String =
        scans.keys().map(|scan| format!(" \\\n\tsummaries/{scan}.jsonl")).collect();
    let mut text = concat(&[
        format!("# Threads of each ai-integrate.\nTHREADS = {}\n\nall:", job.size.threads).as_ref(),
        scan_targets.as_ref(),
        "\n\n# One task, by a process of its own. Its results are kept if the process succeeds, and made again otherwise.\n"
            .as_ref(),
        "results/%.jsonl: batches/01/%.jsonl\n\texec ".as_ref(),
        &slot,
        &program("ai-integrate"),
        " ".as_ref(),
        &arguments,
        " < $< > $@ 2>> logs/$*.log\n\n".as_ref(),
        "# One scan: its output file, from the parts that its tasks wrote. The list of results is a file, because it can be\n\
         # longer than a command line.\nsummaries/%.jsonl:\n\t$(file >summaries/$*.list,$^)xargs cat < summaries/$*.list | "
            .as_ref(),
        &program("gather"),
        &gather_arguments,
        " > $@ 2>> logs/$*.log\n\n".as_ref(),
    ]);
    for (scan, tasks) in &scans {
        text.push(format!("summaries/{scan}.jsonl:"));
        tasks.iter().for_each(|task| text.push(format!(" \\\n\tresults/{task}.jsonl")));
        text.push("\n");
    }
    text
}
