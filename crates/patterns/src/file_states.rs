//! [`LatestFileStates`]: the latest known state of each source file, by which frames of a file that
//! was written again are recognized as stale.

use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use records::{Acquisition, Source, relative_path};
use system::untrusted_file::FileVersion;

use crate::source_fingerprint::{FingerprintedSource, SourceFingerprints, name_digest};

/// Files of a scan's sources, each with the size and time of last change in the scan's record.
#[derive(Clone, Debug)]
pub(crate) struct FileStates(Vec<(u64, (u64, i64))>);

impl FileStates {
    /// Lists the files of a scan's sources.
    pub fn new(scan: &Acquisition) -> Self {
        let directory = scan.file.parent().unwrap_or(Path::new("/"));
        let named = |source: &Source| {
            (name_digest(&relative_path(directory, &source.file), source), file_state(source))
        };
        Self(scan.sources.iter().map(named).collect())
    }
}

/// Latest known state (size and time of last change) of each file that several scans' records name.
/// All frames of a file that has changed since are stale, because a file that was written again may
/// have fewer frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatestFileStates {
    files: HashMap<u64, FingerprintedSource>,
    /// Files that no longer exist, or were written again, too, of a scan that was written again.
    outdated: HashSet<u64>,
    /// True if a file was found in two states.
    has_changes: bool,
    /// True if the later state of such a file is the one that it is in now.
    has_present_changes: bool,
    /// The first file that could not be looked at, so that its last state is not known.
    unseen: Option<SourceStateUnknown>,
}

impl LatestFileStates {
    /// Adds the files of these fingerprints. Returns whether the latest state of any file was
    /// replaced.
    ///
    /// If a file is added in two states (size and time of last change), its state on disk decides:
    /// the state that equals it is the latest. If neither does, the one with the later time of
    /// change is the latest, or if the times are equal, too, the one that was added first. If the
    /// file can't be examined, [`Self::check_all_seen`] fails.
    pub fn add(&mut self, stamps: &SourceFingerprints) -> bool {
        let mut is_news = false;
        for known in stamps.files() {
            let last = self.files.entry(known.name).or_insert_with(|| known.clone());
            if file_state(&last.source) != file_state(&known.source) {
                self.has_changes = true;
                match compare_states(&known.source, &last.source) {
                    Ok(Later { is_first, is_there }) => {
                        self.has_present_changes |= is_there;
                        if is_first {
                            *last = known.clone();
                            is_news = true;
                        }
                    }
                    Err(unseen) => self.unseen = self.unseen.take().or(Some(unseen)),
                }
            }
        }
        is_news
    }

    /// Returns whether any of these files was not added before, in whatever state.
    pub fn lacks_any_of(&self, stamps: &SourceFingerprints) -> bool {
        stamps.files().any(|known| !self.files.contains_key(&known.name))
    }

    /// Finds the files whose frames are stale because others of the scan were written again, by their
    /// states in the master's directory. Files that `current` names are not looked at.
    pub fn find_outdated(
        &mut self,
        directory: &Path,
        current: &SourceFingerprints,
        rule: OutdatedRule,
    ) {
        if !self.has_changes && !rule.always {
            return;
        }
        // Where all files are away, the data were moved after they were written again.
        let is_gone_outdated = rule.gone && self.has_present_changes;
        let names: HashSet<u64> = current.files().map(|known| known.name).collect();
        let outdated = (|| {
            let mut outdated = HashSet::new();
            if read_state(directory)?.is_some() {
                for known in self.files.values().filter(|known| !names.contains(&known.name)) {
                    let now = match read_state(&directory.join(&known.path)) {
                        // Nothing says that it has changed.
                        Err(_) if !self.has_changes => continue,
                        now => now?,
                    };
                    let has_changed = |now| rule.changed && now != file_state(&known.source);
                    if now.map_or(is_gone_outdated, has_changed) {
                        outdated.insert(known.name);
                    }
                }
            }
            Ok(outdated)
        })();
        match outdated {
            Ok(outdated) => self.outdated = outdated,
            Err(unseen) => self.unseen = self.unseen.take().or(Some(unseen)),
        }
    }

