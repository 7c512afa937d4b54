//! plan-split: scan records in, task records out. Tasks carry all that they need, so that any line
//! can be run alone, anywhere, twice.

mod absent;
mod args;
mod cut;
mod emitted;
mod monitors;
mod names;
mod plan;
mod recipes;

use std::process::ExitCode;

use filter::{Filter, Input, Stop};
use recipe::Settings;
use records::{Fail, Record};

use args::Args;
use emitted::{Emitted, Whole};
use plan::Planner;

/// The command line, for the manual page.
pub fn command() -> clap::Command {
    filter::command::<Args>("plan-split")
}

/// Runs the filter.
pub fn main() -> ExitCode {
    frames::hdf5_worker::run_with_worker(|| filter::run("plan-split", run))
}

fn run(args: Args, filter: &Filter) -> Result<(), Stop> {
    let no_plan = |why: plan::Error| Stop::fatal("no plan", why);
    if args.print_recipe {
        let files = recipes::read(&args.recipe, |said| filter.warn(said)).map_err(no_plan)?;
        let [file] = &files[..] else { return Err(Stop::fatal("--print-recipe", "expected one --recipe at the most")) };
        // Text in place of records is what was asked for.
        let flags = Settings::from(args.flags);
        // It may be meant for another machine: that it can't be applied here is no error.
        let flaws = recipes::check_printed(file, &flags);
        flaws
            .iter()
            .for_each(|why| filter.warn(&format!("the recipe is printed, and can't be applied as it is: {why}")));
        let text = file.to_toml(&flags);
        return text.lines().try_for_each(|line| filter.emit(&Record::Other(line.to_owned())));
    }
    let mut input = Input::open(&args.inputs)?.with_expected_type("scan");
    let mut planner = Planner::new(args, |said| filter.warn(said)).map_err(no_plan)?;
    let mut emitted = Emitted::default();
    while let Some(record) = input.next(filter)? {
        match record {
            Record::Scan(scan) => plan(&mut planner, &mut emitted, *scan, filter)?,
            other => filter.emit(&other)?,
        }
    }
    Ok(())
}

fn plan(planner: &mut Planner, emitted: &mut Emitted, scan: records::Scan, filter: &Filter) -> Result<(), Stop> {
    let (id, about) = (scan.id.clone(), scan.acquisition.file.display().to_string());
    if let Some(said) = planner.undone(&scan.acquisition) {
        filter.warn(&said);
    }
    if let Some(said) = planner.warn_of_raw_data(&scan.acquisition) {
        filter.warn(&said);
    }
    let whole = Whole::new(&id, &scan.acquisition, planner.has_monitors());
    match planner.tasks(scan) {
        Ok(tasks) => emitted.new_tasks(whole, tasks).try_for_each(|task| filter.emit(&Record::from(task))),
        Err(why) => filter.fail(Fail { id, about, error: why.to_string(), ..Fail::default() }),
    }
}
