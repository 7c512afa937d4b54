//! scan-find reads paths and writes scan records: which detectors were read out in which scans,
//! which files hold the frames, and which frames are missing.
//!
//! [`main`] is the whole program, and [`command`] describes its command line for the manual page. A
//! walk turns operands (files, directories, datasets, globs and lists) into files, the `frames`
//! crate discovers the scans in each file, and each scan becomes one record. With `--follow`, the
//! search repeats whenever a directory changes.
//!
//! Behaviour of the program is tested in `tests/integration/scan_find`.

mod args;
mod claimed_files;
mod directory;
mod finder;
mod first_frame;
mod found;
mod glob;
#[cfg(test)]
mod message_tests;
mod messages;
mod patience;
mod since;
mod stability;
mod table;
mod told_records;
mod walk;
mod watcher;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use filter::{Filter, Input, Stop};

use args::Args;
use finder::Finder;
use stability::STABILITY_PERIOD;
use table::ScanTable;
use walk::OperandWalker;

/// Returns the command line, for the manual page.
pub fn command() -> clap::Command {
    filter::command::<Args>("scan-find")
}

/// Runs scan-find and returns its exit status.
pub fn main() -> ExitCode {
    frames::run_with_worker(|| filter::run("scan-find", run))
}

fn run(args: Args, filter: &Filter) -> Result<(), Stop> {
    frames::check_file_timeout().map_err(|why| Stop::fatal("environment", why))?;
    filter.flush_every_record();
    filter.set_terminal_view(args.json, ScanTable::new(args.common.verbose > 0));
    let mut walk = OperandWalker::new(Finder::new(&args, filter), args.follow.is_some());
    let mut operands = args.paths.clone();
    if operands.is_empty() {
        operands.push("-".into());
    }
    let mut taken = Vec::new();
    if args.null && operands.iter().all(|operand| operand != Path::new("-")) {
        filter.warn(messages::null_without_list());
    }
    if args.follow.is_some() {
        operands.iter().try_for_each(|operand| check_is_no_pause(operand))?;
    }
    for operand in operands {
        match operand == Path::new("-") {
            true => search_listed(&args, filter, &mut walk, &mut taken)?,
            false => search_operand(operand, &mut walk, &mut taken)?,
        }
    }
    walk.finish_series()?;
    if let Some(pause) = args.follow {
        follow(pause, args.until_idle, filter, &mut walk, &taken)?;
        walk.report_if_nothing_found(&taken)?;
        walk.finder.report_running()?;
    }
    walk.finder.report_left_out();
    Ok(())
}

/// How long to wait for further changes after the first, because files are seldom written one at a
/// time.
const CHANGE_DEBOUNCE: Duration = Duration::from_millis(50);

/// The minimum ratio of the pause to the duration of the last search, while the kernel reports no
/// change. The search is repeated even then, because it costs little and some files of a scan may
/// be outside the watched directories.
const IDLE_PAUSE_FACTOR: u32 = 100;

/// The minimum ratio of the pause to the duration of the last search, while there are changes.
const BUSY_PAUSE_FACTOR: u32 = 4;

/// How often a search that is asked to end looks again at what is new or was changing.
const MAX_LAST_LOOKS: usize = 4;

