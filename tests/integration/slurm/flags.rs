//! Flags and profiles for what differs from site to site, given to a real SLURM, and refusals with
//! their reasons.

use std::fs;

use super::cluster::{Cluster, NODES, shared_directory};
use super::jobs::Jobs;
use crate::support::{capture, program};

#[test]
fn flags_and_a_profile_say_the_same_and_slurm_does_it() {
    let (Some(cluster), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    cluster.ask("scontrol", &["update", "nodename=node2", "features=fast"]);
    cluster.ask("scontrol", &["update", "nodename=node2", "activefeatures=fast"]);
    let _gone = Reservation(&cluster);
    let reservation =
        ["reservationname=beamtime", "starttime=now", "duration=60", "users=root", "nodes=node2"];
    cluster.ask(
        "scontrol",
        &[&["create", "reservation"][..], &reservation, &["flags=overlap,ignore_jobs"]].concat(),
    );

    let jobs = Jobs::new("choices", "frames=12", 1);
    jobs.emit(&[
        "--n-workers=1",
        "--ntasks-per-node=2",
        "--gpus-per-task=1",
        "--mem-per-gpu=300M",
        "--time=10",
        "--reservation=beamtime",
        "--nodelist=node2",
        "--exclude=node3",
        "--constraint=fast",
        "--licenses=gpfs:1",
        "--exclusive",
        "--hint=nomultithread",
        "--cpu-bind=cores",
        "--directive=--comment=\"id31 hutch 2\"",
        "--skip-directive=requeue",
        "--setup=beamtime() { hostname > \"$NOTES/setup\"; }",
        "--setup=beamtime",
    ]);
    let script = fs::read_to_string(jobs.dir.join("job.sbatch")).unwrap();
    let profile = shared_directory().join("site.toml");
    let settings = r#"
        n-workers = 1
        ntasks-per-node = 2
        gpus-per-task = "1"
        mem-per-gpu = "300M"
        time = "10"
        reservation = "beamtime"
        nodelist = "node2"
        exclude = "node3"
        constraint = "fast"
        licenses = "gpfs:1"
        exclusive = true
        hint = "nomultithread"
        cpu-bind = "cores"
        directive = ['--comment="id31 hutch 2"']
        skip-directive = ["requeue"]
        setup = ['beamtime() { hostname > "$NOTES/setup"; }', "beamtime"]
    "#;
    fs::write(&profile, settings).unwrap();
    jobs.emit(&["--profile", profile.to_str().unwrap(), "--check"]);
    assert_eq!(fs::read_to_string(jobs.dir.join("job.sbatch")).unwrap(), script);

    jobs.submit(&[("SLOW", "1")]);
    let element = format!("{}_0", jobs.array());
    let shown = cluster.ask("scontrol", &["show", "job", &element]);
    jobs.wait();
    for part in [
        "Reservation=beamtime",
        "ReqNodeList=node2",
        "ExcNodeList=node3",
        "Features=fast",
        "Licenses=gpfs:1",
        "OverSubscribe=NO",
        "TimeLimit=00:10:00",
        "NumNodes=1",
        "NtasksPerN:B:S:C=2:",
        "CPUs/Task=2",
        "TresPerTask=gres:gpu:1",
        "MemPerTres=gres:gpu:300",
        "Comment=id31 hutch 2",
        "Requeue=1",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(
        !script.contains("#SBATCH --requeue")
            && script.contains("srun=(-n 1 -c 4 '--gpus-per-task=2' '--cpu-bind=cores')")
    );
    jobs.assert_complete();
    let runs = jobs.runs();
    assert!(runs.iter().all(|run| run.node == "node2" && run.gpus == "0,1"), "{runs:?}");
    // of the closing gather, which came last
    assert!(
        fs::read_to_string(shared_directory().join("choices/setup")).unwrap().starts_with("node")
    );
}

#[test]
fn threads_of_a_core_accounts_and_memory_by_cpu_are_what_slurm_shows() {
    let (Some(cluster), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("by-core", "scan", 1);
    let flags =
        ["--threads-per-core", "1", "--account", "id31", "--mem-per-cpu", "200M", "--submit"];
    let said = jobs.emit(&flags);
    assert!(
        said.contains("job array, 1 batch in 1 element\n")
            && said.contains("gather of all results"),
        "{said}"
    );
    let shown = cluster.ask("scontrol", &["show", "job", &format!("{}_0", jobs.array())]);
    for part in ["ReqB:S:C:T=0:0:*:1\n", "Account=id31", "MinMemoryCPU=200M", "CPUs/Task=4"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    jobs.wait();
    jobs.assert_complete();
}

/// Ends with the test, however it ends: nodes that are reserved are no other test's.
struct Reservation<'a>(&'a Cluster);

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let _ = self.0.command("scontrol").args(["delete", "reservationname=beamtime"]).output();
    }
}

#[test]
fn gpus_are_those_that_were_asked_for_and_none_are_none() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let cases: [(&str, &[&str], &[&str]); 5] = [
        // a piece of one
        ("shard", &["--gres", "shard:2"], &["0", "1"]),
        ("gres-2", &["--gres", "gpu:2"], &["0,1"]),
        ("gpus-1", &["--gpus", "1"], &["0", "1"]),
        ("auto", &["--partition", "gpu"], &["0", "1"]),
        // SLURM says nothing here of those that the node has, nor takes away what the user's own
        // shell said
        ("no-gpu", &["--gres", "none", "--partition", "gpu"], &[""]),
    ];
    let all = cases.map(|(name, flags, expected)| {
        let jobs = Jobs::new(name, "scan", 1);
        jobs.emit(flags);
        jobs.submit(&[("CUDA_VISIBLE_DEVICES", "5,6")]);
        (jobs, expected)
    });
    for (jobs, expected) in all {
        jobs.wait();
        jobs.assert_complete();
        assert!(
            jobs.runs().iter().all(|run| expected.contains(&run.gpus.as_str())),
            "{:?}",
            jobs.runs()
        );
    }
}

