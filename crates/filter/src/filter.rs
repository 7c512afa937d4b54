//! The running filter: its output, its messages, and whether anything failed.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use records::{Fail, Record};

use crate::console::{Console, escape_control};
use crate::output::Output;
use crate::stop::without_subject;
use crate::{CommonArgs, Progress, ProgressMode, Stop, TerminalView, signal};

/// A running filter, which all its threads share.
pub struct Filter {
    name: &'static str,
    fail_fast: bool,
    allows_missing: bool,
    quiet: bool,
    verbose: u8,
    /// True if the upstream filter in the pipe may show its progress, too.
    upstream_may_show_progress: bool,
    pub(crate) output: Output,
    console: Arc<Console>,
    progress: Progress,
    /// A copy of stdout that is polled, so that a reader that has gone is noticed while there is
    /// nothing to write.
    stdout: OwnedFd,
    failed: AtomicBool,
    deadline: OnceLock<Instant>,
    stop_reason: OnceLock<Stop>,
    /// Formats the records, if stdout is a terminal and the filter has such a view.
    terminal_view: OnceLock<Mutex<Box<dyn TerminalView>>>,
    /// A pipe whose read end becomes readable when all threads are stopped.
    stop_pipe: (OwnedFd, OwnedFd),
}

impl Filter {
    pub(crate) fn new(
        name: &'static str,
        common: &CommonArgs,
        stdout: OwnedFd,
    ) -> io::Result<Self> {
        let console = Arc::new(Console::new());
        Ok(Self {
            name,
            fail_fast: common.fail_fast,
            allows_missing: common.allow_missing,
            quiet: common.quiet,
            verbose: common.verbose,
            upstream_may_show_progress: common.progress == ProgressMode::Auto
                && !common.quiet
                && is_pipe_or_socket(io::stdin()),
            output: Output::new(stdout.try_clone()?, common.line_buffered),
            progress: Progress::new(name, common.progress, common.quiet, console.clone()),
            console,
            stdout,
            failed: AtomicBool::new(false),
            deadline: OnceLock::new(),
            stop_reason: OnceLock::new(),
            terminal_view: OnceLock::new(),
            stop_pipe: nix::unistd::pipe2(OFlag::O_CLOEXEC)?,
        })
    }

    /// Writes a record to stdout.
    ///
    /// # Errors
    /// Fails if the reader has gone, if the disk is full, and if a signal asks to stop.
    pub fn emit(&self, record: &Record) -> Result<(), Stop> {
        let shown = self.format_for_terminal(|view| view.format(record));
        let written = match shown {
            None => self.output.write_line(&record.to_line()),
            Some(text) => self.print_on_terminal(&text),
        };
        written.inspect_err(|stop| self.stop_all_threads(stop))
    }

    /// Has records formatted by `view` if stdout is a terminal, unless `json` asks for JSON there,
    /// too. Only the first call counts.
    pub fn set_terminal_view(&self, json: bool, view: impl TerminalView + 'static) {
        if !json && self.stdout.is_terminal() {
            let _ = self.terminal_view.set(Mutex::new(Box::new(view)));
        }
    }

    /// Prints the end of the terminal view, if there is one.
    pub(crate) fn end_terminal_view(&self) -> Result<(), Stop> {
        let end = self.format_for_terminal(|view| Some(view.format_end()));
        end.map_or(Ok(()), |text| self.print_on_terminal(&text))
    }

    /// Returns what the terminal view makes of something; `None` without a view.
    fn format_for_terminal(
        &self,
        format: impl FnOnce(&mut dyn TerminalView) -> Option<String>,
    ) -> Option<String> {
        let mut view = self.terminal_view.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        format(view.as_mut())
    }

    /// Writes lines at once, in place of a progress line.
    fn print_on_terminal(&self, text: &str) -> Result<(), Stop> {
        if text.is_empty() {
            return Ok(());
        }
        self.console.erase_progress();
        text.lines().try_for_each(|line| self.output.write_line(&escape_control(line)))?;
        self.output.flush()
    }

    /// Writes every record at once from now on. It suits filters whose records take longer to make
    /// than to write.
    pub fn flush_every_record(&self) {
        self.output.flush_each();
    }

