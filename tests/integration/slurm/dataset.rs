//! The dataset that all engines integrate, and the digests that a plain pipe gives for it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sample::{Dataset, Options};
use serde_json::Value;

use super::cluster::shared_directory;
use crate::support::{NO_ARGUMENTS, program, run};

/// Scan to digest of its patterns.
pub type Digests = BTreeMap<String, String>;

/// Three scans of 24 frames, in a directory that no shell would like.
pub struct SharedDataset {
    root: PathBuf,
    data: Dataset,
    found: String,
    digests: Digests,
}

/// A script in place of ai-integrate, which logs how it was started, and passes tasks on to the
/// real one as slowly as a test wants.
const FEEDER: &str = include_str!("../../cluster/feeder");

impl SharedDataset {
    /// The dataset, written by whoever asks first.
    pub fn get() -> &'static Self {
        static DATASET: OnceLock<SharedDataset> = OnceLock::new();
        DATASET.get_or_init(|| {
            let root = shared_directory().join("it's \"raw\" $data\n`x`");
            let detector = sample::Detector::named("pilatus-100k").unwrap();
            let options = Options {
                scans: 3,
                frames: 24,
                frames_per_file: 7,
                detector,
                dtype: detector.dtype,
                ..Options::default()
            };
            let data = sample::write(&root, &options).unwrap();
            let found = run("scan-find", &[&data.raw], "").assert_success().stdout;
            let mut all = Self { root, data, found, digests: Digests::new() };
            let results = run("ai-integrate", &["--threads", "1"], &all.plan("piped", "scan", 3))
                .assert_success()
                .stdout;
            all.digests =
                parse_digests(&run("gather", NO_ARGUMENTS, &results).assert_success().stdout);
            assert_eq!(all.digests.len(), 3);
            all
        })
    }

    /// Tasks of the first scans, with results below a directory of this name.
    pub fn plan(&self, out: &str, by: &str, scans: usize) -> String {
        let found: String = self.found.split_inclusive('\n').take(scans).collect();
        let (out, poni) = (self.root.join(out), &self.data.poni);
        let flags = ["--npt", "300", "--by", by].map(OsStr::new);
        let paths = [OsStr::new("--poni"), poni.as_os_str(), OsStr::new("--out"), out.as_os_str()];
        let arguments: Vec<&OsStr> = flags.into_iter().chain(paths).collect();
        run("plan-split", &arguments, &found).assert_success().stdout
    }

    /// Where results of this name go.
    pub fn out(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the digests that a plain pipe gives for the first scans.
    pub fn piped(&self, scans: usize) -> Digests {
        let ids =
            self.found.lines().take(scans).map(|line| serde_json::from_str::<Value>(line).unwrap());
        ids.map(|scan| text(&scan["id"]))
            .map(|id| (id.clone(), self.digests[&id].clone()))
            .collect()
    }
}

/// A directory of programs: the real gather, and the real ai-integrate behind the feeder.
pub fn make_program_directory(name: &str) -> PathBuf {
    let dir = shared_directory().join(name);
    if fs::create_dir(&dir).is_ok() {
        symlink(program("gather"), dir.join("gather")).unwrap();
        symlink(program("ai-integrate"), dir.join("real")).unwrap();
        let feeder = dir.join(".ai-integrate");
        fs::write(&feeder, FEEDER).unwrap();
        fs::set_permissions(&feeder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(feeder, dir.join("ai-integrate")).unwrap();
    }
    dir
}

/// The digests of complete scans.
pub fn parse_digests(summaries: &str) -> Digests {
    let complete = records(summaries)
        .filter(|record| record["type"] == "summary" && record["complete"] == true);
    complete.map(|record| (text(&record["scan"]), text(&record["data_digest"]))).collect()
}

/// Records, a line each.
pub fn records(lines: &str) -> impl Iterator<Item = Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap())
}

/// All records in the files of a directory. The last line of each may still be in the making.
pub fn read_record_files(dir: &Path) -> String {
    let files = fs::read_dir(dir).into_iter().flatten().map(|file| file.unwrap().path());
    let whole_lines = |path: PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        text[..text.rfind('\n').map_or(0, |end| end + 1)].to_owned()
    };
    files.filter(|path| path.extension() == Some("jsonl".as_ref())).map(whole_lines).collect()
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
