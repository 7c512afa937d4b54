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

/// No filter takes a longer line, and none takes much more memory than that for it.
const LONGEST: usize = 64 << 20;

#[test]
fn a_line_of_64_mib_passes_and_one_of_254_mb_is_refused_within_little_memory() {
    let note = |length: usize| {
        let (start, end) = (r#"{"type":"note","text":""#, r#""}"#);
        [start, &"x".repeat(length - start.len() - end.len()), end].concat()
    };
    for tool in READERS {
        let place = workplace();
        let limited = |kilobytes: u64| tool.in_shell(place.path(), &format!("ulimit -v {kilobytes}; exec \"$@\""));
        let longest = note(LONGEST);
        let done = feed(limited(2_500_000), format!("{longest}\n{NOTE}\n").as_bytes());
        assert!(lines(&done.stdout) == [&longest, NOTE], "{tool:?}: {}", String::from_utf8_lossy(&done.stderr));
        let done = feed(limited(1_000_000), format!("{}\n{NOTE}\n", note(254_000_000)).as_bytes());
        assert_eq!(done.status.code(), Some(1), "{tool:?}: {}", String::from_utf8_lossy(&done.stderr));
        let [fail, passed] = lines(&done.stdout)[..] else { panic!("{tool:?}: {done:?}") };
        assert_eq!((&json(fail)["type"], passed), (&"fail".into(), NOTE), "{tool:?}");
        assert!(fail.contains("64 MiB"), "{fail}");
    }
}

/// Runs a command while it holds a lease on a file, as Samba does, and lets go of it when the system asks.
const LEASE: &str = r"
import fcntl, os, signal, subprocess, sys
file = os.open(sys.argv[1], os.O_RDWR)
asked = []
def let_go(*_):
    asked.append(1)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
signal.signal(signal.SIGIO, let_go)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
status = subprocess.run(sys.argv[2:]).returncode
sys.exit(status if asked else 99)
";

#[test]
fn a_file_that_another_holds_a_lease_on_is_waited_for() {
    let place = workplace();
    let script = "python3 -c \"$LEASE\" lab6.poni \"$@\"";
    let mut command = crate::tool::PLAN_SPLIT.in_shell(place.path(), script);
    command.env("LEASE", LEASE);
    let done = feed(command, format!("{NOTE}\n").as_bytes());
    assert_eq!(lines(&done.stdout), [NOTE], "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(1), "a record that nobody works on: {done:?}");
}
