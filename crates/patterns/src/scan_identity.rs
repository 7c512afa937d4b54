//! Checks that a raw file still holds the scan of a record: raw data may have been measured again under
//! the same name, and a link or a mount may lead to those of another experiment by now.

use frames::hdf5_array::read_text;
use records::Acquisition;

/// Checks that the entry of a scan's file began when the record says. A file without a time of start, or
/// that can't be read, is not told from that of the record.
///
/// # Errors
/// Fails with the reason if another scan has that place now.
pub(crate) fn check_same_scan(scan: &Acquisition) -> Result<(), String> {
    let Some(then) = scan.start_time.as_deref() else { return Ok(()) };
    let now = read_text(&scan.file, &format!("/{}/start_time", scan.entry.trim_matches('/')));
    match now {
        Ok(now) if !now.is_empty() && now != then => Err(format!(
            "entry {} holds another scan now, which began at {now}; this one began at {then}",
            scan.entry
        )),
        _ => Ok(()),
    }
}
