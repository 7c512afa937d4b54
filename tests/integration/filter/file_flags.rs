//! Every flag and operand that names a file or a directory, as the help lists them, given
//! something else: it ends soon, with an error that names the path, and leaves the thing as it was.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    NO_ARGUMENTS, Outcome, Workspace, capture_within_a_minute, program, run, small_options,
};

/// Name of an operand in place of a flag's.
const OPERAND: &str = "operand";

/// Kind of thing that stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    Fifo,
    Device,
    Directory,
    Empty,
    Garbage,
    Missing,
    Ring,
    BelowAFile,
}

const THINGS: [Thing; 8] = [
    Thing::Fifo,
    Thing::Device,
    Thing::Directory,
    Thing::Empty,
    Thing::Garbage,
    Thing::Missing,
    Thing::Ring,
    Thing::BelowAFile,
];

/// Bytes that are no file of any format.
const GARBAGE: &[u8] = b"\x89\0\xff{\"type\": [1e999, \n\xc3\x28\n\0\0\0";

impl Thing {
    /// Makes the thing, below a directory of its own, and returns its path.
    fn make(self, directory: &Path, suffix: &str) -> PathBuf {
        let path = directory.join(format!("thing{suffix}"));
        match self {
            Self::Fifo => nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            Self::Device => symlink("/dev/zero", &path).unwrap(),
            Self::Directory => fs::create_dir(&path).unwrap(),
            Self::Empty => fs::write(&path, "").unwrap(),
            Self::Garbage => fs::write(&path, GARBAGE).unwrap(),
            Self::Missing => (),
            Self::Ring => symlink(&path, &path).unwrap(),
            Self::BelowAFile => {
                fs::write(&path, "").unwrap();
                return path.join(format!("below{suffix}"));
            }
        }
        path
    }

    /// Returns whether the thing is still what it was made.
    fn is_unchanged(self, path: &Path) -> bool {
        let there = path.symlink_metadata();
        let content = || fs::read(path).unwrap();
        match self {
            Self::Fifo => there.unwrap().file_type().is_fifo(),
            Self::Device | Self::Ring => there.unwrap().is_symlink(),
            Self::Directory => {
                there.unwrap().is_dir() && fs::read_dir(path).unwrap().next().is_none()
            }
            Self::Empty => content().is_empty(),
            Self::Garbage => content() == GARBAGE,
            Self::Missing => there.is_err(),
            Self::BelowAFile => path.parent().unwrap().is_file(),
        }
    }
}

/// Records for each filter, of a scan that is integrated.
struct Records {
    workspace: Workspace,
    tasks: String,
    results: String,
}

impl Records {
    fn new() -> Self {
        let workspace = Workspace::new(&small_options());
        let tasks = workspace.plan("out", &["--by", "scan"]);
        let results = run("ai-integrate", NO_ARGUMENTS, &tasks).assert_success().stdout;
        Self { workspace, tasks, results }
    }

    /// Returns the arguments that a filter needs beside a flag, and its input.
    fn for_filter(&self, filter: &str, flag: &str, out: &Path) -> (Vec<String>, &str) {
        let path = |name: &str| self.workspace.path(name).to_str().unwrap().to_owned();
        let out = out.to_str().unwrap().to_owned();
        let poni = self.workspace.data.poni.to_str().unwrap().to_owned();
        let (required, input): (Vec<(&str, String)>, &str) = match filter {
            "scan-find" => (vec![], ""),
            "plan-split" if ["--poni-table", "--goniometer"].contains(&flag) => {
                let range = ("--radial-range", "5,20".to_owned());
                (vec![("--out", out), range], &self.workspace.scans)
            }
            "plan-split" => {
                let npt = ("--npt", "50".to_owned());
                (vec![("--poni", poni), ("--out", out), npt], &self.workspace.scans)
            }
            "ai-integrate" => (vec![("--force", String::new())], &self.tasks),
            "gather" if flag == "--plan" => (vec![("--from", path("out"))], ""),
            "gather" => (vec![("--keep-parts", String::new())], &self.results),
            "slurm-emit" => (vec![("--dir", out), ("--target", "local".to_owned())], &self.tasks),
            other => panic!("{other}"),
        };
        let of_others = required.into_iter().filter(|(name, _)| *name != flag);
        let words = of_others.flat_map(|(name, value)| [name.to_owned(), value]);
        (words.filter(|word| !word.is_empty()).collect(), input)
    }
}