#[test]
fn check_says_why_the_jobs_would_not_run() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("check", "scan", 1);
    let refused = |flags: &[&str], expected: &str| {
        let output = jobs.try_emit(&[&["--check", "--submit"], flags].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(expected), "{flags:?}: {said}");
        assert!(!jobs.dir.join("submitted").exists(), "{flags:?}");
    };
    refused(
        &["--partition", "gpux"],
        "--partition gpux: no such partition; this cluster has main, gpu, p9gpu, short",
    );
    refused(
        &["--partition", "short", "--time", "11"],
        "--time 00:11:00: partition short allows 00:10:00",
    );
    refused(
        &["--cores-per-worker", "5"],
        "job.sbatch: Requested node configuration is not available",
    );
    refused(&["--mem", "1T"], "job.sbatch: Requested node configuration is not available");
    refused(&["--gres", "gpu:3"], "job.sbatch: Requested node configuration is not available");
    refused(&["--gres", "ufo:1"], "job.sbatch: Invalid generic resource (gres) specification");
    refused(
        &["--mem-per-cpu", "1G", "--directive=--mem=1G"],
        "job.sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are",
    );
    refused(
        &["--directive=--comment=\"no --mem\""],
        "job.sbatch: this site takes --mem-per-cpu and no --mem",
    );
    refused(
        &["--directive=--no-such-option"],
        "job.sbatch: unrecognized option '--no-such-option'",
    );
    refused(&["--setup", "if true; then"], "job.sbatch: line");
    refused(
        &["--bin", "/nonexistent"],
        "--bin: /nonexistent/ai-integrate: no such program; give the directory",
    );
    refused(
        &["--target", "ray", "--python", "/bin/true", "--n-workers", "2", "--gres", "gpu:3"],
        "ray.sbatch: Requested node configuration is not available",
    );

    refused(
        &["--target", "dask", "--python", "/bin/false"],
        "--python /bin/false: it has no module dask_jobqueue",
    );
    refused(
        &["--target", "ray", "--python", "/no/python"],
        "--python /no/python: not found on this machine",
    );

    let takes = |flags: &[&str]| {
        let output = jobs.try_emit(&[&["--check"], flags].concat());
        assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    takes(&["--partition", "short", "--time", "10", "--mem-per-gpu", "100M", "--gpus", "1"]);
    takes(&["--directive=--comment=\"no --mem\"", "--mem", "none"]);
    takes(&["--target", "ray", "--python", "/bin/true", "--n-workers", "2", "--gres", "gpu:2"]);
    let mut nothing = jobs.command(program("slurm-emit"));
    nothing
        .args(["--cores", "4", "--check", "--submit", "--dir"])
        .arg(jobs.dir.with_extension("empty"));
    let output = capture(nothing, "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("0 tasks in 0 batches"), "{said}");
}

#[test]
fn slurm_takes_the_jobs_of_the_example_profiles() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("profiles", "scan", 1);
    let profiles = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/profiles");
    // The names of partitions are those of this cluster, and its nodes are small.
    let cases: [(&str, &[&str], &[&str]); 3] = [
        ("esrf.toml", &["--partition=any"], &["--partition=gpu,p9gpu", "--gres=gpu:1"]),
        ("gpu-cluster.toml", &[], &["--partition=gpu", "--gres=gpu:1"]),
        ("cpu-cluster.toml", &["--partition=main"], &["--partition=main", "--hint=nomultithread"]),
    ];
    for (name, flags, directives) in cases {
        let profile = format!("--profile={profiles}/{name}");
        jobs.emit(&[&[profile.as_str(), "--check"], flags].concat());
        let script = fs::read_to_string(jobs.dir.join("job.sbatch")).unwrap();
        for directive in directives {
            assert!(
                script.contains(&format!("#SBATCH {directive}\n")),
                "{name} {directive}: {script}"
            );
        }
    }
    let count = fs::read_dir(profiles).unwrap().count();
    assert_eq!(count, cases.len(), "each profile is tested");
    jobs.submit(&[]);
    jobs.wait();
    jobs.assert_complete();
    assert!(
        jobs.runs()
            .iter()
            .all(|run| run.gpus.is_empty() && run.arguments.starts_with("--engine cpu "))
    );
}

#[test]
fn the_size_is_told_with_what_the_nodes_say_to_it() {
    let (Some(_), Ok(_nodes)) = (Cluster::get(), NODES.read()) else { return };
    let jobs = Jobs::new("size", "scan", 1);
    let said =
        jobs.emit(&["--gres", "gpu:1", "--ai-engines-per-worker", "8", "--cores-per-worker", "4"]);
    assert!(
        said.contains("4 jobs x 8 engines x 4 threads = 32 engines, 128 CPUs, 4 GPUs"),
        "{said}"
    );
    assert!(
        said.contains("a node has 8: such a job never starts; try --cores-per-worker 1"),
        "{said}"
    );
    let said = jobs.emit(&["--gres", "gpu:1", "--ai-engines-per-worker", "3"]);
    assert!(said.contains("more than half of a node's 8 logical CPUs"), "{said}");
    assert!(
        said.contains("3 engines per job on 1 GPU: 4 to 8 engines keep a GPU busy; try --ai-engines-per-worker 4"),
        "{said}"
    );
}
