//! Functions for the worker processes that a filter starts.

use nix::sys::signal::{SigSet, Signal, raise};

use crate::console::Console;
use crate::{exit_status, signal};

/// Returns whether a signal has asked the filter to stop, so that its workers need not be awaited.
pub fn stop_requested() -> bool {
    signal::stop_signal().is_some()
}

/// Blocks the signals that end a filter in this worker: they reach all processes of a job, and the filter ends its
/// workers.
pub fn block_signals() {
    let all = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGHUP, Signal::SIGPIPE];
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

/// Ends this process without a message and without cleaning up, for a worker that can't be used any more.
pub fn kill_self() {
    // Nothing else can be done if this fails.
    let _ = raise(Signal::SIGKILL);
}

/// Ends this process with an error on stderr and status 2 but without cleaning up, for when its other threads hang
/// for good.
pub fn end_with_error(message: &str) {
    Console::new().write_message(message);
    signal::exit_at_once(exit_status::USAGE_OR_IO);
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::limit_memory;

    /// Makes this test program a process whose memory is limited.
    const LIMITED_ENV: &str = "AZPIPE_TEST_MEMORY_LIMIT";

    const LIMIT: u64 = 1 << 30;

    /// Returns the address space of this process in bytes.
    fn address_space() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
        let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("its size");
        1024 * line.trim().strip_suffix(" kB").and_then(|size| size.parse::<u64>().ok()).expect("kilobytes")
    }

    fn can_have(bytes: u64) -> bool {
        Vec::<u8>::new().try_reserve_exact(usize::try_from(bytes).expect("64 bits")).is_ok()
    }

    /// A limit of 1 GiB stands for the 32 GiB of the worker that reads HDF5 files, which a machine may not have to give.
    #[test]
    fn a_worker_has_as_much_memory_as_its_limit_and_not_a_page_more() {
        let name = "worker_process::tests::a_worker_has_as_much_memory_as_its_limit_and_not_a_page_more";
        if std::env::var_os(LIMITED_ENV).is_none() {
            let program = std::env::current_exe().expect("the program has a path");
            let limited =
                Command::new(program).args(["--exact", name]).env(LIMITED_ENV, "1").output().expect("it starts");
            assert!(limited.status.success(), "{}", String::from_utf8_lossy(&limited.stdout));
            return;
        }
        limit_memory(LIMIT);
        // The allocator adds up to a page for itself.
        let (page, left) = (4096, LIMIT - address_space());
        assert!(can_have(left - 2 * page) && !can_have(left + page), "{left} bytes are left");
        // A limit is never raised.
        limit_memory(2 * LIMIT);
        assert!(!can_have(left + page));
    }
}
