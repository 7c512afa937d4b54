//! Reports failures: at once, or in a following search when they are due.

use std::path::Path;

use filter::Stop;
use frames::discover::{Discovery, DiscoveryKind};
use records::{AbsentKind, Acquisition, Fail, Spans};

use super::Finder;
use crate::patience::FailureAction;
use crate::stability::add_being_written;

impl Finder<'_> {
    /// Returns whether a discovery is a failure that is withheld for now.
    pub(crate) fn withholds(&mut self, found: &Discovery) -> bool {
        let DiscoveryKind::Failed { why, retryable, .. } = &found.kind else { return false };
        self.patience.judge(&found.display_path(), why, *retryable) == FailureAction::Withhold
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
            let action = match absent.kind {
                AbsentKind::Unreadable => self.patience.judge(about, &absent.reason, true),
                AbsentKind::Corrupt => self.patience.judge(about, &absent.reason, false),
                _ => return true,
            };
            if action == FailureAction::Withhold {
                withheld.push(absent.range.clone());
            }
            action != FailureAction::Withhold
        });
        if withheld.is_empty() {
            return false;
        }
        add_being_written(acquisition, &Spans::union_all(withheld.iter()));
        true
    }

    /// Reports a failure once, or in a following search when it is due. Even what does not exist may
    /// be there at the next look.
    ///
    /// # Errors
    /// Fails as [`Filter::fail`] does.
    pub(crate) fn fail(
        &mut self,
        about: String,
        error: String,
        retryable: bool,
    ) -> Result<(), Stop> {
        self.fail_when_due(about, error, retryable, true)
    }

    pub(super) fn fail_when_due(
        &mut self,
        about: String,
        error: String,
        retryable: bool,
        may_pass: bool,
    ) -> Result<(), Stop> {
        self.found_count += 1;
        match self.patience.judge(&about, &error, may_pass) {
            FailureAction::Withhold => Ok(()),
            FailureAction::Warn => {
                self.warn_of_retry(about, error);
                Ok(())
            }
            FailureAction::Report => self.report_failure(about, error, retryable),
        }
    }

    pub(super) fn report_failure(
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
        let known = (about, error);
        if !self.failures.contains(&known) {
            let (about, error) = known;
            self.warn_once(about, format!("{error}: will be tried again, because of --follow"));
        }
    }

    /// Leaves out a file that may belong to a master that can't be read, with a warning unless that
    /// may change at once.
    pub(crate) fn leave_out(&mut self, file: &Path, master: &Path) {
        self.is_complete = false;
        let (about, master) = (file.display().to_string(), master.display());
        let why = format!("left out: this may be a data file of {master}, which can't be read");
        match self.patience.next_due() {
            Some(_) => self.filter.note(2, || format!("{about}: {why}")),
            None => self.warn_once(about, why),
        }
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
