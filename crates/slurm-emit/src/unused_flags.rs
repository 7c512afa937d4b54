//! Tells of flags on the command line that the target does not use.

use std::ffi::OsString;

use clap::parser::ValueSource;

use crate::args::THIS_MACHINE;
use crate::targets::Target;

/// Describes the flags on the command line of this process that change nothing in the scripts of a target;
/// `None` if there are none. The settings of a profile are for all targets, and of them nothing is said.
pub fn describe(target: &Target) -> Option<String> {
    describe_those_of(target, std::env::args_os())
}

fn describe_those_of(
    target: &Target,
    command_line: impl Iterator<Item = OsString>,
) -> Option<String> {
    // It was parsed before.
    let given = crate::command().try_get_matches_from(command_line).ok()?;
    let is_unused = |flag: &&str| {
        given.value_source(flag) == Some(ValueSource::CommandLine)
            && !(*flag == "partition"
                && given.get_one::<String>(flag).is_some_and(|name| name == THIS_MACHINE))
    };
    let unused: Vec<String> = target
        .unused_flags()
        .into_iter()
        .filter(is_unused)
        .map(|flag| format!("--{}", flag.replace('_', "-")))
        .collect();
    (!unused.is_empty()).then(|| {
        format!(
            "{}: no effect with --target {target}: leave it out, or choose another --target",
            unused.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Args;

    fn describe(flags: &str) -> Option<String> {
        let words = || ["slurm-emit", "--dir", "a"].into_iter().chain(flags.split_whitespace());
        let args = Args::try_parse_from(words()).unwrap().with_local_target();
        describe_those_of(&args.target, words().map(OsString::from))
    }

    #[test]
    fn flags_that_the_target_does_not_use_are_named_if_they_were_given() {
        assert_eq!(describe(""), None);
        assert_eq!(describe("--partition local"), None);
        assert_eq!(describe("--setup true --mem 4G --gres gpu:1 --time 60"), None);
        let mem = "--mem, --account: no effect with --target local: leave it out, or choose another --target";
        assert_eq!(describe("-p local -A a --mem 4G --n-workers 2").as_deref(), Some(mem));
        for target in
            ["slurm", "local", "parallel", "make", "snakemake", "dask", "ray", "hyperqueue", "pbs"]
        {
            assert!(
                describe(&format!(
                    "--target {target} --cpu-bind cores --interface ib0 --node-seconds 9"
                ))
                .is_some()
            );
        }
    }
}
