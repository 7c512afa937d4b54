//! The commands that each engine runs: devices, slots, threads and flags that are handed on.

use std::fs;
use std::process::Command;

use super::scripts::{emit, read_stderr, write_program};
use super::task;
use crate::support::{python_with, read_files_below};

#[test]
fn devices_are_handed_on_by_every_engine() {
    let top = tempfile::tempdir().unwrap();
    for (target, script, expected) in [
        (
            "slurm",
            "job.sbatch",
            "ai_integrate=(--engine opencl --device slot,a100 --engines 8 --threads 4)",
        ),
        ("local", "worker", "ai_integrate=(--engine opencl --device slot,a100)"),
        ("parallel", "worker", "ai_integrate=(--engine opencl --device slot,a100)"),
        (
            "make",
            "Makefile",
            "ai-integrate --engine opencl --device slot,a100 --engines 1 --threads $(THREADS) <",
        ),
        (
            "dask",
            "plan.py",
            r#"["--engine", "opencl", "--device", "slot,a100", "--engines", "1", "--threads", "4"]"#,
        ),
        (
            "ray",
            "plan.py",
            r#"["--engine", "opencl", "--device", "slot,a100", "--engines", "1", "--threads", "4"]"#,
        ),
    ] {
        let dir = top.path().join(target);
        let flags = [
            "--target",
            target,
            "--engine",
            "opencl",
            "--device",
            "slot,a100",
            "--node-cpus",
            "32",
        ];
        assert!(emit(&dir, &flags, &task::line(1)).status.success(), "{target}");
        let text = fs::read_to_string(dir.join(script)).unwrap();
        assert!(text.contains(expected), "{target}: {text}");
    }
}

#[test]
fn an_element_with_several_gpus_uses_them_all_with_slot_too() {
    let top = tempfile::tempdir().unwrap();
    for (gres, device, expected) in [
        ("gpu:2", "slot", "ai_integrate=(--engines 8 --threads 4)"),
        ("gpu:2", "slot,pocl", "ai_integrate=(--device pocl --engines 8 --threads 4)"),
        ("gpu:1", "slot", "ai_integrate=(--device slot --engines 8 --threads 4)"),
    ] {
        let flags = ["--gres", gres, "--device", device, "--node-cpus", "64"];
        assert!(emit(top.path(), &flags, &task::line(1)).status.success());
        let script = fs::read_to_string(top.path().join("job.sbatch")).unwrap();
        assert!(script.contains(expected), "{gres} {device}: {script}");
    }
}

#[test]
fn processes_of_a_machine_have_slots_of_their_own() {
    let top = tempfile::tempdir().unwrap();
    let bin = top.path().join("bin");
    fs::create_dir(&bin).unwrap();
    write_program(
        &bin.join("gather"),
        "case \" $* \" in *' --missing '*) cat plan.jsonl ;; *) cat > /dev/null ;; esac\n",
    );
    // Each waits for the other, so that both run at the same time.
    write_program(
        &bin.join("ai-integrate"),
        "cat > /dev/null\nset -o noclobber\nprintf '%s' \"$*\" > \"$NOTES/$SLOT\" || exit 2\n\
         until [[ -e $NOTES/0 && -e $NOTES/1 ]]; do sleep 0.1; done\n",
    );
    let mut cases = vec![vec!["--target", "local"], vec!["--target", "make"]];
    let python = python_with("distributed");
    if let Some(python) = &python {
        cases.push(vec!["--target", "dask", "--partition", "local", "--python", python]);
    }
    for flags in cases {
        let dir = top.path().join(format!("it's {}", flags[1]));
        let size = [
            "--n-workers",
            "2",
            "--ai-engines-per-worker",
            "1",
            "--batch-minutes",
            "0",
            "--device",
            "slot",
        ];
        let flags = [&flags[..], &size, &["--bin", bin.to_str().unwrap()]].concat();
        assert!(emit(&dir, &flags, &task::lines(2)).status.success(), "{flags:?}");
        let notes = top.path().join(format!("notes {}", flags[1]));
        fs::create_dir(&notes).unwrap();
        let output = Command::new(dir.join("submit"))
            .envs([("NOTES", notes.as_os_str()), ("PARALLEL_JOBSLOT", "7".as_ref())])
            .output()
            .unwrap();
        let slots = read_files_below(&notes).len();
        assert_eq!(slots, 2, "{flags:?}: {}", read_stderr(&output));
    }
}

