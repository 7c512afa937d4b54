//! Withholds the frames of files that have just changed.
//!
//! Lima marks a file as closed and then closes it, which changes the modification time again. A
//! record written in between would hold an outdated time. So a following search waits until a file
//! has been unchanged for a moment, and while the kernel reports that its writer still has it open.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use records::{Absent, AbsentKind, Acquisition, Source, Spans};
use system::untrusted_file::FileVersion;

use crate::claimed_files::ClaimedFiles;
use crate::watcher::DirectoryWatcher;

/// How long a recently changed file must stay unchanged.
pub const STABILITY_PERIOD: Duration = Duration::from_millis(200);

/// The age from which on a file counts as unchanged. A younger file may change again with the same
/// modification time, because the clocks of file systems tick a few hundred times a second, and
/// some once.
const RECENT_CHANGE: Duration = Duration::from_secs(2);

/// How long a file that can't be read must stay unchanged before it is damaged. The kernel reports
/// a writer when it writes next; one that opened the file before its directory was watched is not
/// known until then.
const UNREADABLE_PERIOD: Duration = Duration::from_secs(3);

/// The longest pause between two frames of a file that can't be read before it is closed. A file
/// that a program forgot to close must not keep a search from ending.
const MAX_PAUSE: Duration = Duration::from_secs(600);

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
        let (held, quiet): (Vec<Source>, Vec<Source>) =
            std::mem::take(&mut scan.sources).into_iter().partition(|source| {
                let stamp = (source.size, source.mtime);
                !self.is_stable(&source.file, stamp, claims, watch)
            });
        scan.sources = quiet;
        if held.is_empty() {
            return false;
        }
        let frames = Spans::union_all(held.iter().map(|source| &source.frames));
        let known = scan.absent.iter_mut().find(|absent| absent.reason == BEING_WRITTEN_REASON);
        match known {
            Some(absent) => absent.range = absent.range.union(&frames),
            None => {
                let (kind, reason) = (AbsentKind::NeverTaken, BEING_WRITTEN_REASON.to_owned());
                scan.absent.push(Absent { range: frames, kind, reason });
            }
        }
        scan.complete = false;
        true
    }

    fn is_stable(
        &mut self,
        file: &Path,
        stamp: (u64, i64),
        claims: &mut ClaimedFiles,
        watch: &DirectoryWatcher,
    ) -> bool {
        if !is_recent(stamp.1) {
            self.0.remove(file);
            return true;
        }
        let now = Instant::now();
        let seen = self.0.entry(file.to_path_buf()).or_insert((stamp, now));
        if seen.0 != stamp {
            *seen = (stamp, now);
        }
        seen.1.elapsed() >= STABILITY_PERIOD && !watch.is_open_for_writing(&claims.real_path(file))
    }
}

/// Returns whether a file that can't be read may be one that is being written: HDF5 writes much of a
/// file's metadata when the file is closed.
pub fn may_be_written(file: &Path, claims: &mut ClaimedFiles, watch: &DirectoryWatcher) -> bool {
    let Some((_, mtime)) = size_and_mtime(file) else { return false };
    is_younger(mtime, UNREADABLE_PERIOD)
        || (is_younger(mtime, MAX_PAUSE) && watch.is_open_for_writing(&claims.real_path(file)))
}

/// Returns whether a modification time is recent, or in the future by the clock of the file system.
pub fn is_recent(mtime: i64) -> bool {
    is_younger(mtime, RECENT_CHANGE)
}

/// Returns whether a modification time is less than `age` ago, or in the future.
fn is_younger(mtime: i64, age: Duration) -> bool {
    let changed = Duration::from_nanos(u64::try_from(mtime).unwrap_or(0));
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since < changed + age
}

/// Returns the size and the modification time of a file, if it is there.
pub fn size_and_mtime(file: &Path) -> Option<(u64, i64)> {
    file.metadata().ok().map(|metadata| FileVersion::new(&metadata).size_and_mtime())
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
