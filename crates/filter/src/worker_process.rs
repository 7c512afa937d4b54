//! Functions for the worker processes that a filter starts.

use nix::sys::signal::{SigSet, Signal, raise};

use crate::console::Console;
use crate::{exit_status, signal};

/// Returns whether a signal has asked the filter to stop, so that its workers need not be awaited.
pub fn stop_requested() -> bool {
    signal::stop_signal().is_some()
}

/// Blocks the signals that end a filter in this worker: they reach all processes of a job, and the
/// filter ends its workers.
pub fn block_signals() {
    let all = [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGHUP,
        Signal::SIGPIPE,
    ];
    // If blocking fails and a signal ends the worker, the filter starts it again.
    let _ = all.into_iter().collect::<SigSet>().thread_block();
}

/// Limits the memory of this process, unless a stricter limit is set.
pub fn limit_memory(most: u64) {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_AS) {
        let _ = setrlimit(Resource::RLIMIT_AS, soft.min(most), hard);
    }
}

/// Ends this process without a message and without cleaning up, for a worker that can't be used any
/// more.
pub fn kill_self() {
    // Nothing else can be done if this fails.
    let _ = raise(Signal::SIGKILL);
}

/// Ends this process with an error on stderr and status 2 but without cleaning up, for when its
/// other threads hang for good.
pub fn end_with_error(message: &str) {
    Console::new().write_message(message);
    signal::exit_at_once(exit_status::USAGE_OR_IO);
}
