//! Reports failures: at once, or in a following search when they are due.

use std::path::Path;
use std::time::{Duration, Instant};

use filter::Stop;
use frames::discover::{Discovery, DiscoveryKind};
use records::{AbsentKind, Acquisition, Fail, Spans};

use super::Finder;
use crate::patience::FailureAction;
use crate::stability::add_being_written;

/// How long a data file waits for a master that is being written. What waits longer is no data file
/// of it, or else the master is of no use.
const LEFT_OUT_PERIOD: Duration = Duration::from_secs(30);

impl Finder<'_> {
    /// Returns whether a discovery is a failure that is withheld for now.
    pub(crate) fn withholds(&mut self, found: &Discovery) -> bool {
        let DiscoveryKind::Failed { why, .. } = &found.kind else { return false };
        self.patience.judge(&found.display_path(), why) == FailureAction::Withhold
    }

    /// Makes the frames absent that can't be read, but perhaps at another look, and returns whether
    /// there are any. They count as frames that are still being written.
    pub(super) fn withhold_read_failures(
        &mut self,
        about: &str,
        acquisition: &mut Acquisition,
    ) -> bool {
        let mut withheld = Vec::new();
        acquisition.absent.retain(|absent| {
            let is_withheld = matches!(absent.kind, AbsentKind::Unreadable | AbsentKind::Corrupt)
                && self.patience.judge(about, &absent.reason) == FailureAction::Withhold;
            if is_withheld {
                withheld.push(absent.range.clone());
            }
            !is_withheld
        });
        if withheld.is_empty() {
            return false;
        }
        add_being_written(acquisition, &Spans::union_all(withheld.iter()));
        true
    }

    /// Reports a failure once, or in a following search if it remains.
    ///
    /// # Errors
    /// Fails as [`Filter::fail`](filter::Filter::fail) does.
    pub(crate) fn fail(
        &mut self,
        about: String,
        error: String,
        retryable: bool,
    ) -> Result<(), Stop> {
        self.found_count += 1;
        match self.patience.judge(&about, &error) {
            FailureAction::Withhold => Ok(()),
            FailureAction::Warn => {
                self.warn_of_retry(about, error);
                Ok(())
            }
            FailureAction::Report => self.report_failure(about, error, retryable),
        }
    }

    /// Reports a failure once, at once.
    ///
    /// # Errors
    /// Fails as [`Filter::fail`](filter::Filter::fail) does.
    pub(crate) fn report_failure(
        &mut self,
        about: String,
        error: String,
        retryable: bool,
    ) -> Result<(), Stop> {
        if !self.failures.insert((about.clone(), error.clone())) {
            return Ok(());
        }
        self.emitted += 1;
        self.filter.fail(Fail { about, error, retryable, ..Fail::default() })
    }

    /// Warns once of a failure that is not reported yet.
    pub(super) fn warn_of_retry(&mut self, about: String, error: String) {
        let is_first = self.patience.is_first_warning(&about);
        let known = (about, error);
        if is_first && !self.failures.contains(&known) {
            let (about, error) = known;
            self.filter
                .warn(&format!("{about}: {error}: will be tried again, because of --follow"));
        }
    }

    /// Returns whether to leave out a file that may belong to a master that can't be read. If the
    /// master may be being written, `is_withheld`, the file is left out for [`LEFT_OUT_PERIOD`].
    pub(crate) fn leaves_out(&mut self, file: &Path, master: &Path, is_withheld: bool) -> bool {
        let (about, master) = (file.display().to_string(), master.display());
        let why = format!("left out: this may be a data file of {master}, which can't be read");
        if is_withheld {
            let since = *self.left_out_since.entry(file.to_owned()).or_insert_with(Instant::now);
            if since.elapsed() >= LEFT_OUT_PERIOD {
                return false;
            }
            self.filter.note(2, || format!("{about}: {why}"));
        } else {
            self.warn_once(about, why);
        }
        self.is_complete = false;
        true
    }

    /// Reports files whose real paths could not be determined.
    ///
    /// # Errors
    /// Fails as [`Finder::report`] does.
    pub(crate) fn report_unresolved(&mut self) -> Result<(), Stop> {
        let failures = self.claims.take_unresolved();
        failures.into_iter().try_for_each(|(file, why)| {
            self.fail(file.display().to_string(), why.to_string(), true)
        })
    }

    pub(crate) fn warn_once(&mut self, about: String, why: String) {
        if self.failures.insert((about.clone(), why.clone())) {
            self.filter.warn(&format!("{about}: {why}"));
        }
    }
}
