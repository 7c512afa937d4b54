//! plan-split: splits scans into tasks, each a range of frames to integrate by one or more recipes.
//!
//! The filter reads scan records, writes task records, and passes on records of other types. A task
//! record is complete: it can be run alone, on any machine, more than once.
//!
//! `planned_recipes.rs` resolves the recipes once. For each scan, `planner.rs` checks that the
//! recipes suit its frames and that the final file belongs to no other result, `split_scan.rs`
//! divides the frames, and `emitted_tasks.rs` leaves out tasks that were emitted before, as a scan
//! that is being followed grows. `preview.rs` draws frames of the first scan, with the rings of
//! a calibrant.
//!
//! ```sh
//! scan-find RAW_DATA | plan-split --poni lab6.poni --out PROCESSED > tasks.jsonl
//! ```
//!
//! The library has two entry points: [`main`] runs the filter, and [`command`] describes its
//! command line.
//!
//! ```
//! let command = plan_split::command();
//! assert_eq!(command.get_name(), "plan-split");
//! assert!(command.get_arguments().any(|argument| argument.get_long() == Some("poni")));
//! ```
//!
//! Behaviour of the program is tested in `tests/integration/pipe`, above all `plan_checks.rs`,
//! `refusals.rs` and `recipes.rs`.

mod absent_index;
mod args;
mod emitted_tasks;
mod final_path;
mod frame_range;
mod messages;
mod motor;
mod moving_geometry;
mod plan_error;
mod planned_recipe;
mod planned_recipes;
mod planner;
mod positions;
mod preview;
mod recipe_flags;
mod required_monitors;
mod split_scan;
mod unsuitable_scan;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use filter::{Filter, Input, Stop};
use recipe::{Calibrant, Settings};
use records::{Acquisition, Fail, Record, Scan};
use system::ownership::ReplacePolicy;

use args::{Args, PreviewFlags};
use emitted_tasks::{EmittedTasks, ScanDigests};
use planned_recipes::{PlannedRecipes, check_printed_recipe, read_recipe_files};
use planner::Planner;
use preview::{DrawError, Preview};
use unsuitable_scan::UnsuitableScan;

/// Returns the command line, from which the manual page is made.
pub fn command() -> clap::Command {
    filter::command::<Args>("plan-split")
}

/// Runs the filter with the arguments of the process.
pub fn main() -> ExitCode {
    frames::run_with_worker(|| filter::run("plan-split", run))
}

fn run(mut args: Args, filter: &Filter) -> Result<(), Stop> {
    frames::check_file_timeout().map_err(|why| Stop::fatal("environment", why))?;
    if args.print_recipe {
        return print_recipe(args, filter);
    }
    let mut preview = new_preview(&mut args)?;
    let mut input = Input::open(&args.inputs)?.with_expected_type("scan");
    if args.out.is_none() {
        return draw_only(preview, &args, &mut input, filter);
    }
    let mut planner = Planner::new(args, |message| filter.warn(message))?;
    protect_recipes(preview.as_ref(), planner.recipes())?;
    let mut emitted = EmittedTasks::default();
    while let Some(record) = input.next(filter)? {
        match record {
            Record::Scan(scan) => {
                let acquisition = preview.as_ref().map(|_| scan.acquisition.clone());
                let is_planned = plan_scan(&mut planner, &mut emitted, *scan, filter)?;
                if let Some(acquisition) = acquisition.filter(|_| is_planned) {
                    draw_preview(&mut preview, planner.recipes(), &acquisition, filter)?;
                }
            }
            other => filter.emit(&other)?,
        }
    }
    warn_of_missing_preview(preview.as_ref(), filter);
    Ok(())
}

/// Makes the picture of the flags; `None` without `--preview`. It never replaces a file that the
/// flags name.
fn new_preview(args: &mut Args) -> Result<Option<Preview>, Stop> {
    let flags = std::mem::take(&mut args.preview);
    let PreviewFlags { file: Some(path), calibrant, preview_frames, overwrite } = flags else {
        return Ok(None);
    };
    let policy = ReplacePolicy { overwrite, ..ReplacePolicy::default() };
    let calibrant_file = calibrant.as_ref().and_then(Calibrant::file).map(PathBuf::as_path);
    let records = args.inputs.iter().map(PathBuf::as_path).filter(|path| *path != Path::new("-"));
    // The streams may be files, too.
    let inputs = records
        .chain(args.recipe.iter().map(PathBuf::as_path))
        .chain(calibrant_file)
        .chain(["/dev/stdin", "/dev/stdout"].map(Path::new));
    protect_inputs(&path, &policy, inputs)?;
    let preview = Preview::new(path, calibrant, preview_frames, policy);
    preview.map(Some).map_err(|why| match why {
        DrawError::Calibrant { path, why } => {
            Stop::fatal("--calibrant", format!("{}: {why}", path.display()))
        }
        why => Stop::fatal("--preview", why),
    })
}

/// Protects the files of all recipes from being replaced by the picture.
fn protect_recipes(preview: Option<&Preview>, recipes: &PlannedRecipes) -> Result<(), Stop> {
    preview.map_or(Ok(()), |preview| {
        protect_inputs(preview.path(), preview.policy(), recipes.file_paths())
    })
}

