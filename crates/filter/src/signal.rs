//! Signals as flags that a poll can wait for, death by signal, and work that must be done before
//! `main`.
//!
//! SIGINT and SIGTERM ask a filter to stop. A filter that drains takes the first SIGTERM or SIGUSR1
//! as the request to finish the work in progress, and the next SIGTERM, or a SIGINT, as the request
//! to stop. A filter that does not drain ignores SIGUSR1: SLURM sends it to every process of a
//! step, and in a pipe the drained filter ends the input of the others. If a filter was asked to
//! stop and did not, the next signal kills it.
//!
//! A request repeated within [`REPEAT_WINDOW`] counts once, because `timeout` and `scancel` signal
//! both a process and its group.
//!
//! Handlers have no safe interface, so this module contains `unsafe` code.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU8, Ordering::SeqCst};
use std::time::Duration;

use libc::{SIGINT, SIGUSR1, c_int};
use nix::fcntl::OFlag;
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, raise, sigaction, sigprocmask,
};

/// The time within which repeated signals count as one.
pub const REPEAT_WINDOW: Duration = Duration::from_millis(250);

/// A request that the signal handler records: the signal, its time, and a pipe that becomes
/// readable then and stays so, for any number of threads to see.
struct PendingSignal {
    signal: AtomicI32,
    at: AtomicI64,
    readable: AtomicI32,
    writable: AtomicI32,
}

static STOP: PendingSignal = PendingSignal::new();
static DRAIN: PendingSignal = PendingSignal::new();
static DRAIN_ENABLED: AtomicBool = AtomicBool::new(false);
/// True if SIGINT was ignored when the process started.
static SIGINT_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

impl PendingSignal {
    const fn new() -> Self {
        Self {
            signal: AtomicI32::new(0),
            at: AtomicI64::new(0),
            readable: AtomicI32::new(-1),
            writable: AtomicI32::new(-1),
        }
    }

    fn open(&self) -> io::Result<()> {
        let (readable, writable) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        self.writable.store(writable.into_raw_fd(), SeqCst);
        self.readable.store(readable.into_raw_fd(), SeqCst);
        Ok(())
    }

    /// Records a signal, and returns false if the request is a repetition. The handler calls it, so
    /// it must not lock or allocate.
    fn record(&self, signal: c_int, now: i64) -> bool {
        if self.signal.compare_exchange(0, signal, SeqCst, SeqCst).is_err() {
            return now - self.at.load(SeqCst) < REPEAT_WINDOW.as_millis() as i64;
        }
        self.at.store(now, SeqCst);
        // SAFETY: write(2) is async-signal-safe, and the byte outlives the call. A closed
        // descriptor (-1) gives an error, which may be ignored.
        unsafe { libc::write(self.writable.load(SeqCst), [0u8].as_ptr().cast(), 1) };
        true
    }

