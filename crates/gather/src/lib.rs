//! gather: writes the final file of each scan and recipe from result records and part files.
//!
//! The patterns are read from part files, which ai-integrate wrote below the output root. The
//! result records only say which scans to look at, and when all their frames are done
//! (`required_tasks.rs` reads a plan instead). Results are collected by scan and recipe
//! (`scan_group.rs`), `build_schedule.rs` decides when a final file is written or updated, and
//! `gatherer.rs` has it built by [`patterns::output::build`] and reports it. The filter emits one
//! summary record per final file, and passes on records of other types:
//!
//! ```sh
//! ai-integrate tasks.jsonl | gather > summaries.jsonl
//! ```
//!
//! The library has two entry points: [`main`] runs the filter, and [`command`] describes its
//! command line.
//!
//! ```
//! let command = gather::command();
//! assert_eq!(command.get_name(), "gather");
//! assert!(command.get_arguments().any(|argument| argument.get_long() == Some("average")));
//! ```
//!
//! Behaviour of the program is tested in `tests/integration/gather`.

mod args;
mod build_schedule;
mod clean;
mod export_messages;
mod gatherer;
#[cfg(test)]
mod message_tests;
mod messages;
mod number_range;
mod output_files;
mod plan_counts;
mod plots;
mod reduction_args;
mod required_tasks;
mod scan_group;
mod summary_lines;

use std::io::ErrorKind;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use filter::{Filter, Input, Polled, RunEnd, Stop};
use patterns::export::DriftRequest;
use patterns::output;
use recipe::Calibrant;
use records::{Fail, Record};
use system::ownership::{AZPIPE_DIR, ReplacePolicy};

use args::{Args, LayoutArg};
use gatherer::Gatherer;
use plan_counts::PlanCounts;
use required_tasks::RequiredTasks;
use scan_group::{ScanGroup, ScanGroups};
use summary_lines::SummaryLines;

/// Returns the command line, from which the manual page is made.
pub fn command() -> clap::Command {
    filter::command::<Args>("gather")
}

/// Runs the filter with the arguments of the process.
pub fn main() -> ExitCode {
    // The worker reads files without checksums before this process does.
    frames::run_with_worker(|| filter::run("gather", run))
}

fn run(args: Args, filter: &Filter) -> Result<(), Stop> {
    frames::check_file_timeout().map_err(|why| Stop::fatal("environment", why))?;
    frames::watchdog::start("gather").map_err(|why| Stop::fatal("starting a thread", why))?;
    frames::start_library().map_err(|why| Stop::fatal("starting the HDF5 library", why))?;
    // Without a working directory, paths are shown whole.
    filter.set_terminal_view(args.json, SummaryLines::new(std::env::current_dir().ok()));
    let policy = ReplacePolicy { overwrite: args.output.overwrite, ..ReplacePolicy::default() };
    output_files::check(&args, &policy)?;
    if matches!(args.output.layout, LayoutArg::Virtual) && args.output.compression.is_some() {
        filter.warn(messages::compression_of_virtual_files());
    }
    let root = args.from.as_deref().map(find_output_root).transpose()?;
    if let (Some(root), true) = (&root, args.clean) {
        return clean::remove_leftovers(root, args.dry_run, filter);
    }
    let plan = args
        .plan
        .as_deref()
        .map(|path| RequiredTasks::read(path, root.as_deref(), filter))
        .transpose()?;
    if let (Some(plan), true) = (&plan, args.missing) {
        return plan.emit_missing(args.task_bytes, args.sparse, filter);
    }
    if let (Some(path), Some(plan)) = (&args.plan, &plan)
        && plan.is_empty()
    {
        let (about, error) = (path.display().to_string(), messages::no_tasks().to_owned());
        filter.fail(Fail { about, error, ..Fail::default() })?;
    }
    if let (Some(plan), true) = (&plan, args.count_done) {
        let counts = PlanCounts::new(plan, args.common.allow_missing, args.sparse, filter)?;
        if !counts.is_complete() {
            filter.mark_failed();
        }
        return filter.emit(&counts.to_record());
    }
    let gathered = gather(&args, plan.as_ref(), root.as_deref(), policy, filter);
    let end = match &gathered {
        Ok(()) => RunEnd::Finished { limited_by: None, stages: "" },
        // Nobody is there to read it.
        Err(Stop::BrokenPipe) => return gathered,
        Err(_) => RunEnd::Stopped { advice: "run the same command again to go on" },
    };
    filter.progress().end_for_programs(end);
    gathered
}

