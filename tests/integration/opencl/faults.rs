//! Devices that fail: the processor takes over, nothing hangs, and no wrong number gets into a
//! part.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::driver;
use crate::support::{NO_ARGUMENTS, Outcome, Workspace, run, small_options, source_file};

/// Compiles an OpenCL library with the fault that the variable FAULT names, and returns its path.
fn compile_faulty_library(folder: &Path) -> PathBuf {
    let library = folder.join("libfault.so");
    let real =
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"]
            .map(|folder| Path::new(folder).join("libOpenCL.so.1"));
    let real = real.into_iter().find(|path| path.exists()).expect("the OpenCL loader");
    let source = source_file("opencl/fault.c");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-o"])
        .arg(&library)
        .arg(source)
        .arg(real)
        .arg("-ldl");
    assert!(compiler.status().expect("a C compiler").success());
    library
}

/// Runs the pipe on a device with a fault that a variable describes further, and returns the run,
/// the digest of its final and the digest of the final that the CPU computes.
fn run_with_fault(
    fault: &str,
    more: (&str, &str),
    flags: &[&str],
) -> Option<(Outcome, String, String)> {
    run_recipe_with_fault(&[], fault, more, flags)
}

/// Runs the pipe as `run_with_fault` does, with flags of plan-split.
fn run_recipe_with_fault(
    recipe: &[&str],
    fault: &str,
    more: (&str, &str),
    flags: &[&str],
) -> Option<(Outcome, String, String)> {
    if !driver::is_installed() {
        return None;
    }
    let workspace = Workspace::new(&small_options());
    let library = compile_faulty_library(&workspace.path("."));
    let variables =
        [("FAULT", fault), more, ("AZPIPE_OPENCL_LIBRARY", library.to_str().expect("UTF-8"))];
    let tasks = workspace.plan("out", &[recipe, &["--by", "frames=6"]].concat());
    let threads: &[&str] = if flags.contains(&"--threads") { &[] } else { &["--threads", "1"] };
    let arguments = [&["--engine", "opencl", "--device", "0"], threads, flags].concat();
    let ran = driver::integrate(&arguments, &tasks, &variables).assert_success();
    let digest = |results: &str| {
        let gathered = run("gather", NO_ARGUMENTS, results).assert_success();
        gathered.records("summary")[0]["data_digest"].as_str().expect("a digest").to_owned()
    };
    let found = digest(&ran.stdout);
    let expected = digest(
        &driver::integrate(&["--engine", "cpu"], &workspace.plan("cpu", recipe), &[])
            .assert_success()
            .stdout,
    );
    Some((ran, found, expected))
}

