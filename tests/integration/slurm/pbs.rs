//! slurm-emit's scripts for PBS. No package of PBS can be installed here: the scripts are compared
//! with a file that was read beside its manual, and run with a stand-in that starts the subjobs one
//! after the other, as `qsub` is told to.

use std::fs;
use std::process::Command;

use super::cluster::shared_directory;
use super::jobs::Jobs;
use super::scripts::{emit, read_stderr, write_program};
use super::task;
use crate::support::{capture, program, source_file};

/// Runs jobs as they are submitted, in the user's home directory. An array must have two subjobs.
const QSUB: &str = r#"set -e
exec 9>&-
while (($# > 1)); do
    case $1 in
        -J) range=${2%\%*} ;;
        -v) export "${2?}" ;;
        -N | -r | -j | -l | -o | -q | -A | -W) ;;
        *) echo "qsub: illegal option $1" >&2; exit 2 ;;
    esac
    shift 2
done
job=$(realpath "$1")
cd /
if [[ -z ${range-} ]]; then
    bash "$job" > /dev/null || true
    echo 2.pbs
    exit
fi
((${range%-*} < ${range#*-})) || { echo 'qsub: illegal -J value' >&2; exit 1; }
for ((k = ${range%-*}; k <= ${range#*-}; k++)); do PBS_ARRAY_INDEX=$k bash "$job" > /dev/null || true; done
echo '1[].pbs'
"#;

fn path_of_stand_ins(name: &str) -> String {
    let bin = shared_directory().join(name);
    fs::create_dir(&bin).unwrap();
    write_program(&bin.join("qsub"), QSUB);
    write_program(&bin.join("qstat"), "exit ${QSTAT-153}\n");
    write_program(&bin.join("qdel"), "printf '%s\\n' \"$@\" > deleted\n");
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

#[test]
fn the_scripts_are_those_that_were_read_beside_the_manual() {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("jobs");
    let flags = ["--target", "pbs", "--partition", "workq", "--account", "id31", "--mem", "16G"];
    let size = ["--gres", "gpu:1", "--time", "1-02:00:00", "--bin", "/opt/azpipe"];
    let output = emit(&dir, &[&flags[..], &size].concat(), &task::line(1));
    assert!(output.status.success(), "{}", read_stderr(&output));
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    let names = ["job.pbs", "gather.pbs", "submit"];
    let settings: String = read("queue.bash")
        .lines()
        .filter(|line| line.contains('='))
        .take(9)
        .collect::<Vec<_>>()
        .join("\n");
    let texts = names.map(|name| format!("==> {name}\n{}", read(name)));
    let found = format!("==> queue.bash\n{settings}\n{}", texts.concat())
        .replace(top.path().to_str().unwrap(), "/data");
    let golden = source_file("slurm/pbs.golden");
    if std::env::var_os("AZPIPE_BLESS").is_some() {
        return fs::write(golden, found).unwrap();
    }
    assert_eq!(found, fs::read_to_string(golden).unwrap());
}

#[test]
fn the_subjobs_run_the_missing_batches_and_jobs_that_wait_are_not_submitted_again() {
    let jobs = Jobs::new("pbs", "frames=8", 2);
    let path = path_of_stand_ins("pbs-bin");
    jobs.emit(&["--target", "pbs", "--batch-minutes", "0", "--max-array-size", "4"]);
    let said = jobs.submit(&[("PATH", &path), ("KILL", &jobs.tasks()[4])]);
    assert!(said.contains("job 1[].pbs: job array, 6 batches"), "{said}");
    assert_eq!(jobs.summary().len(), 1);

    let said = jobs.submit(&[("PATH", &path), ("QSTAT", "0")]);
    assert!(said.contains("nothing to submit: jobs are waiting or running"), "{said}");
    let cancel = jobs.script("cancel").envs([("PATH", path.as_str()), ("QSTAT", "0")]).output();
    assert!(String::from_utf8_lossy(&cancel.unwrap().stdout).contains("cancelled"));
    assert_eq!(fs::read_to_string(jobs.dir.join("deleted")).unwrap(), "1[].pbs\n2.pbs\n");
    let refused = jobs.script("submit").envs([("PATH", path.as_str()), ("QSTAT", "1")]).output();
    assert!(read_stderr(&refused.unwrap()).contains("qstat failed"));

    let said = jobs.submit(&[("PATH", &path)]);
    assert!(said.contains("job array, 1 batch"), "{said}");
    jobs.assert_complete();
    assert_eq!(jobs.runs().len(), 7);
}

#[test]
fn a_check_says_that_the_commands_of_pbs_are_not_there() {
    let top = tempfile::tempdir().unwrap();
    let check = |name: &str, path: Option<&str>| {
        let dir = top.path().join(name);
        let mut command = Command::new(program("slurm-emit"));
        command.args(["--target", "pbs", "--check", "--dir"]).arg(dir);
        command.envs(path.map(|path| ("PATH", path)));
        capture(command, task::line(1))
    };
    let without = read_stderr(&check("without", None));
    assert!(without.contains("qsub: the command of PBS is not found on this machine"), "{without}");
    let with = read_stderr(&check("with", Some(&path_of_stand_ins("pbs-check-bin"))));
    assert!(!with.contains("qsub"), "{with}");
}
