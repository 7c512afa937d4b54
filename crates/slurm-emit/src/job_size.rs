//! The size of the jobs: how many run at a time, engines in a job, threads in an engine.

use std::fmt;

use records::format_count;

/// The number of jobs, of engines in a job, of threads in an engine, and of GPUs of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobSize {
    /// Jobs that run at a time.
    pub workers: u64,
    /// Engines in a job: tasks that it integrates at a time.
    pub engines: u64,
    /// Threads in an engine.
    pub threads: u64,
    /// GPUs of a job, which its engines share.
    pub gpus: u64,
}

/// The sizes that flags gave. The others are defaults, which on a single machine depend on its
/// CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeRequest {
    /// Jobs that run at a time.
    pub workers: Option<u64>,
    /// Engines in a job.
    pub engines: Option<u64>,
    /// Threads in an engine.
    pub threads: Option<u64>,
}

/// The default size of jobs on a cluster, and the largest default of jobs and engines on a single
/// machine.
const DEFAULT: JobSize = JobSize { workers: 4, engines: 8, threads: 4, gpus: 0 };

impl SizeRequest {
    /// Returns the size on a cluster, where nodes have room for the default.
    pub fn on_cluster(self, gpus: u64) -> JobSize {
        JobSize {
            workers: self.workers.unwrap_or(DEFAULT.workers),
            engines: self.engines.unwrap_or(DEFAULT.engines),
            threads: self.threads.unwrap_or(DEFAULT.threads),
            gpus,
        }
    }

    /// Returns the size on a single machine with `cpus` CPUs, all of which the threads of all
    /// engines use together. The scripts find the same size when they run, by `fit_to_machine` in
    /// `targets/single_machine/cpus.bash`.
    pub fn on_machine(self, cpus: u64, gpus: u64) -> JobSize {
        let workers = self.workers.unwrap_or(DEFAULT.workers.min(cpus)).max(1);
        let job_cpus = (cpus / workers).max(1);
        let engines = self.engines.unwrap_or(DEFAULT.engines.min(job_cpus)).max(1);
        let engine_cpus = (job_cpus / engines).max(1);
        JobSize {
            workers,
            engines,
            threads: self.threads.map_or(engine_cpus, |threads| threads.min(engine_cpus)),
            gpus,
        }
    }

    /// Returns a warning if the flags ask for more than a single machine with `cpus` CPUs has.
    pub fn machine_warning(self, cpus: u64) -> Option<String> {
        let size = self.on_machine(cpus, 0);
        let engines = size.workers * size.engines;
        if engines > cpus {
            return Some(format!(
                "{} on this machine, which has {}: they would compete for the CPUs; reduce --n-workers or \
                 --ai-engines-per-worker to {cpus} engines in total",
                format_count(engines, "engine"),
                format_count(cpus, "CPU"),
            ));
        }
        let threads = self.threads.filter(|threads| *threads > size.threads)?;
        Some(format!(
            "--cores-per-worker {threads}: this machine has {}, so that each engine gets {}",
            format_count(cpus, "CPU"),
            format_count(size.threads, "thread"),
        ))
    }
}

impl JobSize {
    /// Returns the CPUs of a job.
    pub fn cpus(&self) -> u64 {
        self.engines * self.threads
    }

    /// Returns a warning for each rule of thumb that the size breaks, with what to do. `node_cpus`
    /// are the logical CPUs of the partition's nodes, if they are known.
    pub fn cluster_warnings(&self, node_cpus: Option<u64>) -> Vec<String> {
        let (engines, cpus) = (self.engines, self.cpus());
        let job = format!(
            "{} x {} = {cpus} CPUs per job",
            format_count(engines, "engine"),
            format_count(self.threads, "thread")
        );
        let cpu_warning = match node_cpus {
            Some(node) if cpus > node => Some(format!(
                "{job}, but a node has {node}: such a job never starts; try {}",
                self.flags_that_fit(node)
            )),
            // No job is smaller than one CPU.
            Some(node) if cpus > node / 2 && cpus > 1 => Some(format!(
                "{job}, more than half of a node's {node} logical CPUs; if two logical CPUs share a core, try {}",
                self.flags_that_fit(node / 2)
            )),
            _ => None,
        };
        cpu_warning.into_iter().chain(self.gpu_warning()).collect()
    }

