//! A test that lists the messages of slurm-emit and of the scripts that it writes, so that their
//! wording can be compared.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Parser as _;
use filter::quote::QuoteError;

use crate::args::Args;
use crate::error::EmitError;
use crate::job_size::{JobSize, SizeRequest};

#[test]
fn errors() {
    let path = || PathBuf::from("/data/jobs");
    let errors = [
        EmitError::Directive {
            flag: "--account",
            why: QuoteError::LineBreak(OsString::from("a\nb")),
        },
        EmitError::Directive { flag: "--dir", why: QuoteError::Backslash(OsString::from("/a\\b")) },
        EmitError::File { path: path(), why: io::Error::other("Permission denied (os error 13)") },
        EmitError::AppendTarget { target: "make" },
        EmitError::TaskVersions { id: "5613b8e659817f04".to_owned() },
        EmitError::OtherRecipe { path: path() },
        EmitError::AppendInProgress { path: path() },
        EmitError::OtherPlan { path: path() },
        EmitError::ForeignDirectory { path: path(), name: "notes.txt".to_owned() },
        EmitError::ForeignFile { path: path() },
        EmitError::MakeTarget { id: "scan 1".to_owned() },
        EmitError::ScaleWithoutMemory,
        EmitError::DeviceOfCpu,
        EmitError::PassedArgument {
            flag: "--gather-arg",
            argument: "--help".to_owned(),
            why: "expected an option with which results are made".to_owned(),
        },
        EmitError::Settings {
            path: path(),
            why: "unknown key `x`; expected one of partition, time".to_owned(),
        },
        EmitError::SettingValue {
            files: "site.toml".to_owned(),
            why: "invalid value '5X' for '--mem <M>'".to_owned(),
        },
        EmitError::NoRate { path: path() },
        EmitError::DrainTooEarly { drain_seconds: 600, walltime: "10".parse().unwrap() },
        EmitError::LargerThanNode { job_cpus: 10, node_cpus: 8 },
    ];
    let messages = [
        r#"--account: "a\nb": an #SBATCH directive can't hold a line break; change the value of --account"#,
        r#"--dir: "/a\\b": the name of a SLURM log can't hold a backslash; change the value of --dir"#,
        "/data/jobs: Permission denied (os error 13)",
        "--append: --target make takes no more tasks once it runs; use --target slurm, or leave out --append",
        "task 5613b8e659817f04 comes again with other content, as in a plan that was saved while its scans were measured: plan the \
         scans again now that they have ended, or pass --append",
        "/data/jobs: the plan in --dir has another recipe for this file; choose another --dir, or plan the scans with \
         plan-split --recipe-name to keep both results",
        "/data/jobs: another slurm-emit --append adds tasks to this directory; wait until it ends",
        "/data/jobs: jobs were submitted from here with another plan or other batches; choose another --dir, add the \
         new tasks with --append, or remove this directory once its jobs have ended",
        "/data/jobs: holds `notes.txt`, which slurm-emit did not write; expected a new or empty directory, or one that \
         slurm-emit wrote: choose another --dir",
        "/data/jobs: slurm-emit did not write this; move it away, or choose another --dir",
        "task or scan id `scan 1`: expected letters, digits, `-` and `_`, because --target make names files by ids; \
         use --target local, which takes any id",
        "--scale memory: the memory of a job is not known; give it with --mem, such as --mem 16G",
        "--device: --engine cpu uses no device; give one of the two",
        "--gather-arg: `--help` can't be passed on: expected an option with which results are made",
        "/data/jobs: unknown key `x`; expected one of partition, time",
        "site.toml: invalid value '5X' for '--mem <M>'",
        "/data/jobs: no result record of work that was done; expected a file that ai-integrate wrote",
        "--drain-seconds 600: expected fewer seconds than the walltime of 00:10:00 has, 600",
        "10 CPUs per job: a node has 8, and Ray would wait forever for a larger one; reduce --ai-engines-per-worker or \
         --cores-per-worker",
    ];
    assert_eq!(errors.each_ref().map(ToString::to_string), messages);
    // The command prints what an error is about and why, and nothing twice.
    for (error, message) in errors.into_iter().zip(messages) {
        assert_eq!(filter::Stop::from(error).to_string(), message);
    }
}

#[test]
fn values_that_flags_refuse() {
    let refuse = |flag: &str| {
        let error =
            Args::try_parse_from(["slurm-emit", "--dir", "jobs", flag]).unwrap_err().to_string();
        error.lines().next().unwrap_or_default().to_owned()
    };
    let messages = [
        (
            "--mem=5X",
            "error: invalid value '5X' for '--mem <M>': expected a number and a unit, such as 64G: K, M, G or T (powers \
             of 1024), or KB, MB, GB or TB (of 1000)",
        ),
        (
            "--time=1h",
            "error: invalid value '1h' for '--time <T>': expected minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or \
             D-HH:MM:SS, such as 02:00:00",
        ),
        (
            "--rate=x",
            "error: invalid value 'x' for '--rate <R>': expected stored bytes per second, such as 500M",
        ),
        (
            "--scale=0",
            "error: invalid value '0' for '--scale <SIZE>': expected jobs=W, cores=N, memory=M or a number of workers, such as jobs=4",
        ),
        (
            "--batch-minutes=-1",
            "error: invalid value '-1' for '--batch-minutes <M>': expected a number of minutes, 0 or more",
        ),
        (
            "--n-workers=0",
            "error: invalid value '0' for '--n-workers <W>': expected a whole number from 1 on",
        ),
    ];
    for (flag, message) in messages {
        assert_eq!(refuse(flag), message);
    }
}

