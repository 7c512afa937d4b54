//! ai-integrate reads task records, integrates the frames of each task, writes parts below the
//! output root, and emits result records.
//!
//! [`main`] is the whole program, and [`command`] describes its command line for the manual page.
//! Tasks flow like this:
//!
//! 1. A thread reads tasks ahead, so that the total is known early. An engine takes one task at a
//!    time; `--engines` sets how many work in parallel.
//! 2. Prefetch threads open files and read batches of frames that are not cached.
//! 3. Worker threads decode and integrate the batches, on the processor or on an OpenCL device.
//! 4. The rows go into the part in the order of the frames.
//! 5. A separate thread makes the part durable and emits the result, while the engine integrates
//!    the next task.
//!
//! The modules of this path, from the outermost to the innermost:
//!
//! - `run_engine` (here): one engine, which takes task after task
//!   - `task_runner`: one task, with all its recipes
//!     - `recipe_task`: one recipe of the task: frames to do, integrator, monitor, rows of the part
//!     - `recipe_group`: the recipes that integrate the same frames in one pass
//!     - `batches`: the division of the frames into batches
//!     - `batch_runner`: all batches of the task
//!       - `pipeline`: the threads, and the order of the results
//!         - `prefetch`: loads a batch on a prefetch thread
//!         - `worker`: processes a batch on a worker thread, into a `batch_output`
//!           - `device`: the OpenCL device that the worker uses
//!     - `pixel_statistics`: the statistics of the pixels, with `--pixel-stats`
//!     - `sparse`: the pixels that clipping rejects, with `--sparse`
//!     - `commit`: makes parts durable, and emits the results
//!
//! Behaviour of the program is tested in `tests/integration/ai_integrate`.

mod args;
mod attempt;
mod batch_output;
mod batch_runner;
mod batches;
mod bins;
mod busy_times;
mod checksum;
mod commit;
mod device;
mod error;
mod frame_states;
mod integrated_frame;
mod matrix_cache;
mod matrix_file;
mod memory;
#[cfg(test)]
mod message_tests;
mod monitor_cache;
mod pipeline;
mod pixel_statistics;
mod positions;
mod prefetch;
mod recipe_group;
mod recipe_task;
mod recipe_warnings;
mod recipes;
mod running_tasks;
mod segments;
mod sources;
mod sparse;
mod stats;
mod task_device;
mod task_names;
mod task_runner;
mod worker;
mod worker_memory;

use std::panic::resume_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Instant;

use filter::{Filter, Input, ReadAhead, RunEnd, Stop};
use records::{Record, format_count};
use system::cpu;

use args::Args;
use busy_times::{BusyTimes, Stage};
use commit::{IntegratedTask, PendingCommit, TaskProgress};
use device::pool::DevicePool;
use frame_states::FrameStates;
use running_tasks::RunningTasks;
use task_runner::TaskRunner;

/// The largest number of threads in all engines. No machine has as many cores, and more threads can
/// exhaust the system.
const MAX_THREADS: usize = 1024;

/// Returns the command line, for the manual page.
pub fn command() -> clap::Command {
    filter::command::<Args>("ai-integrate")
}

/// Runs ai-integrate and returns its exit status.
pub fn main() -> ExitCode {
    if device::probe::is_probe() {
        return device::probe::answer(&env_var_lossy);
    }
    frames::run_with_worker(|| filter::run("ai-integrate", run))
}

