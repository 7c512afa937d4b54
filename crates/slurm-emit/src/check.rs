//! Asks beforehand what would go wrong: bash about the scripts, SLURM about the jobs.

use std::fmt::Display;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::args::Target;
use crate::cluster::{self, Partition};
use crate::job::Job;
use crate::scripts::Script;

/// Why the jobs would not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The flag or script that it is about.
    pub about: String,
    /// The reason.
    pub why: String,
}

/// Every reason why the jobs would not run.
///
/// `sbatch --test-only` finds neither a walltime above the partition's limit, which pends for ever, nor
/// errors in the script, and names no partition that it does not know: these are asked for separately.
pub fn refusals(target: Target, job: &Job, scripts: &[Script]) -> Vec<Refusal> {
    let bins = std::iter::once(&job.bin).chain(job.partition_bins.iter().map(|(_, dir)| dir));
    let mut out: Vec<_> = bins.flat_map(|bin| programs(bin)).collect();
    let of_bash = |script: &&Script| script.name != "Makefile" && !script.name.ends_with(".py");
    out.extend(scripts.iter().filter(of_bash).filter_map(|script| syntax(&job.dir, script.name)));
    out.extend(tools(target, job));
    if !target.is_slurm() {
        return out;
    }
    match cluster::partitions() {
        Err(why) => out.push(refusal("sinfo", why)),
        Ok(all) => {
            let mut unfit = partition(job, &all, "--partition", job.site.partition.as_deref());
            if let Some(name) = &job.site.gather_partition {
                unfit.extend(partition(job, &all, "--gather-partition", Some(name)));
            }
            // of a partition that is not there, sbatch would say the same once more
            out.extend(if unfit.is_empty() { resources(job, scripts) } else { unfit });
        }
    }
    out
}

fn refusal(about: impl Display, why: impl Display) -> Refusal {
    Refusal { about: about.to_string(), why: why.to_string() }
}

/// The programs that the jobs call. They may be for the nodes' architecture and not for ours, so that
/// they are looked at and not run.
fn programs(bin: &Path) -> Vec<Refusal> {
    let runs = |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    let missing = ["ai-integrate", "gather"].map(|name| bin.join(name)).into_iter().filter(|path| !runs(path));
    missing.map(|path| refusal("--bin", format!("{}: no such program", path.display()))).collect()
}

/// Whether this machine has what the target needs: GNU's programs, for there are others of the same names, and modules of
/// Python.
fn tools(target: Target, job: &Job) -> Vec<Refusal> {
    let has = |name: &str| format!("import importlib.util as u, sys; sys.exit(u.find_spec('{name}') is None)");
    let python = |module: &'static str| {
        let refused = |why: &dyn Display| refusal(format_args!("--python {}", job.python.display()), why);
        match cluster::ask(&job.python, ["-c", &has(module)]) {
            Ok(output) if output.status.success() => None,
            Ok(output) if output.stderr.is_empty() => Some(refused(&format_args!("it has no module {module}"))),
            Ok(output) => Some(refused(&cluster::last_line(&output.stderr))),
            Err(why) => Some(refused(&why)),
        }
    };
    let program = |name: &'static str, expected: &str| match cluster::ask(name, ["--version"]) {
        Ok(output) if String::from_utf8_lossy(&output.stdout).starts_with(expected) => None,
        Ok(_) => Some(refusal(name, format_args!("expected {expected}, and found another program"))),
        Err(why) => Some(refusal(name, why)),
    };
    // which has `$(file)` since version 4
    let make = || match cluster::ask("make", ["--version"]) {
        Ok(output) if !output.stdout.starts_with(b"GNU Make 3.") => program("make", "GNU Make"),
        Ok(_) => Some(refusal("make", "expected GNU Make 4 or later")),
        Err(why) => Some(refusal("make", why)),
    };
    let missing = match target {
        Target::Slurm => Vec::new(),
        Target::Local => vec![program("xargs", "xargs (GNU findutils)"), program("taskset", "taskset")],
        Target::Parallel => vec![program("parallel", "GNU parallel"), program("taskset", "taskset")],
        Target::Make => vec![make()],
        Target::Dask => vec![python("dask_jobqueue")],
        Target::DaskHere => vec![python("distributed")],
        Target::Ray | Target::RayHere => vec![python("ray")],
    };
    missing.into_iter().flatten().collect()
}

fn syntax(dir: &Path, script: &str) -> Option<Refusal> {
    let path = dir.join(script);
    match cluster::ask("bash", ["-n".as_ref(), path.as_os_str()]) {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let said = cluster::last_line(&output.stderr);
            Some(refusal(script, said.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&said)))
        }
        Err(why) => Some(refusal("bash", why)),
    }
}

/// Whether the partitions exist and allow the walltime.
fn partition(job: &Job, all: &[Partition], flag: &str, wanted: Option<&str>) -> Vec<Refusal> {
    let mut out = Vec::new();
    for name in wanted.iter().flat_map(|wanted| wanted.split(',')) {
        if !all.iter().any(|one| one.name == name) {
            let mut names: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
            names.dedup();
            out.push(refusal(
                format_args!("{flag} {name}"),
                format_args!("no such partition; this cluster has {}", names.join(", ")),
            ));
        }
    }
    let mut named: Vec<&Partition> = cluster::of_job(all, wanted);
    named.dedup_by_key(|one| &one.name);
    for one in named {
        let time = job.walltime;
        if let Some(limit) = one.limit.filter(|limit| limit.minutes() < time.minutes()) {
            let why = format!("partition {} allows {limit}, and the job would wait for ever", one.name);
            out.push(refusal(format_args!("--time {time}"), why));
        }
    }
    out
}

/// Whether SLURM would take the jobs.
fn resources(job: &Job, scripts: &[Script]) -> Vec<Refusal> {
    let mut out = Vec::new();
    // one element: its resources are those of all, and how many there may be is submit's business
    for script in scripts.iter().map(|script| script.name).filter(|name| name.ends_with(".sbatch")) {
        let array = (script == "job.sbatch").then_some("--array=0");
        let path = job.dir.join(script);
        let arguments = ["--test-only"].into_iter().chain(array).map(AsRef::as_ref).chain([path.as_os_str()]);
        match cluster::ask("sbatch", arguments) {
            Ok(output) if output.status.success() => (),
            Ok(output) => out.push(refusal(script, reason(&output.stderr))),
            Err(why) => out.push(refusal("sbatch", why)),
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