/// Protects files that the run reads from being replaced by the picture at `path`.
///
/// # Errors
/// Fails if the picture would replace one of them.
fn protect_inputs<'a>(
    path: &Path,
    policy: &ReplacePolicy,
    inputs: impl Iterator<Item = &'a Path>,
) -> Result<(), Stop> {
    for input in inputs {
        let input = std::path::absolute(input).map_err(|why| Stop::fatal(input.display(), why))?;
        policy.protected.add(&input);
    }
    // An error here is one of the check of the picture's path, too.
    if matches!(policy.protected.contains(path), Ok(true)) {
        let why = messages::holds_settings();
        return Err(Stop::fatal("--preview", format_args!("{}: {why}", path.display())));
    }
    Ok(())
}

/// Draws the picture and writes no tasks, for `--preview` without `--out`. Reads its input to the
/// end, so that the filter before it does not end by a broken pipe.
fn draw_only(
    mut preview: Option<Preview>,
    args: &Args,
    input: &mut Input,
    filter: &Filter,
) -> Result<(), Stop> {
    let flags = Settings::from(args.recipe_settings.clone());
    let recipes =
        PlannedRecipes::resolve(&args.recipe, &args.recipe_name, &flags, None, |message| {
            filter.warn(message)
        })?;
    protect_recipes(preview.as_ref(), &recipes)?;
    while let Some(record) = input.next(filter)? {
        match record {
            Record::Scan(scan) => draw_preview(&mut preview, &recipes, &scan.acquisition, filter)?,
            // A failure of an earlier filter is for the reader of the records.
            other @ Record::Fail(_) => filter.emit(&other)?,
            _ => (),
        }
    }
    warn_of_missing_preview(preview.as_ref(), filter);
    Ok(())
}

/// Draws the picture if it is still to be drawn. A scan that can't be drawn is a failure, and the
/// next one is tried.
fn draw_preview(
    preview: &mut Option<Preview>,
    recipes: &PlannedRecipes,
    scan: &Acquisition,
    filter: &Filter,
) -> Result<(), Stop> {
    let Some(waiting) = preview.as_ref() else { return Ok(()) };
    let drawn = recipes
        .for_detector(&scan.detector)
        .map_err(|why| (why.to_string(), why.is_retryable()))
        .and_then(|found| {
            let first = found.first().ok_or_else(|| ("no recipe".to_owned(), false))?;
            first
                .check_scan(scan, |warning| filter.warn(warning))
                .map_err(|UnsuitableScan { why, retryable }| (why, retryable))?;
            match waiting.draw(scan, &first.recipe) {
                Err(why @ DrawError::Write(_)) => Ok(Err(Stop::fatal("--preview", why))),
                Err(why) => Err((why.to_string(), why.is_retryable())),
                Ok(warning) => {
                    warning.iter().for_each(|warning| filter.warn(warning));
                    Ok(Ok(()))
                }
            }
        });
    match drawn {
        Ok(written) => {
            written?;
            filter.note(1, || messages::preview_drawn(waiting.path()));
            *preview = None;
            Ok(())
        }
        Err((why, retryable)) => {
            let about = scan.file.display().to_string();
            let error = messages::no_preview_of_scan(&scan.entry, &scan.detector, &why);
            filter.fail(Fail { id: scan.compute_id(), about, error, retryable, ..Fail::default() })
        }
    }
}

fn warn_of_missing_preview(preview: Option<&Preview>, filter: &Filter) {
    if let Some(preview) = preview {
        filter.warn(&messages::no_preview(preview.path()));
    }
}

/// Prints the recipe as TOML in place of records. It may be meant for another machine, so that it
/// can't be applied here is a warning.
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

/// Writes the tasks of a scan, and returns whether it could be planned.
fn plan_scan(
    planner: &mut Planner,
    emitted: &mut EmittedTasks,
    scan: Scan,
    filter: &Filter,
) -> Result<bool, Stop> {
    let (id, about) = (scan.id.clone(), scan.acquisition.file.display().to_string());
    if let Some(note) = planner.describe_undone_operation(&scan.acquisition) {
        filter.warn(&note);
    }
    if let Some(warning) = planner.warn_of_raw_data(&scan.acquisition) {
        filter.warn(&warning);
    }
    let digests = ScanDigests::new(&id, &scan.acquisition, planner.has_monitors());
    let (entry, frames) = (scan.acquisition.entry.clone(), scan.acquisition.frames);
    match planner.plan_scan(scan, &|warning| filter.warn(warning)) {
        Ok(tasks) => {
            let (mut count, mut recipes) = (0, 0);
            for task in emitted.select_new(digests, tasks) {
                (count, recipes) = (count + 1, task.recipes().count() as u64);
                filter.emit(&Record::from(task))?;
            }
            filter.note(1, || messages::scan_planned(&about, &entry, frames, count, recipes));
            Ok(true)
        }
        Err(why) => {
            let retryable = why.is_retryable();
            filter.fail(Fail {
                id,
                about,
                error: why.to_string(),
                retryable,
                ..Fail::default()
            })?;
            Ok(false)
        }
    }
}
