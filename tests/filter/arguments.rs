//! Operands, `-`, `--`, `--help`, `--version`, and arguments that are wrong.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::tool::{NOTE, READERS, TOOLS, feed, lines, workplace};

#[test]
fn version_is_name_and_version() {
    for tool in TOOLS {
        let place = workplace();
        let done = tool.bare(place.path()).arg("--version").output().expect("it ends");
        assert_eq!(lines(&done.stdout), [format!("{} {}", tool.name, env!("CARGO_PKG_VERSION"))]);
        assert_eq!(done.status.code(), Some(0));
    }
}

#[test]
fn help_is_short_or_long() {
    for tool in TOOLS {
        let place = workplace();
        let help = |flag: &str| {
            let done = tool.bare(place.path()).arg(flag).output().expect("it ends");
            assert_eq!(done.status.code(), Some(0), "{tool:?}");
            lines(&done.stdout).join("\n")
        };
        let (short, long) = (help("-h"), help("--help"));
        // By words: the short one has columns, and pads them.
        let words = |text: &str| text.split_whitespace().count();
        assert!(words(&short) < words(&long), "{tool:?}");
        for flag in ["--quiet", "--verbose", "--progress", "--help", "--version", "--fail-fast", "--line-buffered"] {
            assert!(short.contains(flag) && long.contains(flag), "{tool:?}: {flag}");
        }
    }
}

#[test]
fn a_wrong_flag_is_answered_with_what_to_try() {
    for tool in TOOLS {
        let place = workplace();
        let done = tool.run(place.path(), &["--fial-fast"], tool.line);
        assert_eq!(done.status.code(), Some(2), "{tool:?}");
        assert_eq!(lines(&done.stdout), [""; 0], "{tool:?}");
        let message = String::from_utf8_lossy(&done.stderr);
        assert!(message.contains("--fial-fast") && message.contains("'--fail-fast'"), "{message}");
    }
}

#[test]
fn files_are_read_in_the_order_given_whatever_they_are_called() {
    let names: [&[u8]; 7] =
        [b"plain", b"two words", b"it's \"$HOME\"", b"line\nbreak", b"-x", b"\xff\xfe.jsonl", b"50%*?"];
    for tool in READERS {
        let place = workplace();
        let note = |index: usize| format!(r#"{{"type":"note","id":"{index}"}}"#);
        let mut command = tool.command(place.path());
        command.arg("--");
        for (index, name) in names.iter().enumerate() {
            std::fs::write(place.path().join(OsStr::from_bytes(name)), note(index) + "\n").expect("a file");
            command.arg(OsStr::from_bytes(name));
        }
        command.arg("-");
        let done = feed(command, note(names.len()).as_bytes());
        let expected: Vec<_> = (0..=names.len()).map(note).collect();
        assert_eq!(lines(&done.stdout), expected, "{tool:?}");
        assert_eq!(done.status.code(), Some(tool.status), "{tool:?}");
    }
}

#[test]
fn a_bad_line_is_known_by_its_file_in_one_line() {
    for tool in READERS {
        let place = workplace();
        std::fs::write(place.path().join("a\nb.jsonl"), "bad\n").expect("a file");
        let done = feed(tool.in_shell(place.path(), "exec \"$@\" $'a\\nb.jsonl'"), b"");
        assert_eq!(lines(&done.stdout).len(), 1, "{done:?}");
        assert!(lines(&done.stderr)[0].starts_with(&format!("{}: a\\nb.jsonl:1: ", tool.name)), "{done:?}");
    }
}

#[test]
fn a_file_that_can_not_be_read_is_an_error_before_any_work() {
    for tool in READERS {
        let place = workplace();
        std::fs::write(place.path().join("good"), NOTE).expect("a file");
        for (wrong, why) in [("none.jsonl", "No such file"), (".", "directory")] {
            let mut command = tool.command(place.path());
            let done = command.args(["good", wrong]).output().expect("it ends");
            assert_eq!(done.status.code(), Some(2), "{tool:?}");
            assert_eq!(lines(&done.stdout), [""; 0], "{tool:?}");
            let [message] = lines(&done.stderr)[..] else { panic!("{done:?}") };
            assert!(message.starts_with(&format!("{}: {wrong}: ", tool.name)) && message.contains(why), "{message}");
        }
    }
}

#[test]
fn quiet_says_nothing_but_errors() {
    for tool in READERS {
        let place = workplace();
        assert_eq!(lines(&tool.run(place.path(), &["-q"], "").stderr), [""; 0], "{tool:?}");
        assert_eq!(lines(&tool.run(place.path(), &["-q"], NOTE).stderr).len(), 1, "{tool:?}");
        assert_eq!(lines(&tool.run(place.path(), &["-q"], "bad").stderr).len(), 1, "{tool:?}");
        assert_eq!(tool.run(place.path(), &["-qvv", "--progress=off", "--line-buffered"], "").status.code(), Some(0));
    }
}
