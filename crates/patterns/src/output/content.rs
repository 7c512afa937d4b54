//! [`OutputContent`]: everything that a final file is written from.

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;

use recipe::{Monitor, Recipe};
use records::{Acquisition, Spans, format_frames};
use system::set_aside::AsideReason;

use super::error::MAX_RANGES;
use super::row_sources::{RowSource, RowSources};
use super::schema::entry_name;
use super::{Average, AveragedPatterns, OutputFile, OutputLayout, OutputSpec};
use crate::compression::Compression;
use crate::h5;
use crate::part::Part;
use crate::scan_identity::{ScanIdentityError, check_same_scan};
use crate::{Normalizer, SharedBins, Status};

/// Paths of the names of the beamline and the sample, below the entry of the raw file.
pub(super) const EXPERIMENT_NAMES: [&str; 2] = ["instrument/name", "sample/name"];

/// Content of a final file that is to be written.
pub(super) struct OutputContent<'a> {
    pub target: &'a OutputSpec,
    pub recipe: &'a Recipe,
    /// Monitors that intensities are divided by. Those of a merged final file are the members', and
    /// not in its recipe.
    pub monitors: &'a [Monitor],
    pub is_merged: bool,
    pub normalizer: Normalizer,
    pub shared: &'a SharedBins,
    pub parts: &'a [Part],
    /// Final file that is replaced.
    pub existing: Option<&'a OutputFile>,
    pub row_sources: &'a RowSources,
    /// Checksums of all parts whose frames are in the file, one per line.
    pub part_digests: &'a str,
    pub layout: OutputLayout,
    /// Compression of cakes.
    pub compression: Compression,
    pub keep_sums: bool,
    pub average: Option<Average>,
    /// Average patterns of the final file that is replaced, if they are those of the new one.
    pub averages_to_copy: Option<&'a AveragedPatterns>,
    /// True once the raw file, or a file that it links to, could not be opened for want of
    /// permission. The final file then lacks what another user, or a later run, can copy from there.
    pub raw_file_denied: Cell<bool>,
    /// Warnings, for example about counters that can't be read.
    pub warnings: &'a RefCell<Vec<String>>,
    /// Warning that the raw file has numbers of other frames by now; those of the existing final file stay,
    /// but for frames that were integrated again.
    pub changed_frames: Option<String>,
    /// Why the file that has the path is kept under another name, and what it is, for the warning; `None` if
    /// it is replaced.
    pub set_aside: Option<(AsideReason, String)>,
}

impl OutputContent<'_> {
    /// Returns whether the final file has the frames' sums.
    pub fn has_sums(&self) -> bool {
        let are_in_parts = self.parts.iter().all(|part| part.has_sums);
        self.keep_sums || (self.layout == OutputLayout::Virtual && are_in_parts)
    }

    /// Opens the raw file of the scan. `None` if the file doesn't exist, is an image without
    /// counters, or can't be used; the last case gives a warning.
    ///
    /// # Errors
    /// Fails as [`Self::warn_of_raw_file`] does.
    pub fn raw_file(&self) -> h5::Result<Option<h5::Hdf5File>> {
        match (open_raw_file(&self.target.task().acquisition), &self.changed_frames) {
            (Ok(Some(_)), Some(why)) => {
                self.warn(why.clone());
                Ok(None)
            }
            (opened, _) => opened.or_else(|why| self.warn_of_raw_file(why).map(|()| None)),
        }
    }

    /// Returns the frames whose patterns are of other raw data than those of the existing final file.
    pub fn frames_of_other_data(&self) -> Spans {
        let Some(existing) = self.existing else { return Spans::default() };
        let (then, now) = (&existing.stored_digest, &self.row_sources.stored_digest);
        let rows = existing.status.iter().zip(then).zip(&self.row_sources.sources).zip(now);
        let is_other = |(((status, then), source), now): (((&Status, &u64), &RowSource), &u64)| {
            *status == Status::Ok && matches!(source, RowSource::Part { .. }) && then != now
        };
        let frames = rows.zip(0..).filter(|(row, _)| is_other(*row)).map(|(_, frame)| frame);
        frames.collect()
    }

    /// Warns that counters and positions of frames are NaN, because only those of earlier raw data are known.
    pub fn warn_of_forgotten_numbers(&self, frames: &Spans) {
        self.warn(format!(
            "{}: counters and positions of {} are NaN, because only those of earlier raw data are known; run the whole pipe \
             again",
            self.target.path().display(),
            format_frames(frames, MAX_RANGES)
        ));
    }

    /// Warns that counters and positions are missing from the final file because the raw file is
    /// damaged or of another scan by now, or because this user has no access to it, as readers of the
    /// final file may have.
    ///
    /// # Errors
    /// Fails if a system call failed for another reason: a later run can copy the values.
    pub fn warn_of_raw_file(&self, why: h5::Hdf5Error) -> h5::Result<()> {
        let path = self.target.task().acquisition.file.display();
        match why {
            h5::Hdf5Error::Io(why)
                if !matches!(why.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) =>
            {
                let message = format!("counters and positions can't be read from {path}: {why}");
                return Err(h5::Hdf5Error::Io(std::io::Error::new(why.kind(), message)));
            }
            why => {
                self.remember_denied(&why);
                self.warn(format!("{path}: its counters and positions are not copied: {why}"));
            }
        }
        Ok(())
    }

    /// Warns that a number of the scan, one of its `counters` or `positioners`, is not copied from
    /// the raw file because it is damaged, or because this user has no access to a file that holds
    /// it.
    pub fn warn_of_number(&self, group: &str, name: &str, why: &h5::Hdf5Error) {
        let path = self.target.task().acquisition.file.display();
        let kind = group.trim_end_matches('s');
        self.remember_denied(why);
        self.warn(format!("{path}: {kind} {name} can't be read, and is not copied: {why}"));
    }

    fn remember_denied(&self, why: &h5::Hdf5Error) {
        self.raw_file_denied.set(self.raw_file_denied.get() || why.is_denied());
    }

    fn warn(&self, warning: String) {
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

/// Opens the raw file of a scan. `None` if the file doesn't exist, or is an image without counters.
///
/// # Errors
/// The file can't be used, or holds another scan by now.
pub(super) fn open_raw_file(scan: &Acquisition) -> h5::Result<Option<h5::Hdf5File>> {
    if scan.dataset.is_empty() && scan.counters.is_empty() {
        return Ok(None);
    }
    check_same_scan(scan).map_err(|why| match why {
        ScanIdentityError::OtherScan { .. } => h5::Hdf5Error::Library(why.to_string()),
        ScanIdentityError::Unknown(why) => why.into(),
    })?;
    let entry = format!("/{}/", entry_name(&scan.entry));
    let [positioners, instrument, sample] =
        ["instrument/positioners", "instrument", "sample"].map(|name| format!("{entry}{name}"));
    let names = EXPERIMENT_NAMES.map(|name| format!("{entry}{name}"));
    let counters = scan.counters.values().map(String::as_str);
    let read: Vec<&str> =
        counters.chain([positioners.as_str()]).chain(names.iter().map(String::as_str)).collect();
    let detector = scan.dataset.rsplit_once('/').map_or("/", |(group, _)| group);
    match h5::Hdf5File::open_objects_of_others(&scan.file, &read, &[&instrument, detector, &sample])
    {
        Ok(raw) => Ok(Some(raw)),
        Err(h5::Hdf5Error::Io(why)) if why.kind() == ErrorKind::NotFound => Ok(None),
        Err(why) => Err(why),
    }
}
