//! `--clean`: removes the files that replaced results have left below an output root.

use std::collections::BTreeSet;
use std::path::Path;

use filter::{Filter, Stop};
use patterns::output::{self, OutputError};
use records::Fail;

use crate::messages;

/// Removes leftovers below an output root, and prints each file or directory with its size; with
/// `dry_run`, only prints them.
///
/// # Errors
/// Fails if another run is working in the output root, or if its directories can't be read.
pub fn remove_leftovers(root: &Path, dry_run: bool, filter: &Filter) -> Result<(), Stop> {
    let found = output::leftovers(root).map_err(|why| Stop::fatal("--clean", why))?;
    for kept in &found.kept {
        filter.warn(&messages::leftover_kept(kept));
    }
    // Several results may name one final file that can't be read.
    let mut reported = BTreeSet::new();
    for why in &found.unread {
        if reported.insert(why.to_string()) {
            report_failure(root, why, filter)?;
        }
    }
    let (mut files, mut total_bytes, mut has_failed) = (0, 0, false);
    for leftover in &found.all {
        filter.check_stopped()?;
        // Its recipe or matrix may be what could not be removed; the next --clean finds that by the
        // directory alone.
        if has_failed && leftover.is_directory() {
            continue;
        }
        if !dry_run && let Err(why) = leftover.remove() {
            report_failure(root, &why, filter)?;
            has_failed = true;
            continue;
        }
        files += leftover.count();
        total_bytes += leftover.bytes;
        filter.note(0, || messages::leftover_removed(leftover, dry_run));
    }
    filter.note(0, || messages::leftovers_removed(root, files, total_bytes, dry_run));
    Ok(())
}

fn report_failure(root: &Path, why: &OutputError, filter: &Filter) -> Result<(), Stop> {
    let (about, retryable) = (format!("{}: --clean", root.display()), why.io_error().is_some());
    filter.fail(Fail { about, error: why.to_string(), retryable, ..Fail::default() })
}
