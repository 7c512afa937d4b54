//! What the cluster says of itself, where there is one.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Output};

use crate::walltime::Walltime;

/// A partition as sinfo shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Whether jobs that name none go to it.
    pub default: bool,
    /// The longest walltime, if there is one.
    pub limit: Option<Walltime>,
    /// The logical CPUs of its smallest nodes.
    pub cpus: u64,
}

/// All partitions, each kind of node in them a line of its own.
///
/// # Errors
/// There is no sinfo, or its controller does not answer.
pub fn partitions() -> io::Result<Vec<Partition>> {
    let output = ask("sinfo", ["--noheader", "--format=%P|%l|%c"])?;
    if !output.status.success() {
        return Err(io::Error::other(last_line(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(partition).collect())
}

fn partition(line: &str) -> Option<Partition> {
    let [name, limit, cpus] = line.trim().split('|').collect::<Vec<_>>().try_into().ok()?;
    let default = name.ends_with('*');
    Some(Partition {
        name: name.trim_end_matches('*').to_owned(),
        default,
        limit: limit.parse().ok(),
        // `64+` where nodes differ: the smallest has 64
        cpus: cpus.trim_end_matches('+').parse().ok()?,
    })
}

/// Those that a job for `wanted`, a list with commas, may run in; without one, the default one.
pub fn of_job<'a>(all: &'a [Partition], wanted: Option<&str>) -> Vec<&'a Partition> {
    match wanted {
        Some(wanted) => all.iter().filter(|one| wanted.split(',').any(|name| name == one.name)).collect(),
        None => all.iter().filter(|one| one.default).collect(),
    }
}

/// Runs a program of SLURM, without the variables of a job that we are in: they would change its mind.
/// One that does not answer within 20 seconds is given up.
///
/// # Errors
/// There is no such program.
pub fn ask<A: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: impl IntoIterator<Item = A>) -> io::Result<Output> {
    let mut command = Command::new("timeout");
    let program = program.as_ref();
    command.arg("20").arg(program).args(arguments);
    for name in std::env::vars_os().map(|(name, _)| name).filter(leaks) {
        command.env_remove(name);
    }
    let output = command.output()?;
    match output.status.code() {
        Some(124) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within 20 s")),
        Some(127) => {
            Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no {} on this machine", program.display())))
        }
        _ => Ok(output),
    }
}

fn leaks(name: &OsString) -> bool {
    let name = name.as_bytes();
    name != b"SLURM_CONF"
        && [&b"SLURM_"[..], b"SBATCH_", b"SQUEUE_", b"SINFO_"].iter().any(|kind| name.starts_with(kind))
}

/// The last line of what a program said, which is its reason.
pub fn last_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinfo_is_understood() {
        let all: Vec<_> =
            ["gpu*|1-00:00:00|64+", "p9gpu|infinite|128", "nice|30:00|56"].map(|line| partition(line).unwrap()).into();
        assert_eq!(of_job(&all, None), [&all[0]]);
        assert_eq!(of_job(&all, Some("nice,p9gpu")), [&all[1], &all[2]]);
        assert_eq!((all[0].cpus, all[0].limit.unwrap().minutes()), (64, 24 * 60));
        assert_eq!((all[1].limit, all[2].limit.unwrap().minutes()), (None, 30));
    }
}
