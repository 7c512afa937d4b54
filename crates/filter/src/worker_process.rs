//! Processes that a filter starts to work for it.

use nix::sys::signal::{SigSet, Signal, raise};

use crate::console::Console;
use crate::{exit_status, signal};

/// Whether a signal has asked the filter to stop, so that nobody waits for its workers any more.
pub fn stop_requested() -> bool {
    signal::stop_signal().is_some()
}

/// Blocks the signals that end a filter, in a worker: they reach all that a job started, and the filter decides what becomes of it.
pub fn block_signals() {
    let all = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGHUP, Signal::SIGPIPE];
    // A worker that a signal ends is started again.
    let _ = all.into_iter().collect::<SigSet>().thread_block();
}

/// Limits the memory of this process, where it is not limited further already.
pub fn limit_memory(most: u64) {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_AS) {
        let _ = setrlimit(Resource::RLIMIT_AS, soft.min(most), hard);
    }
}

/// Ends this process without a word and without cleaning up: for a worker that is of no more use.
pub fn kill_self() {
    // Nothing is left that could be done where this fails.
    let _ = raise(Signal::SIGKILL);
}

/// Ends this process with an error on stderr and status 2, without cleaning up: for a thread that finds the others stuck for good.
pub fn end_with_error(message: &str) {
    Console::new().write_message(message);
    signal::exit_at_once(exit_status::USAGE_OR_IO);
}
