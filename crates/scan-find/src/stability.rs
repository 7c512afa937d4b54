//! Withholds the frames of files that have just changed.
//!
//! Lima marks a file as closed and then closes it, which changes the modification time again. A
//! record written in between would hold an outdated time. So a following search waits until a file
//! has been unchanged for a moment, and while the kernel reports that its writer still has it open.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use records::{Absent, AbsentKind, Acquisition, Source, Spans};

use crate::claimed_files::ClaimedFiles;
use crate::watcher::DirectoryWatcher;

/// How long a recently changed file must stay unchanged.
pub const STABILITY_PERIOD: Duration = Duration::from_millis(200);

/// The age from which on a file counts as unchanged. A younger file may change again with the same
/// modification time, because the clocks of file systems tick a few hundred times a second, and
/// some once.
const RECENT_CHANGE: Duration = Duration::from_secs(2);

/// The reason given for frames of a file that may still change.
const BEING_WRITTEN_REASON: &str = "being written";

/// The size and modification time of each file when it was first seen.
#[derive(Default)]
pub struct StabilityTracker(HashMap<PathBuf, ((u64, i64), Instant)>);

impl StabilityTracker {
    /// Makes the frames absent whose files have just changed, and returns whether there are any.
    /// They count as frames that are still being written.
    pub fn withhold_unstable(
        &mut self,
        scan: &mut Acquisition,
        claims: &mut ClaimedFiles,
        watch: &DirectoryWatcher,
    ) -> bool {
        let (held, quiet): (Vec<Source>, Vec<Source>) = std::mem::take(&mut scan.sources)
            .into_iter()
            .partition(|source| !self.is_stable(source, claims, watch));
        scan.sources = quiet;
        if held.is_empty() {
            return false;
        }
        add_being_written(scan, &Spans::union_all(held.iter().map(|source| &source.frames)));
        true
    }

    /// Returns whether a file with this size and modification time has not changed for so long that
    /// another change would give it another time.
    pub fn is_settled(&mut self, file: &Path, stamp: (u64, i64)) -> bool {
        // The clock of the file system may be ahead, for hours.
        !is_recent(stamp.1)
            || (is_in_future(stamp.1) && self.unchanged_for(file, stamp) >= RECENT_CHANGE)
    }

    /// Returns for how long a file has had this size and modification time.
    fn unchanged_for(&mut self, file: &Path, stamp: (u64, i64)) -> Duration {
        let now = Instant::now();
        let seen = self.0.entry(file.to_owned()).or_insert((stamp, now));
        if seen.0 != stamp {
            *seen = (stamp, now);
        }
        seen.1.elapsed()
    }

    fn is_stable(
        &mut self,
        source: &Source,
        claims: &mut ClaimedFiles,
        watch: &DirectoryWatcher,
    ) -> bool {
        if !is_recent(source.mtime) {
            self.0.remove(source.file.as_path());
            return true;
        }
        self.unchanged_for(&source.file, (source.size, source.mtime)) >= STABILITY_PERIOD
            && !watch.is_open_for_writing(&claims.real_path(&source.file))
    }
}

/// Returns whether frames before those that can be read are still being written. The first frame
/// identifies a scan without a start time, so that such a scan can't be reported yet.
pub fn is_beginning_being_written(scan: &Acquisition) -> bool {
    let first_of = |frames: &Spans| frames.iter().next();
    let first_read = scan.sources.iter().filter_map(|source| first_of(&source.frames)).min();
    let being_written = scan.absent.iter().filter(|absent| absent.reason == BEING_WRITTEN_REASON);
    let first_written = being_written.filter_map(|absent| first_of(&absent.range)).min();
    first_written.is_some_and(|written| first_read.is_none_or(|read| written < read))
}

/// Makes frames absent because they are still being written.
pub fn add_being_written(scan: &mut Acquisition, frames: &Spans) {
    match scan.absent.iter_mut().find(|absent| absent.reason == BEING_WRITTEN_REASON) {
        Some(absent) => absent.range = absent.range.union(frames),
        None => scan.absent.push(Absent {
            range: frames.clone(),
            kind: AbsentKind::NeverTaken,
            reason: BEING_WRITTEN_REASON.to_owned(),
        }),
    }
    scan.complete = false;
}

/// Returns whether a modification time is recent, or in the future by the clock of the file system.
fn is_recent(mtime: i64) -> bool {
    now() < since_1970(mtime) + RECENT_CHANGE
}

fn is_in_future(mtime: i64) -> bool {
    now() < since_1970(mtime)
}

fn since_1970(mtime: i64) -> Duration {
    Duration::from_nanos(u64::try_from(mtime).unwrap_or(0))
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use records::Span;

    use super::*;

    #[test]
    fn a_file_that_was_just_changed_is_waited_for() {
        let now =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as i64;
        let source = |file: &str, mtime: i64, frames| Source {
            file: file.into(),
            mtime,
            frames,
            ..Source::default()
        };
        let far = now + 3_600_000_000_000;
        let scan = || Acquisition {
            sources: vec![
                source("/a", 5, Spans::first_n(3)),
                source("/b", far, Span::new(3, 6).into()),
            ],
            complete: true,
            ..Acquisition::default()
        };
        let (mut quiet, mut claims, watch) =
            (StabilityTracker::default(), ClaimedFiles::default(), DirectoryWatcher::default());
        let mut first = scan();
        assert!(quiet.withhold_unstable(&mut first, &mut claims, &watch));
        assert_eq!((first.sources.len(), first.complete), (1, false));
        assert_eq!(first.absent[0].range, Span::new(3, 6).into());
        quiet.0.values_mut().for_each(|seen| seen.1 -= STABILITY_PERIOD);
        let mut second = scan();
        assert!(!quiet.withhold_unstable(&mut second, &mut claims, &watch));
        assert_eq!(second, scan());
    }
}