fn run(args: Args, filter: &Filter) -> Result<(), Stop> {
    frames::check_file_timeout().map_err(|why| Stop::fatal("environment", why))?;
    frames::watchdog::start("ai-integrate").map_err(|why| Stop::fatal("starting a thread", why))?;
    frames::start_library().map_err(|why| Stop::fatal("starting the HDF5 library", why))?;
    if args.list_devices {
        return list_devices(filter);
    }
    if let Some(out) = args.out.as_deref().filter(|out| out.exists() && !out.is_dir()) {
        let why = format!("{}: not a directory; expected one, or a new name", out.display());
        return Err(Stop::fatal("--out", why));
    }
    filter.enable_drain_signals();
    filter.flush_every_record();
    let input = Input::open(&args.inputs)?.with_expected_type("task");
    // A deadline beyond the range of the clock never comes.
    if let Some(deadline) = args.deadline.and_then(|time| Instant::now().checked_add(time)) {
        filter.drain_at(deadline);
    }
    let device_pool = DevicePool::new(&args, &env_var_lossy, filter)?;
    filter.reinstall_signal_handlers();
    let engines = usize::from(args.engines) * device_pool.device_count().max(1);
    let threads = count_threads(args.threads, engines)?;
    // The engine that first needs a matrix builds it on these threads.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(engines * threads).build_global();
    pool.map_err(|why| Stop::fatal("starting threads", why))?;
    let times = BusyTimes::start(engines);
    let runner = TaskRunner::new(filter, &args, &device_pool, threads, &times);
    let states = FrameStates::new(filter.allows_missing());
    filter.progress().set_total_may_grow(true);
    let ran = input.read_ahead(
        filter,
        |record| count_ahead(record, filter),
        |tasks| run_engines(&runner, engines, tasks, &states, filter),
    );
    if states.has_failures() {
        filter.mark_failed();
    }
    sum_up(filter, &ran, &times, args.force);
    ran
}

/// Returns the threads of each engine: as given, or the CPUs divided among the engines.
///
/// # Errors
/// There are more than [`MAX_THREADS`] in all.
fn count_threads(given: Option<u16>, engines: usize) -> Result<usize, Stop> {
    let cpus = cpu::available_cpus();
    let threads = given.map_or_else(|| (cpus / engines).max(1), usize::from);
    if engines * threads <= MAX_THREADS {
        return Ok(threads);
    }
    let (engines, each) = (format_count(engines, "engine"), format_count(threads, "thread"));
    let why = format!("{engines} with {each} each: expected at most {MAX_THREADS} threads in all");
    if given.is_none() && cpus > MAX_THREADS {
        let what = std::env::var("SLURM_CPUS_PER_TASK").map_or_else(
            |_| format!("{cpus} CPUs"),
            |granted| format!("SLURM_CPUS_PER_TASK={granted}"),
        );
        return Err(Stop::fatal(what, format!("{why}; pass --threads")));
    }
    Err(Stop::fatal("--engines and --threads", why))
}

/// Counts a task that has been read and not been begun, or the end of the input.
fn count_ahead(record: Option<&Record>, filter: &Filter) {
    match record {
        Some(Record::Task(task)) => filter.progress().add_total(task.range.count()),
        Some(_) => (),
        None => filter.progress().set_total_may_grow(false),
    }
}

/// Shows how far the run has come, unless nobody is there to read it.
fn sum_up(filter: &Filter, ran: &Result<(), Stop>, times: &BusyTimes, is_forced: bool) {
    let (limited_by, stages) = times.describe();
    let end = match ran {
        Ok(()) => RunEnd::Finished { limited_by: Some(limited_by.name()), stages: &stages },
        Err(Stop::BrokenPipe) => return,
        Err(Stop::Fatal { .. } | Stop::NothingToRead) => RunEnd::Failed {
            advice: match is_forced {
                true => {
                    "once the error is mended, run the same command again: with --force to integrate all frames anew, \
                     without it to add those that no run has integrated"
                }
                false => "once the error is mended, run the same command again to go on",
            },
        },
        Err(_) if is_forced => RunEnd::Stopped {
            advice: "run the same command again: with --force to integrate all frames anew, without it to add those that no \
                     run has integrated",
        },
        Err(_) => RunEnd::Stopped { advice: "run the same command again to go on" },
    };
    filter.progress().sum_up(end);
}