/// Returns the flags of a filter whose values are paths, with the ends that their names must have.
fn path_flags(filter: &str) -> Vec<(String, String)> {
    let help = run(filter, &["--help"], "").assert_success().stdout;
    let mut flags = BTreeSet::new();
    for line in help.lines() {
        let line = line.trim_start();
        let flag = line.strip_prefix("--").or_else(|| line.get(4..)?.strip_prefix("--"));
        let Some((name, rest)) = flag.and_then(|flag| flag.split_once(" <")) else { continue };
        if let Some(value) = rest.split('>').next()
            && ["FILE", "DIR", "PATH", "FINAL"].iter().any(|kind| value.starts_with(kind))
        {
            let end = value.split_once('.').map_or("", |(_, ends)| ends.split('|').next().unwrap());
            let end = if end.is_empty() { String::new() } else { format!(".{end}") };
            flags.insert((format!("--{name}"), end));
        }
    }
    flags.into_iter().chain([(OPERAND.to_owned(), String::new())]).collect()
}

fn run_with(filter: &str, arguments: &[String], input: &str) -> Outcome {
    let mut command = Command::new(program(filter));
    command.args(arguments);
    capture_within_a_minute(command, input)
}

/// Returns whether the thing is what the flag wants, so that success is right.
fn is_wanted(filter: &str, flag: &str, thing: Thing) -> bool {
    match (filter, flag) {
        // Directories that are made where they are missing, and files that are written.
        (_, "--out" | "--cache" | "--dir") => matches!(thing, Thing::Directory | Thing::Missing),
        (_, "--report" | "--plot" | "--plot-scans" | "--preview") => thing == Thing::Missing,
        ("scan-find", OPERAND) => false,
        // No records, and TOML without a key.
        (_, OPERAND | "--plan" | "--recipe" | "--profile") => thing == Thing::Empty,
        _ => false,
    }
}

#[test]
fn whatever_is_in_place_of_a_file_is_told_by_its_path_and_left_alone() {
    let records = Records::new();
    let (mut tried, mut wrong) = (0, Vec::new());
    for filter in ["scan-find", "plan-split", "ai-integrate", "gather", "slurm-emit"] {
        let flags = path_flags(filter);
        assert!(flags.len() > usize::from(filter != "scan-find"), "{filter}: {flags:?}");
        for (flag, suffix) in flags {
            // Records are read from FIFOs, too: those of a shell's process substitution.
            let reads_records = flag == "--plan" || (flag == OPERAND && filter != "scan-find");
            for thing in THINGS {
                if reads_records && thing == Thing::Fifo {
                    continue;
                }
                let directory = tempfile::tempdir().unwrap();
                let path = thing.make(directory.path(), &suffix);
                let out = directory.path().join("out");
                let (mut arguments, input) = records.for_filter(filter, &flag, &out);
                if flag != OPERAND {
                    arguments.push(flag.clone());
                }
                arguments.push(path.to_str().unwrap().to_owned());
                let input = if flag == OPERAND { "" } else { input };
                let ran = run_with(filter, &arguments, input);
                tried += 1;
                // Without its cache, a matrix is built again, which is told.
                let expected = if flag == "--cache" { &[0][..] } else { &[1, 2] };
                let is_told =
                    expected.contains(&ran.status) && ran.stderr.contains(path.to_str().unwrap());
                let is_right = is_told || (ran.status == 0 && is_wanted(filter, &flag, thing));
                let is_made = is_wanted(filter, &flag, thing) && ran.status == 0;
                if !is_right || !(is_made || thing.is_unchanged(&path)) {
                    let told = ran.stderr.replace(directory.path().to_str().unwrap(), "");
                    wrong.push(format!("{filter} {flag} {thing:?}: {} {told}", ran.status));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tried > 150, "{tried}");
}
