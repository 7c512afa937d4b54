//! The partitions of the cluster, as `sinfo` lists them.

use std::io;

use crate::external_program::{last_line, run_program};
use crate::walltime::Walltime;

/// Nodes of one kind in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The name of the partition.
    pub name: String,
    /// True if jobs that name no partition go here.
    pub is_default: bool,
    /// The longest walltime, or `None` without a limit.
    pub limit: Option<Walltime>,
    /// The logical CPUs of the smallest of these nodes.
    pub cpus: u64,
}

/// Lists all partitions. A partition with several kinds of nodes has an item for each kind.
///
/// # Errors
/// Fails if there is no `sinfo` on this machine, if the controller does not answer, or if the
/// answer is not understood.
pub fn list_partitions() -> io::Result<Vec<Partition>> {
    let output = run_program("sinfo", ["--noheader", "--format=%P|%l|%c"])?;
    if !output.status.success() {
        // It begins its messages with its name, as the caller does.
        return Err(io::Error::other(last_line(&output.stderr).trim_start_matches("sinfo: ")));
    }
    let answer = String::from_utf8_lossy(&output.stdout);
    let parse = |line| {
        let why = || format!("answers `{line}`: expected PARTITION|TIMELIMIT|CPUS");
        parse_partition(line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, why()))
    };
    answer.lines().map(parse).collect()
}

fn parse_partition(line: &str) -> Option<Partition> {
    let [name, limit, cpus] = line.trim().split('|').collect::<Vec<_>>().try_into().ok()?;
    Some(Partition {
        name: name.trim_end_matches('*').to_owned(),
        is_default: name.ends_with('*'),
        limit: if NO_LIMIT.contains(&limit) { None } else { Some(limit.parse().ok()?) },
        // `64+` means that nodes differ, and that the smallest has 64 CPUs.
        cpus: parse_cpus(cpus.trim_end_matches('+'))?,
    })
}

/// The time limits that are none.
const NO_LIMIT: [&str; 3] = ["infinite", "UNLIMITED", "n/a"];

/// Parses a number as `sinfo` writes it: 1024 is `1K`.
fn parse_cpus(text: &str) -> Option<u64> {
    let (digits, factor) = text.strip_suffix('K').map_or((text, 1), |digits| (digits, 1024));
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Returns the partitions that a job may run in: those that `requested` names, separated by commas,
/// or the default one.
pub fn select_partitions<'a>(all: &'a [Partition], requested: Option<&str>) -> Vec<&'a Partition> {
    let is_selected = |partition: &&Partition| match requested {
        Some(requested) => requested.split(',').any(|name| name == partition.name),
        None => partition.is_default,
    };
    all.iter().filter(is_selected).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_sinfo_are_parsed() {
        let lines = ["gpu*|1-00:00:00|64+", "p9gpu|infinite|128", "nice|30:00|56"];
        let all: Vec<_> = lines.map(|line| parse_partition(line).unwrap()).into();
        assert_eq!(select_partitions(&all, None), [&all[0]]);
        assert_eq!(select_partitions(&all, Some("nice,p9gpu")), [&all[1], &all[2]]);
        assert_eq!((all[0].cpus, all[0].limit.unwrap().minutes()), (64, 24 * 60));
        assert_eq!((all[1].limit, all[2].limit.unwrap().minutes()), (None, 30));
        assert_eq!(parse_partition("big|infinite|1K+").map(|partition| partition.cpus), Some(1024));
        for line in [
            "",
            "gpu",
            "gpu|1-00:00:00",
            "gpu|soon|64",
            "gpu|infinite|many",
            "gpu|infinite|64|idle",
        ] {
            assert_eq!(parse_partition(line), None, "{line}");
        }
    }
}
