//! The text of every script, from the settings alone: the same input gives the same bytes.

use std::ffi::{OsStr, OsString};

use manners::quote;

use crate::directive;
use crate::job::Job;

/// One script of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its name in the directory.
    pub name: &'static str,
    /// Whether it is to be called; else sbatch or another script reads it.
    pub executable: bool,
    /// Its text. Of bytes, for that is what paths are.
    pub text: OsString,
}

/// The scripts for SLURM, for a plan of so many batches. The last one is `submit`: where it is, all is.
///
/// # Errors
/// A value that no directive can hold.
pub fn for_slurm(job: &Job, batches: usize) -> Result<Vec<Script>, quote::Error> {
    let extra = &job.site.directive;
    let array = directive::lines(&directive::of_array(job, batches)?, extra)?;
    let gather = directive::lines(&directive::of_gather(job)?, extra)?;

    let mut setup = OsString::new();
    for line in &job.site.setup {
        setup.push(line);
        setup.push("\n");
    }
    let bin = assign("bin", job.bin.as_os_str());
    let mut element = setup.clone();
    element.push(&bin);
    element.push(assign_list("srun", &srun(job)));
    element.push(assign_list("ai_integrate", &job.integrate));
    let mut closing = setup;
    closing.push(&bin);
    let mut queue = bin;
    queue.push(assign("workers", job.size.workers.to_string().as_ref()));
    queue.push("# Elements that SLURM allows in an array; where empty, SLURM is asked.\n");
    queue
        .push(assign("max_array_size", job.max_array_size.map(|limit| limit.to_string()).unwrap_or_default().as_ref()));
    let mut enter = OsString::from("cd -- ");
    enter.push(quote::shell(job.dir.as_os_str()));
    enter.push("\n");

    let read = |name, text| Script { name, executable: false, text };
    let called = |name, template| Script { name, executable: true, text: fill(template, &[("# SETTINGS\n", &enter)]) };
    Ok(vec![
        read(
            "job.sbatch",
            fill(include_str!("slurm/job.sbatch"), &[("# DIRECTIVES\n", &array), ("# SETTINGS\n", &element)]),
        ),
        read(
            "gather.sbatch",
            fill(include_str!("slurm/gather.sbatch"), &[("# DIRECTIVES\n", &gather), ("# SETTINGS\n", &closing)]),
        ),
        read("queue.bash", fill(include_str!("slurm/queue.bash"), &[("# SETTINGS\n", &queue)])),
        called("status", include_str!("slurm/status")),
        called("cancel", include_str!("slurm/cancel")),
        called("resubmit", include_str!("slurm/resubmit")),
        called("submit", include_str!("slurm/submit")),
    ])
}

/// srun's arguments. The CPUs are said again because from SLURM 22.05 on, srun does not take them from the job.
fn srun(job: &Job) -> Vec<String> {
    let mut out = ["-n", "1", "-c", &job.size.cpus().to_string()].map(str::to_owned).to_vec();
    out.extend(job.site.cpu_bind.iter().map(|kind| format!("--cpu-bind={kind}")));
    out
}

/// `name=value`, a line of bash.
fn assign(name: &str, value: &OsStr) -> OsString {
    let mut out = OsString::from(format!("{name}="));
    out.push(quote::shell(value));
    out.push("\n");
    out
}

/// `name=(value ...)`, a line of bash.
fn assign_list(name: &str, values: &[String]) -> OsString {
    let mut out = OsString::from(format!("{name}=("));
    for (index, value) in values.iter().enumerate() {
        out.push(if index > 0 { " " } else { "" });
        out.push(quote::shell(value.as_ref()));
    }
    out.push(")\n");
    out
}

/// A template with each marked line replaced by text. The text is not searched for marks again.
fn fill(template: &str, texts: &[(&str, &OsStr)]) -> OsString {
    let mut out = OsString::new();
    let mut rest = template;
    for (mark, text) in texts {
        let (before, after) = rest.split_once(mark).expect("the templates have their marks, in this order");
        out.push(before);
        out.push(text);
        rest = after;
    }
    out.push(rest);
    out
}
