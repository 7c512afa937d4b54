//! The configuration of ESRF's integrator: the settings of its jobs, and the pipe that does what it
//! describes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use filter::quote;
use recipe::{IniSection, read_integrator_sections};
use system::untrusted_file;

use crate::error::EmitError;

/// The section that describes the raw data.
const DATASET: &str = "dataset";

/// The section that describes how frames are integrated.
const INTEGRATION: &str = "azimuthal integration";

/// The section that describes the jobs.
const DISTRIBUTION: &str = "computations distribution";

/// The section that describes the results.
const OUTPUT: &str = "output";

/// The keys of [`DISTRIBUTION`] that describe jobs, each with the flag that it becomes.
const JOB_KEYS: [(&str, &str); 6] = [
    ("partition", "partition"),
    ("n_workers", "n-workers"),
    ("ai_engines_per_worker", "ai-engines-per-worker"),
    ("cores_per_worker", "cores-per-worker"),
    ("time", "time"),
    ("memory_per_worker", "mem"),
];

/// A configuration of ESRF's integrator.
#[derive(Debug)]
pub struct IntegratorIni {
    path: PathBuf,
    sections: Vec<IniSection>,
}

impl IntegratorIni {
    /// Reads a configuration.
    ///
    /// # Errors
    /// Fails if the file can't be read, and if it has a section or key that the integrator does not
    /// have.
    pub fn read(path: &Path) -> Result<Self, EmitError> {
        let text = untrusted_file::read_text(path).map_err(EmitError::at(path))?;
        let sections = read_integrator_sections(&text, path).map_err(EmitError::IntegratorIni)?;
        Ok(Self { path: path.to_owned(), sections })
    }

    /// Returns the settings of the jobs as flags of slurm-emit.
    ///
    /// # Errors
    /// Fails if there are none, unless the configuration says what to integrate.
    pub fn job_flags(&self) -> Result<Vec<OsString>, EmitError> {
        let flag = |(key, flag): (&str, &str)| {
            Some(format!("--{flag}={}", self.value(DISTRIBUTION, key)?).into())
        };
        let flags: Vec<OsString> = JOB_KEYS.into_iter().filter_map(flag).collect();
        if flags.is_empty() && self.value(DATASET, "location").is_none() {
            let keys = JOB_KEYS.map(|(key, _)| key).join(", ");
            return Err(self.error(format!(
                "no settings of jobs; expected a section [{DISTRIBUTION}] with some of {keys}"
            )));
        }
        Ok(flags)
    }

    /// Returns the lines of bash that do all that the configuration describes: `scan-find |
    /// plan-split | slurm-emit`. `command_line` is that of slurm-emit, whose program's directory,
    /// if it names one, is that of the other filters, too.
    ///
    /// # Errors
    /// Fails if the configuration does not say where the raw data is, or where results go, or asks
    /// for what azpipe does not do.
    pub fn pipe(&self, command_line: &[OsString]) -> Result<Vec<OsString>, EmitError> {
        let needed = |section, key, what| {
            let missing = || self.error(format!("[{section}] {key}: missing; expected {what}"));
            let value = self.value(section, key);
            value.filter(|value| words(value).next().is_some()).ok_or_else(missing)
        };
        let location = needed(DATASET, "location", "the master files, separated by commas")?;
        let out = needed(OUTPUT, "location", "the directory of the results")?;
        let (program, own_flags) =
            command_line.split_first().expect("a command line has the program's name");

        let mut scan_find = vec![program_beside(program, "scan-find")];
        // The integrator takes the entries whose name ends so.
        let entries = words(self.value(DATASET, "hdf5_entry").unwrap_or("*.1"));
        scan_find.extend(entries.map(|entry| format!("--entry={entry}").into()));
        let detectors = self.value(INTEGRATION, "detector_name").map(words).into_iter().flatten();
        scan_find.extend(detectors.map(|name| format!("--detector={name}").into()));
        for place in words(location) {
            scan_find.push(self.resolve(place)?.into());
        }

        let ini = self.absolute_path()?;
        let mut plan_split =
            vec![program_beside(program, "plan-split"), "--recipe".into(), ini.into()];
        plan_split.extend(["--out".into(), self.resolve(out)?.into()]);
        plan_split.extend(self.replaces_results()?.then(|| "--replace".into()));

        let mut slurm_emit = vec![program.clone()];
        slurm_emit.extend(
            self.average()?.map(|average| format!("--gather-arg=--average={average}").into()),
        );
        let layout = if self.is_repacked()? { "integrator" } else { "virtual" };
        slurm_emit.push(format!("--gather-arg=--layout={layout}").into());
        slurm_emit.extend(own_flags.iter().filter(|flag| *flag != PRINT_PIPE).cloned());

        let mut pipe = [scan_find, plan_split, slurm_emit].map(|command| quoted(&command));
        pipe[0].push(" |");
        pipe[1].push(" |");
        let indented = |command: &OsString| [OsStr::new("    "), command].into_iter().collect();
        Ok(vec!["set -o pipefail".into(), pipe[0].clone(), indented(&pipe[1]), indented(&pipe[2])])
    }

