//! The dataset that all engines integrate, and what a plain pipe makes of it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use sample::{Dataset, Options};
use serde_json::Value;

use crate::cluster::top;

/// Scan to digest of its patterns.
pub type Digests = BTreeMap<String, String>;

/// Three scans of 24 frames, in a directory that no shell would like.
pub struct Data {
    root: PathBuf,
    data: Dataset,
    found: String,
    digests: Digests,
}

/// What stands before the real ai-integrate: it notes how it was started, and feeds it as slowly as a test wants.
const FEEDER: &str = include_str!("../cluster/feeder");

impl Data {
    /// The dataset, written by whoever asks first.
    pub fn get() -> &'static Self {
        static DATA: OnceLock<Data> = OnceLock::new();
        DATA.get_or_init(|| {
            let root = top().join("it's \"raw\" $data\n`x`");
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
            let found = run(env!("CARGO_BIN_EXE_scan-find"), [&data.raw], "");
            let mut all = Self { root, data, found, digests: Digests::new() };
            let results = run(env!("CARGO_BIN_EXE_ai-integrate"), ["--threads", "1"], &all.plan("piped", "scan", 3));
            all.digests = digests(&run::<&str>(env!("CARGO_BIN_EXE_gather"), [], &results));
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
        run(env!("CARGO_BIN_EXE_plan-split"), flags.into_iter().chain(paths), &found)
    }

    /// Where results of this name go.
    pub fn out(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// What a plain pipe makes of the first scans.
    pub fn piped(&self, scans: usize) -> Digests {
        let ids = self.found.lines().take(scans).map(|line| serde_json::from_str::<Value>(line).unwrap());
        ids.map(|scan| text(&scan["id"])).map(|id| (id.clone(), self.digests[&id].clone())).collect()
    }
}

/// A directory of programs: the real gather, and the real ai-integrate behind the feeder.
pub fn programs(name: &str) -> PathBuf {
    let dir = top().join(name);
    if fs::create_dir(&dir).is_ok() {
        symlink(env!("CARGO_BIN_EXE_gather"), dir.join("gather")).unwrap();
        symlink(env!("CARGO_BIN_EXE_ai-integrate"), dir.join("real")).unwrap();
        let feeder = dir.join(".ai-integrate");
        fs::write(&feeder, FEEDER).unwrap();
        fs::set_permissions(&feeder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(feeder, dir.join("ai-integrate")).unwrap();
    }
    dir
}

fn run<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>, input: &str) -> String {
    let mut command = Command::new(program);
    command.args(arguments);
    let output = feed(command, input);
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a program on lines.
pub fn feed(mut command: Command, lines: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // one that refuses its flags does not read
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    child.wait_with_output().unwrap()
}

/// The digests of complete scans.
pub fn digests(summaries: &str) -> Digests {
    let complete = records(summaries).filter(|record| record["type"] == "summary" && record["complete"] == true);
    complete.map(|record| (text(&record["scan"]), text(&record["data_digest"]))).collect()
}

/// Records, a line each.
pub fn records(lines: &str) -> impl Iterator<Item = Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap())
}

/// All records in the files of a directory. The last line of each may still be in the making.
pub fn content(dir: &Path) -> String {
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
