//! Checks that a raw file still holds the scan of a record: raw data may have been measured again under
//! the same name, and a link or a mount may lead to those of another experiment by now.

use std::io::ErrorKind;

use frames::hdf5_array::{Hdf5ArrayError, read_text};
use records::Acquisition;

/// Reason why the file of a scan is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScanIdentityError {
    /// Another scan has the place of the record's.
    #[error("entry {entry} holds another scan now, which began at {now}; this one began at {then}")]
    OtherScan {
        /// Name of the entry.
        entry: String,
        /// Start of the scan that is there.
        now: String,
        /// Start of the scan of the record.
        then: String,
    },
    /// The start of the scan that is there could not be read.
    #[error("{0}")]
    Unknown(Hdf5ArrayError),
}

/// Checks that the entry of a scan's file began when the record says. A file that is away or damaged, or
/// has no time of start, is not told from that of the record: nothing is copied from it, or its frames are
/// known by other means.
///
/// # Errors
/// Fails if another scan has that place now, and if the file can't be looked at.
pub(crate) fn check_same_scan(scan: &Acquisition) -> Result<(), ScanIdentityError> {
    let Some(then) = scan.start_time.clone() else { return Ok(()) };
    match read_text(&scan.file, &format!("/{}/start_time", scan.entry.trim_matches('/'))) {
        Ok(now) if !now.is_empty() && now != then => {
            Err(ScanIdentityError::OtherScan { entry: scan.entry.clone(), now, then })
        }
        Ok(_) | Err(Hdf5ArrayError::NotHdf5 { .. } | Hdf5ArrayError::Dataset { .. }) => Ok(()),
        Err(Hdf5ArrayError::Io { why, .. }) if why.kind() == ErrorKind::NotFound => Ok(()),
        Err(why) => Err(ScanIdentityError::Unknown(why)),
    }
}
