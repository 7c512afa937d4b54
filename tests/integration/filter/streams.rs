//! Closed pipes, full disks, closed streams, empty inputs, live pipes.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use crate::support::fault_shim::preload;
use crate::support::filters::{FILTERS, NOTE, READERS, SCAN_FIND, directory_with_poni};
use crate::support::{feed, json, lines, wait_for_exit};

#[test]
fn an_empty_input_is_no_failure() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let done = filter.run(place.path(), &["-q"], "");
        assert_eq!(done.status.code(), Some(0), "{filter:?}");
        assert_eq!(lines(&done.stdout), [""; 0], "{filter:?}");
        assert_eq!(lines(&done.stderr), [""; 0], "{filter:?}");
    }
}

#[test]
fn a_reader_that_has_gone_ends_it_by_sigpipe() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = filter.command(place.path());
        command.stdout(writer);
        let done = feed(command, format!("{}\n", filter.line).as_bytes());
        assert_eq!(done.status.signal(), Some(13), "{filter:?}");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(
            !said.contains("stdout") && !said.contains("pipe"),
            "a broken pipe is nothing to talk about: {said}"
        );
    }
}

#[test]
fn a_reader_that_goes_while_nothing_happens_ends_it_too() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let mut child =
            filter.command(place.path()).stdin(Stdio::piped()).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        writeln!(stdin, "{}", filter.line).expect("it reads");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        stdout.read_line(&mut String::new()).expect("a line");
        drop(stdout);
        assert_eq!(wait_for_exit(&mut child).signal(), Some(13), "{filter:?}");
        drop(stdin);
    }
}

#[test]
fn a_shell_sees_141_behind_head() {
    for filter in READERS {
        let place = directory_with_poni();
        let script = "yes \"$NOTE\" | \"$@\" | head -n 1; echo \"${PIPESTATUS[1]}\"";
        let done = filter.in_shell(place.path(), script).env("NOTE", NOTE).output().expect("bash");
        assert_eq!(lines(&done.stdout), [NOTE, "141"], "{filter:?}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let mut command = filter.command(place.path());
        command.stdout(File::options().write(true).open("/dev/full").expect("/dev/full"));
        let done = feed(command, format!("{}\n", filter.line).as_bytes());
        assert_eq!(done.status.code(), Some(2), "{filter:?}");
        let complaint = format!("{}: stdout: No space left on device", filter.name);
        assert!(lines(&done.stderr).iter().any(|line| line.starts_with(&complaint)), "{done:?}");
    }
}

/// As on NFS, or with a quota: the writes are accepted, and closing the file tells that there was
/// no room for them.
#[test]
fn a_disk_that_is_full_only_when_the_file_is_closed_is_an_error() {
    for filter in FILTERS {
        for arguments in [&[][..], &["--help"], &["--completions", "bash"]] {
            let (place, output) =
                (directory_with_poni(), tempfile::tempdir().expect("a directory"));
            let mut command = filter.command_without_arguments(place.path());
            if arguments.is_empty() {
                command = filter.command(place.path());
            }
            let stdout = output.path().join("records.jsonl");
            command.args(arguments).stdout(File::create(&stdout).expect("a file"));
            preload(&mut command, output.path()).env("FAULTS_AT", "close 1-99 ENOSPC");
            let done = feed(command, format!("{}\n", filter.line).as_bytes());
            assert_eq!(done.status.code(), Some(2), "{filter:?} {arguments:?}: {done:?}");
            let complaint = format!("{}: stdout: No space left on device", filter.name);
            assert!(
                lines(&done.stderr).iter().any(|line| line.starts_with(&complaint)),
                "{done:?}"
            );
        }
    }
}

#[test]
fn a_closed_stdout_is_an_error_before_any_work() {
    for filter in FILTERS {
        for script in ["\"$@\" >&-", "\"$@\" --version >&-", "\"$@\" --help >&-"] {
            let place = directory_with_poni();
            let done = filter.in_shell(place.path(), script).output().expect("bash");
            assert_eq!(done.status.code(), Some(2), "{filter:?} {script}");
            assert_eq!(lines(&done.stderr), [format!("{}: stdout: is closed", filter.name)]);
            let made: Vec<_> = place.path().read_dir().expect("a directory").collect();
            assert_eq!(made.len(), 1, "{filter:?} worked for nobody: {made:?}");
        }
    }
}

#[test]
fn a_closed_stdin_is_an_error() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let done = filter.in_shell(place.path(), "\"$@\" <&-").output().expect("bash");
        assert_eq!(done.status.code(), Some(2), "{filter:?}");
        assert_eq!(lines(&done.stderr), [format!("{}: stdin: is closed", filter.name)]);
    }
}

