//! Values that an option does not take, of every option of every filter.

use clap::Arg;

use crate::support::{filters, run};

/// Values that some options refuse.
const VALUES: [&str; 9] =
    ["", "x", "-1", "1e3", "0", "2.5", "99999999999999999999999", "1,", "60,000"];

/// Words of Rust's parsers and of clap, which say nothing of what is expected.
const WORDS: [&str; 7] = [
    "invalid digit",
    "invalid float",
    "cannot parse",
    "number too large",
    "number too small",
    "18446744073709551615",
    " is not in ",
];

#[test]
fn messages_say_what_is_expected_in_words_of_users() {
    for command in filters::commands() {
        let takes_value = |option: &&Arg| option.get_action().takes_values();
        let options = command.get_arguments().filter(takes_value).filter_map(Arg::get_long);
        for option in options {
            for value in VALUES {
                let arguments = [command.get_name().to_owned(), format!("--{option}={value}")];
                let Err(why) = command.clone().try_get_matches_from(arguments) else { continue };
                let why = why.to_string();
                let found = WORDS.iter().find(|word| why.contains(**word));
                assert_eq!(found, None, "{} --{option}={value:?}: {why}", command.get_name());
            }
        }
    }
}

#[test]
fn flags_that_contradict_each_other_and_values_that_say_nothing_are_refused_with_a_remedy() {
    let cases: [(&str, &[&str], &str); 6] = [
        ("slurm-emit", &["--dir", "j", "--explain", "--submit"], "cannot be used with"),
        ("slurm-emit", &["--dir", "j", "--explain", "--check"], "cannot be used with"),
        ("gather", &["--from", ".", "--clean", "--average", "mean"], "cannot be used with"),
        ("gather", &["--plan", "p", "--missing", "--layout", "virtual"], "cannot be used with"),
        ("ai-integrate", &["--device", ""], "a value is required"),
        ("plan-split", &["--npt", "-1"], "expected a whole number"),
    ];
    for (name, arguments, told) in cases {
        let refused = run(name, arguments, "");
        assert_eq!(refused.status, 2, "{name} {arguments:?}");
        assert!(refused.stderr.contains(told), "{name} {arguments:?}: {}", refused.stderr);
        assert!(!refused.stderr.contains("-- -1"), "{name} {arguments:?}: {}", refused.stderr);
    }
}