/// Gathers the results of the input, of a plan and of an output root.
fn gather(
    args: &Args,
    plan: Option<&RequiredTasks>,
    root: Option<&Path>,
    policy: ReplacePolicy,
    filter: &Filter,
) -> Result<(), Stop> {
    filter.flush_every_record();
    let other_files = [&args.output.report, &args.output.plot, &args.output.plot_scans];
    let writes_other_files = other_files.iter().any(|path| path.is_some())
        || !args.output.export.is_empty()
        || args.output.map.is_some()
        || args.output.drift.is_some()
        || args.output.pixel_images
        || args.reduction.writes_patterns();
    let mut groups = ScanGroups::new(writes_other_files.then(|| policy.protected.clone()));
    for task in plan.into_iter().flat_map(RequiredTasks::split_by_recipe) {
        let added = groups.add_required_task(&task);
        added.or_else(|why| report_bad_task(&task.id, &why, filter))?;
    }
    let reduction = args.reduction.open()?;
    let drift = args.output.drift.as_ref().map(drift_request).transpose()?;
    let mut gatherer = Gatherer::new(args, policy, &reduction, drift, filter);
    gatherer.warn_of_background();
    if reads_results(args) {
        gather_results(args, &mut groups, &mut gatherer, filter)?;
    }
    if let Some(root) = root {
        let found = output::find_outputs(root);
        if found.is_empty() && plan.is_none() && !reads_results(args) {
            report_if_never_a_root(root, filter)?;
        }
        for target in found {
            match target {
                Ok(target) => groups.add_found(target),
                // Such as a directory of another user, below which azpipe wrote nothing by its notes.
                Err(why) if is_closed_place(root, &why) => filter.warn(&why.to_string()),
                Err(why) => report_bad_result(root, &why, filter)?,
            }
        }
    }
    let mut waiting: Vec<&mut ScanGroup> =
        groups.iter_mut().filter(|group| group.schedule.has_new_input()).collect();
    if !waiting.is_empty() {
        filter.progress().add_total(waiting.iter().map(|group| group.target.frames()).sum());
    }
    waiting.iter_mut().try_for_each(|group| gatherer.update_final(group))?;
    gatherer.mark_if_frames_lack(groups.iter_mut().map(|group| &*group));
    if let (Some(plan), true) = (plan, args.complete_only) {
        // Of a scan that is skipped, no frame was looked at.
        let counts = PlanCounts::new(plan, args.common.allow_missing, args.sparse, filter)?;
        if !counts.are_tasks_done() {
            filter.mark_failed();
        }
    }
    gatherer.merge()?;
    gatherer.warn_of_outdated_merges();
    gatherer.warn_of_outdated_subtractions();
    gatherer.warn_of_changed_background();
    gatherer.warn_if_nothing_reduced();
    gatherer.plot_single_scan()?;
    gatherer.plot_scans()?;
    gatherer.write_report()
}

/// Reads the lines of the calibrant of `--drift`.
fn drift_request(calibrant: &Calibrant) -> Result<DriftRequest, Stop> {
    let spacings = calibrant.spacings().map_err(|why| match calibrant.file() {
        Some(path) => Stop::fatal("--drift", format_args!("{}: {why}", path.display())),
        None => Stop::fatal("--drift", why),
    })?;
    Ok(DriftRequest { calibrant: calibrant.name(), spacings })
}

