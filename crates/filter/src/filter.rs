//! A running filter: where its records and messages go, and whether anything failed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use records::{AbsentKind, Fail, Record};

use crate::console::Console;
use crate::output::Output;
use crate::progress::ProgressCounts;
use crate::stop::without_subject;
use crate::{CommonArgs, Progress, Stop, When, signal};

/// A running filter. All threads share it.
pub struct Filter {
    name: &'static str,
    fail_fast: bool,
    allows_missing: bool,
    quiet: bool,
    verbose: u8,
    shows_progress: bool,
    /// Whether it may be that the filter whose output is stdin shows its progress on the same terminal.
    may_share_terminal: bool,
    pub(crate) output: Output,
    pub(crate) console: Console,
    /// To be told that the reader has gone, while there is nothing to write.
    stdout: OwnedFd,
    progress_counts: Mutex<ProgressCounts>,
    failed: AtomicBool,
    deadline: OnceLock<Instant>,
    stop_reason: OnceLock<Stop>,
    /// A pipe: its first end is readable once the filter is halted.
    stop_pipe: (OwnedFd, OwnedFd),
}

impl Filter {
    pub(crate) fn new(name: &'static str, common: &CommonArgs, stdout: OwnedFd) -> io::Result<Self> {
        let console = Console::new();
        let shows_progress = match common.progress {
            When::Auto => !common.quiet && console.allows_progress(),
            When::Always => true,
            When::Off => false,
        };
        Ok(Self {
            name,
            fail_fast: common.fail_fast,
            allows_missing: common.allow_missing,
            quiet: common.quiet,
            verbose: common.verbose,
            shows_progress,
            may_share_terminal: shows_progress && common.progress == When::Auto && is_pipe_or_socket(io::stdin()),
            output: Output::new(stdout.try_clone()?, common.line_buffered),
            console,
            stdout,
            progress_counts: Mutex::default(),
            failed: AtomicBool::new(false),
            deadline: OnceLock::new(),
            stop_reason: OnceLock::new(),
            stop_pipe: nix::unistd::pipe2(OFlag::O_CLOEXEC)?,
        })
    }

    /// Writes a record to stdout.
    ///
    /// # Errors
    /// The reader has gone, the disk is full, or a signal asks to stop.
    pub fn emit(&self, record: &Record) -> Result<(), Stop> {
        self.output.write_line(&record.to_line()).inspect_err(|stop| self.stop_all_threads(stop))
    }

    /// Writes every record at once from now on: for a filter whose records take longer to make
    /// than to write.
    pub fn flush_every_record(&self) {
        self.output.flush_each();
    }

    /// One input failed: a `fail` record, whose `stage` is filled in, a line on stderr, and
    /// status 1 at the end.
    ///
    /// # Errors
    /// [`Stop::FailFast`] with `--fail-fast`; else as [`Filter::emit`].
    pub fn fail(&self, mut fail: Fail) -> Result<(), Stop> {
        self.mark_failed();
        fail.error = without_subject(&fail.about, fail.error);
        self.report_error(&fail.about, &fail.error);
        self.name.clone_into(&mut fail.stage);
        self.emit(&fail.into())?;
        if self.fail_fast { Err(Stop::FailFast).inspect_err(|stop| self.stop_all_threads(stop)) } else { Ok(()) }
    }

    /// Status 1 at the end, for a failure that is told elsewhere, such as in a result's `missing`.
    pub fn mark_failed(&self) {
        self.failed.store(true, SeqCst);
    }

    /// Status 1 at the end where frames without a pattern are a failure: see [`AbsentKind::is_failure`].
    pub fn mark_failed_if_lossy(&self, kinds: impl IntoIterator<Item = AbsentKind>) {
        if kinds.into_iter().any(|kind| kind.is_failure(self.allows_missing)) {
            self.mark_failed();
        }
    }

