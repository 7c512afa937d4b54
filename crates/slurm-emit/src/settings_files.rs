//! Reads settings from files: the profile of a site, and the configuration of ESRF's integrator.
//! Each setting becomes a flag that is put before the flags of the command line, so that the latter
//! win.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use clap::{Args as _, Parser as _};
use system::untrusted_file;
use toml::{Table, Value};

use crate::args::Args;
use crate::cluster_argument::ClusterArgument;
use crate::error::EmitError;
use crate::flags::{JobSizeFlags, SlurmFlags};
use crate::integrator_ini::IntegratorIni;

/// Returns the arguments together with the settings of the files that they name.
///
/// # Errors
/// Fails if a file can't be read, or has a key or a value that no flag has.
pub fn add_settings_from_files(args: Args) -> Result<Args, EmitError> {
    let mut flags = Vec::new();
    let mut files = Vec::new();
    let mut aliases = PartitionAliases::new();
    if let Some(path) = &args.integrator_ini {
        flags.extend(IntegratorIni::read(path)?.job_flags()?);
        files.push(path.display().to_string());
    }
    if let Some(path) = &args.profile {
        let profile = read_profile(path)?;
        flags.extend(profile.flags);
        aliases = profile.partition_aliases;
        files.push(path.display().to_string());
    }
    let mut args = if flags.is_empty() { args } else { parse_with_flags(flags, &files)? };
    for partition in
        [&mut args.slurm.partition, &mut args.slurm.gather_partition].into_iter().flatten()
    {
        if let Some(meaning) = aliases.get(partition) {
            *partition = meaning.clone();
        }
    }
    Ok(args)
}

/// Parses the command line again, with the flags of files before its own.
fn parse_with_flags(flags: Vec<OsString>, files: &[String]) -> Result<Args, EmitError> {
    let mut command_line = std::env::args_os();
    let program = command_line.next().unwrap_or_default();
    // The command line alone was valid, so that an error comes from a file.
    Args::try_parse_from(std::iter::once(program).chain(flags).chain(command_line)).map_err(
        |error| {
            let text = error.to_string();
            let why =
                text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            EmitError::SettingValue { files: files.join(" or "), why }
        },
    )
}

/// Names that a site gives to lists of partitions.
type PartitionAliases = BTreeMap<String, String>;

/// The settings of a site.
#[derive(Debug, Default)]
struct Profile {
    /// The settings as flags.
    flags: Vec<OsString>,
    /// The names that stand for lists of partitions.
    partition_aliases: PartitionAliases,
}

/// The key of a profile whose table names lists of partitions.
const PARTITION_ALIASES: &str = "partition-aliases";

/// The key of a profile whose table has arguments of dask-jobqueue's SLURMCluster.
const DASK: &str = "dask";

/// Reads the profile of a site: TOML, whose keys are the names of flags. A list repeats a flag, and
/// `true` stands for a flag without a value. The table [`PARTITION_ALIASES`] has a list of
/// partitions for each name, and [`DASK`] arguments of SLURMCluster.
fn read_profile(path: &Path) -> Result<Profile, EmitError> {
    let text = untrusted_file::read_text(path).map_err(EmitError::at(path))?;
    let invalid = |why: String| EmitError::Settings { path: path.to_owned(), why };
    let table: Table = text.parse().map_err(|error| invalid(toml_error(&text, &error)))?;
    let known = profile_keys();
    let mut profile = Profile::default();
    let flags = &mut profile.flags;
    for (key, value) in &table {
        if key == PARTITION_ALIASES {
            profile.partition_aliases = partition_aliases(value).map_err(invalid)?;
            continue;
        }
        if key == DASK {
            flags.extend(cluster_arguments(value).map_err(invalid)?);
            continue;
        }
        if !known.contains(key) {
            return Err(invalid(format!(
                "unknown key `{key}`; expected one of {}",
                known.join(", ")
            )));
        }
        match value {
            Value::Boolean(false) => (),
            Value::Boolean(true) => flags.push(format!("--{key}").into()),
            Value::Array(values) => {
                for value in values {
                    flags.push(format_flag(key, value).map_err(invalid)?);
                }
            }
            value => flags.push(format_flag(key, value).map_err(invalid)?),
        }
    }
    Ok(profile)
}

fn partition_aliases(table: &Value) -> Result<PartitionAliases, String> {
    let expected = || {
        format!("`{PARTITION_ALIASES}`: expected a table of strings, such as any = \"gpu,p9gpu\"")
    };
    let table = table.as_table().ok_or_else(expected)?;
    let alias = |(name, list): (&String, &Value)| {
        Ok((name.clone(), list.as_str().ok_or_else(expected)?.to_owned()))
    };
    table.iter().map(alias).collect()
}

