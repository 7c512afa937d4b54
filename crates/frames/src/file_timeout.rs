//! The time limit for a file on which the HDF5 library makes no progress, from the environment.

use std::time::Duration;

/// Environment variable for the time limit per file in seconds without progress; 0 disables the limit.
pub(crate) const TIMEOUT_ENV: &str = "AZPIPE_FILE_TIMEOUT";

/// Default time limit for a file without progress.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the time limit for a file without progress; `None` if there is no limit.
pub(crate) fn file_timeout() -> Option<Duration> {
    parse_timeout(std::env::var(TIMEOUT_ENV).ok().as_deref())
}

/// Parses the value of [`TIMEOUT_ENV`]; `None` means no limit. An invalid value gives the default.
fn parse_timeout(value: Option<&str>) -> Option<Duration> {
    let seconds = value.and_then(|text| text.trim().parse().ok());
    let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(DEFAULT_TIMEOUT);
    (!limit.is_zero()).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_of_seconds() {
        assert_eq!(parse_timeout(None), Some(DEFAULT_TIMEOUT));
        assert_eq!(parse_timeout(Some("2.5")), Some(Duration::from_millis(2500)));
        assert_eq!(parse_timeout(Some("0")), None);
        for none in ["", "x", "-1", "nan", "inf", "1e300"] {
            assert_eq!(parse_timeout(Some(none)), Some(DEFAULT_TIMEOUT), "{none}");
        }
    }
}
