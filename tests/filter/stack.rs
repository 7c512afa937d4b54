//! A small stack (`ulimit -s`): the filters have one of their own.

use crate::tool::{TOOLS, feed, lines, workplace};

/// 64 kB, and what Rust would make of the stacks of other threads.
const SMALL: &str = "ulimit -s 64; export RUST_MIN_STACK=1; exec";

#[test]
fn a_small_stack_is_enough() {
    for tool in TOOLS {
        let place = workplace();
        let done = feed(tool.in_shell(place.path(), &format!("{SMALL} \"$@\"")), format!("{}\n", tool.line).as_bytes());
        assert_eq!(done.status.code(), Some(tool.status), "{tool:?}: {done:?}");
        assert_eq!(lines(&done.stdout).len(), 1, "{tool:?}: {done:?}");
        for (arguments, status) in [("--help", 0), ("-h", 0), ("--version", 0), ("--no-such-flag", 2)] {
            let script = format!("{SMALL} \"$@\" {arguments}");
            let done = tool.in_shell(place.path(), &script).output().expect("it ends");
            assert_eq!(done.status.code(), Some(status), "{tool:?} {arguments}: {done:?}");
        }
    }
}
