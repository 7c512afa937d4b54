//! Closed pipes, full disks, closed streams, empty inputs, live pipes.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use crate::tool::{NOTE, READERS, SCAN_FIND, TOOLS, feed, json, lines, wait, workplace};

#[test]
fn an_empty_input_is_no_failure() {
    for tool in TOOLS {
        let place = workplace();
        let done = tool.run(place.path(), &["-q"], "");
        assert_eq!(done.status.code(), Some(0), "{tool:?}");
        assert_eq!(lines(&done.stdout), [""; 0], "{tool:?}");
        assert_eq!(lines(&done.stderr), [""; 0], "{tool:?}");
    }
}

#[test]
fn a_reader_that_has_gone_ends_it_by_sigpipe() {
    for tool in TOOLS {
        let place = workplace();
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = tool.command(place.path());
        command.stdout(writer);
        let done = feed(command, format!("{}\n", tool.line).as_bytes());
        assert_eq!(done.status.signal(), Some(13), "{tool:?}");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(!said.contains("stdout") && !said.contains("pipe"), "a broken pipe is nothing to talk about: {said}");
    }
}

#[test]
fn a_reader_that_goes_while_nothing_happens_ends_it_too() {
    for tool in TOOLS {
        let place = workplace();
        let mut child = tool.command(place.path()).stdin(Stdio::piped()).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        writeln!(stdin, "{}", tool.line).expect("it reads");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        stdout.read_line(&mut String::new()).expect("a line");
        drop(stdout);
        assert_eq!(wait(&mut child).signal(), Some(13), "{tool:?}");
        drop(stdin);
    }
}

#[test]
fn a_shell_sees_141_behind_head() {
    for tool in READERS {
        let place = workplace();
        let script = "yes \"$NOTE\" | \"$@\" | head -n 1; echo \"${PIPESTATUS[1]}\"";
        let done = tool.in_shell(place.path(), script).env("NOTE", NOTE).output().expect("bash");
        assert_eq!(lines(&done.stdout), [NOTE, "141"], "{tool:?}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    for tool in TOOLS {
        let place = workplace();
        let mut command = tool.command(place.path());
        command.stdout(File::options().write(true).open("/dev/full").expect("/dev/full"));
        let done = feed(command, format!("{}\n", tool.line).as_bytes());
        assert_eq!(done.status.code(), Some(2), "{tool:?}");
        let complaint = format!("{}: stdout: No space left on device", tool.name);
        assert!(lines(&done.stderr).iter().any(|line| line.starts_with(&complaint)), "{done:?}");
    }
}

#[test]
fn a_closed_stdout_is_an_error_before_any_work() {
    for tool in TOOLS {
        for script in ["\"$@\" >&-", "\"$@\" --version >&-", "\"$@\" --help >&-"] {
            let place = workplace();
            let done = tool.in_shell(place.path(), script).output().expect("bash");
            assert_eq!(done.status.code(), Some(2), "{tool:?} {script}");
            assert_eq!(lines(&done.stderr), [format!("{}: stdout: is closed", tool.name)]);
            let made: Vec<_> = place.path().read_dir().expect("a directory").collect();
            assert_eq!(made.len(), 1, "{tool:?} worked for nobody: {made:?}");
        }
    }
}

#[test]
fn a_closed_stdin_is_an_error() {
    for tool in TOOLS {
        let place = workplace();
        let done = tool.in_shell(place.path(), "\"$@\" <&-").output().expect("bash");
        assert_eq!(done.status.code(), Some(2), "{tool:?}");
        assert_eq!(lines(&done.stderr), [format!("{}: stdin: is closed", tool.name)]);
    }
}

#[test]
fn an_output_to_dev_null_is_none_of_that() {
    for tool in TOOLS {
        let place = workplace();
        let script = "echo \"$LINE\" | \"$@\" > /dev/null";
        let done = tool.in_shell(place.path(), script).env("LINE", tool.line).output().expect("bash");
        assert_eq!(done.status.code(), Some(tool.status), "{tool:?}");
    }
}

#[test]
fn a_record_comes_out_before_the_input_ends() {
    for tool in TOOLS {
        let place = workplace();
        let mut child = tool.command(place.path()).stdin(Stdio::piped()).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        // scan-find has only one thing to say of a path.
        for _ in 0..if tool.name == SCAN_FIND.name { 1 } else { 3 } {
            writeln!(stdin, "{}", tool.line).expect("it reads");
            let record = json(&stdout.next().expect("a line").expect("UTF-8"));
            assert!(record["type"] == "note" || record["type"] == "fail", "{tool:?}: {record}");
        }
        drop(stdin);
        assert_eq!(wait(&mut child).code(), Some(tool.status), "{tool:?}");
    }
}

#[test]
fn half_a_line_waits_for_the_other_half() {
    for tool in READERS {
        let place = workplace();
        let mut child = tool.command(place.path()).stdin(Stdio::piped()).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        for half in [&NOTE[..20], &NOTE[20..]] {
            stdin.write_all(half.as_bytes()).expect("it reads");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        drop(stdin);
        let done = child.wait_with_output().expect("it ends");
        assert_eq!(lines(&done.stdout), [NOTE], "{tool:?}");
    }
}

#[test]
fn lines_longer_than_any_buffer_pass_whole() {
    let long = format!(r#"{{"type":"note","text":"{}"}}"#, "x".repeat(300_000));
    for tool in READERS {
        let place = workplace();
        let done = tool.run(place.path(), &[], format!("{NOTE}\n{long}\n{NOTE}"));
        assert_eq!(lines(&done.stdout), [NOTE, &long, NOTE], "{tool:?}");
    }
}