    /// Checks that every file that had to be looked at could be. Otherwise it is not known which
    /// frames are stale.
    ///
    /// # Errors
    /// The first file that could not be looked at.
    pub fn check_all_seen(&self) -> Result<(), (PathBuf, io::Error)> {
        self.unseen.as_ref().map_or(Ok(()), |(path, why)| {
            let why = why.raw_os_error().map_or_else(
                || io::Error::new(why.kind(), why.to_string()),
                io::Error::from_raw_os_error,
            );
            Err((path.clone(), why))
        })
    }

    /// Returns whether any file of these fingerprints is in an outdated state.
    pub fn is_outdated(&self, stamps: &SourceFingerprints) -> bool {
        stamps.files().any(|known| self.is_file_outdated(known))
    }

    /// Returns whether any of these files is in an outdated state.
    pub fn are_outdated(&self, files: &FileStates) -> bool {
        let has_changed =
            |name, then| self.files.get(name).is_some_and(|last| file_state(&last.source) != then);
        files.0.iter().any(|(name, then)| self.outdated.contains(name) || has_changed(name, *then))
    }

    /// Returns the fingerprints of frames in files that have not changed since.
    pub fn retain_current(&self, stamps: &SourceFingerprints) -> SourceFingerprints {
        stamps.with_files(|known| !self.is_file_outdated(known))
    }

    /// Returns whether a file's frames are stale because others of the scan were written again.
    pub fn is_left_behind(&self, known: &FingerprintedSource) -> bool {
        self.outdated.contains(&known.name)
    }

    /// Returns whether a file is in an outdated state.
    pub fn is_file_outdated(&self, known: &FingerprintedSource) -> bool {
        let has_changed =
            |last: &FingerprintedSource| file_state(&last.source) != file_state(&known.source);
        self.outdated.contains(&known.name) || self.files.get(&known.name).is_some_and(has_changed)
    }
}

/// Which frames of a scan are stale if files of it were written again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutdatedRule {
    /// Frames in files that no longer exist: a series that was taken again may have fewer images. A scan
    /// with a time of start is another scan when it is taken again, and files of it that are away are in
    /// an archive.
    pub gone: bool,
    /// Frames in files that are in another state now than the last one that is known: they may not have
    /// been integrated again yet.
    pub changed: bool,
    /// Also if no file is known in two states: the master was written since.
    pub always: bool,
}

/// States of source files on disk, at each of which a run looks once.
#[derive(Debug, Default)]
pub struct SourceStates(Mutex<HashMap<PathBuf, Option<(u64, i64)>>>);

impl SourceStates {
    /// Returns whether a file in the master's directory is in another state than `known`. A file
    /// that is away counts as unchanged, because finals keep the patterns of its frames, and so does
    /// a file that can't be looked at.
    pub(crate) fn has_changed(&self, directory: &Path, known: &FingerprintedSource) -> bool {
        let path = directory.join(&known.path);
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let look = |path: &PathBuf| read_state(path).ok().flatten();
        let state = states.entry(path).or_insert_with_key(look);
        state.is_some_and(|state| state != file_state(&known.source))
    }
}

fn file_state(source: &Source) -> (u64, i64) {
    (source.size, source.mtime)
}

/// A file that could not be looked at, and why.
type SourceStateUnknown = (PathBuf, Arc<io::Error>);

/// The later one of two states of a file.
struct Later {
    is_first: bool,
    /// True if it is the state that the file is in now.
    is_there: bool,
}

/// Finds the later one of a file's states in `one` and in `other`: the state that the file is in now, or
/// else the one that was changed last.
fn compare_states(one: &Source, other: &Source) -> Result<Later, SourceStateUnknown> {
    let is_now = |source: &Source| Ok(read_state(&source.file)? == Some(file_state(source)));
    Ok(match (is_now(one)?, is_now(other)?) {
        (true, false) => Later { is_first: true, is_there: true },
        (false, true) => Later { is_first: false, is_there: true },
        _ => Later { is_first: one.mtime > other.mtime, is_there: false },
    })
}