    /// Whether anything failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(SeqCst)
    }

    /// An error: `tool: what: why` on stderr.
    pub(crate) fn report_error(&self, what: &str, why: &str) {
        self.console.write_message(&format!("{}: {what}: {why}", self.name));
    }

    /// A warning on stderr, unless `--quiet`. It leaves the exit status alone.
    pub fn warn(&self, message: &str) {
        if !self.quiet {
            self.console.write_message(&format!("{}: warning: {message}", self.name));
        }
    }

    /// A line on stderr where `-v` was given `level` times or more.
    pub fn note(&self, level: u8, message: impl FnOnce() -> String) {
        if self.verbose >= level && !self.quiet {
            self.console.write_message(&format!("{}: {}", self.name, message()));
        }
    }

    /// Where the work stands.
    pub fn progress(&self) -> Progress<'_> {
        Progress::new(self.shows_progress.then_some(&self.console), &self.progress_counts)
    }

    /// Shows no progress for as long as the filter that stdin is a pipe from may show its own, on the same line
    /// of the same terminal: for a filter whose work is little beside that of the one before it. `--progress on`
    /// shows it all the same.
    pub fn yield_progress_to_upstream(&self) {
        self.console.yield_line_to_other(self.may_share_terminal);
    }

    /// Shows progress from now on: stdin has ended.
    pub fn resume_progress(&self) {
        self.console.yield_line_to_other(false);
    }

    /// The first SIGTERM or SIGUSR1 asks to finish what has begun: [`Input::next`](crate::Input::next)
    /// then says that there is no more. Without this, they stop the filter.
    pub fn enable_drain_signals(&self) {
        signal::enable_drain();
    }

    /// Takes the signals back, should a library that was just loaded or set to work have taken them.
    pub fn reinstall_signal_handlers(&self) {
        signal::reinstall_handlers();
    }

    /// Drains at this time. The first call counts.
    pub fn drain_at(&self, deadline: Instant) {
        let _ = self.deadline.set(deadline);
    }

    /// Whether to finish what has begun and take on no more.
    pub fn is_draining(&self) -> bool {
        signal::is_drain_requested() || self.deadline.get().is_some_and(|deadline| Instant::now() >= *deadline)
    }

    /// Stops all threads, for one has come to its end: [`check_stopped`](Self::check) and what waits for
    /// input give them this reason, too. What [`emit`](Self::emit) and [`fail`](Self::fail) return
    /// has done so already. The first call counts.
    pub fn stop_all_threads(&self, stop: &Stop) {
        if self.stop_reason.set(stop.clone()).is_ok() {
            // The pipe is empty, and both its ends are ours: there is nothing to fail.
            let _ = nix::unistd::write(&self.stop_pipe.1, &[0]);
        }
    }

    /// For loops that neither read nor write: whether to go on.
    ///
    /// # Errors
    /// [`Stop::Signal`] once a signal asks to stop; what another thread stopped for.
    pub fn check_stopped(&self) -> Result<(), Stop> {
        let signal = signal::stop_signal().map(Stop::Signal);
        signal.or_else(|| self.stop_reason.get().cloned()).map_or(Ok(()), Err)
    }

    /// Writes what has been emitted, and sleeps: until `time` is over, or it is time to drain.
    ///
    /// # Errors
    /// As [`Filter::emit`].
    pub fn sleep(&self, time: Duration) -> Result<(), Stop> {
        self.output.flush()?;
        self.wait(None, Some(Instant::now() + time)).map(drop)
    }

    /// As [`Filter::pause`], but what comes on `stream` ends it, too. Returns whether something has.
    ///
    /// # Errors
    /// As [`Filter::emit`].
    pub fn sleep_or_readable(&self, stream: Option<BorrowedFd<'_>>, time: Duration) -> Result<bool, Stop> {
        self.output.flush()?;
        self.wait(stream, Some(Instant::now() + time))
    }

    /// Waits for the first of: input on `stream`, `until`, the time to drain. Says whether there is
    /// input. A reader that goes in the meantime is not waited for: in `tail -f | filter | head`,
    /// there may never be a record more to notice it by.
    pub(crate) fn wait(&self, stream: Option<BorrowedFd<'_>>, until: Option<Instant>) -> Result<bool, Stop> {
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
                Err(errno) => return Err(Stop::fatal("poll", io::Error::from(errno))),
            }
            if stream.is_some() && waited[0].any() == Some(true) {
                return Ok(true);
            }
            // Asked for no event, poll tells of errors and of the end alone.
            if waited.last().and_then(PollFd::revents).is_some_and(|events| !events.is_empty()) {
                return Err(Stop::BrokenPipe);
            }
        }
    }
}

/// Whether another program is at the other end.
fn is_pipe_or_socket(stream: impl AsFd) -> bool {
    let copy = stream.as_fd().try_clone_to_owned().and_then(|copy| File::from(copy).metadata());
    copy.is_ok_and(|of| of.file_type().is_fifo() || of.file_type().is_socket())
}

/// What poll calls the time until then, rounded up so that it does not come back early.
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
