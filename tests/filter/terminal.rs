//! What a filter does where a stream is a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use nix::pty::openpty;

use crate::tool::{PLAN_SPLIT, TOOLS, feed, lines, wait, workplace};

#[test]
fn a_terminal_with_nothing_to_read_gets_short_help() {
    for tool in TOOLS {
        let place = workplace();
        let terminal = openpty(None, None).expect("a terminal");
        let done = tool.command(place.path()).stdin(terminal.slave).output().expect("it ends");
        assert_eq!(done.status.code(), Some(2), "{tool:?}");
        let message = String::from_utf8_lossy(&done.stderr);
        assert!(message.starts_with(&format!("{}: nothing to read", tool.name)), "{message}");
        assert!(message.contains("Usage: "), "{message}");
        assert_eq!(lines(&done.stdout), [""; 0], "help that was not asked for is no output");
    }
}

#[test]
fn a_terminal_that_was_asked_for_is_read() {
    for tool in TOOLS {
        let place = workplace();
        let terminal = openpty(None, None).expect("a terminal");
        // The end of input, as typed.
        nix::unistd::write(&terminal.master, b"\x04").expect("it is written");
        let mut child = tool.command(place.path()).arg("-").stdin(terminal.slave).spawn().expect("it starts");
        assert_eq!(wait(&mut child).code(), Some(0), "{tool:?}");
    }
}

/// What the command, which is to end with this status, writes to stderr where that is a terminal.
pub fn shown(command: Command, status: i32) -> String {
    shown_of_input(command, b"", status)
}

/// The same of a command that reads a pipe, where its stdin is to be one.
pub fn shown_of_input(mut command: Command, input: &[u8], status: i32) -> String {
    let terminal = openpty(None, None).expect("a terminal");
    command.stdout(Stdio::null()).stderr(terminal.slave);
    let mut child = command.spawn().expect("it starts");
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input).expect("it reads");
    }
    assert_eq!(wait(&mut child).code(), Some(status));
    // The terminal's other end closes with the command, and so ends what can be read.
    drop(command);
    let mut shown = Vec::new();
    let _ = File::from(terminal.master).read_to_end(&mut shown);
    String::from_utf8(shown).expect("UTF-8")
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    let place = workplace();
    let wrong = |variable: &str, value: &str| {
        let mut command = PLAN_SPLIT.bare(place.path());
        command.arg("--no-such-flag").env_remove("NO_COLOR").env("TERM", "xterm").env(variable, value);
        shown(command, 2)
    };
    assert!(wrong("TERM", "xterm").contains('\x1b'), "a terminal has colours");
    assert!(!wrong("NO_COLOR", "1").contains('\x1b'));
    assert!(!wrong("TERM", "dumb").contains('\x1b'));
}

#[test]
fn what_is_no_terminal_gets_neither_colour_nor_progress() {
    for tool in TOOLS {
        let place = workplace();
        let done = feed(tool.command(place.path()), format!("{}\nbad\n", tool.line).as_bytes());
        assert!(!done.stderr.iter().any(|byte| b"\r\x1b".contains(byte)), "{done:?}");
    }
}