    /// Returns whether results that were made with an earlier configuration are made again, as the
    /// integrator does by default.
    fn replaces_results(&self) -> Result<bool, EmitError> {
        let value =
            self.value(OUTPUT, "existing_output").unwrap_or("reprocess_if_conffile_more_recent");
        match value.to_lowercase().as_str() {
            "skip" => Ok(false),
            "reprocess_if_conffile_more_recent" => Ok(true),
            // Jobs that start again could not tell what they have done from what was there before.
            "overwrite" => Err(self.error(
                "existing_output = overwrite: not supported; remove the results that are to be made again, and the key"
                    .to_owned(),
            )),
            _ => Err(self.error(format!(
                "existing_output = {value}: unknown; expected skip or reprocess_if_conffile_more_recent"
            ))),
        }
    }

    /// Returns gather's word for the average of all frames, if there is to be one.
    fn average(&self) -> Result<Option<String>, EmitError> {
        match self.value(INTEGRATION, "average_xy") {
            None => Ok(None),
            Some(value) => {
                let average = value.to_lowercase();
                match average.as_str() {
                    "0" | "no" | "false" | "none" => Ok(None),
                    "mean" | "sum" | "median" => Ok(Some(average)),
                    _ => Err(self.error(format!(
                        "average_xy = {value}: unknown; expected mean, sum, median or 0"
                    ))),
                }
            }
        }
    }

    /// Returns whether the patterns are copied into one file.
    fn is_repacked(&self) -> Result<bool, EmitError> {
        let value = self.value(OUTPUT, "repack_output").unwrap_or("1");
        match value.to_lowercase().as_str() {
            "1" | "yes" | "true" => Ok(true),
            "0" | "no" | "false" => Ok(false),
            _ => Err(self.error(format!("repack_output = {value}: unknown; expected 0 or 1"))),
        }
    }

    /// Returns the value of a key; `None` if it is absent or empty.
    fn value(&self, section: &str, key: &str) -> Option<&str> {
        let (_, keys) = self.sections.iter().find(|(name, _)| name == section)?;
        let (_, value) = keys.iter().find(|(name, _)| name == key)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns an absolute path of the configuration. As in recipes, a relative path begins in the
    /// directory of the file.
    fn resolve(&self, path: &str) -> Result<PathBuf, EmitError> {
        Ok(self.absolute_path()?.parent().unwrap_or(Path::new("/")).join(path))
    }

    fn absolute_path(&self) -> Result<PathBuf, EmitError> {
        std::path::absolute(&self.path).map_err(EmitError::at(&self.path))
    }

    fn error(&self, why: String) -> EmitError {
        EmitError::Settings { path: self.path.clone(), why }
    }
}

/// The flag of slurm-emit that prints the pipe, which the pipe itself lacks.
const PRINT_PIPE: &str = "--print-pipe";

/// Iterates over the parts of a value between commas; lines of a value continue it.
fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split([',', '\n']).map(str::trim).filter(|word| !word.is_empty())
}

/// Returns another filter by the directory of this program, if the program was called by a path, or
/// else by its name.
fn program_beside(program: &OsStr, name: &str) -> OsString {
    let directory =
        Path::new(program).parent().filter(|directory| !directory.as_os_str().is_empty());
    directory.map_or_else(|| name.into(), |directory| directory.join(name).into())
}