    /// Reports the failure of one input: a `fail` record, whose `stage` is filled in, a line on
    /// stderr, and status 1 at the end.
    ///
    /// # Errors
    /// Returns [`Stop::FailFast`] with `--fail-fast`, and fails as [`Filter::emit`] does.
    pub fn fail(&self, mut fail: Fail) -> Result<(), Stop> {
        self.mark_failed();
        fail.error = without_subject(&fail.about, fail.error);
        self.report_error(&fail.about, &fail.error);
        self.name.clone_into(&mut fail.stage);
        self.emit(&fail.into())?;
        if self.fail_fast {
            Err(Stop::FailFast).inspect_err(|stop| self.stop_all_threads(stop))
        } else {
            Ok(())
        }
    }

    /// Makes the status 1 at the end, for a failure that is reported elsewhere, such as in a
    /// result's `missing`.
    pub fn mark_failed(&self) {
        self.failed.store(true, SeqCst);
    }

    /// Returns whether frames that can't have a pattern are no failure: see [`AbsentKind::is_failure`].
    ///
    /// [`AbsentKind::is_failure`]: records::AbsentKind::is_failure
    pub fn allows_missing(&self) -> bool {
        self.allows_missing
    }

    /// Returns whether anything failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(SeqCst)
    }

    /// Writes an error to stderr as `tool: what: why`.
    pub(crate) fn report_error(&self, what: &str, why: &str) {
        self.console.write_message(&format!("{}: {what}: {why}", self.name));
    }

    /// Writes a warning to stderr, unless `--quiet` is set. The exit status is unaffected.
    pub fn warn(&self, message: &str) {
        if !self.quiet {
            self.console.write_message(&format!("{}: warning: {message}", self.name));
        }
    }

    /// Writes a line to stderr if `-v` was given at least `level` times.
    pub fn note(&self, level: u8, message: impl FnOnce() -> String) {
        if self.verbose >= level && !self.quiet {
            self.console.write_message(&format!("{}: {}", self.name, message()));
        }
    }

    /// Returns the progress counter.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Hides the progress while the upstream filter in the pipe may show its own. It suits filters
    /// whose work is small compared with that of the upstream filter. `--progress` with another
    /// value than `auto` shows the progress anyway.
    pub fn yield_progress_to_upstream(&self) {
        if self.upstream_may_show_progress {
            self.progress.pause(true);
        }
    }

    /// Shows the progress from now on, because stdin has ended.
    pub fn resume_progress(&self) {
        self.progress.pause(false);
    }

    /// Makes the first SIGTERM or SIGUSR1 ask the filter to finish the work in progress:
    /// [`Input::next`](crate::Input::next) then returns no more records. Without this call, SIGTERM
    /// stops the filter and SIGUSR1 has no effect.
    pub fn enable_drain_signals(&self) {
        signal::enable_drain();
    }

    /// Installs the signal handlers again, in case a library that was just loaded has replaced
    /// them.
    pub fn reinstall_signal_handlers(&self) {
        signal::reinstall_handlers();
    }

    /// Sets the time at which the filter drains. Only the first call counts.
    pub fn drain_at(&self, deadline: Instant) {
        let _ = self.deadline.set(deadline);
    }

    /// Returns whether the filter is to finish the work in progress and begin no more.
    pub fn is_draining(&self) -> bool {
        signal::is_drain_requested()
            || self.deadline.get().is_some_and(|deadline| Instant::now() >= *deadline)
    }

    /// Stops all threads, with the reason for which one thread ended.
    /// [`check_stopped`](Self::check_stopped) and waits for input return this reason in the other
    /// threads. A [`Stop`] that [`emit`](Self::emit) or [`fail`](Self::fail) returned has stopped
    /// all threads already. Only the first call counts.
    pub fn stop_all_threads(&self, stop: &Stop) {
        if self.stop_reason.set(stop.clone()).is_ok() {
            // The write can't fail: the pipe is empty, and this process holds both its ends.
            let _ = nix::unistd::write(&self.stop_pipe.1, &[0]);
        }
    }

    /// Checks whether to go on, in loops that neither read nor write.
    ///
    /// # Errors
    /// Returns [`Stop::Signal`] once a signal asks to stop, and the reason for which another thread
    /// stopped all.
    pub fn check_stopped(&self) -> Result<(), Stop> {
        let signal = signal::stop_signal().map(Stop::Signal);
        signal.or_else(|| self.stop_reason.get().cloned()).map_or(Ok(()), Err)
    }

    /// Flushes the output and sleeps until `time` has passed or the filter drains.
    ///
    /// # Errors
    /// Fails as [`Filter::emit`] does.
    pub fn sleep(&self, time: Duration) -> Result<(), Stop> {
        self.output.flush()?;
        self.wait(None, Some(Instant::now() + time)).map(drop)
    }

    /// Sleeps as [`Filter::sleep`] does, but also wakes when `stream` becomes readable, and returns
    /// whether it did.
    ///
    /// # Errors
    /// Fails as [`Filter::emit`] does.
    pub fn sleep_or_readable(
        &self,
        stream: Option<BorrowedFd<'_>>,
        time: Duration,
    ) -> Result<bool, Stop> {
        self.output.flush()?;
        self.wait(stream, Some(Instant::now() + time))
    }

    /// Waits until there is input on `stream`, the time `until` has come, or the filter is asked to
    /// drain. Returns whether there is input.
    ///
    /// Also notices when the reader of stdout closes the pipe. Otherwise a filter in `tail -f FILE
    /// | filter | head` would notice only when it writes its next record, which may never come.
    pub(crate) fn wait(
        &self,
        stream: Option<BorrowedFd<'_>>,
        until: Option<Instant>,
    ) -> Result<bool, Stop> {
        let wakes = [signal::stop_fd(), signal::drain_fd(), Some(self.stop_pipe.0.as_fd())];
        let waited = stream.into_iter().chain(wakes.into_iter().flatten());
        let mut waited: Vec<_> = waited.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        waited.push(PollFd::new(self.stdout.as_fd(), PollFlags::empty()));
        let limit = until.into_iter().chain(self.deadline.get().copied()).min();
        loop {
            self.check_stopped()?;
            if self.is_draining() || until.is_some_and(|until| until <= Instant::now()) {
                return Ok(false);
            }
            match poll(&mut waited, poll_timeout(limit)) {
                Ok(_) | Err(Errno::EINTR) => (),
                Err(errno) => return Err(Stop::fatal("waiting for input", io::Error::from(errno))),
            }
            if stream.is_some() && waited[0].any() == Some(true) {
                return Ok(true);
            }
            // Without requested events, poll reports errors and hang-ups only.
            if waited.last().and_then(PollFd::revents).is_some_and(|events| !events.is_empty()) {
                return Err(Stop::BrokenPipe);
            }
        }
    }
}

