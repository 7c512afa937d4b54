//! Settings from files: a site's profile, and the integrator's configuration. Each becomes flags, which
//! stand before those of the command line, so that the latter win.

use std::ffi::OsString;
use std::path::Path;

use clap::{Args as _, Parser as _};
use filter::untrusted_file;
use toml::{Table, Value};

use crate::args::{Args, SiteFlags, SizeFlags};
use crate::error::Error;

/// The arguments with those of the files that they name.
///
/// # Errors
/// A file that can't be read, or says what no flag does.
pub fn with_files(args: Args) -> Result<Args, Error> {
    let mut flags = Vec::new();
    if let Some(path) = &args.integrator_ini {
        flags.extend(of_integrator(path)?);
    }
    if let Some(path) = &args.profile {
        flags.extend(of_profile(path)?);
    }
    if flags.is_empty() {
        return Ok(args);
    }
    let mut all = std::env::args_os();
    let name = all.next().unwrap_or_default();
    Args::try_parse_from(std::iter::once(name).chain(flags).chain(all)).map_err(|why| {
        let text = why.to_string();
        Error::Setting { why: text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned() }
    })
}

/// A site's profile: TOML, whose keys are the names of flags. A list is a flag given several times, and
/// `true` one without a value.
fn of_profile(path: &Path) -> Result<Vec<OsString>, Error> {
    let text = untrusted_file::read_text(path).map_err(Error::at(path))?;
    let wrong = |why: String| Error::Profile { path: path.to_owned(), why };
    let table: Table = text.parse().map_err(|why: toml::de::Error| wrong(why.message().to_owned()))?;
    let known = settings();
    let mut flags = Vec::new();
    for (key, value) in &table {
        if !known.contains(key) {
            return Err(wrong(format!("unknown key `{key}`; expected one of {}", known.join(", "))));
        }
        match value {
            Value::Boolean(false) => (),
            Value::Boolean(true) => flags.push(format!("--{key}").into()),
            Value::Array(values) => {
                for value in values {
                    flags.push(flag(key, value).map_err(wrong)?);
                }
            }
            value => flags.push(flag(key, value).map_err(wrong)?),
        }
    }
    Ok(flags)
}

fn flag(key: &str, value: &Value) -> Result<OsString, String> {
    match value {
        Value::String(text) => Ok(format!("--{key}={text}").into()),
        Value::Integer(_) | Value::Float(_) => Ok(format!("--{key}={value}").into()),
        other => Err(format!("`{key}`: expected a text or a number, not {}", other.type_str())),
    }
}

/// Returns the names of the flags that a profile may set: how to run the tasks, not which tasks, where, or whether.
fn settings() -> Vec<String> {
    let groups = SiteFlags::augment_args(SizeFlags::augment_args(clap::Command::new("profile")));
    let names = groups.get_arguments().filter_map(|argument| argument.get_long());
    ["target", "bin"].into_iter().chain(names).map(str::to_owned).collect()
}

/// Keys of the integrator's section `computations distribution`, and the flags that they are.
const INTEGRATOR: [(&str, &str); 6] = [
    ("partition", "partition"),
    ("n_workers", "n-workers"),
    ("ai_engines_per_worker", "ai-engines-per-worker"),
    ("cores_per_worker", "cores-per-worker"),
    ("time", "time"),
    ("memory_per_worker", "mem"),
];

/// What the integrator's configuration says of its jobs.
fn of_integrator(path: &Path) -> Result<Vec<OsString>, Error> {
    let text = untrusted_file::read_text(path).map_err(Error::at(path))?;
    let flags: Vec<OsString> = distribution(&text)
        .filter_map(|(key, value)| {
            let (_, flag) = INTEGRATOR.iter().find(|(name, _)| *name == key)?;
            (!value.is_empty()).then(|| format!("--{flag}={value}").into())
        })
        .collect();
    match flags.is_empty() {
        true => Err(Error::Profile { path: path.to_owned(), why: "no [computations distribution]".to_owned() }),
        false => Ok(flags),
    }
}

/// Keys and values of the section, as Python's configparser reads them; comments go.
fn distribution(text: &str) -> impl Iterator<Item = (String, &str)> {
    let mut inside = false;
    text.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            inside = section.trim() == "computations distribution";
            return None;
        }
        if !inside || line.starts_with(['#', ';']) {
            return None;
        }
        let (key, value) = line.split_once(['=', ':'])?;
        let value = value.split(" #").next().and_then(|value| value.split(" ;").next()).unwrap_or(value);
        Some((key.trim().to_lowercase(), value.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn a_profile_is_flags() {
        let file = written(
            "n-workers = 3\ntime = \"2:00:00\"\nexclusive = true\nbatch-minutes = 2.5\nsetup = [\"module load a\", \"b\"]\n",
        );
        let flags = of_profile(file.path()).unwrap();
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
    fn a_profile_with_a_wrong_word_is_refused() {
        for (text, expected) in [
            ("n-worker = 3\n", "unknown key `n-worker`; expected one of target, bin, n-workers"),
            ("dir = \"x\"\n", "unknown key `dir`"),
            ("submit = true\n", "unknown key `submit`"),
            ("n-workers = {}\n", "`n-workers`: expected a text or a number, not table"),
            ("n-workers\n", "key"),
        ] {
            let why = of_profile(written(text).path()).unwrap_err().to_string();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn the_integrators_configuration_is_flags() {
        let text = "[dataset]\nlocation = x\n[computations distribution]\n# a comment\nPartition = p9gpu ; ours\n\
                    n_workers: 2\ntime=\nmemory_per_worker = 100GB\npython_executables = 'x'\n[output]\nn_workers = 9\n";
        let flags = of_integrator(written(text).path()).unwrap();
        assert_eq!(flags, ["--partition=p9gpu", "--n-workers=2", "--mem=100GB"]);
        assert!(of_integrator(written("[output]\n").path()).is_err());
    }
}
