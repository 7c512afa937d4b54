//! The directives of the jobs, each with the reason for it.

use std::ffi::{OsStr, OsString};

use manners::quote;

use crate::job::Job;

/// One line `#SBATCH --option=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The flag of slurm-emit that decides it.
    pub from: &'static str,
    /// The option of sbatch.
    pub option: &'static str,
    /// Its value, quoted, if it takes one.
    pub value: Option<OsString>,
    /// Why it is there.
    pub why: String,
}

/// The directives of an array of so many elements.
///
/// # Errors
/// A value that no directive can hold.
pub fn of_array(job: &Job, elements: usize) -> Result<Vec<Directive>, quote::Error> {
    let site = &job.site;
    let mut list = List::new(job);
    list.add("--job-name", "--job-name", &site.job_name, "what squeue shows")?;
    list.place("%A_%a.log", "one log an element; %A is the job, %a the element")?;
    let range = format!("0-{}%{}", elements.saturating_sub(1), job.size.workers);
    let why = format!(
        "an element for each batch, {} at a time; ./submit gives the elements that are missing",
        job.size.workers
    );
    list.add("--n-workers", "--array", &range, &why)?;
    list.optional("--partition", "--partition", site.partition.as_deref(), "where to run")?;
    list.charge()?;
    list.add("--target", "--ntasks", "1", "one ai-integrate an element; its engines are threads")?;
    let cpus = job.size.cpus().to_string();
    let why = format!("{} engines of {} threads", job.size.engines, job.size.threads);
    list.add("--cores-per-worker", "--cpus-per-task", &cpus, &why)?;
    if let Some((option, value)) = job.gpus.option() {
        list.add(option, option, value, "shared by the engines")?;
    }
    if let Some((option, memory)) = job.memory {
        let why = "without it, a job may get all memory of a node, or too little";
        list.add(option, option, &memory.to_string(), why)?;
    }
    list.add(
        "--time",
        "--time",
        &job.walltime.to_string(),
        "the walltime of an element, which SLURM counts in minutes",
    )?;
    let signal = format!("B:USR1@{}", job.drain_seconds);
    let why = "tells this script of the walltime so many seconds before, or up to a minute earlier";
    list.add("--drain-seconds", "--signal", &signal, why)?;
    list.flag("--target", "--requeue", "runs again after the death of its node, and when it asks for it itself");
    let choices = [
        ("--constraint", &site.constraint, "features of the nodes"),
        ("--nodelist", &site.nodelist, "these nodes"),
        ("--exclude", &site.exclude, "other nodes than these"),
        ("--licenses", &site.licenses, "what has to be free"),
        ("--hint", &site.hint, "which hardware threads count as CPUs"),
    ];
    for (option, value, why) in choices {
        list.optional(option, option, value.as_deref(), why)?;
    }
    let threads = site.threads_per_core.map(|threads| threads.to_string());
    list.optional("--threads-per-core", "--threads-per-core", threads.as_deref(), "hardware threads of a core to use")?;
    if site.exclusive {
        list.flag("--exclusive", "--exclusive", "no other job on its node");
    }
    Ok(list.out)
}

/// The directives of the closing gather.
///
/// # Errors
/// A value that no directive can hold.
pub fn of_gather(job: &Job) -> Result<Vec<Directive>, quote::Error> {
    let site = &job.site;
    let mut list = List::new(job);
    list.add("--job-name", "--job-name", &format!("{}-gather", site.job_name), "what squeue shows")?;
    list.place("gather_%j.log", "its log; %j is the job")?;
    let partition = site.gather_partition.as_deref().or(site.partition.as_deref());
    list.optional("--gather-partition", "--partition", partition, "where to run; it needs no GPU")?;
    list.charge()?;
    list.add("--target", "--ntasks", "1", "one process")?;
    let threads = job.size.threads.to_string();
    list.add("--cores-per-worker", "--cpus-per-task", &threads, "as many threads as an engine")?;
    if let Some(("--mem", memory)) = job.memory {
        list.add("--mem", "--mem", &memory.to_string(), "as the array")?;
    }
    list.add("--time", "--time", &job.walltime.to_string(), "as the array")?;
    list.flag("--target", "--requeue", "runs again after the death of its node");
    Ok(list.out)
}

/// The lines of these directives, each below its reason, and of those that the user adds.
///
/// # Errors
/// A line break in what the user adds.
pub fn lines(directives: &[Directive], extra: &[OsString]) -> Result<OsString, quote::Error> {
    let mut out = OsString::new();
    for directive in directives {
        out.push(format!("# {}\n#SBATCH {}", directive.why, directive.option));
        if let Some(value) = &directive.value {
            out.push("=");
            out.push(value);
        }
        out.push("\n");
    }
    for line in extra {
        // It is sbatch's own language, so that it goes in as it is; but a line it has to be.
        quote::sbatch(line)?;
        out.push("#SBATCH ");
        out.push(line);
        out.push("\n");
    }
    Ok(out)
}

struct List<'a> {
    job: &'a Job,
    out: Vec<Directive>,
}

impl<'a> List<'a> {
    fn new(job: &'a Job) -> Self {
        Self { job, out: Vec::new() }
    }

    /// Whether the user wants to do without it.
    fn skips(&self, option: &str) -> bool {
        let name = |option: &str| option.trim_start_matches('-').to_owned();
        self.job.site.skip_directive.iter().any(|skipped| name(skipped) == name(option))
    }

    fn push(&mut self, from: &'static str, option: &'static str, value: Option<OsString>, why: &str) {
        if !self.skips(option) {
            self.out.push(Directive { from, option, value, why: why.to_owned() });
        }
    }

    fn add(&mut self, from: &'static str, option: &'static str, value: &str, why: &str) -> Result<(), quote::Error> {
        let value = quote::sbatch(OsStr::new(value))?;
        self.push(from, option, Some(value), why);
        Ok(())
    }

    fn optional(
        &mut self,
        from: &'static str,
        option: &'static str,
        value: Option<&str>,
        why: &str,
    ) -> Result<(), quote::Error> {
        value.map_or(Ok(()), |value| self.add(from, option, value, why))
    }

    fn flag(&mut self, from: &'static str, option: &'static str, why: &str) {
        self.push(from, option, None, why);
    }

    /// Where the job runs and writes its log.
    fn place(&mut self, log: &str, why: &str) -> Result<(), quote::Error> {
        let dir = self.job.dir.as_os_str();
        let chdir = quote::sbatch(dir)?;
        self.push("--dir", "--chdir", Some(chdir), "plan, batches, results and logs are in here");
        let output = quote::sbatch_log(self.job.dir.join("logs").as_os_str(), log)?;
        self.push("--dir", "--output", Some(output), why);
        self.add("--dir", "--open-mode", "append", "a job that is requeued goes on in its log")
    }

    /// Who pays.
    fn charge(&mut self) -> Result<(), quote::Error> {
        let site = &self.job.site;
        self.optional("--account", "--account", site.account.as_deref(), "who is charged")?;
        self.optional("--qos", "--qos", site.qos.as_deref(), "the quality of service")?;
        self.optional("--reservation", "--reservation", site.reservation.as_deref(), "what is reserved for this")
    }
}
