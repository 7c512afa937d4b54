//! Arguments of dask-jobqueue's SLURMCluster that users give: values of `--cluster-kwarg`, and the
//! table `dask` of a profile.

use std::str::FromStr;

use toml::{Table, Value};

use crate::python_literals::{bool_literal, string_literal};

/// An argument of SLURMCluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterArgument {
    /// The name of the argument in Python.
    pub name: String,
    /// The value, of a type that Python has a literal for.
    pub value: Value,
}

/// Arguments of SLURMCluster that follow from flags of slurm-emit, each with the flag.
const OWN_FLAGS: [(&str, &str); 11] = [
    ("cores", "--cores"),
    ("processes", "--processes"),
    ("memory", "--memory"),
    ("walltime", "--walltime"),
    ("queue", "--queue"),
    ("account", "--account"),
    ("project", "--account"),
    ("job_name", "--job-name"),
    ("interface", "--interface"),
    ("n_workers", "--n-workers or --adapt"),
    ("dashboard_address", "--dashboard"),
];

/// Arguments of SLURMCluster whose values are objects of Python, or that the driver relies on.
const OBJECTS: [&str; 6] = ["job_cls", "loop", "asynchronous", "scheduler_cls", "protocol", "name"];

impl ClusterArgument {
    /// Creates an argument. Hyphens in the name are underscores, as in jobqueue.yaml.
    ///
    /// # Errors
    /// Fails if the name is no name of Python, if slurm-emit has a flag for it, and if Python has
    /// no literal for the value.
    pub fn new(name: &str, value: Value) -> Result<Self, String> {
        let name = name.replace('-', "_");
        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
        if name.is_empty()
            || name.starts_with(|char: char| char.is_ascii_digit())
            || !name.chars().all(is_name)
        {
            return Err(format!(
                "`{name}` is no argument of SLURMCluster; expected one such as death_timeout"
            ));
        }
        if let Some((_, flag)) = OWN_FLAGS.iter().find(|(own, _)| *own == name) {
            return Err(format!("{name}: give it by {flag}"));
        }
        if OBJECTS.contains(&name.as_str()) {
            return Err(format!("{name} can't be changed"));
        }
        format_literal(&value).map_err(|why| format!("{name}: {why}"))?;
        Ok(Self { name, value })
    }

    /// Returns the value as a literal of Python.
    pub fn literal(&self) -> String {
        format_literal(&self.value).expect("checked when it was created")
    }
}

impl FromStr for ClusterArgument {
    type Err = String;

    /// Parses `NAME=VALUE`. A value that is not TOML is a string.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| "expected NAME=VALUE, such as death_timeout=120".to_owned())?;
        let parsed =
            format!("value = {value}").parse::<Table>().ok().filter(|table| table.len() == 1);
        let parsed =
            parsed.and_then(|mut table| table.remove("value")).filter(|value| !value.is_datetime());
        Self::new(name.trim(), parsed.unwrap_or_else(|| Value::String(value.to_owned())))
    }
}

/// Formats a value of TOML as a literal of Python.
fn format_literal(value: &Value) -> Result<String, String> {
    Ok(match value {
        Value::String(text) => string_literal(text),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) if number.is_finite() => format!("{number:?}"),
        Value::Boolean(is_true) => bool_literal(*is_true).to_owned(),
        Value::Array(values) => {
            let literals: Vec<_> = values.iter().map(format_literal).collect::<Result<_, _>>()?;
            format!("[{}]", literals.join(", "))
        }
        Value::Table(table) => {
            let item = |(key, value): (&String, &Value)| {
                Ok::<_, String>(format!("{}: {}", string_literal(key), format_literal(value)?))
            };
            format!("{{{}}}", table.iter().map(item).collect::<Result<Vec<_>, _>>()?.join(", "))
        }
        Value::Float(_) | Value::Datetime(_) => {
            return Err(
                "expected a string, a finite number, true, false, an array or a table".to_owned()
            );
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_toml_or_strings() {
        let literal = |text: &str| text.parse::<ClusterArgument>().unwrap().literal();
        for (text, expected) in [
            ("death_timeout=120", "120"),
            ("death-timeout=1.5", "1.5"),
            ("nanny=false", "False"),
            ("local_directory=/scratch/\"a\"", "\"/scratch/\\\"a\\\"\""),
            ("worker_extra_args=[\"--a\", \"b c\"]", "[\"--a\", \"b c\"]"),
            ("scheduler_options={ port = 1, host = \"h\" }", "{\"port\": 1, \"host\": \"h\"}"),
            ("shebang=#!/bin/bash", "\"#!/bin/bash\""),
            ("local_directory=2026-01-01", "\"2026-01-01\""),
        ] {
            let literal = literal(text);
            // the order of a table's keys is no part of the format
            assert!(
                literal == expected || text.contains('{') && literal.len() == expected.len(),
                "{literal}"
            );
        }
    }

    #[test]
    fn arguments_with_a_flag_of_their_own_are_refused_with_its_name() {
        for (text, expected) in [
            ("cores=4", "cores: give it by --cores"),
            ("job-name=x", "job_name: give it by --job-name"),
            ("job_cls=x", "job_cls can't be changed"),
            ("nanny", "expected NAME=VALUE"),
            ("a b=1", "`a b` is no argument of SLURMCluster"),
            ("death_timeout=inf", "expected a string, a finite number"),
        ] {
            let why = text.parse::<ClusterArgument>().unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
