//! Asks beforehand what would go wrong: bash about the scripts, SLURM about the jobs.

use std::path::Path;

use crate::cluster::{self, Partition};
use crate::job::Job;
use crate::scripts::Script;

/// Every reason why the jobs would not run, each with what it is about.
///
/// `sbatch --test-only` finds neither a walltime above the partition's limit, which pends for ever, nor
/// errors in the script, and names no partition that it does not know: these are asked for separately.
pub fn refusals(job: &Job, scripts: &[Script], batches: usize) -> Vec<String> {
    let mut out = programs(&job.bin);
    out.extend(scripts.iter().filter_map(|script| syntax(&job.dir.join(script.name))));
    match cluster::partitions() {
        Err(why) => out.push(format!("sinfo: {why}")),
        Ok(all) => {
            out.extend(partition(job, &all, "--partition", job.site.partition.as_deref()));
            if let Some(name) = &job.site.gather_partition {
                out.extend(partition(job, &all, "--gather-partition", Some(name)));
            }
            if out.is_empty() {
                out.extend(resources(job, batches));
            }
        }
    }
    out
}

/// The programs that the jobs call. They may be for the nodes' architecture and not for ours, so that
/// they are looked at and not run.
fn programs(bin: &Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    let missing = ["ai-integrate", "gather"].map(|name| bin.join(name)).into_iter().filter(|path| !runs(path));
    missing.map(|path| format!("--bin: {}: no such program", path.display())).collect()
}

fn syntax(script: &Path) -> Option<String> {
    let checked = cluster::ask("bash", ["-n".as_ref(), script.as_os_str()]);
    match checked {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("{}: {}", script.display(), cluster::last_line(&output.stderr))),
        Err(why) => Some(format!("bash: {why}")),
    }
}

/// Whether the partitions exist and allow the walltime.
fn partition(job: &Job, all: &[Partition], flag: &str, wanted: Option<&str>) -> Vec<String> {
    let mut out = Vec::new();
    for name in wanted.iter().flat_map(|wanted| wanted.split(',')) {
        if !all.iter().any(|one| one.name == name) {
            let mut names: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
            names.dedup();
            out.push(format!("{flag} {name}: no such partition; this cluster has {}", names.join(", ")));
        }
    }
    let mut named: Vec<&Partition> = cluster::of_job(all, wanted);
    named.dedup_by_key(|one| &one.name);
    for one in named {
        if let Some(limit) = one.limit.filter(|limit| limit.minutes() < job.site.time.minutes()) {
            out.push(format!(
                "--time {}: partition {} allows {limit}, and the job would wait for ever",
                job.site.time, one.name
            ));
        }
    }
    out
}

/// Whether SLURM would take the jobs.
fn resources(job: &Job, batches: usize) -> Vec<String> {
    // one element: its resources are those of all, and the size of arrays is submit's business
    let array = (batches > 0).then_some("--array=0");
    let mut out = Vec::new();
    for (script, array) in [("job.sbatch", array), ("gather.sbatch", None)] {
        let path = job.dir.join(script);
        let arguments = std::iter::once("--test-only").chain(array).map(AsRef::as_ref).chain([path.as_os_str()]);
        match cluster::ask("sbatch", arguments) {
            Ok(output) if output.status.success() => (),
            Ok(output) => out.push(format!("{script}: {}", reason(&output.stderr))),
            Err(why) => out.push(format!("sbatch: {why}")),
        }
    }
    out
}

/// What sbatch says, without its own frame.
fn reason(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let lines = said.lines().map(|line| line.trim_start_matches("sbatch: ").trim_start_matches("error: "));
    let lines: Vec<_> =
        lines.map(|line| line.trim_start_matches("allocation failure: ")).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { "refused without a reason".to_owned() } else { lines.join("; ") }
}
