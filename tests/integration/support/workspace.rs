//! A directory with a dataset, and runs of the pipe on it.

use std::ffi::OsStr;
use std::path::PathBuf;

use sample::{Dataset, Options};
use serde_json::Value;
use tempfile::TempDir;

use super::{NO_ARGUMENTS, Outcome, files_below, run};

/// A temporary directory with a dataset and the results of the pipe.
pub struct Workspace {
    directory: TempDir,
    /// The dataset.
    pub data: Dataset,
    /// The scan records of the dataset.
    pub scans: String,
}

/// Returns options of a dataset of 24 frames of a small detector, so that a test takes a second.
pub fn small_options() -> Options {
    let detector = sample::Detector::named("pilatus-100k").expect("a detector of the sample");
    Options {
        scans: 1,
        frames: 24,
        frames_per_file: 7,
        detector,
        dtype: detector.dtype,
        ..Options::default()
    }
}

impl Workspace {
    /// Writes a dataset and finds its scans.
    pub fn new(options: &Options) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let data = sample::write(directory.path(), options).expect("the dataset can be written");
        let scans = run("scan-find", &[&data.raw], "").stdout;
        Self { directory, data, scans }
    }

    /// Finds the scans of the dataset once more, after it was changed.
    pub fn find_scans(&mut self) {
        self.scans = run("scan-find", &[&self.data.raw], "").stdout;
    }

    /// Returns a path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Plans tasks with results below `out`, 300 bins and more flags of plan-split, and returns
    /// their records.
    pub fn plan(&self, out: &str, flags: &[&str]) -> String {
        self.plan_without_bins(out, &[&["--npt", "300"], flags].concat())
    }

    /// Plans tasks as `plan` does, with bins by the flags alone.
    pub fn plan_without_bins(&self, out: &str, flags: &[&str]) -> String {
        let out = self.path(out);
        let mut all = vec![
            OsStr::new("--poni"),
            self.data.poni.as_os_str(),
            OsStr::new("--out"),
            out.as_os_str(),
        ];
        all.extend(flags.iter().map(OsStr::new));
        run("plan-split", &all, &self.scans).assert_success().stdout
    }

    /// Plans tasks whose monitor is a counter that the scans don't have. plan-split itself refuses
    /// that, so the counter is in the scan records for as long as it runs.
    pub fn plan_without_counter(&self, out: &str, name: &str) -> String {
        let out = self.path(out);
        let plan =
            ["--poni".as_ref(), self.data.poni.as_os_str(), "--out".as_ref(), out.as_os_str()];
        let plan = [&plan[..], &["--monitor".as_ref(), OsStr::new(name)]].concat();
        without_counter(
            &run("plan-split", &plan, &with_counter(&self.scans, name)).assert_success().stdout,
            name,
        )
    }

    /// Plans, integrates and gathers below `out`, and returns the outcome of gather.
    pub fn process(&self, out: &str, plan: &[&str], integrate: &[&str]) -> Outcome {
        let results = run("ai-integrate", integrate, &self.plan(out, plan));
        run("gather", NO_ARGUMENTS, &results.stdout)
    }

    /// Returns the paths of the parts below `out`.
    pub fn parts(&self, out: &str) -> Vec<PathBuf> {
        self.working_files(out)
            .into_iter()
            .filter(|path| path.extension().is_some_and(|end| end == "h5"))
            .collect()
    }

    /// Returns all files in the directories of parts below `out`.
    pub fn working_files(&self, out: &str) -> Vec<PathBuf> {
        files_below(&self.path(out).join(".azpipe/parts"))
    }
}

/// Returns the records with a counter of this name added to each.
pub fn with_counter(records: &str, name: &str) -> String {
    edit_counters(records, |counters| {
        counters.insert(name.to_owned(), format!("/1.1/measurement/{name}").into());
    })
}

/// Returns the records without the counter of this name.
pub fn without_counter(records: &str, name: &str) -> String {
    edit_counters(records, |counters| {
        counters.remove(name);
    })
}

fn edit_counters(records: &str, change: impl Fn(&mut serde_json::Map<String, Value>)) -> String {
    let edited = records.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).expect("a JSON line");
        change(record["counters"].as_object_mut().expect("counters"));
        format!("{record}\n")
    });
    edited.collect()
}
