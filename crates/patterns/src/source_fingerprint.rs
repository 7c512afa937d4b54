//! Source fingerprints, by which a frame's raw data is recognized: file, dataset, size, time of last change, and row.
//!
//! A file is identified by its path relative to the master's directory, so that frames are recognized after the whole tree was
//! moved. Callers make sure that both fingerprints are of the same scan ([`output_owners::compare_files`]).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use records::{Acquisition, Source, Spans, relative_path};
use system::untrusted_file::FileVersion;
use xxhash_rust::xxh3::Xxh3;

/// Source fingerprints of a scan's frames. Equal fingerprints mean equal raw data.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceFingerprints {
    frames: BTreeMap<u64, SourceFingerprint>,
    /// Sources of the frames, by their digest.
    files: HashMap<u64, FingerprintedSource>,
}

/// A source, and the name by which it is recognized.
#[derive(Clone, Debug)]
struct FingerprintedSource {
    /// Digest of the file's path and the dataset.
    name: u64,
    /// Path of the file relative to the master's directory.
    path: PathBuf,
    source: Source,
}

/// Source fingerprint of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceFingerprint {
    /// Digest of file, dataset, size and time of last change.
    file: u64,
    row: u64,
    mtime: i64,
}

impl SourceFingerprints {
    /// Returns the fingerprints of the frames in a scan's sources.
    pub fn new(scan: &Acquisition) -> Self {
        let mut stamps = Self::default();
        stamps.add_newest(scan);
        stamps
    }

    /// Adds the sources of a scan. If two sources hold the same frame, the one that was changed last counts, or the one that
    /// was added first if both were changed at the same time.
    pub fn add_newest(&mut self, scan: &Acquisition) {
        let directory = scan.file.parent().unwrap_or(Path::new("/"));
        for source in &scan.sources {
            let path = relative_path(directory, &source.file);
            let name = name_digest(&path, source);
            let file = file_digest(name, source);
            let mtime = source.mtime;
            for (frame, row) in source.frames.iter().zip(source.rows.iter()) {
                let stamp = self.frames.entry(frame).or_insert(SourceFingerprint { file, row, mtime });
                if stamp.mtime < mtime {
                    *stamp = SourceFingerprint { file, row, mtime };
                }
            }
            self.files.entry(file).or_insert_with(|| FingerprintedSource { name, path, source: source.clone() });
        }
    }

    /// Returns the fingerprint of a frame; `None` if no source has it.
    pub fn get(&self, frame: u64) -> Option<SourceFingerprint> {
        self.frames.get(&frame).copied()
    }

    /// Returns whether a frame's raw data is known in both, and is the same.
    pub fn is_same_data(&self, others: &Self, frame: u64) -> bool {
        self.get(frame).is_some_and(|stamp| others.get(frame) == Some(stamp))
    }

    /// Returns XXH3-64 over these frames and their fingerprints.
    pub fn digest(&self, frames: &[u64]) -> u64 {
        let mut hash = Xxh3::new();
        for &frame in frames {
            hash.update(&frame.to_le_bytes());
            match self.get(frame) {
                None => hash.update(&[0]),
                Some(SourceFingerprint { file, row, mtime }) => {
                    hash.update(&[1]);
                    [file, row, mtime as u64].iter().for_each(|number| hash.update(&number.to_le_bytes()));
                }
            }
        }
        hash.digest()
    }

    /// Returns these fingerprints, completed by `others` for frames that have none here.
    pub fn with_fallback(mut self, others: &Self) -> Self {
        for (frame, stamp) in &others.frames {
            self.frames.entry(*frame).or_insert(*stamp);
        }
        for (digest, known) in &others.files {
            self.files.entry(*digest).or_insert_with(|| known.clone());
        }
        self
    }

    /// Returns the sources of the frames below `total`, ordered by their first frames.
    pub fn sources(&self, total: u64) -> Vec<Source> {
        let mut held: HashMap<u64, (Spans, Spans)> = HashMap::new();
        for (frame, stamp) in self.frames.range(..total) {
            let (frames, rows) = held.entry(stamp.file).or_default();
            frames.push(*frame);
            rows.push(stamp.row);
        }
        let source = |(file, (frames, rows)): (u64, (Spans, Spans))| {
            let FingerprintedSource { source, .. } = self.files.get(&file)?;
            // The product of two 64-bit numbers fits into 128 bits.
            let of_all = u128::from(source.bytes).saturating_mul(u128::from(frames.count()));
            let share = of_all.checked_div(u128::from(source.frames.count())).unwrap_or_default();
            Some(Source { frames, rows, bytes: share as u64, ..source.clone() })
        };
        let mut sources: Vec<Source> = held.into_iter().filter_map(source).collect();
        sources.sort_by_key(|source| source.frames.iter().next());
        sources
    }
}

/// Files of a scan's sources, each with the size and time of last change in the scan's record.
#[derive(Clone, Debug)]
pub(crate) struct FileStates(Vec<(u64, (u64, i64))>);