#[test]
fn allow_missing_is_handed_on_by_every_engine_to_ai_integrate_and_gather() {
    let top = tempfile::tempdir().unwrap();
    // What the scripts hold of it, each as often as it is said there; nothing where it was not
    // asked for.
    for (target, expected) in [
        (
            "slurm",
            &[
                ("job.sbatch", "--engines 8 --threads 4 --allow-missing)"),
                ("job.sbatch", "gather_arguments=(--allow-missing)\n"),
                ("gather.sbatch", "gather_arguments=(--allow-missing)\n"),
            ][..],
        ),
        (
            "local",
            &[
                ("worker", "ai_integrate=(--allow-missing)"),
                ("worker", "gather_arguments=(--allow-missing)\n"),
                ("submit", "gather_arguments=(--allow-missing)\n"),
            ],
        ),
        (
            "parallel",
            &[
                ("worker", "ai_integrate=(--allow-missing)"),
                ("submit", "gather_arguments=(--allow-missing)\n"),
            ],
        ),
        (
            "make",
            &[
                ("Makefile", "--threads $(THREADS) --allow-missing <"),
                ("Makefile", "gather --allow-missing >"),
                ("submit", "gather_arguments=(--allow-missing)\n"),
            ],
        ),
        (
            "dask",
            &[
                ("plan.py", r#""4", "--allow-missing"]"#),
                ("plan.py", r#"GATHER_ARGUMENTS = ["--allow-missing"]"#),
            ],
        ),
        (
            "ray",
            &[
                ("plan.py", r#""4", "--allow-missing"]"#),
                ("plan.py", r#"GATHER_ARGUMENTS = ["--allow-missing"]"#),
            ],
        ),
    ] {
        for asked in [true, false] {
            let dir = top.path().join(format!("{target}{asked}"));
            let flags = ["--target", target, "--node-cpus", "32", "--allow-missing"];
            let flags = if asked { &flags[..] } else { &flags[..4] };
            assert!(emit(&dir, flags, &task::line(1)).status.success(), "{target}");
            for (script, text) in expected {
                let content = fs::read_to_string(dir.join(script)).unwrap();
                assert_eq!(content.contains(text), asked, "{target}: {script}: {text}\n{content}");
            }
            if !asked {
                assert!(
                    read_files_below(&dir)
                        .iter()
                        .all(|(_, bytes)| !String::from_utf8_lossy(bytes)
                            .contains("--allow-missing"))
                );
            }
        }
        let explained = emit(
            &top.path().join("explain"),
            &["--target", target, "--explain", "--allow-missing"],
            &task::line(1),
        );
        assert!(
            String::from_utf8_lossy(&explained.stdout)
                .contains("frames without data are no failure"),
            "{target}"
        );
    }
}

#[test]
fn sparse_is_handed_on_to_the_gather_that_looks_for_what_is_missing() {
    let top = tempfile::tempdir().unwrap();
    let bash = "missing_arguments=(--sparse)\n";
    let python = "MISSING_ARGUMENTS = [\"--sparse\"]\n";
    for (target, script, text) in [
        ("slurm", "queue.bash", bash),
        ("pbs", "queue.bash", bash),
        ("local", "submit", bash),
        ("parallel", "submit", bash),
        ("make", "submit", bash),
        ("hyperqueue", "submit", bash),
        ("snakemake", "submit", bash),
        ("dask", "plan.py", python),
        ("ray", "plan.py", python),
    ] {
        for asked in [true, false] {
            let dir = top.path().join(format!("{target}{asked}"));
            let flags = ["--target", target, "--node-cpus", "32", "--ai-integrate-arg=--sparse"];
            let flags = if asked { &flags[..] } else { &flags[..4] };
            let said = emit(&dir, flags, &task::line(1));
            assert!(said.status.success(), "{target}: {}", read_stderr(&said));
            let content = fs::read_to_string(dir.join(script)).unwrap();
            assert_eq!(content.contains(text), asked, "{target}: {script}: {text}\n{content}");
            let files = read_files_below(&dir);
            let texts = files.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes));
            let texts = texts.collect::<String>();
            assert_eq!(texts.contains("count_arguments=(--sparse)\n"), asked, "{target}");
            assert_eq!(texts.contains("--sparse"), asked, "{target}");
        }
    }
}

#[test]
fn on_a_single_machine_all_engines_together_have_as_many_threads_as_there_are_cpus() {
    let top = tempfile::tempdir().unwrap();
    let bin = top.path().join("bin");
    fs::create_dir(&bin).unwrap();
    write_program(
        &bin.join("gather"),
        "case \" $* \" in *' --missing '*) cat plan.jsonl ;; *) cat > /dev/null ;; esac\n",
    );
    write_program(
        &bin.join("ai-integrate"),
        "cat > /dev/null\nprintf '%s\\n' \"$*\" >> \"$NOTES\"\n",
    );
    let all_cpus = std::thread::available_parallelism().unwrap().get();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let first_cpu = allowed.split([',', '-']).next().unwrap();
    for target in ["local", "parallel", "make"] {
        let dir = top.path().join(target);
        let flags = ["--target", target, "--bin", bin.to_str().unwrap()];
        // Each task of a makefile is a batch.
        let each = if target == "make" { &[][..] } else { &["--batch-minutes", "0"] };
        let said = read_stderr(&emit(&dir, &[&flags[..], each].concat(), &task::lines(6)));
        assert!(!said.contains("warning"), "{said}");
        for (cpu_list, cpus) in [(first_cpu, 1), (allowed, all_cpus)] {
            let notes = top.path().join(format!("{target}.{cpus}"));
            let mut submit = Command::new("taskset");
            submit.args(["--cpu-list", cpu_list]).arg(dir.join("submit")).env("NOTES", &notes);
            for name in ["results", "summaries"] {
                fs::remove_dir_all(dir.join(name)).unwrap();
                fs::create_dir(dir.join(name)).unwrap();
            }
            let _ = fs::remove_file(dir.join("joblog"));
            let output = submit.output().unwrap();
            let runs = fs::read_to_string(&notes)
                .unwrap_or_else(|_| panic!("{target}: {}", read_stderr(&output)));
            assert_eq!(runs.lines().count(), 6, "{target}: {runs}");
            let number = |words: &str, flag: &str| -> usize {
                words.split(' ').skip_while(|word| *word != flag).nth(1).unwrap().parse().unwrap()
            };
            let threads = runs
                .lines()
                .map(|run| number(run, "--engines") * number(run, "--threads"))
                .max()
                .unwrap();
            let jobs = if target == "make" { 4 * 8 } else { 4 };
            assert!(threads * jobs.min(cpus) <= cpus.max(1), "{target} on {cpus}: {runs}");
        }
    }
}