/// Returns the arguments of SLURMCluster in a table as flags.
fn cluster_arguments(table: &Value) -> Result<Vec<OsString>, String> {
    let table = table
        .as_table()
        .ok_or_else(|| format!("`{DASK}`: expected a table, such as [dask] with nanny = false"))?;
    let flag = |(name, value): (&String, &Value)| {
        ClusterArgument::new(name, value.clone()).map_err(|why| format!("`{DASK}`: {why}"))?;
        Ok(format!("--cluster-kwarg={name}={value}").into())
    };
    table.iter().map(flag).collect()
}

/// Formats an error of TOML with the number of its line.
fn toml_error(text: &str, error: &toml::de::Error) -> String {
    let line =
        error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    format!("line {line}: {}; expected TOML, such as partition = \"gpu\"", error.message())
}

fn format_flag(key: &str, value: &Value) -> Result<OsString, String> {
    match value {
        Value::String(text) => Ok(format!("--{key}={text}").into()),
        Value::Integer(_) | Value::Float(_) => Ok(format!("--{key}={value}").into()),
        other => Err(format!(
            "`{key}`: expected a string or a number, found a value of type {}",
            other.type_str()
        )),
    }
}

/// Returns the names of the flags that a profile may set: how tasks run, not which tasks, and where
/// to.
fn profile_keys() -> Vec<String> {
    let groups =
        SlurmFlags::augment_args(JobSizeFlags::augment_args(clap::Command::new("profile")));
    let names = groups.get_arguments().filter_map(|argument| argument.get_long());
    ["target", "bin"]
        .into_iter()
        .chain(names)
        .chain([PARTITION_ALIASES, DASK])
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_temporary(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn settings_of_a_profile_become_flags() {
        let file = write_temporary(
            "n-workers = 3\ntime = \"2:00:00\"\nexclusive = true\nbatch-minutes = 2.5\nsetup = [\"module load a\", \"b\"]\n",
        );
        let flags = read_profile(file.path()).unwrap().flags;
        let expected = [
            "--n-workers=3",
            "--time=2:00:00",
            "--exclusive",
            "--batch-minutes=2.5",
            "--setup=module load a",
            "--setup=b",
        ];
        assert_eq!(flags.iter().collect::<std::collections::BTreeSet<_>>().len(), 6);
        assert!(expected.iter().all(|flag| flags.contains(&flag.into())), "{flags:?}");
    }

    #[test]
    fn the_table_dask_has_arguments_of_slurm_cluster() {
        let file = write_temporary(
            "[dask]\nnanny = false\nscheduler_options = { port = 8786 }\nshebang = \"#!/bin/sh\"\n",
        );
        let flags = read_profile(file.path()).unwrap().flags;
        let argument = |flag: &OsString| -> ClusterArgument {
            flag.to_str().unwrap().strip_prefix("--cluster-kwarg=").unwrap().parse().unwrap()
        };
        let literals: Vec<_> = flags
            .iter()
            .map(argument)
            .map(|one| format!("{}={}", one.name, one.literal()))
            .collect();
        let expected =
            ["nanny=False", "scheduler_options={\"port\": 8786}", "shebang=\"#!/bin/sh\""];
        assert!(
            literals.len() == 3 && expected.iter().all(|one| literals.contains(&(*one).to_owned())),
            "{literals:?}"
        );
    }

    #[test]
    fn a_profile_with_an_unknown_key_or_a_wrong_value_is_refused() {
        for (text, expected) in [
            ("n-worker = 3\n", "unknown key `n-worker`; expected one of target, bin, n-workers"),
            ("dir = \"x\"\n", "unknown key `dir`"),
            ("submit = true\n", "unknown key `submit`"),
            (
                "n-workers = {}\n",
                "`n-workers`: expected a string or a number, found a value of type table",
            ),
            ("time = \"5\"\nn-workers\n", "line 2: "),
            (
                "partition-aliases = \"gpu\"\n",
                "`partition-aliases`: expected a table of strings, such as any = ",
            ),
            ("[dask]\ncores = 3\n", "`dask`: cores: give it by --cores"),
            ("dask = 3\n", "`dask`: expected a table"),
            ("[partition-aliases]\nany = 3\n", "`partition-aliases`: expected a table of strings"),
        ] {
            let why = read_profile(write_temporary(text).path()).unwrap_err().to_string();
            assert!(why.contains(expected), "{why}");
        }
    }
}