impl FileStates {
    /// Lists the files of a scan's sources.
    pub fn new(scan: &Acquisition) -> Self {
        let directory = scan.file.parent().unwrap_or(Path::new("/"));
        let named =
            |source: &Source| (name_digest(&relative_path(directory, &source.file), source), file_state(source));
        Self(scan.sources.iter().map(named).collect())
    }
}

/// Latest known state (size and time of last change) of each file that several scans' records name. All frames of a file that has
/// changed since are stale, because a file that was written again may have fewer frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatestFileStates {
    files: HashMap<u64, FingerprintedSource>,
    /// Files that no longer exist, of a scan that was written again.
    removed: HashSet<u64>,
    /// True if a file was found in two states.
    has_changes: bool,
    /// The first file that could not be looked at, so that its last state is not known.
    unseen: Option<Unseen>,
}

impl LatestFileStates {
    /// Adds the files of these fingerprints. Returns whether the latest state of any file was replaced.
    ///
    /// If a file is added in two states (size and time of last change), its state on disk decides: the state that equals it is
    /// the latest. If neither does, the one with the later time of change is the latest, or if the times are equal, too, the
    /// one that was added first. If the file can't be examined, [`Self::check_all_seen`] fails.
    pub fn add(&mut self, stamps: &SourceFingerprints) -> bool {
        let mut is_news = false;
        for known in stamps.files.values() {
            let last = self.files.entry(known.name).or_insert_with(|| known.clone());
            if file_state(&last.source) != file_state(&known.source) {
                self.has_changes = true;
                match is_newer(&known.source, &last.source) {
                    Ok(true) => {
                        *last = known.clone();
                        is_news = true;
                    }
                    Ok(false) => (),
                    Err(unseen) => self.unseen = self.unseen.take().or(Some(unseen)),
                }
            }
        }
        is_news
    }

    /// Finds files that no longer exist in the master's directory, and marks their frames as stale, if some file of the scan was written
    /// again: a series that was taken again may have fewer images. Files that `current` names are not looked for.
    pub fn find_removed(&mut self, directory: &Path, current: &SourceFingerprints) {
        if !self.has_changes {
            return;
        }
        let names: HashSet<u64> = current.files.values().map(|known| known.name).collect();
        let removed = (|| {
            let mut removed = HashSet::new();
            if read_state(directory)?.is_some() {
                for known in self.files.values().filter(|known| !names.contains(&known.name)) {
                    if read_state(&directory.join(&known.path))?.is_none() {
                        removed.insert(known.name);
                    }
                }
            }
            Ok(removed)
        })();
        match removed {
            Ok(removed) => self.removed = removed,
            Err(unseen) => self.unseen = self.unseen.take().or(Some(unseen)),
        }
    }

    /// Checks that every file that had to be looked at could be. Otherwise it is not known which frames are stale.
    ///
    /// # Errors
    /// The first file that could not be looked at.
    pub fn check_all_seen(&self) -> Result<(), (PathBuf, io::Error)> {
        self.unseen.as_ref().map_or(Ok(()), |(path, why)| {
            let why = why
                .raw_os_error()
                .map_or_else(|| io::Error::new(why.kind(), why.to_string()), io::Error::from_raw_os_error);
            Err((path.clone(), why))
        })
    }

    /// Returns whether any file of these fingerprints is in an outdated state.
    pub fn is_outdated(&self, stamps: &SourceFingerprints) -> bool {
        stamps.files.values().any(|known| self.is_file_outdated(known))
    }

    /// Returns whether any of these files is in an outdated state.
    pub fn are_outdated(&self, files: &FileStates) -> bool {
        let has_changed = |name, then| self.files.get(name).is_some_and(|last| file_state(&last.source) != then);
        files.0.iter().any(|(name, then)| self.removed.contains(name) || has_changed(name, *then))
    }

    /// Returns the fingerprints of frames in files that have not changed since.
    pub fn retain_current(&self, stamps: &SourceFingerprints) -> SourceFingerprints {
        let mut stamps = stamps.clone();
        stamps.files.retain(|_, known| !self.is_file_outdated(known));
        stamps.frames.retain(|_, stamp| stamps.files.contains_key(&stamp.file));
        stamps
    }

    fn is_file_outdated(&self, known: &FingerprintedSource) -> bool {
        let has_changed = |last: &FingerprintedSource| file_state(&last.source) != file_state(&known.source);
        self.removed.contains(&known.name) || self.files.get(&known.name).is_some_and(has_changed)
    }
}

fn file_state(source: &Source) -> (u64, i64) {
    (source.size, source.mtime)
}

/// A file that could not be looked at, and why.
type Unseen = (PathBuf, Arc<io::Error>);

