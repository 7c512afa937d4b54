//! How much runs at a time: jobs, engines in a job, threads in an engine.

use std::fmt;

/// The product of workers, engines and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Jobs at a time.
    pub workers: u64,
    /// Engines in a job.
    pub engines: u64,
    /// Threads in an engine.
    pub threads: u64,
    /// GPUs of a job, which its engines share.
    pub gpus: u64,
}

impl Size {
    /// CPUs of a job.
    pub fn cpus(&self) -> u64 {
        self.engines * self.threads
    }

    /// Where the integrator's rules of thumb are broken, and what to do. `node_cpus` are the logical
    /// CPUs of the partition's nodes, where they are known.
    pub fn warnings(&self, node_cpus: Option<u64>) -> Vec<String> {
        let mut out = Vec::new();
        let (engines, threads, cpus) = (self.engines, self.threads, self.cpus());
        let job = format!("{engines} engines x {threads} threads = {cpus} CPUs a job");
        match node_cpus {
            Some(node) if cpus > node => {
                let fits = (node / engines).max(1);
                out.push(format!(
                    "{job}, but a node has {node}: such a job never starts; try --cores-per-worker {fits}"
                ));
            }
            Some(node) if cpus > node / 2 => {
                let fits = (node / 2 / engines).max(1);
                out.push(format!(
                    "{job}, more than half of a node's {node} logical CPUs: where two of them are one core, \
                     try --cores-per-worker {fits}"
                ));
            }
            _ => (),
        }
        out.extend(self.gpu_warning());
        out
    }

    /// The same where all workers share one machine of so many CPUs.
    pub fn warnings_here(&self, cpus: u64) -> Vec<String> {
        let all = self.workers * self.cpus();
        let mut out = Vec::new();
        if all > cpus {
            let fits = (cpus / self.workers / self.engines).max(1);
            out.push(format!(
                "{all} threads on the {cpus} CPUs of this machine; try --cores-per-worker {fits}, or fewer workers"
            ));
        }
        out.extend(self.gpu_warning());
        out
    }

    fn gpu_warning(&self) -> Option<String> {
        let engines = self.engines;
        let fits = 4 * self.gpus..=8 * self.gpus;
        if self.gpus == 0 || fits.contains(&engines) {
            return None;
        }
        let on = if self.gpus == 1 { String::new() } else { format!(" on {} GPUs", self.gpus) };
        let nearest = engines.clamp(*fits.start(), *fits.end());
        Some(format!("{engines} engines{on}: 4 to 8 a GPU keep it busy; try --ai-engines-per-worker {nearest}"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workers, engines, threads, gpus } = *self;
        let all = workers * engines;
        write!(
            f,
            "{workers} jobs x {engines} engines x {threads} threads = {all} engines, {} CPUs, {} GPUs",
            all * threads,
            workers * gpus
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ESRF: Size = Size { workers: 4, engines: 8, threads: 4, gpus: 1 };

    #[test]
    fn the_product_is_told() {
        assert_eq!(ESRF.to_string(), "4 jobs x 8 engines x 4 threads = 32 engines, 128 CPUs, 4 GPUs");
    }

    #[test]
    fn broken_rules_of_thumb_come_with_advice() {
        assert!(ESRF.warnings(Some(64)).is_empty());
        assert!(ESRF.warnings(None).is_empty());
        assert!(ESRF.warnings(Some(63))[0].contains("--cores-per-worker 3"));
        assert!(ESRF.warnings(Some(16))[0].contains("never starts; try --cores-per-worker 2"));
        assert!(Size { engines: 16, ..ESRF }.warnings(None)[0].contains("--ai-engines-per-worker 8"));
        assert!(Size { engines: 1, ..ESRF }.warnings(None)[0].contains("--ai-engines-per-worker 4"));
        assert!(Size { engines: 1, gpus: 0, ..ESRF }.warnings(None).is_empty());
        assert!(ESRF.warnings_here(128).is_empty());
        assert!(ESRF.warnings_here(64)[0].contains("--cores-per-worker 2"));
    }
}