/// Returns whether the stream leads to another program.
fn is_pipe_or_socket(stream: impl AsFd) -> bool {
    let copy = stream.as_fd().try_clone_to_owned().and_then(|copy| File::from(copy).metadata());
    copy.is_ok_and(|of| of.file_type().is_fifo() || of.file_type().is_socket())
}

/// Returns the time until `until` for poll, rounded up so that poll does not return early.
fn poll_timeout(until: Option<Instant>) -> PollTimeout {
    let Some(until) = until else { return PollTimeout::NONE };
    let left = until.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
    PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_hears_that_another_stopped() {
        let (_read, write) = nix::unistd::pipe().expect("a pipe");
        let (silent, _open) = nix::unistd::pipe().expect("a pipe");
        let common = CommonArgs { fail_fast: true, quiet: true, ..CommonArgs::default() };
        let filter = Filter::new("test", &common, write).expect("a filter");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| filter.wait(Some(silent.as_fd()), None));
            assert_eq!(filter.fail(Fail::default()), Err(Stop::FailFast));
            assert_eq!(waits.join().expect("no panic"), Err(Stop::FailFast));
        });
        assert_eq!(filter.check_stopped(), Err(Stop::FailFast));
    }

    #[test]
    fn a_deadline_ends_a_wait() {
        let (silent, write) = nix::unistd::pipe().expect("a pipe");
        let filter = Filter::new("test", &CommonArgs::default(), write).expect("a filter");
        filter.drain_at(Instant::now() + Duration::from_millis(20));
        assert_eq!(filter.wait(Some(silent.as_fd()), None), Ok(false));
        assert!(filter.is_draining());
    }
}
