//! Which devices are seen, and what is said where there are none.

use std::process::Command;

use super::driver;
use crate::support::program;

/// Status, stdout and stderr.
fn output_of(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().expect("the filter starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_machine_without_opencl_runs_all_else_and_says_what_to_install() {
    let mut command = driver::command();
    command.env("AZPIPE_OPENCL_LIBRARY", "/no/such/library.so");
    assert_eq!(output_of(command.arg("--version")).0, Some(0));
    let mut command = driver::command();
    command.env("AZPIPE_OPENCL_LIBRARY", "/no/such/library.so");
    let (status, stdout, stderr) = output_of(command.arg("--list-devices"));
    assert_eq!((status, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("/no/such/library.so") && stderr.contains("install"), "{stderr}");
}

#[test]
fn the_program_is_linked_with_no_opencl_library() {
    let program = std::fs::read(program("ai-integrate")).expect("the program");
    let count = |name: &[u8]| program.windows(name.len()).filter(|window| *window == name).count();
    // The names that the loader tries stand in it once; as a needed library the name would stand
    // there again, behind a zero.
    assert_eq!(count(b"\0libOpenCL.so.1\0"), 0);
    assert!(count(b"libOpenCL.so.1") > 0);
}

#[test]
fn devices_are_listed_with_what_users_name_them_by() {
    if !driver::is_installed() {
        return;
    }
    let (status, stdout, stderr) = output_of(driver::command().arg("--list-devices"));
    assert_eq!(status, Some(0), "{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{stdout}");
    assert!(lines[0].starts_with("device  name"), "{stdout}");
    assert!(lines[1].starts_with("0 ") && lines[2].starts_with("1 "), "{stdout}");
    assert!(lines[1].contains(" cpu ") && lines[1].contains("GiB"), "{stdout}");
}

#[test]
fn a_job_without_a_gpu_gets_none_and_a_wrong_word_is_refused() {
    if !driver::is_installed() {
        return;
    }
    for (variable, list) in [("CUDA_VISIBLE_DEVICES", ""), ("ROCR_VISIBLE_DEVICES", "NoDevFiles")] {
        let ran = driver::integrate(&["--engine", "opencl"], "", &[(variable, list)]);
        assert!(ran.status == 2 && ran.stderr.contains(variable), "{}: {}", ran.status, ran.stderr);
    }
    let ran = driver::integrate(&["--engine", "opencl", "--device", "7"], "", &[]);
    assert!(ran.status == 2 && ran.stderr.contains("--device 7: no such device"), "{}", ran.stderr);
    let ran = driver::integrate(&["--engine", "cpu", "--device", "0"], "", &[]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let ran = driver::integrate(
        &["--engine", "opencl"],
        "",
        &[("AZPIPE_OPENCL_LIBRARY", "/no/such/library.so")],
    );
    assert!(ran.status == 2 && ran.stderr.contains("install"), "{}", ran.stderr);
}
