//! A small stack (`ulimit -s`): the filters have one of their own.

use crate::support::filters::{FILTERS, directory_with_poni};
use crate::support::{feed, lines};

/// 64 kB, and what Rust would make of the stacks of other threads.
const SMALL: &str = "ulimit -s 64; export RUST_MIN_STACK=1; exec";

#[test]
fn a_small_stack_is_enough() {
    for filter in FILTERS {
        let place = directory_with_poni();
        let done = feed(
            filter.in_shell(place.path(), &format!("{SMALL} \"$@\"")),
            format!("{}\n", filter.line).as_bytes(),
        );
        assert_eq!(done.status.code(), Some(filter.status), "{filter:?}: {done:?}");
        assert_eq!(lines(&done.stdout).len(), 1, "{filter:?}: {done:?}");
        for (arguments, status) in
            [("--help", 0), ("-h", 0), ("--version", 0), ("--no-such-flag", 2)]
        {
            let script = format!("{SMALL} \"$@\" {arguments}");
            let done = filter.in_shell(place.path(), &script).output().expect("it ends");
            assert_eq!(done.status.code(), Some(status), "{filter:?} {arguments}: {done:?}");
        }
    }
}