fn list_engines(ran: &Outcome) -> Vec<String> {
    ran.records("result")
        .iter()
        .map(|result| result["engine"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_driver_that_fails_is_told_where_no_device_was_asked_for() {
    if !driver::is_installed() {
        return;
    }
    let workspace = Workspace::new(&small_options());
    let library = compile_faulty_library(&workspace.path("."));
    let library = ("AZPIPE_OPENCL_LIBRARY", library.to_str().expect("UTF-8"));
    let integrate = |out: &str, fault: &str| {
        driver::integrate(
            &["--threads", "1"],
            &workspace.plan(out, &[]),
            &[("FAULT", fault), library],
        )
        .assert_success()
    };
    let told = integrate("driver", "driver").stderr;
    assert!(
        told.contains("OpenCL: listing the devices failed: ")
            && told.contains("the CPU integrates instead"),
        "{told}"
    );
    assert!(!integrate("sound", "none").stderr.contains("OpenCL"));
    // Beside a driver for the processor, which works, that of the GPU may fail.
    let told = integrate("platform", "platform").stderr;
    assert!(
        told.contains("OpenCL device unknown of Portable Computing Language: not used: listing"),
        "{told}"
    );
    let listed = driver::command()
        .args(["--list-devices"])
        .envs([("FAULT", "platform"), library])
        .output()
        .unwrap();
    let (status, listed) = (listed.status.code(), String::from_utf8(listed.stdout).unwrap());
    assert_eq!(status, Some(0), "{listed}");
    let last = listed.lines().last().unwrap_or_default();
    assert!(last.contains("not usable: listing the platform's devices failed: "), "{listed}");
}

#[test]
fn a_library_that_lacks_one_that_it_needs_is_reported_as_broken_and_not_as_missing() {
    let workspace = Workspace::new(&small_options());
    let folder = workspace.path(".");
    let needed = folder.join("libneeded.so");
    let library = folder.join("libbroken.so");
    for (output, needs) in [(&needed, None), (&library, Some(&needed))] {
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-xc", "/dev/null", "-xnone", "-Wl,--no-as-needed", "-o"]);
        assert!(compiler.arg(output).args(needs).status().expect("a C compiler").success());
    }
    std::fs::remove_file(&needed).unwrap();
    let library = ("AZPIPE_OPENCL_LIBRARY", library.to_str().expect("UTF-8"));
    let listed =
        driver::command().arg("--list-devices").envs([library]).output().expect("it starts");
    let listed: Outcome = listed.into();
    assert_eq!(listed.status, 2, "{}", listed.stderr);
    let told = driver::integrate(&["--threads", "1"], &workspace.plan("auto", &[]), &[library])
        .assert_success();
    assert_eq!(list_engines(&told), ["cpu"]);
    for said in [&listed.stderr, &told.stderr] {
        assert!(
            said.contains("libbroken.so is there but can't be loaded: ")
                && said.contains("libneeded.so: cannot open shared object file")
                && !said.contains("install an OpenCL loader"),
            "{said}"
        );
    }
    assert!(told.stderr.contains("the CPU integrates instead"), "{}", told.stderr);
}

#[test]
fn a_driver_that_crashes_or_hangs_while_devices_are_listed_costs_only_the_devices() {
    if !driver::is_installed() {
        return;
    }
    let workspace = Workspace::new(&small_options());
    let library = compile_faulty_library(&workspace.path("."));
    let library = ("AZPIPE_OPENCL_LIBRARY", library.to_str().expect("UTF-8"));
    let limit = ("AZPIPE_DEVICE_TIMEOUT", "2");
    for (fault, said) in [
        ("crash", "a driver crashed while it listed its devices (signal: 6 (SIGABRT)"),
        ("hang", "the drivers have not listed their devices within 2 s"),
    ] {
        let tasks = workspace.plan(fault, &[]);
        let variables = [("FAULT", fault), library, limit];
        let told = driver::integrate(&["--threads", "1"], &tasks, &variables).assert_success();
        assert!(told.stderr.contains(said), "{}", told.stderr);
        assert!(told.stderr.contains("the CPU integrates instead"), "{}", told.stderr);
        assert_eq!(list_engines(&told), ["cpu"]);
        let tasks = workspace.plan(&format!("{fault}-asked"), &[]);
        let refused = driver::integrate(&["--engine", "opencl"], &tasks, &variables);
        assert_eq!(refused.status, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
    let wrong = [("AZPIPE_DEVICE_TIMEOUT", "soon"), library];
    let refused = driver::integrate(&[], &workspace.plan("wrong", &[]), &wrong);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("expected a whole number of seconds"), "{}", refused.stderr);
}

#[test]
fn a_device_that_is_lost_leaves_its_work_to_the_processor() {
    // An invalid queue, what NVIDIA says after most faults, and a code that nobody knows.
    for code in ["-36", "-5", "-5000"] {
        let Some((ran, ..)) = run_with_fault("lost", ("CODE", code), &[]) else { return };
        assert_eq!(ran.stderr.matches("the CPU integrates instead").count(), 1, "{}", ran.stderr);
        assert_eq!(
            list_engines(&ran).last().map(String::as_str),
            Some("cpu"),
            "{:?}",
            list_engines(&ran)
        );
    }
}

#[test]
fn threads_that_wait_for_a_device_go_on_when_it_is_lost() {
    // More threads than a device has queues.
    let flags = ["--threads", "12", "--batch-frames", "1"];
    let Some((ran, ..)) = run_with_fault("lost", ("CODE", "-36"), &flags) else { return };
    assert_eq!(ran.stderr.matches("the CPU integrates instead").count(), 1, "{}", ran.stderr);
    assert_eq!(list_engines(&ran).last().map(String::as_str), Some("cpu"));
}

#[test]
fn commands_that_fail_after_they_were_accepted_leave_their_frames_to_the_processor() {
    // Too little memory, and what NVIDIA says of a kernel that went astray.
    for code in ["-4", "-9999"] {
        let Some((ran, ..)) = run_with_fault("ended", ("CODE", code), &[]) else { return };
        let said = ran.stderr.matches("the CPU integrates instead").count();
        assert!(
            said == 1 && ran.stderr.contains(&format!("ended with OpenCL error {code}")),
            "{}",
            ran.stderr
        );
        assert_eq!(
            list_engines(&ran).last().map(String::as_str),
            Some("cpu"),
            "{:?}",
            list_engines(&ran)
        );
    }
}

#[test]
fn a_device_that_is_wrong_is_found_out_and_nothing_of_it_is_kept() {
    let Some((ran, found, expected)) = run_with_fault("wrong", ("CODE", ""), &["--verify", "6"])
    else {
        return;
    };
    assert!(ran.stderr.contains("wrong sums of frame"), "{}", ran.stderr);
    assert_eq!(list_engines(&ran), ["cpu"; 4]);
    assert_eq!(found, expected);
}

#[test]
fn clipping_is_left_to_the_processor_where_a_device_is_lost_wrong_or_short_of_memory() {
    let recipe = ["--sigma-clip", "4"];
    let faults = [
        ("lost", ("CODE", "-36"), 2),
        ("wrong", ("CODE", ""), 0),
        ("memory", ("MOST", "3000000"), 4),
    ];
    for (fault, more, most) in faults {
        let flags = ["--verify", "6", "--batch-frames", "64"];
        let Some((ran, found, expected)) = run_recipe_with_fault(&recipe, fault, more, &flags)
        else {
            return;
        };
        let by_device = list_engines(&ran).iter().filter(|engine| *engine == "opencl").count();
        assert!(
            by_device <= most && (fault != "memory" || by_device == 4),
            "{fault}: {:?}",
            list_engines(&ran)
        );
        assert_eq!(found, expected, "{fault}: {}", ran.stderr);
    }
}

#[test]
fn without_memory_for_the_batch_a_device_takes_less_at_a_time() {
    // The matrix of the small detector takes less than a megabyte, and so does a frame.
    let Some((ran, ..)) = run_with_fault("memory", ("MOST", "2500000"), &["--batch-frames", "64"])
    else {
        return;
    };
    assert_eq!(list_engines(&ran), ["opencl"; 4], "{}", ran.stderr);
}

#[test]
fn memory_that_turns_out_to_be_too_little_when_it_is_used_is_given_back() {
    // Chunks of three frames take more than that, of one less.
    let Some((ran, ..)) = run_with_fault("late", ("MOST", "60000"), &["--batch-frames", "64"])
    else {
        return;
    };
    assert_eq!(list_engines(&ran), ["opencl"; 4], "{}", ran.stderr);
}

#[test]
fn without_any_memory_the_processor_does_it() {
    let Some((ran, found, expected)) = run_with_fault("memory", ("MOST", "1000"), &[]) else {
        return;
    };
    assert_eq!(list_engines(&ran), ["cpu"; 4], "{}", ran.stderr);
    assert_eq!(found, expected);
}