#[test]
fn an_output_to_dev_null_is_none_of_that() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let script = "echo \"$LINE\" | \"$@\" > /dev/null";
        let done =
            filter.in_shell(place.path(), script).env("LINE", filter.line).output().expect("bash");
        assert_eq!(done.status.code(), Some(filter.status), "{filter:?}");
    }
}

#[test]
fn a_record_comes_out_before_the_input_ends() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let mut child =
            filter.command(place.path()).stdin(Stdio::piped()).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        // scan-find has only one thing to say of a path.
        for _ in 0..if filter.name == SCAN_FIND.name { 1 } else { 3 } {
            writeln!(stdin, "{}", filter.line).expect("it reads");
            let record = json(&stdout.next().expect("a line").expect("UTF-8"));
            assert!(record["type"] == "note" || record["type"] == "fail", "{filter:?}: {record}");
        }
        drop(stdin);
        assert_eq!(wait_for_exit(&mut child).code(), Some(filter.status), "{filter:?}");
    }
}

#[test]
fn half_a_line_waits_for_the_other_half() {
    for filter in READERS {
        let place = directory_with_poni();
        let mut child =
            filter.command(place.path()).stdin(Stdio::piped()).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        for half in [&NOTE[..20], &NOTE[20..]] {
            stdin.write_all(half.as_bytes()).expect("it reads");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        drop(stdin);
        let done = child.wait_with_output().expect("it ends");
        assert_eq!(lines(&done.stdout), [NOTE], "{filter:?}");
    }
}

#[test]
fn lines_longer_than_any_buffer_pass_whole() {
    let long = format!(r#"{{"type":"note","text":"{}"}}"#, "x".repeat(300_000));
    for filter in READERS {
        let place = directory_with_poni();
        let done = filter.run(place.path(), &[], format!("{NOTE}\n{long}\n{NOTE}"));
        assert_eq!(lines(&done.stdout), [NOTE, &long, NOTE], "{filter:?}");
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
    for filter in READERS {
        let place = directory_with_poni();
        let limited = |kilobytes: u64| {
            filter.in_shell(place.path(), &format!("ulimit -v {kilobytes}; exec \"$@\""))
        };
        let longest = note(LONGEST);
        let done = feed(limited(2_500_000), format!("{longest}\n{NOTE}\n").as_bytes());
        assert!(
            lines(&done.stdout) == [&longest, NOTE],
            "{filter:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        let done = feed(limited(1_000_000), format!("{}\n{NOTE}\n", note(254_000_000)).as_bytes());
        assert_eq!(
            done.status.code(),
            Some(1),
            "{filter:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        let [fail, passed] = lines(&done.stdout)[..] else { panic!("{filter:?}: {done:?}") };
        assert_eq!((&json(fail)["type"], passed), (&"fail".into(), NOTE), "{filter:?}");
        assert!(fail.contains("64 MiB"), "{fail}");
    }
}

/// Runs a command while it holds a lease on a file, as Samba does, and lets go of it when the
/// system asks.
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
    let place = directory_with_poni();
    let script = "python3 -c \"$LEASE\" lab6.poni \"$@\"";
    let mut command = crate::support::filters::PLAN_SPLIT.in_shell(place.path(), script);
    command.env("LEASE", LEASE);
    let done = feed(command, format!("{NOTE}\n").as_bytes());
    assert_eq!(lines(&done.stdout), [NOTE], "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(1), "a record that nobody works on: {done:?}");
}
