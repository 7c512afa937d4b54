//! Reads an NXentry: title, times, and how the scan ended.

use std::path::{Path, PathBuf};

use super::error::DiscoverError;
use super::links::ResolvedObject;
use super::open_files::OpenFiles;
use crate::ffi::{LinkTarget, ObjectType};

/// An open NXentry.
pub(super) struct NexusEntry {
    /// File in which the entry is reported.
    pub file: PathBuf,
    /// Name of the entry in that file.
    pub name: String,
    /// Group of the entry, with its links resolved.
    pub group: ResolvedObject,
    pub title: Option<String>,
    pub start_time: Option<String>,
    pub end_time: Option<String>,
    pub end_reason: Option<String>,
    /// True if the writer of this file marks the end of a scan by `end_time`.
    reports_end: bool,
}

impl NexusEntry {
    /// Reads the metadata of an entry.
    ///
    /// # Errors
    /// A part of the metadata can't be read; the scan is then reported as failed.
    pub(super) fn read(
        files: &mut OpenFiles,
        file: &Path,
        name: &str,
        group: ResolvedObject,
    ) -> Result<Self, DiscoverError> {
        let mut text = |path: &str| -> Result<Option<String>, DiscoverError> {
            Ok(files.read_text(&group, path)?.filter(|text| !text.is_empty()))
        };
        let start_time = match text("start_time")? {
            None => text("instrument/detector/detectorSpecific/data_collection_date")?,
            start_time => start_time,
        };
        let (title, end_time, end_reason) =
            (text("title")?, text("end_time")?, text("end_reason")?);
        let mut by_lima = || -> Result<bool, DiscoverError> {
            let root = files.root(&group.file)?;
            let creator = root.object.read_text_attribute("creator");
            let creator = creator.map_err(|err| DiscoverError::from_library(&group.file, &err))?;
            Ok(creator.is_some_and(|creator| creator.starts_with("LIMA-")))
        };
        let tells_end = is_bliss_name(name) || by_lima()?;
        let (file, name) = (file.to_owned(), name.to_owned());
        Ok(Self {
            file,
            name,
            group,
            title,
            start_time,
            end_time,
            end_reason,
            reports_end: tells_end,
        })
    }

    /// Reads the first element of a dataset of this entry as a number.
    pub(super) fn read_number(
        &self,
        files: &mut OpenFiles,
        path: &str,
    ) -> Result<Option<f64>, DiscoverError> {
        files.read_number(&self.group, path)
    }

    /// Returns the number of a Bliss scan: 12 for `12.1`.
    pub(super) fn scan_number(&self) -> Option<u64> {
        is_bliss_name(&self.name).then(|| self.name.split_once('.')?.0.parse().ok()).flatten()
    }

    /// Explains why a detector of this entry may have no frames.
    pub(super) fn no_frames_reason(&self) -> String {
        match &self.end_reason {
            _ if !self.has_ended() => "no frames yet: the scan is still running".to_owned(),
            Some(reason) => format!("no frames: the scan ended by {reason}"),
            None => "no frames".to_owned(),
        }
    }

    /// Returns whether the scan has ended according to its writer. If the writer died, this stays
    /// `false`.
    pub(super) fn has_ended(&self) -> bool {
        !self.reports_end || self.end_time.is_some() || self.end_reason.is_some()
    }

    /// Returns whether the scan took all its frames.
    pub(super) fn is_successful(&self) -> bool {
        self.has_ended()
            && self
                .end_reason
                .as_deref()
                .is_none_or(|reason| reason.eq_ignore_ascii_case("SUCCESS"))
    }

    /// Opens a group of this entry, if it is stored in the entry's own file.
    pub(super) fn own_group(
        &self,
        files: &mut OpenFiles,
        name: &str,
    ) -> Result<Option<ResolvedObject>, DiscoverError> {
        let to_error = |err| DiscoverError::from_library(&self.group.file, &err);
        match self.group.object.read_link(name).map_err(to_error)? {
            Some(LinkTarget::Hard | LinkTarget::Soft(_)) => {
                let found = files.try_resolve(&self.group, name)?;
                Ok(found.filter(|found| {
                    found.file == self.group.file && found.object.object_type() == ObjectType::Group
                }))
            }
            _ => Ok(None),
        }
    }
}

/// Returns whether a name has the form `N.M`, as Bliss names scans and sub-scans.
pub(super) fn is_bliss_name(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('.').is_some_and(|(scan, part)| number(scan) && number(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bliss_names_scans_by_two_numbers() {
        assert!(is_bliss_name("12.1"));
        for other in ["entry_0000", "1.", "1.1.1", "1", ".1", "a.1"] {
            assert!(!is_bliss_name(other), "{other}");
        }
    }
}