/// Reads result records to the end of the input, and writes final files as they become due. Records
/// of other types are passed on.
fn gather_results(
    args: &Args,
    groups: &mut ScanGroups,
    gatherer: &mut Gatherer,
    filter: &Filter,
) -> Result<(), Stop> {
    let mut input = Input::open(&args.inputs)?.with_expected_type("result");
    if args.inputs.iter().all(|path| path == Path::new("-")) {
        filter.yield_progress_to_upstream();
    }
    filter.progress().set_total_may_grow(true);
    loop {
        match input.next_until(filter, groups.next_due_time())? {
            Polled::Ready(Record::Result(result)) => {
                gatherer.add_result_to_report(&result);
                groups
                    .add_result(&result)
                    .or_else(|why| report_bad_task(&result.task.id, &why, filter))?;
            }
            Polled::Ready(other) => {
                gatherer.add_to_report(&other);
                filter.emit(&other)?;
            }
            Polled::Pending => (),
            Polled::End => break,
        }
        while let Some(group) = groups.take_due(Instant::now()) {
            filter.progress().add_total(group.target.frames());
            gatherer.update_final(group)?;
        }
    }
    filter.progress().set_total_may_grow(false);
    filter.resume_progress();
    Ok(())
}

/// Returns the absolute path of the output root, which must exist.
fn find_output_root(path: &Path) -> Result<PathBuf, Stop> {
    let root = std::path::absolute(path).map_err(|why| Stop::fatal(path.display(), why))?;
    match root.metadata() {
        Ok(found) if found.is_dir() => Ok(root),
        Err(why) if !matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(Stop::fatal(path.display(), why))
        }
        _ => Err(Stop::fatal(path.display(), messages::no_output_root())),
    }
}

/// Returns whether to read result records: from the operands, or from stdin, unless `--from` or a
/// plan on stdin (at a terminal, any plan) says what to gather.
fn reads_results(args: &Args) -> bool {
    let plan_is_stdin = args.plan.as_deref() == Some(Path::new("-"));
    let has_other_input = args.from.is_some()
        || plan_is_stdin
        || (args.plan.is_some() && std::io::stdin().is_terminal());
    !args.inputs.is_empty() || !has_other_input
}

fn report_bad_task(id: &str, why: &output::OutputError, filter: &Filter) -> Result<(), Stop> {
    let (about, retryable) = (format!("task {id}"), why.io_error().is_some());
    filter.fail(Fail {
        id: id.to_owned(),
        about,
        error: why.to_string(),
        retryable,
        ..Fail::default()
    })
}

/// Reports a directory in which ai-integrate never worked. One whose results were removed by hand
/// has an empty directory of parts.
fn report_if_never_a_root(root: &Path, filter: &Filter) -> Result<(), Stop> {
    let (error, retryable) = match root.join(".azpipe/parts").try_exists() {
        Ok(true) => return Ok(()),
        Ok(false) => (messages::nothing_to_gather().to_owned(), false),
        Err(why) => (format!(".azpipe/parts: {why}"), true),
    };
    filter.fail(Fail { about: root.display().to_string(), error, retryable, ..Fail::default() })
}

/// Returns whether an error is that this user may not look at something below an output root, other than
/// azpipe's own directory.
fn is_closed_place(root: &Path, why: &output::OutputError) -> bool {
    matches!(why, output::OutputError::Io { path, why }
        if why.kind() == ErrorKind::PermissionDenied
            && *path != root.join("*.h5")
            && !path.starts_with(root.join(AZPIPE_DIR)))
}

fn report_bad_result(root: &Path, why: &output::OutputError, filter: &Filter) -> Result<(), Stop> {
    let (about, retryable) = (format!("results in {}", root.display()), why.io_error().is_some());
    filter.fail(Fail { about, error: why.to_string(), retryable, ..Fail::default() })
}
