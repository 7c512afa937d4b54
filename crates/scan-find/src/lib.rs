//! scan-find: paths in, scan records out. Which detectors were read out in which scans, where each
//! frame is, and which frames are not there.

mod args;
mod claims;
mod content;
mod directory;
mod finder;
mod glob;
mod quiet;
mod since;
mod walk;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use filter::{Filter, Input, Stop};

use args::Args;
use finder::Finder;
use quiet::MOMENT;
use walk::Walk;

/// The command line, for the manual page.
pub fn command() -> clap::Command {
    filter::command::<Args>("scan-find")
}

/// Runs the filter.
pub fn main() -> ExitCode {
    frames::worker::run(|| filter::run("scan-find", run))
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
        follow(pause, args.until_idle, filter, &mut walk, &taken)?;
    }
    walk.finder.close();
    Ok(())
}

/// After a change that the kernel told of, others are waited for this long: a file is seldom written by itself.
const GATHERING: Duration = Duration::from_millis(50);

/// Where the kernel tells of changes, a look without one is to take this share of the time at the most. There is one now
/// and then all the same: it costs little, and not all that a scan is made of need be where somebody watches.
const SHARE_WHILE_IDLE: u32 = 100;

/// The same while there are changes.
const SHARE_WHILE_BUSY: u32 = 4;

/// Looks again and again, until a signal ends it, or nothing has changed for as long as `until_idle`.
fn follow(
    pause: Duration,
    until_idle: Option<Duration>,
    filter: &Filter,
    walk: &mut Walk<'_>,
    operands: &[PathBuf],
) -> Result<(), Stop> {
    let (mut changed, mut look) = (Instant::now(), Duration::ZERO);
    walk.take_changed();
    loop {
        let holds_back = std::mem::take(&mut walk.finder.holds_back);
        let rest = match walk.finder.watch.sees_all() && !walk.wants_another_look() {
            _ if holds_back => pause.min(MOMENT),
            true => pause.max(look * SHARE_WHILE_IDLE),
            false => pause,
        };
        let left = until_idle.map(|idle| idle.saturating_sub(changed.elapsed()));
        let rest = left.filter(|_| !walk.wants_another_look() && !holds_back).map_or(rest, |left| left.min(rest));
        let is_told = filter.pause_until_readable(walk.finder.watch.descriptor(), rest)?;
        if is_told {
            filter.pause(GATHERING.max(look * SHARE_WHILE_BUSY).min(pause))?;
        }
        let has_changed = is_told && walk.finder.watch.take_changes();
        let began = Instant::now();
        operands.iter().try_for_each(|operand| walk.operand(operand))?;
        walk.close()?;
        look = began.elapsed();
        if walk.take_changed() || has_changed {
            changed = Instant::now();
        } else if until_idle.is_some_and(|idle| changed.elapsed() >= idle)
            && !walk.wants_another_look()
            && !walk.finder.holds_back
        {
            return Ok(());
        }
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
