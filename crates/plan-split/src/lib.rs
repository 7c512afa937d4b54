//! plan-split: splits scans into tasks, each a range of frames to integrate by one or more recipes.
//!
//! The filter reads scan records, writes task records, and passes on records of other types. A task record is complete: it
//! can be run alone, on any machine, more than once.
//!
//! `planned_recipes.rs` resolves the recipes once. For each scan, `planner.rs` checks that the recipes suit its frames and that
//! the final file belongs to no other result, `split_scan.rs` divides the frames, and `emitted_tasks.rs` leaves out tasks
//! that were emitted before, as a scan that is being followed grows.
//!
//! ```sh
//! scan-find RAW_DATA | plan-split --poni lab6.poni --out PROCESSED > tasks.jsonl
//! ```
//!
//! The library has two entry points: [`main`] runs the filter, and [`command`] describes its command line.
//!
//! ```
//! let command = plan_split::command();
//! assert_eq!(command.get_name(), "plan-split");
//! assert!(command.get_arguments().any(|argument| argument.get_long() == Some("poni")));
//! ```
//!
//! Behaviour of the program is tested in `tests/integration/pipe`, above all `plan_checks.rs`, `refusals.rs` and `recipes.rs`.

mod absent_index;
mod args;
mod emitted_tasks;
mod final_path;
mod messages;
mod plan_error;
mod planned_recipes;
mod planner;
mod required_monitors;
mod split_scan;

use std::process::ExitCode;

use filter::{Filter, Input, Stop};
use recipe::Settings;
use records::{Fail, Record, Scan};

use args::Args;
use emitted_tasks::{EmittedTasks, ScanDigests};
use planned_recipes::{check_printed_recipe, read_recipe_files};
use planner::Planner;

/// Returns the command line, from which the manual page is made.
pub fn command() -> clap::Command {
    filter::command::<Args>("plan-split")
}

/// Runs the filter with the arguments of the process.
pub fn main() -> ExitCode {
    frames::run_with_worker(|| filter::run("plan-split", run))
}

fn run(args: Args, filter: &Filter) -> Result<(), Stop> {
    frames::check_file_timeout().map_err(|why| Stop::fatal("environment", why))?;
    if args.print_recipe {
        return print_recipe(args, filter);
    }
    let mut input = Input::open(&args.inputs)?.with_expected_type("scan");
    let mut planner = Planner::new(args, |message| filter.warn(message))?;
    let mut emitted = EmittedTasks::default();
    while let Some(record) = input.next(filter)? {
        match record {
            Record::Scan(scan) => plan_scan(&mut planner, &mut emitted, *scan, filter)?,
            other => filter.emit(&other)?,
        }
    }
    Ok(())
}

/// Prints the recipe as TOML in place of records. It may be meant for another machine, so that it can't be applied here is a
/// warning.
fn print_recipe(args: Args, filter: &Filter) -> Result<(), Stop> {
    let files = read_recipe_files(&args.recipe, |message| filter.warn(message))?;
    let [file] = &files[..] else {
        return Err(Stop::fatal("--print-recipe", messages::several_recipes_to_print(files.len())));
    };
    let flags = Settings::from(args.recipe_settings);
    for why in check_printed_recipe(file, &flags) {
        filter.warn(&messages::printed_recipe_unusable(&why));
    }
    file.to_toml(&flags).lines().try_for_each(|line| filter.emit(&Record::Other(line.to_owned())))
}

fn plan_scan(planner: &mut Planner, emitted: &mut EmittedTasks, scan: Scan, filter: &Filter) -> Result<(), Stop> {
    let (id, about) = (scan.id.clone(), scan.acquisition.file.display().to_string());
    if let Some(note) = planner.describe_undone_operation(&scan.acquisition) {
        filter.warn(&note);
    }
    if let Some(warning) = planner.warn_of_raw_data(&scan.acquisition) {
        filter.warn(&warning);
    }
    let digests = ScanDigests::new(&id, &scan.acquisition, planner.has_monitors());
    let (entry, frames) = (scan.acquisition.entry.clone(), scan.acquisition.frames);
    match planner.plan_scan(scan) {
        Ok(tasks) => {
            let (mut count, mut recipes) = (0, 0);
            for task in emitted.select_new(digests, tasks) {
                (count, recipes) = (count + 1, task.recipes().count() as u64);
                filter.emit(&Record::from(task))?;
            }
            filter.note(1, || messages::scan_planned(&about, &entry, frames, count, recipes));
            Ok(())
        }
        Err(why) => {
            let retryable = why.is_retryable();
            filter.fail(Fail { id, about, error: why.to_string(), retryable, ..Fail::default() })
        }
    }
}
