//! slurm-emit's driver for Ray, on the nodes of a real SLURM.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::cluster::{Cluster, NODES, output_of, shared_directory, wait_until};
use super::jobs::Jobs;
use crate::support::python_with;

/// A Ray on two nodes, of two engines each.
fn emit(jobs: &Jobs, python: &str) {
    let size = ["--target", "ray", "--n-workers", "2", "--gres", "gpu:1", "--mem", "3G"];
    jobs.emit(&[&size[..], &["--python", python, "--check"]].concat());
}

#[test]
fn engines_on_two_nodes_give_the_bytes_of_the_pipe() {
    let (Some(python), Some(_), Ok(_nodes)) = (python_with("ray"), Cluster::get(), NODES.read())
    else {
        return;
    };
    let jobs = Jobs::new("ray", "frames=6", 3);
    emit(&jobs, &python);
    jobs.submit(&[("SLOW", "1")]);
    wait_until("the summary", || jobs.is_gathered());
    jobs.assert_complete();
    let hosts = jobs.hosts();
    assert!(hosts.len() == 2 && hosts.iter().all(|host| host.starts_with("node")), "{hosts:?}");
    let runs = jobs.runs();
    assert!(
        runs.len() == 12 && runs.iter().all(|run| run.gpus.len() == 1),
        "each has one GPU: {runs:?}"
    );
    assert!(jobs.status().contains("12 of 12 done, 0 to do"));

    jobs.wait();
    assert_nothing_is_left(&runs[0].job);
}

/// Asserts that the temporary directories of a job are removed.
#[track_caller]
fn assert_nothing_is_left(job: &str) {
    let prefix = format!("ray.{job}.");
    let names = fs::read_dir("/tmp")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with(&prefix)).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_bad_node_does_not_hang_the_others() {
    let (Some(python), Some(_), Ok(_nodes)) = (python_with("ray"), Cluster::get(), NODES.read())
    else {
        return;
    };
    let jobs = Jobs::new("ray-node", "frames=12", 1);
    // two nodes of three: one on which Python hangs, and one on which it fails
    let wrapper = shared_directory().join("ray-node/python");
    let text = format!(
        "#!/bin/bash\ncase $(hostname) in node2) exec sleep 600 ;; node1) echo broken; exit 1 ;; esac\nexec {python} \"$@\"\n"
    );
    fs::write(&wrapper, text).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let wrapper = wrapper.to_str().unwrap();
    let size = [
        "--target",
        "ray",
        "--n-workers",
        "2",
        "--mem",
        "3G",
        "--node-seconds",
        "15",
        "--python",
        wrapper,
    ];
    jobs.emit(&[&size[..], &["--nodelist", "node[2-3]", "--min-nodes", "2"]].concat());
    // the driver runs on the first node of a job, which has to be one with a Python
    let sbatch = fs::read_to_string(jobs.dir.join("ray.sbatch")).unwrap();
    let sbatch = sbatch.replace(
        "    JOB=$SLURM_JOB_ID \"$python\" driver.py &",
        &format!("    JOB=$SLURM_JOB_ID {python} driver.py &"),
    );
    fs::write(jobs.dir.join("ray.sbatch"), &sbatch).unwrap();
    jobs.submit(&[]);
    jobs.wait();
    let log = || {
        let logs = fs::read_dir(jobs.dir.join("logs")).unwrap().map(|entry| entry.unwrap().path());
        logs.map(|path| fs::read_to_string(path).unwrap()).collect::<String>()
    };
    let said = log();
    assert!(
        said.contains("Ray is on 1 of 2 nodes, and not on node2: see ")
            && said.contains("--min-nodes is 2"),
        "{said}"
    );
    assert!(!jobs.is_gathered());

    let driver = fs::read_to_string(jobs.dir.join("driver.py")).unwrap();
    fs::write(jobs.dir.join("driver.py"), driver.replace("MIN_NODES = 2", "MIN_NODES = 1"))
        .unwrap();
    fs::write(jobs.dir.join("ray.sbatch"), sbatch.replace("node[2-3]", "node[1,3]")).unwrap();
    output_of(jobs.script("submit").arg("--wait"));
    let said = log();
    assert!(
        said.contains("and not on node1: see ") && said.contains("the others go on without them"),
        "{said}"
    );
    jobs.assert_complete();
    for job in fs::read_to_string(jobs.dir.join("submitted")).unwrap().lines() {
        assert_nothing_is_left(job.split(' ').next().unwrap());
    }
}

#[test]
fn a_ray_at_its_walltime_is_requeued_and_a_cancelled_one_stays_cancelled() {
    let (Some(python), Some(cluster), Ok(_nodes)) =
        (python_with("ray"), Cluster::get(), NODES.read())
    else {
        return;
    };
    let jobs = Jobs::new("ray-walltime", "frames=1", 1);
    emit(&jobs, &python);
    jobs.set_limit("limit", 8);
    jobs.submit(&[]);
    wait_until("a task is done", || !jobs.done().is_empty());
    let job = jobs.queued("RUNNING")[0].split('_').next().unwrap().to_owned();
    cluster.ask("scancel", &["--batch", "--signal=USR1", &job]);
    let log =
        || fs::read_to_string(jobs.dir.join(format!("logs/ray_{job}.log"))).unwrap_or_default();
    wait_until("it is back", || log().matches("tasks to do").count() == 2);
    assert!(jobs.call("cancel").contains("cancelled"));
    jobs.wait();
    assert_eq!(log().matches("tasks to do").count(), 2, "{}", log());
    assert!(!jobs.is_gathered());
    assert_nothing_is_left(&job);
}

#[test]
fn what_fits_no_node_is_refused_before_it_is_submitted() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("ray-large", "scan", 1);
    let output = jobs.try_emit(&["--target", "ray", "--cores", "10"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("10 CPUs per job: a node has 8"),
        "{said}"
    );
    assert!(!jobs.dir.exists());
}

#[test]
fn a_ray_of_this_machine_tells_what_failed_three_times() {
    let Some(python) = python_with("ray") else { return };
    let jobs = Jobs::new("ray-killed", "frames=6", 1);
    jobs.emit(&[
        "--target",
        "ray",
        "--partition",
        "local",
        "--n-workers",
        "1",
        "--python",
        &python,
    ]);
    let tasks = jobs.tasks();
    let output = jobs.script("submit").env("KILL", &tasks[2]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && told.contains("a task failed three times"),
        "{told}"
    );
    assert!(jobs.is_gathered() && jobs.summary().is_empty());
    assert_eq!(jobs.runs().len(), 3 + 3, "three others, and this one three times");
    jobs.call("resubmit");
    jobs.assert_complete();
}