/// Returns whether a file's state in `one` is a later one than that in `other`: the state that the file is in now, or
/// else the one that was changed last.
fn is_newer(one: &Source, other: &Source) -> Result<bool, Unseen> {
    let is_now = |source: &Source| Ok(read_state(&source.file)? == Some(file_state(source)));
    Ok(match (is_now(one)?, is_now(other)?) {
        (true, false) => true,
        (false, true) => false,
        _ => one.mtime > other.mtime,
    })
}

/// Returns the size and the time of last change of a file; `None` where there is no such file.
fn read_state(path: &Path) -> Result<Option<(u64, i64)>, Unseen> {
    match path.metadata() {
        Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(why) => Err((path.to_owned(), Arc::new(why))),
        Ok(found) => Ok(Some(FileVersion::new(&found).size_and_mtime())),
    }
}

/// Returns the digest of a source's path relative to the master's directory, and of its dataset.
fn name_digest(path: &Path, source: &Source) -> u64 {
    let mut hash = Xxh3::new();
    for text in [path.as_os_str().as_bytes(), source.dataset.as_bytes()] {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.digest()
}

fn file_digest(name: u64, source: &Source) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&name.to_le_bytes());
    hash.update(&source.size.to_le_bytes());
    hash.update(&source.mtime.to_le_bytes());
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::Span;

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
    fn a_touched_file_or_another_row_is_another_stamp() {
        let stamp = |mtime, row, frame| SourceFingerprints::new(&scan([source(mtime, row)])).get(frame);
        assert_eq!(stamp(5, 0, 1), stamp(5, 0, 1));
        assert_ne!(stamp(5, 0, 1), stamp(6, 0, 1));
        assert_ne!(stamp(5, 0, 1), stamp(5, 1, 1));
        assert_eq!(stamp(5, 0, 2), None);
    }

    #[test]
    fn a_tree_that_was_moved_is_known_again() {
        let here = SourceFingerprints::new(&scan([source(5, 0)]));
        let moved = Source { file: "/archive/raw/p3_0000.h5".into(), ..source(5, 0) };
        let there = Acquisition { file: "/archive/raw/s.h5".into(), ..scan([moved.clone()]) };
        assert_eq!(here.get(0), SourceFingerprints::new(&there).get(0));
        let elsewhere = Acquisition { file: "/archive/s.h5".into(), ..scan([moved]) };
        assert_ne!(here.get(0), SourceFingerprints::new(&elsewhere).get(0));
    }

    #[test]
    fn the_newest_file_counts_in_any_order() {
        let (old, new) = (source(5, 0), source(6, 0));
        for sources in [[old.clone(), new.clone()], [new.clone(), old]] {
            assert_eq!(SourceFingerprints::new(&scan(sources)).sources(9), std::slice::from_ref(&new));
        }
        assert_eq!(SourceFingerprints::new(&scan([new])).sources(1)[0].bytes, 5);
    }

    #[test]
    fn all_frames_of_a_file_that_has_changed_are_stale() {
        let long = Source { frames: Spans::first_n(20), rows: Spans::first_n(20), ..source(5, 0) };
        let short = Source { size: 8, frames: Spans::first_n(8), rows: Spans::first_n(8), ..source(6, 0) };
        let other = Source { file: "/raw/p3_0001.h5".into(), frames: Span::new(20, 22).into(), ..source(1, 0) };
        let (old, new) = (SourceFingerprints::new(&scan([long, other])), SourceFingerprints::new(&scan([short])));
        for order in [[&old, &new], [&new, &old]] {
            let mut last = LatestFileStates::default();
            let _ = order.map(|stamps| last.add(stamps));
            assert_eq!((last.is_outdated(&old), last.is_outdated(&new)), (true, false));
            let left: Vec<u64> = last.retain_current(&old).frames.into_keys().collect();
            assert_eq!(left, [20, 21], "the other file is as it was");
            assert_eq!(last.retain_current(&new).frames.len(), 8);
        }
    }

    #[test]
    fn a_file_that_can_not_be_looked_at_has_no_last_state() {
        let dir = tempfile::tempdir().unwrap();
        // The system refuses to look at a name of this length, as it does at any file on a disk that fails.
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
        let beside = Source { file: raw.into(), frames: records::Span::new(2, 4).into(), ..source(1, 0) };
        for sources in [vec![two(5), beside], vec![two(6)]] {
            last.add(&SourceFingerprints::new(&Acquisition { file: master.clone().into(), ..scan(sources) }));
        }
        assert!(last.check_all_seen().is_ok());
        last.find_removed(dir.path(), &SourceFingerprints::default());
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
            SourceFingerprints::new(&Acquisition { file: dir.path().join("s.h5").into(), ..scan([source]) })
        };
        let (there, newer) = (known(8, mtime), known(8, mtime + 1));
        for order in [[&there, &newer], [&newer, &there]] {
            let mut last = LatestFileStates::default();
            let _ = order.map(|stamps| last.add(stamps));
            assert_eq!((last.is_outdated(&there), last.is_outdated(&newer)), (false, true));
        }
    }
}
