//! Filters with a terminal as stdin, stdout or stderr.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, Stdio};

use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};

use crate::support::filters::{FILTERS, GATHER, NOTE, PLAN_SPLIT, SCAN_FIND, directory_with_poni};
use crate::support::{
    NO_ARGUMENTS, Workspace, feed, json, lines, run, small_options, wait_for_exit,
};

#[test]
fn a_terminal_with_nothing_to_read_gets_short_help() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let (_master, slave) = open_terminal();
        let done = filter.command(place.path()).stdin(slave).output().expect("it ends");
        assert_eq!(done.status.code(), Some(2), "{filter:?}");
        let message = String::from_utf8_lossy(&done.stderr);
        assert!(message.starts_with(&format!("{}: nothing to read", filter.name)), "{message}");
        assert!(message.contains("Usage: "), "{message}");
        assert_eq!(lines(&done.stdout), [""; 0], "help that was not asked for is no output");
    }
}

#[test]
fn a_terminal_that_was_asked_for_is_read() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let (master, slave) = open_terminal();
        // The end of input, as typed.
        nix::unistd::write(&master, b"\x04").expect("it is written");
        let mut child =
            filter.command(place.path()).arg("-").stdin(slave).spawn().expect("it starts");
        assert_eq!(wait_for_exit(&mut child).code(), Some(0), "{filter:?}");
    }
}

/// Opens a terminal: the side of the tests, and that of the program under test.
///
/// No other process inherits either, as with `openpty`: programs that other tests start would keep
/// the terminal open.
fn open_terminal() -> (PtyMaster, File) {
    let master =
        posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).expect("a terminal");
    grantpt(&master).expect("a terminal of this user");
    unlockpt(&master).expect("a terminal");
    let name = ptsname_r(&master).expect("a terminal with a name");
    let slave =
        File::options().read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(name);
    (master, slave.expect("the terminal opens"))
}

/// Runs a command with a terminal as stderr, asserts its exit status, and returns what it wrote
/// there.
pub fn stderr_on_terminal(command: Command, status: i32) -> String {
    stderr_on_terminal_with_input(command, b"", status)
}

/// Runs a command as `stderr_on_terminal` does, with input on a pipe if its stdin is one.
pub fn stderr_on_terminal_with_input(mut command: Command, input: &[u8], status: i32) -> String {
    let (master, slave) = open_terminal();
    command.stdout(Stdio::null()).stderr(slave);
    let mut child = command.spawn().expect("it starts");
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input).expect("it reads");
    }
    assert_eq!(wait_for_exit(&mut child).code(), Some(status));
    // The terminal's other end closes with the command, and so ends what can be read.
    drop(command);
    let mut shown = Vec::new();
    let _ = (&master).read_to_end(&mut shown);
    String::from_utf8(shown).expect("UTF-8")
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    let place = directory_with_poni();
    let wrong = |variable: &str, value: &str| {
        let mut command = PLAN_SPLIT.command_without_arguments(place.path());
        command
            .arg("--no-such-flag")
            .env_remove("NO_COLOR")
            .env("TERM", "xterm")
            .env(variable, value);
        stderr_on_terminal(command, 2)
    };
    assert!(wrong("TERM", "xterm").contains('\x1b'), "a terminal has colours");
    assert!(!wrong("NO_COLOR", "1").contains('\x1b'));
    assert!(!wrong("TERM", "dumb").contains('\x1b'));
}

#[test]
fn what_is_no_terminal_gets_neither_colour_nor_progress() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let done = feed(filter.command(place.path()), format!("{}\nbad\n", filter.line).as_bytes());
        assert!(!done.stderr.iter().any(|byte| b"\r\x1b".contains(byte)), "{done:?}");
    }
}

/// Runs a command with a terminal as stdout, over input on a pipe, and returns what it wrote there.
fn stdout_on_terminal(mut command: Command, input: &[u8]) -> String {
    let (master, slave) = open_terminal();
    let mut child = command.stdin(Stdio::piped()).stdout(slave).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input).expect("it reads");
    assert_eq!(wait_for_exit(&mut child).code(), Some(0));
    drop(command);
    let mut shown = Vec::new();
    let _ = (&master).read_to_end(&mut shown);
    // A terminal ends lines with a carriage return, too.
    String::from_utf8(shown).expect("UTF-8").replace("\r\n", "\n")
}

#[test]
fn a_terminal_shows_scans_as_a_table_and_finals_as_lines() {
    let place = Workspace::new(&small_options());
    let directory = place.data.raw.parent().expect("a parent");
    let scan_find = |flags: &[&str]| {
        let mut command = SCAN_FIND.command(directory);
        command.arg(&place.data.raw).args(flags);
        stdout_on_terminal(command, b"")
    };
    let table = scan_find(&[]);
    let [headings, file, scan, end] = table.lines().collect::<Vec<_>>()[..] else {
        panic!("{table}")
    };
    assert!(headings.starts_with("ENTRY ") && headings.ends_with(" TITLE"), "{table}");
    assert!(file.ends_with(".h5"), "{table}");
    let cells: Vec<&str> = scan.split_whitespace().take(6).collect();
    assert_eq!(cells, ["1.1", "pilatus", "24", "-", "195x487", "bslz4"], "{table}");
    assert!(end.starts_with("1 scan, 24 frames, "), "{table}");
    assert!(scan_find(&["-v"]).contains("    counters: "));
    assert_eq!(scan_find(&["--json"]), place.scans);

    let results = run("ai-integrate", NO_ARGUMENTS, &place.plan("OUT", &[])).stdout;
    let lines = stdout_on_terminal(GATHER.command(directory), results.as_bytes());
    let [line, end] = lines.lines().collect::<Vec<_>>()[..] else { panic!("{lines}") };
    assert!(line.starts_with("OUT/"), "a path below the working directory is relative: {lines}");
    assert!(line.ends_with(".h5: 24 frames, all with a pattern"), "{lines}");
    assert_eq!(end, "1 final file: 24 frames, all with a pattern");
    let mut command = GATHER.command(directory);
    command.arg("--json");
    assert_eq!(json(&stdout_on_terminal(command, results.as_bytes()))["type"], "summary");
}

#[test]
fn records_without_a_view_are_json_on_a_terminal() {
    let place = directory_with_poni();
    let (master, slave) = open_terminal();
    let mut command = GATHER.command(place.path());
    let mut child = command.stdin(Stdio::piped()).stdout(slave).spawn().expect("it starts");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(format!("{NOTE}\n").as_bytes())
        .expect("it reads");
    assert_eq!(wait_for_exit(&mut child).code(), Some(GATHER.status));
    drop(command);
    let mut shown = Vec::new();
    let _ = (&master).read_to_end(&mut shown);
    assert_eq!(json(String::from_utf8(shown).expect("UTF-8").trim_end()), json(NOTE));
}
