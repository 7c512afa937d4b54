//! Runs a filter: from the command line to the exit status.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::thread;

use clap::builder::EnumValueParser;
use clap::{Arg, ColorChoice, Command, Parser};
use clap_complete::Shell;
use libc::SIGPIPE;
use nix::sys::resource::{Resource, getrlimit};

use crate::console::Console;
use crate::output::check_stored;
use crate::{CommonArgs, Filter, Stop, exit_status, signal};

/// Name of the flag that prints a script of completions. It is no field of [`CommonArgs`], because
/// it takes the place of all other arguments, of those that are required, too.
const COMPLETIONS: &str = "completions";

/// Returns the command line of a filter, with its name; `--help`, `--version` and the man page show
/// it.
pub fn command<A: Parser>(name: &'static str) -> Command {
    let completions = Arg::new(COMPLETIONS)
        .long(COMPLETIONS)
        .value_name("SHELL")
        .help_heading("Common options")
        .help("Print a script that completes the flags in bash, zsh, fish, elvish or powershell")
        .long_help(format!(
            "Print a script that completes the flags in bash, zsh, fish, elvish or powershell\n\nFor bash: {name} --completions \
             bash > ~/.local/share/bash-completion/completions/{name}"
        ))
        .value_parser(EnumValueParser::<Shell>::new())
        .hide_possible_values(true)
        .hide_short_help(true)
        .exclusive(true);
    let command = A::command();
    let examples =
        command.get_after_long_help().map(|help| format!("{help}\n")).unwrap_or_default();
    let end = format!("{examples}{EXIT_STATUSES}\nThe manual page has more: man {name}");
    command
        .name(name)
        .bin_name(name)
        .version(env!("CARGO_PKG_VERSION"))
        .mut_args(|arg| {
            // A negative number is a value that is refused with what was expected, and no unknown flag.
            let is_option = arg.get_long().is_some() && arg.get_action().takes_values();
            if is_option { arg.allow_negative_numbers(true) } else { arg }
        })
        .arg(completions)
        .after_long_help(end)
}

/// The end of the long help. The manual pages say what each status means for the filter.
const EXIT_STATUSES: &str = "\
Exit status:
  0   Done; frames that should have a pattern have one
  1   Finished, but an input failed or frames have no pattern. To list them:
      jq -c 'select(.missing) | .missing[]' summaries.jsonl
  2   Wrong options, or a file that can't be read or written
  75  ai-integrate only: stopped early; run it again (76: before any frame)
";

/// The stack size of the thread that runs a filter, independent of `ulimit -s`.
const STACK_BYTES: usize = 8 << 20;

/// The least limit of address space (`ulimit -v`) under which every failure can be told. Under a
/// lower one, the HDF5 library and the start of a thread end the process without a word.
const MIN_ADDRESS_SPACE_BYTES: u64 = 64 << 20;

/// Runs a filter: parses the arguments, catches the signals, runs the body, flushes, and returns
/// the exit status. Values that the body owns are dropped, and so cleaned up, before a death by
/// signal.
///
/// The filter runs in a thread with a stack of its own. The main thread only waits for it and runs
/// signal handlers, which need next to no stack.
pub fn run<A>(
    name: &'static str,
    body: impl FnOnce(A, &Filter) -> Result<(), Stop> + Send,
) -> ExitCode
where
    A: Parser + AsRef<CommonArgs>,
{
    signal::ignore_file_size_signal();
    if let Ok((limit, _)) = getrlimit(Resource::RLIMIT_AS)
        && limit < MIN_ADDRESS_SPACE_BYTES
    {
        Console::new().write_message(&format!("{name}: {}", too_little_memory(limit)));
        return ExitCode::from(exit_status::USAGE_OR_IO);
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
        match thread.spawn_scoped(scope, || run_on_this_thread(name, body)) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(why) => {
                Console::new()
                    .write_message(&format!("{name}: {}", Stop::fatal("starting a thread", why)));
                ExitCode::from(exit_status::USAGE_OR_IO)
            }
        }
    })
}

/// Describes a limit of address space, in bytes, that is too low to start.
fn too_little_memory(limit: u64) -> String {
    format!(
        "not enough memory: the address space is limited to {} kB; expected {} kB or more (ulimit -v)",
        limit >> 10,
        MIN_ADDRESS_SPACE_BYTES >> 10
    )
}

