//! From the command line to the exit status.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::thread;

use clap::{ColorChoice, Command, Parser};
use libc::SIGPIPE;

use crate::console::Console;
use crate::{Common, Filter, Stop, signal, status};

/// The command line of a filter, under its name: what `--help`, `--version` and the man page show.
pub fn command<A: Parser>(name: &'static str) -> Command {
    A::command().name(name).bin_name(name).version(env!("CARGO_PKG_VERSION"))
}

/// The stack of the thread that runs a filter, whatever `ulimit -s` leaves to the first one.
const STACK: usize = 8 << 20;

/// Runs a filter: parses the arguments, catches the signals, runs the body, flushes, and makes the
/// exit status. What the body owns is dropped, and so cleaned up, before a death by signal.
///
/// All of it runs in a thread with a stack of its own. The first thread merely waits for it, and runs handlers of signals, which need
/// next to no stack.
pub fn run<A>(name: &'static str, body: impl FnOnce(A, &Filter) -> Result<(), Stop> + Send) -> ExitCode
where
    A: Parser + AsRef<Common>,
{
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(name.to_owned()).stack_size(STACK);
        match thread.spawn_scoped(scope, || run_here(name, body)) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(why) => {
                Console::new().say(&format!("{name}: {}", Stop::fatal("threads", why)));
                ExitCode::from(status::TROUBLE)
            }
        }
    })
}

fn run_here<A>(name: &'static str, body: impl FnOnce(A, &Filter) -> Result<(), Stop>) -> ExitCode
where
    A: Parser + AsRef<Common>,
{
    let mut command = command::<A>(name).color(colour());
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    let args = match parsed.and_then(|matches| A::from_arg_matches(&matches)) {
        Ok(args) => args,
        Err(message) => {
            let message = message.format(&mut command);
            return print(name, &mut command, &message);
        }
    };
    let filter = match open(name, args.as_ref()) {
        Ok(filter) => filter,
        Err(stop) => return end(name, &mut command, &stop),
    };
    let outcome = body(args, &filter).and_then(|()| filter.output.flush());
    filter.console.clear();
    match outcome {
        Ok(()) => ExitCode::from(if filter.has_failed() { status::SOME_FAILED } else { 0 }),
        Err(stop) => {
            let stop = last_records(&filter, stop);
            end(name, &mut command, &stop)
        }
    }
}

/// Clap takes a CI's log for a terminal with colours, whatever TERM says of it.
fn colour() -> ColorChoice {
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    if dumb { ColorChoice::Never } else { ColorChoice::Auto }
}

/// What `--help` and `--version` print, and what is wrong with the arguments.
fn print(name: &str, command: &mut Command, message: &clap::Error) -> ExitCode {
    if message.use_stderr() {
        // A usage error that can't be written is told by the status alone.
        let _ = message.print();
        return ExitCode::from(status::TROUBLE);
    }
    let printed = check_stdout()
        .and_then(|()| message.print().and_then(|()| io::stdout().flush()).map_err(|error| Stop::of_stdout(&error)));
    printed.map_or_else(|stop| end(name, command, &stop), |()| ExitCode::SUCCESS)
}

fn open(name: &'static str, common: &Common) -> Result<Filter, Stop> {
    check_stdout()?;
    signal::catch().map_err(|error| Stop::fatal("signals", error))?;
    let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(|error| Stop::fatal("stdout", error))?;
    Filter::new(name, common, stdout).map_err(|error| Stop::fatal("pipe", error))
}

fn check_stdout() -> Result<(), Stop> {
    if signal::was_closed(io::stdout()) { Err(Stop::fatal("stdout", "is closed")) } else { Ok(()) }
}

/// Hands on the records made before a stop. A reader or disk that does not take them is then the
/// graver reason to stop.
fn last_records(filter: &Filter, stop: Stop) -> Stop {
    match stop {
        Stop::Signal(_) => filter.output.flush_what_fits(),
        _ => return filter.output.flush().err().unwrap_or(stop),
    }
    stop
}

fn end(name: &str, command: &mut Command, stop: &Stop) -> ExitCode {
    let tell = || Console::new().say(&format!("{name}: {stop}"));
    match stop {
        Stop::BrokenPipe => die_by(SIGPIPE),
        Stop::Signal(signal) => die_by(*signal),
        Stop::FailFast => ExitCode::from(status::SOME_FAILED),
        Stop::Drained { some: true } => ExitCode::from(status::DRAINED),
        Stop::Drained { some: false } => ExitCode::from(status::DRAINED_IDLE),
        Stop::Fatal { .. } => {
            tell();
            ExitCode::from(status::TROUBLE)
        }
        Stop::NothingToRead => {
            tell();
            let _ = write!(io::stderr(), "\n{}", command.render_help());
            ExitCode::from(status::TROUBLE)
        }
    }
}

fn die_by(signal: i32) -> ExitCode {
    signal::die_by(signal);
    // Only where the signal is blocked for good: the status that a shell would show.
    ExitCode::from(status::BY_SIGNAL.saturating_add(signal.try_into().unwrap_or(0)))
}
