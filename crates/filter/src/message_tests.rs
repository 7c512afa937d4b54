//! A test that lists the messages of the crate in one place, so that their wording can be compared.
//! Messages of streams and of the progress line are tested in their own modules.

use std::ffi::OsString;

use crate::quote::QuoteError;
use crate::{Stop, duration};

#[test]
fn why_a_filter_stops() {
    let stops = [
        Stop::BrokenPipe,
        Stop::Signal(15),
        Stop::FailFast,
        Stop::fatal("/out/a.h5", "/out/a.h5: No space left on device (os error 28)"),
        Stop::NothingToRead,
        Stop::Drained { worked: true },
    ];
    let messages = [
        "broken pipe",
        "stopped by signal 15",
        "stopped at the first failure",
        "/out/a.h5: No space left on device (os error 28)",
        "nothing to read: no file given, and stdin is a terminal",
        "stopped early with work left: run the same command again",
    ];
    assert_eq!(stops.map(|stop| stop.to_string()), messages);
}

#[test]
fn why_a_value_is_refused() {
    let value = || OsString::from("a b");
    let errors = [
        duration::parse("1d").expect_err("no unit").to_string(),
        QuoteError::LineBreak(value()).to_string(),
        QuoteError::Backslash(value()).to_string(),
        QuoteError::TooLong(value()).to_string(),
    ];
    let messages = [
        "expected a duration: seconds, 90s, 50m, 12h or HH:MM:SS",
        "\"a b\": an #SBATCH directive can't hold a line break",
        "\"a b\": the name of a SLURM log can't hold a backslash",
        "\"a b\": an #SBATCH directive can't be longer than 8000 bytes",
    ];
    assert_eq!(errors, messages);
}