/// Repeats the search until SIGTERM or SIGUSR1 asks for the end, or nothing has changed for as long
/// as `until_idle`.
fn follow(
    pause: Duration,
    until_idle: Option<Duration>,
    filter: &Filter,
    walk: &mut OperandWalker<'_>,
    operands: &[PathBuf],
) -> Result<(), Stop> {
    let (mut changed, mut look) = (Instant::now(), Duration::ZERO);
    walk.finish_look();
    walk.finder.report_if_all_unwanted();
    filter.enable_drain_signals();
    loop {
        let holds_back = std::mem::take(&mut walk.finder.has_unstable);
        let rest = match walk.finder.watcher.watches_all() && !walk.was_unfinished() {
            _ if holds_back => pause.min(STABILITY_PERIOD),
            true => pause.max(look * IDLE_PAUSE_FACTOR),
            false => pause,
        };
        let due = walk.finder.patience.next_due().map(|due| due.max(look * BUSY_PAUSE_FACTOR));
        let rest = due.map_or(rest, |due| due.min(rest));
        let left = until_idle.map(|idle| idle.saturating_sub(changed.elapsed()));
        let rest = left
            .filter(|_| !walk.was_unfinished() && !holds_back)
            .map_or(rest, |left| left.min(rest));
        let is_told = filter.sleep_or_readable(walk.finder.watcher.descriptor(), rest)?;
        if filter.is_draining() {
            walk.finder.patience.begin_final_look();
            walk.search_all(operands)?;
            // Files that are new or had just changed are read once they stay as they are; those that still
            // grow belong to scans that are not over.
            for _ in 0..MAX_LAST_LOOKS {
                if !std::mem::take(&mut walk.finder.has_unstable) && !walk.was_unfinished() {
                    break;
                }
                // The filter's own sleep ends at once when it drains.
                std::thread::sleep(STABILITY_PERIOD);
                walk.search_all(operands)?;
            }
            return Ok(());
        }
        if is_told {
            filter.sleep(CHANGE_DEBOUNCE.max(look * BUSY_PAUSE_FACTOR).min(pause))?;
        }
        let has_changed = is_told && walk.finder.watcher.take_changes();
        let began = Instant::now();
        let changes = walk.search_all(operands)?;
        look = began.elapsed();
        if has_changed || changes.files || changes.records {
            changed = Instant::now();
            walk.finder.patience.put_off_end();
            continue;
        }
        let is_idle = until_idle.is_some_and(|idle| changed.elapsed() >= idle);
        if !is_idle || walk.was_unfinished() || walk.finder.has_unstable {
            continue;
        }
        // A look may have passed a directory before something changed there.
        let has_events = |walk: &OperandWalker<'_>| {
            filter.sleep_or_readable(walk.finder.watcher.descriptor(), Duration::ZERO)
        };
        if !walk.finder.patience.begin_last_look() {
            match has_events(walk)? {
                true => continue,
                false => return Ok(()),
            }
        }
        let mut changes = walk.search_all(operands)?;
        let mut resumes = walk.finder.patience.resume_after_last_look();
        if has_events(walk)? {
            // What this search itself has written may be there, too: only another look can tell.
            walk.finder.watcher.take_changes();
            let again = walk.search_all(operands)?;
            changes.files |= again.files || again.records;
            // A failure that is new in this look is not reported yet.
            resumes = walk.finder.patience.resume_after_last_look();
        }
        if changes.files || walk.was_unfinished() || walk.finder.has_unstable {
            changed = Instant::now();
            walk.finder.patience.put_off_end();
        } else if !resumes {
            return Ok(());
        }
        filter.sleep(pause.min(STABILITY_PERIOD))?;
    }
}

/// Refuses a number that is no file: the pause of `--follow` is given with `=`, and a search of what is not
/// there would wait for it for ever.
fn check_is_no_pause(operand: &Path) -> Result<(), Stop> {
    let seconds = operand.to_str().and_then(|text| text.parse::<f64>().ok());
    // A directory that is named by a date may come later.
    let is_pause = seconds.is_some_and(|seconds| (0.0..1e5).contains(&seconds));
    if is_pause && matches!(operand.try_exists(), Ok(false)) {
        let why = format!(
            "no such file or directory; for a pause of as many seconds: --follow={0}; for a directory that comes later: ./{0}",
            operand.display()
        );
        return Err(Stop::fatal(operand.display(), why));
    }
    Ok(())
}

/// Searches the paths on stdin as they arrive.
fn search_listed(
    args: &Args,
    filter: &Filter,
    walk: &mut OperandWalker<'_>,
    taken: &mut Vec<PathBuf>,
) -> Result<(), Stop> {
    let named = if args.paths.is_empty() { &[][..] } else { &[PathBuf::from("-")] };
    let mut input = Input::open(named)?.with_separator(if args.null { 0 } else { b'\n' });
    while let Some(path) = input.next_path(filter)? {
        search_operand(path, walk, taken)?;
    }
    Ok(())
}

fn search_operand(
    operand: PathBuf,
    walk: &mut OperandWalker<'_>,
    taken: &mut Vec<PathBuf>,
) -> Result<(), Stop> {
    walk.search(&operand)?;
    taken.push(operand);
    Ok(())
}
