//! Devices that fail: the processor takes over, nothing hangs, and no wrong number gets into a part.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::driver;
use crate::site::{NOTHING, Ran, Site, run, small};

/// An OpenCL library that has the fault which the variable FAULT names.
fn faulty(folder: &Path) -> PathBuf {
    let library = folder.join("libfault.so");
    let real = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"]
        .map(|folder| Path::new(folder).join("libOpenCL.so.1"));
    let real = real.into_iter().find(|path| path.exists()).expect("the OpenCL loader");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/opencl/fault.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-o"]).arg(&library).arg(source).arg(real).arg("-ldl");
    assert!(compiler.status().expect("a C compiler").success());
    library
}

/// What came of a run on a device with this fault, which a variable says more of; the digest of its final, and that of the
/// processor's.
fn with_fault(fault: &str, more: (&str, &str), flags: &[&str]) -> Option<(Ran, String, String)> {
    of_recipe_with_fault(&[], fault, more, flags)
}

/// The same by other settings than the defaults.
fn of_recipe_with_fault(
    recipe: &[&str],
    fault: &str,
    more: (&str, &str),
    flags: &[&str],
) -> Option<(Ran, String, String)> {
    if !driver::is_there() {
        return None;
    }
    let site = Site::new(&small());
    let library = faulty(&site.path("."));
    let variables = [("FAULT", fault), more, ("AZPIPE_OPENCL_LIBRARY", library.to_str().expect("UTF-8"))];
    let tasks = site.plan("out", &[recipe, &["--by", "frames=6"]].concat());
    let arguments = [&["--engine", "opencl", "--device", "0", "--threads", "1"], flags].concat();
    let ran = driver::integrate(&arguments, &tasks, &variables).good();
    let digest = |results: &str| {
        let gathered = run("gather", NOTHING, results).good();
        gathered.records("summary")[0]["data_digest"].as_str().expect("a digest").to_owned()
    };
    let found = digest(&ran.stdout);
    let expected = digest(&driver::integrate(&["--engine", "cpu"], &site.plan("cpu", recipe), &[]).good().stdout);
    Some((ran, found, expected))
}

fn engines(ran: &Ran) -> Vec<String> {
    ran.records("result").iter().map(|result| result["engine"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_device_that_is_lost_leaves_its_work_to_the_processor() {
    // An invalid queue, what NVIDIA says after most faults, and a code that nobody knows.
    for code in ["-36", "-5", "-5000"] {
        let Some((ran, ..)) = with_fault("lost", ("CODE", code), &[]) else { return };
        assert_eq!(ran.stderr.matches("the processor integrates instead").count(), 1, "{}", ran.stderr);
        assert_eq!(engines(&ran).last().map(String::as_str), Some("cpu"), "{:?}", engines(&ran));
    }
}

#[test]
fn commands_that_fail_after_they_were_accepted_leave_their_frames_to_the_processor() {
    // Too little memory, and what NVIDIA says of a kernel that went astray.
    for code in ["-4", "-9999"] {
        let Some((ran, ..)) = with_fault("ended", ("CODE", code), &[]) else { return };
        let said = ran.stderr.matches("the processor integrates instead").count();
        assert!(said == 1 && ran.stderr.contains(&format!("ended with OpenCL error {code}")), "{}", ran.stderr);
        assert_eq!(engines(&ran).last().map(String::as_str), Some("cpu"), "{:?}", engines(&ran));
    }
}

#[test]
fn a_device_that_is_wrong_is_found_out_and_nothing_of_it_is_kept() {
    let Some((ran, found, expected)) = with_fault("wrong", ("CODE", ""), &["--verify", "6"]) else { return };
    assert!(ran.stderr.contains("wrong sums of frame"), "{}", ran.stderr);
    assert_eq!(engines(&ran), ["cpu"; 4]);
    assert_eq!(found, expected);
}

#[test]
fn clipping_is_left_to_the_processor_where_a_device_is_lost_wrong_or_short_of_memory() {
    let recipe = ["--sigma-clip", "4"];
    let faults = [("lost", ("CODE", "-36"), 2), ("wrong", ("CODE", ""), 0), ("memory", ("MOST", "3000000"), 4)];
    for (fault, more, most) in faults {
        let flags = ["--verify", "6", "--batch-frames", "64"];
        let Some((ran, found, expected)) = of_recipe_with_fault(&recipe, fault, more, &flags) else { return };
        let by_device = engines(&ran).iter().filter(|engine| *engine == "opencl").count();
        assert!(by_device <= most && (fault != "memory" || by_device == 4), "{fault}: {:?}", engines(&ran));
        assert_eq!(found, expected, "{fault}: {}", ran.stderr);
    }
}

#[test]
fn without_memory_for_the_batch_a_device_takes_less_at_a_time() {
    // The matrix of the small detector takes less than a megabyte, and so does a frame.
    let Some((ran, ..)) = with_fault("memory", ("MOST", "2500000"), &["--batch-frames", "64"]) else { return };
    assert_eq!(engines(&ran), ["opencl"; 4], "{}", ran.stderr);
}

#[test]
fn memory_that_turns_out_to_be_too_little_when_it_is_used_is_given_back() {
    // Chunks of three frames take more than that, of one less.
    let Some((ran, ..)) = with_fault("late", ("MOST", "60000"), &["--batch-frames", "64"]) else { return };
    assert_eq!(engines(&ran), ["opencl"; 4], "{}", ran.stderr);
}

#[test]
fn without_any_memory_the_processor_does_it() {
    let Some((ran, found, expected)) = with_fault("memory", ("MOST", "1000"), &[]) else { return };
    assert_eq!(engines(&ran), ["cpu"; 4], "{}", ran.stderr);
    assert_eq!(found, expected);
}
