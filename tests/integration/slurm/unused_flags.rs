//! Flags of slurm-emit that a target does not use are told of, and no others.

use std::path::{Path, PathBuf};

use crate::support::{Workspace, capture, program, read_files_below, small_options};

/// The flags about sizes, resources and programs, each with a value other than the default.
const FLAGS: &[&str] = &[
    "--n-workers=3",
    "--scale=jobs=3",
    "--adapt=1,3",
    "--min-nodes=2",
    "--node-seconds=77",
    "--ai-engines-per-worker=3",
    "--cores-per-worker=3",
    "--cores=6",
    "--engine=cpu",
    "--device=slot",
    "--ai-integrate-arg=--verify=3",
    "--gather-arg=--average=mean",
    "--batch-minutes=0",
    "--rate=1k",
    "--max-array-size=2",
    "--node-cpus=64",
    "--partition=other",
    "--time=00:33:00",
    "--drain-seconds=55",
    "--mem=3G",
    "--mem-per-cpu=3G",
    "--mem-per-gpu=3G",
    "--gres=gpu:2",
    "--gpus=2",
    "--gpus-per-task=2",
    "--ntasks-per-node=2",
    "--account=a",
    "--qos=a",
    "--constraint=a",
    "--nodelist=a",
    "--exclude=a",
    "--reservation=a",
    "--licenses=a",
    "--exclusive",
    "--hint=nomultithread",
    "--threads-per-core=1",
    "--cpu-bind=cores",
    "--job-name=a",
    "--interface=ib0",
    "--cluster-kwarg=death_timeout=12",
    "--dashboard",
    "--directive=--comment=a",
    "--skip-directive=requeue",
    "--setup=true",
    "--gather-partition=a",
    "--python=a",
    "--bin=/a",
];

/// The targets, each with the flags that change nothing here, but elsewhere.
const TARGETS: &[(&[&str], &[&str])] = &[
    (&["--target=slurm"], &[]),
    (&["--target=local"], &[]),
    (&["--target=parallel"], &[]),
    (&["--target=make"], &[]),
    (&["--target=snakemake"], &[]),
    // With --time auto, they change the walltime.
    (&["--target=dask"], &["--batch-minutes", "--rate"]),
    (&["--target=ray"], &["--batch-minutes", "--rate"]),
    (&["--target=hyperqueue"], &[]),
    (&["--target=pbs"], &[]),
    (&["--target=dask", "--partition=local"], &["--partition"]),
    (&["--target=ray", "--partition=local"], &["--partition"]),
];

/// The files that slurm-emit writes with some flags, and its messages.
fn emit(
    directory: &Path,
    plan: &str,
    target: &[&str],
    flag: &[&str],
) -> (Vec<(PathBuf, Vec<u8>)>, String) {
    let jobs = directory.join("jobs");
    let _ = std::fs::remove_dir_all(&jobs);
    let mut command = std::process::Command::new(program("slurm-emit"));
    command.arg("--dir").arg(&jobs).args(target).args(flag);
    let done = capture(command, plan);
    let messages = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{target:?} {flag:?}: {messages}");
    (read_files_below(&jobs), messages)
}

#[test]
fn a_flag_is_told_of_if_the_scripts_are_the_same_without_it() {
    let workspace = Workspace::new(&small_options());
    let plan = workspace.plan("OUT", &["--by", "frames=4"]);
    let directory = workspace.path("emitted");
    for (target, changes_elsewhere) in TARGETS {
        let (without, messages) = emit(&directory, &plan, target, &[]);
        assert!(!messages.contains("no effect"), "{target:?}: {messages}");
        for flag in FLAGS {
            let name = flag.split('=').next().unwrap_or(flag);
            // The CPUs of a node are for warnings alone.
            if name == "--node-cpus" || changes_elsewhere.contains(&name) {
                continue;
            }
            let (with, messages) = emit(&directory, &plan, target, &[flag]);
            let is_told = messages
                .lines()
                .any(|line| line.contains(&format!("{name}: no effect with --target ")));
            assert_eq!(is_told, with == without, "{target:?} {flag}: {messages}");
        }
    }
}
