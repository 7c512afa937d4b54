//! Asks in a child process which OpenCL devices the machine has, because a driver may crash or hang
//! while it lists them. A run that needs no device goes on without it.

use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use filter::{Stop, worker_process};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use serde::{Deserialize, Serialize};

use super::select::{self, DeviceSelectionError, EnvLookup, NumberedDevice};

/// Environment variable that makes the program a probe.
const PROBE_VARIABLE: &str = "AZPIPE_DEVICE_PROBE";

/// Environment variable with the time limit in seconds.
const TIMEOUT_VARIABLE: &str = "AZPIPE_DEVICE_TIMEOUT";

/// Default time limit. Drivers without a persistence daemon initialize each GPU for some seconds.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Intervals at which the parent looks whether the probe has ended, the first and the longest.
const POLL_INTERVALS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// The answer of a probe.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ProbeAnswer {
    /// Devices and drivers that can't be used, a warning for each.
    pub warnings: Vec<String>,
    /// True if there is a usable device other than a CPU.
    pub has_accelerator: bool,
}

/// Explains why a probe gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No process can be started, or its answer can't be read.
    #[error("the devices can't be listed: {0}")]
    Io(#[from] io::Error),
    /// A driver ended the process.
    #[error("a driver crashed while it listed its devices ({0})")]
    Crashed(std::process::ExitStatus),
    /// A driver does not answer.
    #[error(
        "the drivers have not listed their devices within {} s ({TIMEOUT_VARIABLE} sets the limit)",
        .0.as_secs()
    )]
    TimedOut(Duration),
    /// A signal asks the filter to stop.
    #[error("not waited for, because a signal stopped the filter")]
    Stopped,
}

/// Returns whether this process is a probe.
pub fn is_probe() -> bool {
    std::env::var_os(PROBE_VARIABLE).is_some()
}

/// Lists the devices, and writes the answer to stdout.
pub fn answer(environment: EnvLookup<'_>) -> ExitCode {
    let answer = ProbeAnswer::new(environment);
    // The break ends what a driver may have written.
    let line = serde_json::to_string(&answer).map(|answer| format!("\n{answer}"));
    let mut stdout = io::stdout().lock();
    let written = line.map_err(io::Error::from).and_then(|line| stdout.write_all(line.as_bytes()));
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Returns the time limit. An empty value counts as unset, as in `AZPIPE_FILE_TIMEOUT`.
///
/// # Errors
/// The variable holds something other than a number of seconds.
pub fn read_timeout(environment: EnvLookup<'_>) -> Result<Duration, Stop> {
    let Some(text) = environment(TIMEOUT_VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(DEFAULT_TIMEOUT);
    };
    match text.trim().parse::<u32>() {
        Ok(seconds @ 1..) => Ok(Duration::from_secs(seconds.into())),
        _ => Err(Stop::fatal(
            "environment",
            format!(
                "{TIMEOUT_VARIABLE}={text:?}: expected a whole number of seconds from 1; unset it for the default of {} s",
                DEFAULT_TIMEOUT.as_secs()
            ),
        )),
    }
}

/// Asks a probe which devices there are. What drivers say on stderr is shown.
///
/// # Errors
/// See [`ProbeError`].
pub fn ask(timeout: Duration) -> Result<ProbeAnswer, ProbeError> {
    // A process group of its own keeps the terminal's signals from the probe.
    let mut child = std::os::unix::process::CommandExt::process_group(
        Command::new(own_program())
            .env(PROBE_VARIABLE, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped()),
        0,
    )
    .spawn()?;
    let read = wait(&mut child, timeout);
    if read.is_err() {
        // A process that hangs in a driver may not end even so; it is not waited for.
        let _ = child.kill();
        let _ = child.try_wait();
    }
    read
}

/// Returns the path of this program. Under a wrapper such as Valgrind, /proc/self/exe is the
/// wrapper; after an update of the program, its path may be gone.
fn own_program() -> PathBuf {
    let own = std::env::current_exe().ok().filter(|path| path.exists());
    own.unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}

/// Waits for the end of a probe, and returns its answer, which fits into a pipe.
fn wait(child: &mut Child, timeout: Duration) -> Result<ProbeAnswer, ProbeError> {
    let began = Instant::now();
    let [mut interval, longest] = POLL_INTERVALS;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if began.elapsed() >= timeout => return Err(ProbeError::TimedOut(timeout)),
            None if worker_process::stop_requested() => return Err(ProbeError::Stopped),
            None => thread::sleep(interval),
        }
        interval = interval.saturating_mul(2).min(longest);
    };
    let mut said = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        // A process that a driver started may keep the pipe open, so that its end never comes.
        fcntl(&stdout, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(io::Error::from)?;
        match stdout.read_to_end(&mut said) {
            Err(why) if why.kind() != io::ErrorKind::WouldBlock => return Err(why.into()),
            _ => {}
        }
    }
    // A driver may have written to stdout before.
    let last = said.split(|byte| *byte == b'\n').next_back().unwrap_or_default();
    match serde_json::from_slice(last) {
        Ok(answer) if status.success() => Ok(answer),
        _ => Err(ProbeError::Crashed(status)),
    }
}

impl ProbeAnswer {
    fn new(environment: EnvLookup<'_>) -> Self {
        let listed = select::visible_devices(environment);
        let warnings = match &listed {
            Ok(all) => all.iter().filter_map(warn_of_unusable).collect(),
            Err(DeviceSelectionError::Unavailable(why)) if !why.is_absence() => {
                vec![format!("{why}: {INSTEAD}")]
            }
            // Having no GPU is no reason to warn.
            Err(_) => Vec::new(),
        };
        let chosen = listed.and_then(|all| select::select_devices(&all, &[], environment));
        let has_accelerator =
            chosen.is_ok_and(|chosen| chosen.iter().any(|(_, device)| device.is_not_cpu()));
        Self { warnings, has_accelerator }
    }
}

/// End of a warning where no device can be used and none was asked for.
pub const INSTEAD: &str = "the CPU integrates instead; --engine cpu looks for no device";

/// Returns a warning of a device other than a CPU that can't be used.
fn warn_of_unusable((_, device): &NumberedDevice) -> Option<String> {
    let why = device.unusable.as_ref().filter(|_| device.is_not_cpu())?;
    Some(format!(
        "OpenCL device {} of {}: not used: {why}; --engine cpu looks for no device",
        device.label(),
        device.platform
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_is_a_number_of_seconds() {
        let read = |text: Option<&str>| {
            read_timeout(&|name| text.filter(|_| name == TIMEOUT_VARIABLE).map(str::to_owned)).ok()
        };
        assert_eq!([None, Some("")].map(read), [Some(DEFAULT_TIMEOUT); 2]);
        assert_eq!(read(Some(" 7 ")), Some(Duration::from_secs(7)));
        assert_eq!(["0", "-1", "1.5", "1e3"].map(|text| read(Some(text))), [None; 4]);
    }
}
