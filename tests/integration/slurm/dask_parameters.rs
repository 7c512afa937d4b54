//! Parameters of dask-jobqueue without a flag of slurm-emit reach the constructor of its cluster.
//! Runs where `AZPIPE_PEERS`, or `.venv` in the root, is a virtual environment that has
//! dask-jobqueue.

use std::process::Command;

use super::cluster::output_of;
use super::scripts::emit;
use super::task;
use crate::support::python_with;

#[test]
fn parameters_of_dask_jobqueue_reach_its_cluster_and_the_scripts_of_its_jobs() {
    let Some(python) = python_with("dask_jobqueue") else { return };
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("jobs");
    let parameters = [
        r##"shebang="#!/bin/bash -l""##,
        r#"worker_extra_args=["--preload", "numpy"]"#,
        "local_directory=/scratch",
        r#"env_extra=["export A=1"]"#,
        "nanny=false",
        "death_timeout=77",
        "log_directory=/logs",
        r#"scheduler_options={idle_timeout="1h"}"#,
        r#"security={tls_ca_file="/ca.pem", require_encryption=true}"#,
    ];
    let flags = ["--target", "dask", "--dashboard", "--interface", "lo", "--python", &python];
    let given: Vec<_> = parameters.iter().flat_map(|given| ["--cluster-kwarg", given]).collect();
    let output = emit(&dir, &[&flags[..], &given].concat(), &task::line(1));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run =
        |arguments: &[&str]| output_of(Command::new(&python).args(arguments).current_dir(&dir));
    let script = run(&["workers.py"]);
    for expected in [
        "#!/bin/bash -l\n",
        "--preload numpy",
        "--local-directory /scratch",
        "export A=1\n",
        "--no-nanny",
        "--death-timeout 77",
        "#SBATCH -o /logs/",
    ] {
        assert!(script.contains(expected), "{expected}: {script}");
    }
    let seen = run(&[
        "-c",
        "import workers\nwith workers.certificates() as security: print(security.tls_ca_file)\n\
         print(workers.ARGUMENTS['scheduler_options'], workers.DASHBOARD)",
    ]);
    assert!(seen.starts_with("/ca.pem\n") && seen.contains("'idle_timeout': '1h'"), "{seen}");
    assert!(seen.ends_with("True\n"), "{seen}");
}