/// Runs the engines until there are no more tasks, the filter drains, or one of them fails.
fn run_engines(
    runner: &TaskRunner<'_>,
    engines: usize,
    tasks: &ReadAhead<'_>,
    states: &FrameStates,
    filter: &Filter,
) -> Result<(), Stop> {
    let (drain, running) = (DrainState::default(), RunningTasks::new(tasks, filter));
    let commit = |task: IntegratedTask| {
        let _bug = HaltOnPanic(filter);
        let progress = task
            .commit(filter, runner.index(), states)
            .inspect_err(|stop| filter.stop_all_threads(stop))?;
        drain.record(progress);
        Ok(())
    };
    thread::scope(|scope| {
        let engine = |number| {
            run_engine(runner, number, &running, filter, &commit)
                .inspect_err(|stop| filter.stop_all_threads(stop))
        };
        let start = |number| thread::Builder::new().spawn_scoped(scope, move || engine(number));
        let others: Result<Vec<_>, _> = (1..engines).map(start).collect();
        let others = others
            .map_err(|why| Stop::fatal("starting a thread", why))
            .inspect_err(|stop| filter.stop_all_threads(stop))?;
        let first = engine(0);
        let all = others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        all.fold(first, Result::and)
    })?;
    drain.result(filter, tasks.is_exhausted())
}

/// Writes the device table to stdout in place of records.
fn list_devices(filter: &Filter) -> Result<(), Stop> {
    let visible = device::select::visible_devices(&env_var_lossy)
        .map_err(|why| Stop::fatal("OpenCL", why))?;
    device::select::device_table(&visible)
        .into_iter()
        .try_for_each(|line| filter.emit(&Record::Other(line)))
}

fn env_var_lossy(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Integrates tasks one after the other until the input ends or another engine stops. While a task
/// is integrated, a thread commits the previous one.
fn run_engine(
    runner: &TaskRunner<'_>,
    number: usize,
    tasks: &RunningTasks<'_>,
    filter: &Filter,
    commit: &(impl Fn(IntegratedTask) -> Result<(), Stop> + Sync),
) -> Result<(), Stop> {
    let _bug = HaltOnPanic(filter);
    thread::scope(|scope| {
        let mut before: Option<PendingCommit<'_>> = None;
        loop {
            let wait =
                |before: PendingCommit<'_>| runner.times().measure(Stage::Write, || before.wait());
            match runner.times().measure(Stage::Input, || tasks.next())? {
                Some((Record::Task(task), Some(running))) => {
                    runner.times().measure(Stage::Write, || running.wait_for_earlier())?;
                    let integrated = runner.integrate(*task, number)?;
                    before.take().map_or(Ok(()), wait)?;
                    before = match integrated {
                        // All frames were done before: there is nothing to wait for.
                        Some(task) if !task.has_parts() => commit(task).map(|()| None)?,
                        Some(task) => Some(PendingCommit::spawn(scope, task, running, commit)?),
                        None => None,
                    };
                }
                // Other records keep their place in the order.
                Some((other, _)) => {
                    before.take().map_or(Ok(()), wait)?;
                    filter.emit(&other)?;
                }
                None => return before.map_or(Ok(()), wait),
            }
        }
    })
}

/// Stops all engines when the engine that holds it panics, so that the run does not go on for hours
/// unnoticed.
struct HaltOnPanic<'a>(&'a Filter);

impl Drop for HaltOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop_all_threads(&Stop::fatal(
                "engine",
                "internal error, please report this bug of azpipe",
            ));
        }
    }
}

/// The progress of a run, which decides the exit status when the filter drains.
#[derive(Default)]
struct DrainState {
    any_integrated: AtomicBool,
    cut_short: AtomicBool,
}

impl DrainState {
    fn record(&self, progress: TaskProgress) {
        self.any_integrated.fetch_or(progress.any_integrated, SeqCst);
        self.cut_short.fetch_or(progress.cut_short, SeqCst);
    }

    fn result(&self, filter: &Filter, input_is_done: bool) -> Result<(), Stop> {
        if filter.is_draining() && (self.cut_short.load(SeqCst) || !input_is_done) {
            return Err(Stop::Drained { worked: self.any_integrated.load(SeqCst) });
        }
        Ok(())
    }
}