/// Formats a command for a shell.
fn quoted(words: &[OsString]) -> OsString {
    words.iter().map(|word| quote::shell(word)).collect::<Vec<_>>().join(OsStr::new(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<IntegratorIni, EmitError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("id15.ini");
        std::fs::write(&path, text).unwrap();
        IntegratorIni::read(&path)
            .map(|ini| IntegratorIni { path: "/beamtime/id15.ini".into(), ..ini })
    }

    #[test]
    fn settings_of_jobs_become_flags() {
        let ini = read(
            "[dataset]\nlocation = x\n[computations distribution]\n# a comment\nPartition = p9gpu # ours\n\
             n_workers: 2\ntime=\nmemory_per_worker = 100GB\npython_executables = 'x'\n[output]\nlocation = 9\n",
        );
        assert_eq!(
            ini.unwrap().job_flags().unwrap(),
            ["--partition=p9gpu", "--n-workers=2", "--mem=100GB"]
        );
        assert!(read("[output]\n").unwrap().job_flags().is_err());
    }

    #[test]
    fn a_key_or_section_that_the_integrator_does_not_have_is_refused_as_plan_split_does() {
        for (text, expected) in [
            (
                "[computations distribution]\nn_workres = 2\n",
                "unknown key `n_workres`; did you mean `n_workers`?",
            ),
            ("[dataset]\nlocatoin = x\n", "unknown key `locatoin`; did you mean `location`?"),
            ("[outputs]\nlocation = x\n", "unknown key `outputs`; did you mean `output`?"),
        ] {
            let why = read(text).unwrap_err().to_string();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn the_pipe_has_all_that_the_configuration_says() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let text = "[dataset]\nlocation = a/*.h5, /b c.h5\nhdf5_entry = 1.1, 2.1\n[azimuthal integration]\n\
                    detector_name = p3\naverage_xy = Mean\n[output]\nlocation = /out\nrepack_output = True\n";
        let pipe = read(text)
            .unwrap()
            .pipe(&words(&["/opt/slurm-emit", "--dir", "the jobs", "--print-pipe"]))
            .unwrap();
        let expected = [
            "set -o pipefail",
            "/opt/scan-find '--entry=1.1' '--entry=2.1' '--detector=p3' '/beamtime/a/*.h5' '/b c.h5' |",
            "    /opt/plan-split --recipe /beamtime/id15.ini --out /out --replace |",
            "    /opt/slurm-emit '--gather-arg=--average=mean' '--gather-arg=--layout=integrator' \
             --dir 'the jobs'",
        ];
        assert_eq!(pipe, expected);

        let least = "\u{feff}[dataset]\nlocation = a.h5\nhdf5_entry = -1\n[output]\nlocation = out\nexisting_output = skip\nrepack_output = 0\n";
        let pipe = read(least).unwrap().pipe(&words(&["slurm-emit"])).unwrap();
        let expected = [
            "scan-find '--entry=-1' /beamtime/a.h5 |",
            "    plan-split --recipe /beamtime/id15.ini --out /beamtime/out |",
            "    slurm-emit '--gather-arg=--layout=virtual'",
        ];
        assert_eq!(pipe[1..], expected);

        for (text, expected) in [
            (
                "[output]\nlocation = out\n",
                "/beamtime/id15.ini: [dataset] location: missing; expected the master files",
            ),
            (
                "[dataset]\nlocation = ,,\n[output]\nlocation = out\n",
                "[dataset] location: missing; expected the master files",
            ),
            (
                "[dataset]\nlocation = a.h5\n",
                "/beamtime/id15.ini: [output] location: missing; expected the directory",
            ),
            (
                "[dataset]\nlocation = a.h5\n[output]\nlocation = out\nexisting_output = overwrite\n",
                "existing_output = overwrite: not supported; remove the results",
            ),
            (
                "[dataset]\nlocation = a.h5\n[output]\nlocation = out\nexisting_output = skp\n",
                "existing_output = skp: unknown; expected skip or",
            ),
            (
                "[dataset]\nlocation = a.h5\n[output]\nlocation = out\nrepack_output = maybe\n",
                "repack_output = maybe: unknown; expected 0 or 1",
            ),
            (
                "[dataset]\nlocation = a.h5\n[output]\nlocation = out\n[azimuthal integration]\naverage_xy = 1\n",
                "average_xy = 1: unknown; expected mean, sum, median or 0",
            ),
        ] {
            let why = read(text).unwrap().pipe(&words(&["slurm-emit"])).unwrap_err().to_string();
            assert!(why.contains(expected), "{why}");
        }
    }
}
