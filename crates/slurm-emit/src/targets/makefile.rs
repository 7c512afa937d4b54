//! The plan as a makefile: a target for each task, and one for each scan.

use std::collections::BTreeMap;

use filter::quote;

use crate::batches::Batch;
use crate::error::Error;
use crate::job::Job;
use crate::plan::Plan;
use crate::scripts::{SETTINGS, Script, concat, fill};
use crate::targets::local::{submit, with_commands};

/// A batch for each task, named by its id.
///
/// # Errors
/// An id that can't be the name of a target.
pub fn batches(plan: &Plan) -> Result<Vec<Batch>, Error> {
    let plain =
        |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let batch = |(index, (id, scan)): (usize, (&str, &str))| match [id, scan].into_iter().find(|id| !plain(id)) {
        Some(id) => Err(Error::Id { id: id.to_owned() }),
        None => Ok(Batch { name: id.to_owned(), tasks: index..index + 1 }),
    };
    plan.names().enumerate().map(batch).collect()
}

/// The makefile, and the script that calls make.
pub fn scripts(job: &Job, plan: &Plan) -> Vec<Script> {
    let program = |name: &str| quote::make(job.bin.join(name).as_os_str());
    let arguments =
        job.arguments_of_one().iter().map(|word| quote::make(word.as_ref())).collect::<Vec<_>>().join(" ".as_ref());
    let mut scans: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, scan) in plan.names() {
        scans.entry(scan).or_default().push(id);
    }
    let scan_targets: String = scans.keys().map(|scan| format!(" \\\n\tsummaries/{scan}.jsonl")).collect();
    let mut text = concat(&[
        "all:".as_ref(),
        scan_targets.as_ref(),
        "\n\n# A task, by a process of its own: its results are kept where all went well, and made again where not.\n".as_ref(),
        "results/%.jsonl: batches/01/%.jsonl\n\texec ".as_ref(),
        &program("ai-integrate"),
        " ".as_ref(),
        &arguments,
        " < $< > $@ 2>> logs/$*.log\n\n".as_ref(),
        "# A scan: the final file, from the parts that its tasks have written. Its results can be more than a command\n\
         # line holds.\nsummaries/%.jsonl:\n\t$(file >summaries/$*.list,$^)xargs cat < summaries/$*.list | "
            .as_ref(),
        &program("gather"),
        job.allow_missing_argument().map_or("", |_| " --allow-missing").as_ref(),
        " > $@ 2>> logs/$*.log\n\n".as_ref(),
    ]);
    for (scan, ids) in &scans {
        text.push(format!("summaries/{scan}.jsonl:"));
        ids.iter().for_each(|id| text.push(format!(" \\\n\tresults/{id}.jsonl")));
        text.push("\n");
    }
    let makefile = fill(include_str!("make/Makefile"), &[(SETTINGS, &text)]);
    let jobs = job.size.workers * job.size.engines;
    with_commands(job, jobs, vec![Script::read("Makefile", makefile), submit(job, jobs, include_str!("make/submit"))])
}
