//! SIGINT, SIGTERM and SIGUSR1 while a filter waits: for input, and for the reader of its output.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::filters::{AI_INTEGRATE, FILTERS, Filter, READERS, directory_with_poni};
use crate::support::wait_for_exit;

/// Starts a filter, and returns when it has read one record and waits for the next.
fn start_until_it_waits(filter: Filter, place: &std::path::Path) -> Child {
    let mut child = filter.command(place).stdin(Stdio::piped()).spawn().expect("it starts");
    writeln!(child.stdin.as_mut().expect("a pipe"), "{}", filter.line).expect("it reads");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    child
}

/// Sends a signal.
pub fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).expect("it is there");
}

#[test]
fn sigint_ends_it_by_sigint() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let mut child = start_until_it_waits(filter, place.path());
        send(&child, Signal::SIGINT);
        assert_eq!(wait_for_exit(&mut child).signal(), Some(2), "{filter:?}");
    }
}

#[test]
fn sigterm_ends_it_by_sigterm_or_drains() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let mut child = start_until_it_waits(filter, place.path());
        send(&child, Signal::SIGTERM);
        let status = wait_for_exit(&mut child);
        if filter.name == AI_INTEGRATE.name {
            assert_eq!(status.code(), Some(76), "nothing was done");
        } else {
            assert_eq!(status.signal(), Some(15), "{filter:?}");
        }
    }
}

#[test]
fn sigusr1_drains_and_is_nothing_to_others() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let mut child = start_until_it_waits(filter, place.path());
        send(&child, Signal::SIGUSR1);
        let drains = filter.name == AI_INTEGRATE.name;
        if !drains {
            writeln!(child.stdin.as_mut().expect("a pipe"), "{}", filter.line)
                .expect("it still reads");
            drop(child.stdin.take());
        }
        assert_eq!(
            wait_for_exit(&mut child).code(),
            Some(if drains { 76 } else { filter.status }),
            "{filter:?}"
        );
    }
}

#[test]
fn a_reader_that_does_not_read_does_not_keep_it_from_ending() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let mut child =
            filter.command(place.path()).stdin(Stdio::piped()).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let feeder =
            std::thread::spawn(move || while writeln!(stdin, "{}", filter.line).is_ok() {});
        // Long enough for both pipes to fill.
        std::thread::sleep(std::time::Duration::from_millis(300));
        send(&child, Signal::SIGINT);
        assert_eq!(wait_for_exit(&mut child).signal(), Some(2), "{filter:?}");
        feeder.join().expect("it ends with the pipe");
    }
}

#[test]
fn a_fifo_without_a_writer_does_not_keep_it_from_ending() {
    for filter in READERS {
        let place = directory_with_poni();
        nix::unistd::mkfifo(&place.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU)
            .expect("a FIFO");
        let mut child = filter.command(place.path()).arg("fifo").spawn().expect("it starts");
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(child.try_wait().expect("our child"), None, "it waits for a writer: {filter:?}");
        send(&child, Signal::SIGINT);
        assert_eq!(wait_for_exit(&mut child).signal(), Some(2), "{filter:?}");
    }
}

#[test]
fn a_background_job_of_a_script_ignores_sigint() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let script =
            "trap '' INT; (sleep 0.3; echo \"$LINE\") | \"$@\" & sleep 0.1; kill -INT $!; wait $!";
        let done =
            filter.in_shell(place.path(), script).env("LINE", filter.line).output().expect("bash");
        assert_eq!(done.status.code(), Some(filter.status), "{filter:?}");
    }
}