    /// Returns the flags with which the job has as many CPUs at the most: fewer threads for each engine, or
    /// fewer engines if there are not as many CPUs, or both.
    fn flags_that_fit(&self, cpus: u64) -> String {
        match (cpus / self.engines, cpus / self.threads) {
            (0, 0) => format!("--ai-engines-per-worker 1 --cores-per-worker {}", cpus.max(1)),
            (0, engines) => format!("--ai-engines-per-worker {engines}"),
            (threads, _) => format!("--cores-per-worker {threads}"),
        }
    }

    /// Returns a warning if the GPUs of a job have fewer engines than keep them busy, or more than
    /// are of use.
    pub fn gpu_warning(&self) -> Option<String> {
        let engines = self.engines;
        let useful = 4 * self.gpus..=8 * self.gpus;
        if self.gpus == 0 || useful.contains(&engines) {
            return None;
        }
        let nearest = engines.clamp(*useful.start(), *useful.end());
        Some(format!(
            "{} per job on {}: 4 to 8 engines keep a GPU busy; try --ai-engines-per-worker {nearest}",
            format_count(engines, "engine"),
            format_count(self.gpus, "GPU"),
        ))
    }
}

impl fmt::Display for JobSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workers, engines, threads, gpus } = *self;
        let all = workers * engines;
        let factors = [
            format_count(workers, "job"),
            format_count(engines, "engine"),
            format_count(threads, "thread"),
        ]
        .join(" x ");
        let product = [
            format_count(all, "engine"),
            format_count(all * threads, "CPU"),
            format_count(workers * gpus, "GPU"),
        ]
        .join(", ");
        write!(f, "{factors} = {product}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_flags_are_kept_and_the_rest_fits_the_machine() {
        let none = SizeRequest::default();
        let product = |size: JobSize| (size.workers, size.engines, size.threads);
        let sizes = [1, 2, 6, 16, 128, 256].map(|cpus| product(none.on_machine(cpus, 0)));
        assert_eq!(sizes, [(1, 1, 1), (2, 1, 1), (4, 1, 1), (4, 4, 1), (4, 8, 4), (4, 8, 8)]);
        let given = SizeRequest { workers: Some(3), engines: Some(2), threads: Some(2) };
        assert_eq!(
            [2, 12, 64].map(|cpus| product(given.on_machine(cpus, 0))),
            [(3, 2, 1), (3, 2, 2), (3, 2, 2)]
        );
        assert_eq!(product(none.on_cluster(0)), (4, 8, 4));
    }

    #[test]
    fn scripts_find_the_same_sizes_as_rust() {
        const PIECE: &str = include_str!("targets/single_machine/cpus.bash");
        let requests = [
            SizeRequest::default(),
            SizeRequest { workers: Some(3), ..SizeRequest::default() },
            SizeRequest { engines: Some(2), threads: Some(2), ..SizeRequest::default() },
            SizeRequest { workers: Some(5), engines: Some(9), threads: Some(3) },
        ];
        let mut script = format!("set -euo pipefail\nworkers='' engines='' threads=''\n{PIECE}");
        let mut expected = String::new();
        for request in requests {
            for cpus in [1, 2, 3, 7, 16, 64, 128, 200] {
                let [workers, engines, threads] =
                    [request.workers, request.engines, request.threads]
                        .map(|size| size.map(|size| size.to_string()).unwrap_or_default());
                script += &format!("workers={workers} engines={engines} threads={threads}\n");
                script += &format!(
                    "fit_to_machine {cpus}\nprintf '%s %s %s\\n' \"$workers\" \"$engines\" \"$threads\"\n"
                );
                let size = request.on_machine(cpus, 0);
                expected += &format!("{} {} {}\n", size.workers, size.engines, size.threads);
            }
        }
        script += "count_cpus\n";
        expected += &format!("{}\n", system::cpu::available_cpus());
        let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}
