//! Operands, `-`, `--`, `--help`, `--version`, and arguments that are wrong.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use crate::support::filters::{FILTERS, NOTE, READERS, directory_with_poni};
use crate::support::{feed, lines, program};

#[test]
fn version_is_name_and_version() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let done = filter
            .command_without_arguments(place.path())
            .arg("--version")
            .output()
            .expect("it ends");
        assert_eq!(lines(&done.stdout), [format!("{} {}", filter.name, env!("CARGO_PKG_VERSION"))]);
        assert_eq!(done.status.code(), Some(0));
    }
}

#[test]
fn help_is_short_or_long() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let help = |flag: &str| {
            let done =
                filter.command_without_arguments(place.path()).arg(flag).output().expect("it ends");
            assert_eq!(done.status.code(), Some(0), "{filter:?}");
            lines(&done.stdout).join("\n")
        };
        let (short, long) = (help("-h"), help("--help"));
        // By words: the short one has columns, and pads them.
        let words = |text: &str| text.split_whitespace().count();
        assert!(words(&short) < words(&long), "{filter:?}");
        for flag in [
            "--quiet",
            "--verbose",
            "--progress",
            "--help",
            "--version",
            "--fail-fast",
            "--line-buffered",
        ] {
            assert!(short.contains(flag) && long.contains(flag), "{filter:?}: {flag}");
        }
    }
}

#[test]
fn a_wrong_flag_is_answered_with_what_to_try() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let done = filter.run(place.path(), &["--fial-fast"], filter.line);
        assert_eq!(done.status.code(), Some(2), "{filter:?}");
        assert_eq!(lines(&done.stdout), [""; 0], "{filter:?}");
        let message = String::from_utf8_lossy(&done.stderr);
        assert!(message.contains("--fial-fast") && message.contains("'--fail-fast'"), "{message}");
    }
}

#[test]
fn files_are_read_in_the_order_given_whatever_they_are_called() {
    let names: [&[u8]; 7] = [
        b"plain",
        b"two words",
        b"it's \"$HOME\"",
        b"line\nbreak",
        b"-x",
        b"\xff\xfe.jsonl",
        b"50%*?",
    ];
    for filter in READERS {
        let place = directory_with_poni();
        let note = |index: usize| format!(r#"{{"type":"note","id":"{index}"}}"#);
        let mut command = filter.command(place.path());
        command.arg("--");
        for (index, name) in names.iter().enumerate() {
            std::fs::write(place.path().join(OsStr::from_bytes(name)), note(index) + "\n")
                .expect("a file");
            command.arg(OsStr::from_bytes(name));
        }
        command.arg("-");
        let done = feed(command, note(names.len()).as_bytes());
        let expected: Vec<_> = (0..=names.len()).map(note).collect();
        assert_eq!(lines(&done.stdout), expected, "{filter:?}");
        assert_eq!(done.status.code(), Some(filter.status), "{filter:?}");
    }
}

#[test]
fn a_bad_line_is_known_by_its_file_in_one_line() {
    for filter in READERS {
        let place = directory_with_poni();
        std::fs::write(place.path().join("a\nb.jsonl"), "bad\n").expect("a file");
        let done = feed(filter.in_shell(place.path(), "exec \"$@\" $'a\\nb.jsonl'"), b"");
        assert_eq!(lines(&done.stdout).len(), 1, "{done:?}");
        assert!(
            lines(&done.stderr)[0].starts_with(&format!("{}: a\\nb.jsonl:1: ", filter.name)),
            "{done:?}"
        );
    }
}

#[test]
fn a_file_that_can_not_be_read_is_an_error_before_any_work() {
    for filter in READERS {
        let place = directory_with_poni();
        std::fs::write(place.path().join("good"), NOTE).expect("a file");
        for (wrong, why) in [("none.jsonl", "No such file"), (".", "directory")] {
            let mut command = filter.command(place.path());
            let done = command.args(["good", wrong]).output().expect("it ends");
            assert_eq!(done.status.code(), Some(2), "{filter:?}");
            assert_eq!(lines(&done.stdout), [""; 0], "{filter:?}");
            let [message] = lines(&done.stderr)[..] else { panic!("{done:?}") };
            assert!(
                message.starts_with(&format!("{}: {wrong}: ", filter.name))
                    && message.contains(why),
                "{message}"
            );
        }
    }
}

#[test]
fn quiet_says_nothing_but_errors() {
    for filter in READERS {
        let place = directory_with_poni();
        assert_eq!(lines(&filter.run(place.path(), &["-q"], "").stderr), [""; 0], "{filter:?}");
        assert_eq!(lines(&filter.run(place.path(), &["-q"], NOTE).stderr).len(), 1, "{filter:?}");
        assert_eq!(lines(&filter.run(place.path(), &["-q"], "bad").stderr).len(), 1, "{filter:?}");
        assert_eq!(
            filter
                .run(place.path(), &["-qvv", "--progress=none", "--line-buffered"], "")
                .status
                .code(),
            Some(0)
        );
    }
}

#[test]
fn completions_of_bash_offer_the_flags() {
    for filter in FILTERS {
        let place = tempfile::tempdir().expect("a directory");
        let mut command = filter.command_without_arguments(place.path());
        command.args(["--completions", "bash"]);
        let script = feed(command, b"");
        assert_eq!(script.status.code(), Some(0), "{script:?}");
        std::fs::write(place.path().join("completions"), &script.stdout).expect("it is written");
        // What bash does when the tab key is pressed after `FILTER --qu`.
        let offer = format!(
            "source completions; function=$(complete -p {0} | sed 's/.*-F \\([^ ]*\\).*/\\1/'); \
             COMP_WORDS=({0} --qu) COMP_CWORD=1; $function {0} --qu {0}; echo \"${{COMPREPLY[@]}}\"",
            filter.name
        );
        let mut bash = std::process::Command::new("bash");
        let offered =
            bash.current_dir(place.path()).args(["-c", &offer]).output().expect("bash starts");
        assert_eq!(lines(&offered.stdout), ["--quiet"], "{offered:?}");
    }
}

#[test]
fn an_environment_that_makes_no_sense_is_refused_before_a_file_is_read() {
    for filter in ["scan-find", "plan-split", "ai-integrate", "gather"] {
        let mut command = Command::new(program(filter));
        if filter == "plan-split" {
            command.args(["--out", "out"]);
        }
        let ran = command.arg("/dev/null").env("AZPIPE_FILE_TIMEOUT", "60s").output().unwrap();
        let message = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{filter}: {message}");
        let expected = "environment: AZPIPE_FILE_TIMEOUT=\"60s\": expected a number of seconds, or 0 for no limit";
        assert!(message.starts_with(&format!("{filter}: {expected}")), "{message}");
    }
}