/// Returns the size and the time of last change of a file; `None` where there is no such file.
fn read_state(path: &Path) -> Result<Option<(u64, i64)>, SourceStateUnknown> {
    match path.metadata() {
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(why) => Err((path.to_owned(), Arc::new(why))),
        Ok(found) => Ok(Some(FileVersion::new(&found).size_and_mtime())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::{Span, Spans};

    fn source(mtime: i64, row: u64) -> Source {
        Source {
            file: "/raw/p3_0000.h5".into(),
            mtime,
            frames: Spans::first_n(2),
            rows: Span::new(row, row + 2).into(),
            bytes: 10,
            ..Source::default()
        }
    }

    fn scan(sources: impl Into<Vec<Source>>) -> Acquisition {
        Acquisition { file: "/raw/s.h5".into(), sources: sources.into(), ..Acquisition::default() }
    }

    #[test]
    fn all_frames_of_a_file_that_has_changed_are_stale() {
        let long = Source { frames: Spans::first_n(20), rows: Spans::first_n(20), ..source(5, 0) };
        let short =
            Source { size: 8, frames: Spans::first_n(8), rows: Spans::first_n(8), ..source(6, 0) };
        let other = Source {
            file: "/raw/p3_0001.h5".into(),
            frames: Span::new(20, 22).into(),
            ..source(1, 0)
        };
        let (old, new) = (
            SourceFingerprints::new(&scan([long, other])),
            SourceFingerprints::new(&scan([short])),
        );
        for order in [[&old, &new], [&new, &old]] {
            let mut last = LatestFileStates::default();
            let _ = order.map(|stamps| last.add(stamps));
            assert_eq!((last.is_outdated(&old), last.is_outdated(&new)), (true, false));
            let frames = |stamps: &SourceFingerprints| -> Vec<u64> {
                let current = last.retain_current(stamps);
                (0..30).filter(|frame| current.get(*frame).is_some()).collect()
            };
            assert_eq!(frames(&old), [20, 21], "the other file is as it was");
            assert_eq!(frames(&new).len(), 8);
        }
    }

    #[test]
    fn a_file_that_can_not_be_looked_at_has_no_last_state() {
        let dir = tempfile::tempdir().unwrap();
        // The system refuses to look at a name of this length, as it does at any file on a disk
        // that fails.
        let (raw, master) = (dir.path().join("n".repeat(300)), dir.path().join("s.h5"));
        let at = |file: &Path, mtime| {
            let source = Source { file: file.into(), ..source(mtime, 0) };
            SourceFingerprints::new(&Acquisition { file: master.clone().into(), ..scan([source]) })
        };
        let seen = |file: &Path| {
            let mut last = LatestFileStates::default();
            last.add(&at(file, 5));
            assert!(last.check_all_seen().is_ok(), "one state needs no look");
            last.add(&at(file, 6));
            last.check_all_seen()
        };
        let (path, why) = seen(&raw).unwrap_err();
        assert_eq!((path, why.kind()), (raw.clone(), ErrorKind::InvalidFilename));
        assert!(seen(&dir.path().join("gone")).is_ok());
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(seen(&dir.path().join("file/below a file")).is_ok());
        let mut last = LatestFileStates::default();
        let two = |mtime| Source { file: dir.path().join("gone").into(), ..source(mtime, 0) };
        let beside =
            Source { file: raw.into(), frames: records::Span::new(2, 4).into(), ..source(1, 0) };
        for sources in [vec![two(5), beside], vec![two(6)]] {
            last.add(&SourceFingerprints::new(&Acquisition {
                file: master.clone().into(),
                ..scan(sources)
            }));
        }
        assert!(last.check_all_seen().is_ok());
        let all = OutdatedRule { gone: true, changed: true, always: false };
        last.find_outdated(dir.path(), &SourceFingerprints::default(), all);
        assert!(last.check_all_seen().is_err(), "whether the file was removed is not known");
    }

    #[test]
    fn the_state_that_a_file_is_in_counts_though_it_be_older() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("p3_0000.h5");
        std::fs::write(&file, "12345678").unwrap();
        let metadata = file.metadata().unwrap();
        let (_, mtime) = FileVersion::new(&metadata).size_and_mtime();
        let known = |size, mtime| {
            let source = Source { file: file.clone().into(), size, ..source(mtime, 0) };
            SourceFingerprints::new(&Acquisition {
                file: dir.path().join("s.h5").into(),
                ..scan([source])
            })
        };
        let (there, newer) = (known(8, mtime), known(8, mtime + 1));
        for order in [[&there, &newer], [&newer, &there]] {
            let mut last = LatestFileStates::default();
            let _ = order.map(|stamps| last.add(stamps));
            assert_eq!((last.is_outdated(&there), last.is_outdated(&newer)), (false, true));
        }
    }
}
