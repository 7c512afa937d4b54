//! Decides whether a directory of pixel statistics is left over.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use system::atomic;
use system::ownership::OwnershipRule;

use super::{Leftover, Leftovers};
use crate::output::OutputError;
use crate::pixel_statistics::is_statistics;

/// Adds the statistics of a scan if it is not among the `kept` ones, which have parts or a note about
/// a final file that stay.
pub(super) fn find_statistics(
    directory: &Path,
    kept: &BTreeSet<OsString>,
    found: &mut Leftovers,
) -> Result<(), OutputError> {
    if kept.contains(directory.file_name().unwrap_or_default()) {
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
