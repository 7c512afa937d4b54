//! The systems that run a plan: a registry with the target of each value of `--target`.

mod batch_script;
mod dask;
mod driver;
mod hyperqueue;
mod job_target;
mod local;
mod make;
mod parallel;
mod pbs;
mod ray;
mod single_machine;
mod slot;
mod slurm;
mod snakemake;
mod unused_flags;

use std::fmt;
use std::ops::Deref;

use clap::builder::{
    MapValueParser, PossibleValue, PossibleValuesParser, TypedValueParser, ValueParserFactory,
};

pub use job_target::JobTarget;

/// All targets, in the order of `--help`. The first is the default.
const TARGETS: &[&dyn JobTarget] = &[
    &slurm::Slurm,
    &local::Local,
    &parallel::Parallel,
    &make::Make,
    &snakemake::Snakemake,
    &dask::Dask,
    &ray::Ray,
    &hyperqueue::HyperQueue,
    &pbs::Pbs,
];

/// The target that a value of `--target` names.
#[derive(Clone, Copy)]
pub struct Target(&'static dyn JobTarget);

impl Target {
    /// Returns the target that takes the place of this one with `--partition local`.
    pub fn on_this_machine(self) -> Self {
        Self(self.0.on_this_machine().unwrap_or(self.0))
    }
}

impl Deref for Target {
    type Target = dyn JobTarget;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Default for Target {
    fn default() -> Self {
        Self(TARGETS[0])
    }
}

impl ValueParserFactory for Target {
    type Parser = MapValueParser<PossibleValuesParser, fn(String) -> Self>;

    /// Returns a parser that takes the names of all targets, and shows them with their help.
    fn value_parser() -> Self::Parser {
        let values =
            TARGETS.iter().map(|target| PossibleValue::new(target.name()).help(target.help()));
        let find = |name: String| {
            Self(
                *TARGETS
                    .iter()
                    .find(|target| target.name() == name)
                    .expect("clap takes names of targets alone"),
            )
        };
        PossibleValuesParser::new(values).map(find)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_help_lines_are_sentences_without_a_period() {
        for (index, target) in TARGETS.iter().enumerate() {
            assert!(
                TARGETS[..index].iter().all(|other| other.name() != target.name()),
                "{}",
                target.name()
            );
            assert!(
                !target.help().is_empty() && !target.help().ends_with('.'),
                "{}",
                target.help()
            );
        }
    }

    #[test]
    fn every_target_that_uses_slurm_has_one_for_this_machine() {
        for target in TARGETS.iter().filter(|target| target.uses_slurm()) {
            let local = target.on_this_machine().unwrap();
            assert!(!local.uses_slurm(), "{}", target.name());
        }
    }
}
