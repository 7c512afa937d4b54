//! scan-find: paths in, scan records out. Which detectors were read out in which scans, where each
//! frame is, and which frames are not there.

mod args;
mod claims;
mod directory;
mod finder;
mod glob;
mod since;
mod walk;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use manners::{Filter, Input, Stop};

use args::Args;
use finder::Finder;
use walk::Walk;

/// The command line, for the manual page.
pub fn command() -> clap::Command {
    manners::command::<Args>("scan-find")
}

/// Runs the filter.
pub fn main() -> ExitCode {
    manners::run("scan-find", run)
}

fn run(args: Args, filter: &Filter) -> Result<(), Stop> {
    filter.flush_each();
    let mut walk = Walk::new(Finder::new(&args, filter), args.follow.is_some());
    let mut operands = args.paths.clone();
    if operands.is_empty() {
        operands.push("-".into());
    }
    let mut taken = Vec::new();
    for operand in operands {
        match operand == Path::new("-") {
            true => listed(&args, filter, &mut walk, &mut taken)?,
            false => take(operand, &mut walk, &mut taken)?,
        }
    }
    walk.close()?;
    if let Some(pause) = args.follow {
        return follow(pause, filter, &mut walk, &taken);
    }
    walk.finder.close();
    Ok(())
}

/// Looks again and again, until a signal ends it.
fn follow(pause: Duration, filter: &Filter, walk: &mut Walk<'_>, operands: &[PathBuf]) -> Result<(), Stop> {
    loop {
        filter.pause(pause)?;
        operands.iter().try_for_each(|operand| walk.operand(operand))?;
        walk.close()?;
    }
}

/// Takes the paths on stdin, as they come.
fn listed(args: &Args, filter: &Filter, walk: &mut Walk<'_>, taken: &mut Vec<PathBuf>) -> Result<(), Stop> {
    let named = if args.paths.is_empty() { &[][..] } else { &[PathBuf::from("-")] };
    let mut input = Input::open(named)?.separated_by(if args.null { 0 } else { b'\n' });
    while let Some(path) = input.next_path(filter)? {
        take(path, walk, taken)?;
    }
    Ok(())
}

fn take(operand: PathBuf, walk: &mut Walk<'_>, taken: &mut Vec<PathBuf>) -> Result<(), Stop> {
    walk.operand(&operand)?;
    taken.push(operand);
    Ok(())
}
