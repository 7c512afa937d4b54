//! The number of CPUs that this process may use.

use std::ffi::OsStr;
use std::num::NonZero;
use std::thread::available_parallelism;

/// Returns the CPU budget: `SLURM_CPUS_PER_TASK` if it is set, otherwise the lesser of the affinity
/// mask and the cgroup's quota (v1 or v2), and at least 1.
pub fn available_cpus() -> usize {
    let granted = std::env::var_os("SLURM_CPUS_PER_TASK");
    // On Linux, the standard library returns the lesser of mask and quota.
    granted
        .as_deref()
        .and_then(parse_slurm_cpus)
        .unwrap_or_else(|| available_parallelism().map_or(1, NonZero::get))
}

fn parse_slurm_cpus(granted: &OsStr) -> Option<usize> {
    granted.to_str()?.trim().parse().ok().filter(|&cpus| cpus > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_a_positive_number() {
        assert_eq!(parse_slurm_cpus("8".as_ref()), Some(8));
        for none in ["", "0", "-1", "8(x2)"] {
            assert_eq!(parse_slurm_cpus(none.as_ref()), None, "{none:?}");
        }
    }

    #[test]
    fn there_is_always_one() {
        assert!(available_cpus() >= 1);
    }
}
