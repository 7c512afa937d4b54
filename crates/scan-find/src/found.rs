//! [`has_unreadable`] and [`is_bliss_entry`], what the walk asks of a discovery.

use frames::discover::{Discovery, DiscoveryKind};
use records::AbsentKind;

/// Returns whether a part of the discovery could not be read, so that it may have files that are
/// not known.
pub fn has_unreadable(found: &Discovery) -> bool {
    match &found.kind {
        DiscoveryKind::Failed { unreadable, .. } => *unreadable,
        DiscoveryKind::Scan(scan) => {
            scan.absent.iter().any(|absent| absent.kind == AbsentKind::Unreadable)
        }
        _ => false,
    }
}

/// Returns whether a discovery is an entry with a Bliss name, which no data file has.
pub fn is_bliss_entry(found: &Discovery) -> bool {
    let entry = found.dataset.trim_start_matches('/').split('/').next().unwrap_or_default();
    entry.split_once('.').is_some_and(|(scan, part)| {
        let number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        number(scan) && number(part)
    })
}
