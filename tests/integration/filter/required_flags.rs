//! Flags that need another flag beside them: without it they would have no effect, and nobody would be told.

use std::collections::BTreeSet;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::support::filters;

/// Values, of which one suits nearly every flag that takes one.
const VALUES: &[&str] = &[
    "1",
    "1,2",
    "a",
    "a,b",
    "mean",
    "xye",
    "a.png",
    "a.html",
    "LaB6",
    "1mm",
    "10s",
    "json",
    "copy",
    "gzip",
    "q_A^-1",
    "no",
    "cpu",
    "local",
    "a=1",
    "1G",
    "00:10:00",
    "2026-03-04",
    "circle:1,2,3",
    "poisson",
    "off",
    "bin",
    "eiger2-4m",
    "frames=1",
    "dask=1",
    "horizontal",
    "1,2,3",
];

/// The filters, each with arguments that are enough.
fn filters() -> impl Iterator<Item = (Command, &'static [&'static str])> {
    let enough: [&[&str]; 5] =
        [&[], &["--poni", "a.poni", "--out", "b"], &[], &[], &["--dir", "a"]];
    filters::commands().into_iter().zip(enough)
}

/// Why arguments are refused, and the flags that they lack.
fn refusal(command: &Command, arguments: &[&str]) -> Option<(ErrorKind, Vec<String>)> {
    let all = std::iter::once(command.get_name()).chain(arguments.iter().copied());
    let error = command.clone().try_get_matches_from(all).err()?;
    let lacking = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(flags)) => flags.clone(),
        _ => Vec::new(),
    };
    Some((error.kind(), lacking))
}

/// A flag with a value that it takes; `None` if none of [`VALUES`] is one.
fn given<'a>(
    command: &Command,
    enough: &[&'a str],
    flag: &'a str,
    arg: &Arg,
) -> Option<Vec<&'a str>> {
    let takes_value = arg.get_action().takes_values();
    let values = if takes_value { VALUES } else { &[""] };
    values.iter().find_map(|value| {
        let given = if takes_value { vec![flag, *value] } else { vec![flag] };
        let is_wrong = |kind| {
            matches!(
                kind,
                ErrorKind::InvalidValue
                    | ErrorKind::ValueValidation
                    | ErrorKind::DisplayHelp
                    | ErrorKind::DisplayVersion
            )
        };
        let arguments = [enough, &given].concat();
        (!refusal(command, &arguments).is_some_and(|(kind, _)| is_wrong(kind))).then_some(given)
    })
}

/// A flag with those that it needs, as far as they are known.
fn complete<'a>(
    command: &Command,
    enough: &[&'a str],
    arguments: &[&'a str],
    given: &[(&'a str, Vec<&'a str>)],
) -> Vec<&'a str> {
    let mut completed = arguments.to_vec();
    while let Some((ErrorKind::MissingRequiredArgument, lacking)) =
        refusal(command, &[enough, &completed].concat())
    {
        let is_lacking = |flag: &str| {
            let mut words = lacking.iter().flat_map(|lacking| lacking.split([' ', '<', '>', '|']));
            words.any(|word| word == flag)
        };
        let Some((_, needed)) = given.iter().find(|(flag, _)| is_lacking(flag)) else { break };
        completed.extend(needed);
    }
    completed
}

#[test]
fn what_a_flag_needs_it_needs_whatever_else_is_given() {
    let mut tried = BTreeSet::new();
    for (command, enough) in filters() {
        let names: Vec<(String, &Arg)> = command
            .get_arguments()
            .filter_map(|arg| Some((format!("--{}", arg.get_long()?), arg)))
            .collect();
        let given: Vec<(&str, Vec<&str>)> = names
            .iter()
            .filter_map(|(flag, arg)| Some((flag.as_str(), given(&command, enough, flag, arg)?)))
            .collect();
        assert!(given.len() * 10 > names.len() * 8, "{}: {given:?}", command.get_name());
        for (flag, arguments) in &given {
            let Some((ErrorKind::MissingRequiredArgument, lacking)) =
                refusal(&command, &[enough, arguments].concat())
            else {
                continue;
            };
            let suffices = |other: &str| {
                lacking.iter().any(|lacking| {
                    lacking.split([' ', '<', '>', '|', '[', ']', '=']).any(|word| word == other)
                })
            };
            for (_, more) in given.iter().filter(|(other, _)| other != flag && !suffices(other)) {
                // What the other flag needs may suffice for this one.
                let completed = complete(&command, enough, more, &given);
                let sufficient = completed.iter().any(|argument| suffices(argument));
                for more in [more].into_iter().chain((!sufficient).then_some(&completed)) {
                    let both = [enough, arguments, more].concat();
                    assert!(refusal(&command, &both).is_some(), "{} {both:?}", command.get_name());
                }
                tried.insert(format!("{} {flag}", command.get_name()));
            }
        }
    }
    for flag in
        ["gather --dry-run", "gather --map-range", "gather --sparse", "plan-split --calibrant"]
    {
        assert!(tried.contains(flag), "{flag}: {tried:?}");
    }
}
