//! Decides whether a directory of pixel statistics is left over.

use std::fs;
use std::path::Path;

use output_owners::OutputOwner;
use system::atomic;
use system::ownership::{AZPIPE_DIR, OwnershipRule};

use super::{Leftover, Leftovers};
use crate::output::OutputError;
use crate::pixel_statistics::is_statistics;

/// Adds the statistics of a scan if the scan has neither a note about a final file nor parts.
pub(super) fn find_statistics(
    root: &Path,
    directory: &Path,
    notes: &[OutputOwner],
    found: &mut Leftovers,
) -> Result<(), OutputError> {
    let scan = directory.file_name().unwrap_or_default();
    let parts = root.join(AZPIPE_DIR).join("parts").join(scan);
    let has_parts = parts.try_exists().map_err(OutputError::io(&parts))?;
    if has_parts || notes.iter().any(|note| *note.scan == *scan) {
        return Ok(());
    }
    let mut leftover = Leftover {
        path: directory.to_owned(),
        why: "pixel statistics of a scan without results".to_owned(),
        files: Vec::new(),
        bytes: 0,
    };
    for entry in fs::read_dir(directory).map_err(OutputError::io(directory))? {
        let path = entry.map_err(OutputError::io(directory))?.path();
        if is_statistics(&path) {
            leftover.add(path, OwnershipRule::in_azpipe_dir())?;
        } else if !path.file_name().is_some_and(atomic::is_temporary) {
            found.kept.push(format!("{}: kept: not written by azpipe", path.display()));
        }
    }
    found.all.push(leftover);
    Ok(())
}