#[test]
fn sizes_and_warnings() {
    let size = JobSize { workers: 4, engines: 8, threads: 4, gpus: 1 };
    let one = JobSize { workers: 1, engines: 1, threads: 1, gpus: 1 };
    let request = SizeRequest { workers: Some(4), engines: Some(8), threads: None };
    let threads = SizeRequest { workers: Some(1), engines: Some(1), threads: Some(4) };
    let messages = [
        (size.to_string(), "4 jobs x 8 engines x 4 threads = 32 engines, 128 CPUs, 4 GPUs"),
        (one.to_string(), "1 job x 1 engine x 1 thread = 1 engine, 1 CPU, 1 GPU"),
        (
            size.cluster_warnings(Some(63)).join("\n"),
            "8 engines x 4 threads = 32 CPUs per job, more than half of a node's 63 logical CPUs; if two logical CPUs \
             share a core, try --cores-per-worker 3",
        ),
        (
            size.cluster_warnings(Some(16)).join("\n"),
            "8 engines x 4 threads = 32 CPUs per job, but a node has 16: such a job never starts; try \
             --cores-per-worker 2",
        ),
        (
            one.cluster_warnings(Some(64)).join("\n"),
            "1 engine per job on 1 GPU: 4 to 8 engines keep a GPU busy; try --ai-engines-per-worker 4",
        ),
        (
            JobSize { engines: 17, gpus: 2, ..one }.cluster_warnings(None).join("\n"),
            "17 engines per job on 2 GPUs: 4 to 8 engines keep a GPU busy; try --ai-engines-per-worker 16",
        ),
        (
            JobSize { engines: 8, threads: 1, gpus: 0, ..one }.cluster_warnings(Some(4)).join("\n"),
            "8 engines x 1 thread = 8 CPUs per job, but a node has 4: such a job never starts; try --ai-engines-per-worker 4",
        ),
        (
            JobSize { engines: 8, threads: 16, gpus: 0, ..one }
                .cluster_warnings(Some(4))
                .join("\n"),
            "8 engines x 16 threads = 128 CPUs per job, but a node has 4: such a job never starts; try \
             --ai-engines-per-worker 1 --cores-per-worker 4",
        ),
        (
            JobSize { engines: 8, threads: 4, gpus: 0, ..one }
                .cluster_warnings(Some(32))
                .join("\n"),
            "8 engines x 4 threads = 32 CPUs per job, more than half of a node's 32 logical CPUs; if two logical CPUs share \
             a core, try --cores-per-worker 2",
        ),
        (
            request.machine_warning(2).unwrap_or_default(),
            "32 engines on this machine, which has 2 CPUs: they would compete for the CPUs; reduce --n-workers or \
             --ai-engines-per-worker to 2 engines in total",
        ),
        (
            threads.machine_warning(1).unwrap_or_default(),
            "--cores-per-worker 4: this machine has 1 CPU, so that each engine gets 1 thread",
        ),
    ];
    for (message, expected) in messages {
        assert_eq!(message, expected);
    }
    assert!(size.cluster_warnings(Some(64)).is_empty() && size.cluster_warnings(None).is_empty());
    assert!(JobSize { gpus: 0, ..one }.cluster_warnings(None).is_empty());
    assert_eq!(request.machine_warning(32).or(SizeRequest::default().machine_warning(1)), None);
}

/// Returns all templates of scripts: the files below `targets` that are no Rust, each with its path
/// there, sorted.
fn templates() -> Vec<(String, String)> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/targets");
    let (mut templates, mut directories) = (Vec::new(), vec![top.clone()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension() != Some("rs".as_ref()) {
                let name = path.strip_prefix(&top).unwrap().to_str().unwrap().to_owned();
                templates.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    templates.sort();
    templates
}

#[test]
fn scripts() {
    let templates = templates();
    let messages = templates.iter().flat_map(|(name, text)| {
        find_messages(text).into_iter().map(move |message| format!("{name}: {message}"))
    });
    let expected: Vec<_> = include_str!("script_messages.txt").lines().collect();
    assert_eq!(messages.collect::<Vec<_>>(), expected);
}

/// Returns the texts that a script prints: strings after `die`, `say`, `printf`, `print(` and
/// `RuntimeError(`, and those that are assigned to variables of messages.
fn find_messages(text: &str) -> Vec<String> {
    const STARTS: [&str; 13] = [
        "die ",
        "say ",
        "printf ",
        "print(",
        "print(f",
        "fail(",
        "fail(f",
        "report(f",
        "return f",
        "RuntimeError(f",
        "no_answer=",
        "no_missing=",
        " = f",
    ];
    let mut messages = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        for start in STARTS {
            for (at, _) in line.match_indices(start) {
                let rest = &line[at + start.len()..];
                let Some(quote) = rest.chars().next().filter(|char| matches!(char, '\'' | '"'))
                else {
                    continue;
                };
                let message = rest[1..].split(quote).next().unwrap_or_default();
                if message.split(' ').filter(|word| word.len() > 1).count() > 2 {
                    messages.push(message.to_owned());
                }
            }
        }
    }
    messages
}
