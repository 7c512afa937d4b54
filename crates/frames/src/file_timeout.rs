//! The time limit for a file on which the HDF5 library makes no progress, from the environment.

use std::ffi::OsString;
use std::time::Duration;

/// Environment variable for the time limit per file in seconds without progress; 0 disables the
/// limit.
pub(crate) const TIMEOUT_ENV: &str = "AZPIPE_FILE_TIMEOUT";

/// Default time limit for a file without progress.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the time limit for a file without progress; `None` if there is no limit. An invalid
/// value, which [`check_file_timeout`] reports, gives the default.
pub(crate) fn file_timeout() -> Option<Duration> {
    let limit = read_timeout().unwrap_or(DEFAULT_TIMEOUT);
    (!limit.is_zero()).then_some(limit)
}

/// Checks the environment variable `AZPIPE_FILE_TIMEOUT`, the time limit for a file on which the
/// HDF5 library makes no progress. A filter calls this before it reads a file.
///
/// # Errors
/// Fails if its value is not a number of seconds.
pub fn check_file_timeout() -> Result<(), FileTimeoutError> {
    read_timeout().map(drop)
}

/// The environment variable `AZPIPE_FILE_TIMEOUT` is not a number of seconds.
#[derive(Debug, thiserror::Error)]
#[error("{TIMEOUT_ENV}={value:?}: expected a number of seconds, or 0 for no limit; unset it for the default of {} s", DEFAULT_TIMEOUT.as_secs())]
pub struct FileTimeoutError {
    value: OsString,
}

fn read_timeout() -> Result<Duration, FileTimeoutError> {
    parse_timeout(std::env::var_os(TIMEOUT_ENV))
}

/// Parses the value of [`TIMEOUT_ENV`], in seconds. An empty value counts as unset.
fn parse_timeout(value: Option<OsString>) -> Result<Duration, FileTimeoutError> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(DEFAULT_TIMEOUT) };
    let seconds = value.to_str().and_then(|text| text.trim().parse().ok());
    let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    limit.ok_or(FileTimeoutError { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_of_seconds() {
        let parse = |value: &str| parse_timeout(Some(value.into())).map_err(|why| why.to_string());
        assert_eq!(parse_timeout(None).unwrap(), DEFAULT_TIMEOUT);
        assert_eq!(parse(""), Ok(DEFAULT_TIMEOUT));
        assert_eq!(parse("2.5"), Ok(Duration::from_millis(2500)));
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        for invalid in ["x", "-1", "nan", "inf", "1e300", "60s"] {
            let expected =
                "expected a number of seconds, or 0 for no limit; unset it for the default of 60 s";
            assert_eq!(
                parse(invalid),
                Err(format!("AZPIPE_FILE_TIMEOUT=\"{invalid}\": {expected}"))
            );
        }
    }
}