    fn stop_signal(&self) -> Option<i32> {
        Some(self.signal.load(SeqCst)).filter(|&signal| signal != 0)
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'static>> {
        let fd = self.readable.load(SeqCst);
        // SAFETY: the descriptor was opened by `open`, and nobody closes it before the process
        // ends.
        (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
    }
}

/// Catches SIGINT, SIGTERM and SIGUSR1 from now on. A SIGINT that was ignored when the process
/// started (a background job of a script) stays ignored.
///
/// # Errors
/// Fails if there are no descriptors left for the two pipes.
pub fn install_handlers() -> io::Result<()> {
    STOP.open()?;
    DRAIN.open()?;
    for (signal, before) in set_handlers()? {
        if signal == Signal::SIGINT && matches!(before.handler(), SigHandler::SigIgn) {
            SIGINT_WAS_IGNORED.store(true, SeqCst);
            // SAFETY: the action is the one that the process was started with, as the system
            // returned it. It ignores the signal, so no code runs.
            unsafe { sigaction(signal, &before) }?;
        }
    }
    Ok(())
}

/// Makes a write beyond `ulimit -f` fail with EFBIG, which is reported with the name of the file.
/// Otherwise SIGXFSZ ends the process without a word.
pub(crate) fn ignore_file_size_signal() {
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    // SAFETY: the action is one that the system knows, and ignoring a signal runs no code. A signal
    // that exists can be ignored, so there is no error.
    let _ = unsafe { sigaction(Signal::SIGXFSZ, &ignore) };
}

/// Installs the handlers of [`install_handlers`] again, in case a library has replaced them. LLVM
/// does so in some OpenCL drivers when it is loaded or first used.
pub(crate) fn reinstall_handlers() {
    // A signal that could be caught once can be caught again, so errors are ignored.
    let _ = set_handlers();
    if SIGINT_WAS_IGNORED.load(SeqCst) {
        let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
        // SAFETY: the action is one that the system knows, and ignoring a signal runs no code.
        let _ = unsafe { sigaction(Signal::SIGINT, &ignore) };
    }
}

/// Installs [`on_signal`] as the handler of the signals, and returns the previous actions.
fn set_handlers() -> io::Result<[(Signal, SigAction); 3]> {
    // Interrupted reads and writes resume. Every wait of a filter is a poll, which does not resume.
    let action =
        SigAction::new(SigHandler::Handler(on_signal), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler is a function of C's signature that lives as long as the program, and it
    // may interrupt any code: it calls only async-signal-safe functions and takes no lock (see
    // `on_signal`). It can't unwind: it has nothing that panics but arithmetic on milliseconds, and
    // an `extern "C"` function aborts in place of unwinding.
    let take = |signal| unsafe { sigaction(signal, &action) }.map(|before| (signal, before));
    Ok([take(Signal::SIGINT)?, take(Signal::SIGTERM)?, take(Signal::SIGUSR1)?])
}

/// Handles a signal. It uses only atomics, `clock_gettime`, `write`, `sigaction` and `raise`, all
/// async-signal-safe, and restores errno for the interrupted code.
extern "C" fn on_signal(signal: c_int) {
    // SAFETY: the C library returns the address of this thread's errno, valid for as long as the
    // thread, and a handler runs on the thread that it interrupted. Nobody else has a reference to
    // it.
    let errno = unsafe { *libc::__errno_location() };
    let now = monotonic_millis();
    let drains = DRAIN_ENABLED.load(SeqCst) && signal != SIGINT;
    let heard =
        drains && DRAIN.record(signal, now) || signal == SIGUSR1 || STOP.record(signal, now);
    if !heard && let Ok(signal) = Signal::try_from(signal) {
        let _ = kill_self(signal);
    }
    // SAFETY: the same thread's errno, as above: the interrupted code finds it as it was.
    unsafe { *libc::__errno_location() = errno };
}

fn monotonic_millis() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for the result; the call is async-signal-safe.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

/// Returns the signal that asked to stop, if one came.
pub fn stop_signal() -> Option<i32> {
    STOP.stop_signal()
}

/// Returns whether SIGTERM or SIGUSR1 asked a draining filter to finish.
pub fn is_drain_requested() -> bool {
    DRAIN.stop_signal().is_some()
}

/// Makes the first SIGTERM or SIGUSR1 from now on a request to drain.
pub(crate) fn enable_drain() {
    DRAIN_ENABLED.store(true, SeqCst);
}

/// Returns a descriptor that becomes readable, and stays so, once a signal asks to stop; `None`
/// before [`install_handlers`].
pub(crate) fn stop_fd() -> Option<BorrowedFd<'static>> {
    STOP.wake_fd()
}

/// Returns a descriptor that becomes readable, and stays so, once a signal asks to drain; `None`
/// before [`install_handlers`].
pub(crate) fn drain_fd() -> Option<BorrowedFd<'static>> {
    DRAIN.wake_fd()
}

/// Ends the process by a signal, as if the signal had never been caught or ignored. Returns only if
/// the system does not let the process die.
pub(crate) fn die_by_signal(signal: i32) {
    if let Ok(signal) = Signal::try_from(signal) {
        let _ = kill_self(signal);
    }
}

fn kill_self(signal: Signal) -> nix::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of this process.
    unsafe { sigaction(signal, &default) }?;
    raise(signal)?;
    sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&SigSet::from(signal)), None)
}

/// Ends the process with a status and without exit handlers, because those of libraries may wait
/// for threads that never end.
pub(crate) fn exit_at_once(status: u8) {
    // SAFETY: _exit(2) takes any number, touches no memory of this process, and does not return.
    unsafe { libc::_exit(status.into()) }
}

static CLOSED_STREAMS: AtomicU8 = AtomicU8::new(0);

/// Returns whether this stream (0 stdin, 1 stdout, 2 stderr) was closed when the process started.
///
/// Rust's runtime opens /dev/null in place of a closed standard stream before `main`. Records
/// written there would be lost silently, and later nothing distinguishes that from an intended `>
/// /dev/null`.
pub(crate) fn was_closed(stream: impl AsFd) -> bool {
    use std::os::fd::AsRawFd;
    CLOSED_STREAMS.load(SeqCst) & (1 << stream.as_fd().as_raw_fd()) != 0
}

/// Runs before `main` and before Rust's runtime.
// SAFETY: the loader calls each pointer of `.init_array` once, as a C function, on one thread; this
// one needs nothing of Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    record_closed_streams();
    // With this variable set, HDF5 locks the files of a running scan even if it is asked not to
    // when it opens one. SAFETY: the name ends in NUL. No other thread reads the environment
    // meanwhile, for there is none yet: the loader calls this on the process's first thread, and
    // the libraries that the filters are linked with (the C library and what it brings) start no
    // thread when they are loaded. An OpenCL library, which may, is loaded after `main` has begun.
    unsafe { libc::unsetenv(c"HDF5_USE_FILE_LOCKING".as_ptr()) };
    // All threads get the stack size that is known to suffice: 2 MiB unless a thread asks for
    // another. SAFETY: the name ends in NUL, and there is one thread, as above.
    unsafe { libc::unsetenv(c"RUST_MIN_STACK".as_ptr()) };
}

fn record_closed_streams() {
    for stream in 0..3 {
        // SAFETY: F_GETFD takes two numbers and touches no memory of this process: it returns the
        // flags of a descriptor, or an error where it is not open.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            CLOSED_STREAMS.fetch_or(1 << stream, SeqCst);
        }
    }
}