fn run_on_this_thread<A>(
    name: &'static str,
    body: impl FnOnce(A, &Filter) -> Result<(), Stop>,
) -> ExitCode
where
    A: Parser + AsRef<CommonArgs>,
{
    let mut command = command::<A>(name).color(color_choice());
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    if let Some(shell) =
        parsed.as_ref().ok().and_then(|matches| matches.get_one::<Shell>(COMPLETIONS))
    {
        return print_completions(name, &mut command, *shell);
    }
    let args = match parsed.and_then(|matches| A::from_arg_matches(&matches)) {
        Ok(args) => args,
        Err(message) => {
            let message = message.format(&mut command);
            return print_clap_message(name, &mut command, &message);
        }
    };
    let filter = match open_filter(name, args.as_ref()) {
        Ok(filter) => filter,
        Err(stop) => return exit_code(name, &mut command, &stop),
    };
    let outcome = body(args, &filter)
        .and_then(|()| filter.end_terminal_view())
        .and_then(|()| filter.output.finish());
    filter.progress().stop();
    match outcome {
        Ok(()) => ExitCode::from(if filter.has_failed() { exit_status::SOME_FAILED } else { 0 }),
        Err(stop) => {
            let stop = flush_last_records(&filter, stop);
            exit_code(name, &mut command, &stop)
        }
    }
}

/// Returns clap's colour setting. On its own, clap colours the log of a CI even if TERM is `dumb`.
fn color_choice() -> ColorChoice {
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    if dumb { ColorChoice::Never } else { ColorChoice::Auto }
}

/// Prints the output of `--help` and `--version`, or what is wrong with the arguments.
fn print_clap_message(name: &str, command: &mut Command, message: &clap::Error) -> ExitCode {
    if message.use_stderr() {
        // If a usage error can't be written, the status alone reports it.
        let _ = message.print();
        return ExitCode::from(exit_status::USAGE_OR_IO);
    }
    print_instead_of_records(name, command, || message.print())
}

/// Prints a script with which a shell completes the flags of the filter.
fn print_completions(name: &str, command: &mut Command, shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, name, &mut script);
    print_instead_of_records(name, command, || io::stdout().write_all(&script))
}

/// Prints a text to stdout, with the errors and exit statuses of records.
fn print_instead_of_records(
    name: &str,
    command: &mut Command,
    print: impl FnOnce() -> io::Result<()>,
) -> ExitCode {
    let write =
        || print().and_then(|()| io::stdout().flush()).and_then(|()| check_stored(io::stdout()));
    match check_stdout_open()
        .and_then(|()| write().map_err(|error| Stop::from_stdout_error(&error)))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => exit_code(name, command, &stop),
    }
}

fn open_filter(name: &'static str, common: &CommonArgs) -> Result<Filter, Stop> {
    check_stdout_open()?;
    signal::install_handlers().map_err(|error| Stop::fatal("catching signals", error))?;
    let stdout =
        io::stdout().as_fd().try_clone_to_owned().map_err(|error| Stop::fatal("stdout", error))?;
    Filter::new(name, common, stdout).map_err(|error| Stop::fatal("making a pipe", error))
}

fn check_stdout_open() -> Result<(), Stop> {
    if signal::was_closed(io::stdout()) { Err(Stop::fatal("stdout", "is closed")) } else { Ok(()) }
}

/// Writes the records made before a stop. If the reader or the disk does not take them, that is the
/// graver reason to stop and is returned.
fn flush_last_records(filter: &Filter, stop: Stop) -> Stop {
    match stop {
        Stop::Signal(_) => filter.output.flush_without_blocking(),
        _ => return filter.output.finish().err().unwrap_or(stop),
    }
    stop
}

fn exit_code(name: &str, command: &mut Command, stop: &Stop) -> ExitCode {
    let report = || Console::new().write_message(&format!("{name}: {stop}"));
    match stop {
        Stop::BrokenPipe => die_by_signal(SIGPIPE),
        Stop::Signal(signal) => die_by_signal(*signal),
        Stop::FailFast => ExitCode::from(exit_status::SOME_FAILED),
        Stop::Drained { worked: true } => ExitCode::from(exit_status::DRAINED),
        Stop::Drained { worked: false } => ExitCode::from(exit_status::DRAINED_NO_WORK),
        Stop::Fatal { .. } => {
            report();
            ExitCode::from(exit_status::USAGE_OR_IO)
        }
        Stop::NothingToRead => {
            report();
            let _ = write!(io::stderr(), "\n{}", command.render_help());
            ExitCode::from(exit_status::USAGE_OR_IO)
        }
    }
}

fn die_by_signal(signal: i32) -> ExitCode {
    signal::die_by_signal(signal);
    // Reached only if the signal is blocked for good: returns the status that a shell would show.
    ExitCode::from(exit_status::SIGNAL_BASE.saturating_add(signal.try_into().unwrap_or(0)))
}
