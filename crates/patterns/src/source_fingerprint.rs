//! What a frame's raw data is known by: file, dataset, size, time of last change, and row.
//!
//! A file is named by the path that leads to it from the master's directory, so that frames are known again where the
//! whole tree was moved. Who asks makes sure that both sides speak of one scan ([`owners::same_file`]).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use records::{Acquisition, Source, Spans, relative_path};
use xxhash_rust::xxh3::Xxh3;

/// The stamps of a scan's frames. Equal stamps mean equal raw data.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceFingerprints {
    frames: BTreeMap<u64, SourceFingerprint>,
    /// The sources that the stamps are of, by the digest of what they are known by.
    files: HashMap<u64, FingerprintedSource>,
}

/// A source that stamps are of.
#[derive(Clone, Debug)]
struct FingerprintedSource {
    /// The digest of the file's name and dataset.
    name: u64,
    /// The path that leads to it from the master's directory.
    path: PathBuf,
    source: Source,
}

/// What one frame's raw data is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceFingerprint {
    /// The digest of file, dataset, size and time of last change.
    file: u64,
    row: u64,
    mtime: i64,
}

impl SourceFingerprints {
    /// Returns those of the frames of a scan's sources.
    pub fn new(scan: &Acquisition) -> Self {
        let mut stamps = Self::default();
        stamps.add_newest(scan);
        stamps
    }

    /// Adds a scan's sources. Of two that hold the same frame, the one changed last counts; of two changed at
    /// once, the one that was there before.
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

    /// A frame's stamp; `None` where it is in no source.
    pub fn get(&self, frame: u64) -> Option<SourceFingerprint> {
        self.frames.get(&frame).copied()
    }

    /// Returns XXH3-64 over these frames and what the raw data of each is known by.
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

    /// These stamps, and those of `others` for frames that have none here.
    pub fn with_fallback(mut self, others: &Self) -> Self {
        for (frame, stamp) in &others.frames {
            self.frames.entry(*frame).or_insert(*stamp);
        }
        for (digest, known) in &others.files {
            self.files.entry(*digest).or_insert_with(|| known.clone());
        }
        self
    }

    /// The sources of the frames below `total`, in the order of their first frame.
    pub fn sources(&self, total: u64) -> Vec<Source> {
        let mut held: HashMap<u64, (Spans, Spans)> = HashMap::new();
        for (frame, stamp) in self.frames.range(..total) {
            let (frames, rows) = held.entry(stamp.file).or_default();
            frames.push(*frame);
            rows.push(stamp.row);
        }
        let source = |(file, (frames, rows)): (u64, (Spans, Spans))| {
            let FingerprintedSource { source, .. } = self.files.get(&file)?;
            // Neither factor has more than 64 bits.
            let of_all = u128::from(source.bytes).saturating_mul(u128::from(frames.count()));
            let share = of_all.checked_div(u128::from(source.frames.count())).unwrap_or_default();
            Some(Source { frames, rows, bytes: share as u64, ..source.clone() })
        };
        let mut sources: Vec<Source> = held.into_iter().filter_map(source).collect();
        sources.sort_by_key(|source| source.frames.iter().next());
        sources
    }
}

/// The files of a scan's sources, each with the state that the sources were found in.
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

/// The last known state of each file that several stamps speak of. Frames of a file that has changed since are stale, all
/// of them: a file that was written anew may have fewer.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatestFileStates {
    files: HashMap<u64, FingerprintedSource>,
    /// Files that are not there any more, of a scan that was written anew.
    removed: HashSet<u64>,
    /// Whether a file was found in two states.
    has_changes: bool,
}

impl LatestFileStates {
    /// Adds what stamps know. Of two states of a file, that counts which the file is in now; where it is in neither, or
    /// can't be looked at, the one that was changed last; of two changed at once, the one that was added first.
    /// Returns whether a file has another last state than before.
    pub fn add(&mut self, stamps: &SourceFingerprints) -> bool {
        let mut is_news = false;
        for known in stamps.files.values() {
            let last = self.files.entry(known.name).or_insert_with(|| known.clone());
            if file_state(&last.source) != file_state(&known.source) {
                self.has_changes = true;
                if is_newer(&known.source, &last.source) {
                    *last = known.clone();
                    is_news = true;
                }
            }
        }
        is_news
    }

    /// Where some file has been written anew, looks which files are not there any more below the master's directory, and
    /// takes their frames for stale: a series that was taken again may have fewer images. Files that `heard` names are as
    /// it says.
    pub fn find_removed(&mut self, directory: &Path, heard: &SourceFingerprints) {
        if !self.has_changes {
            return;
        }
        let names: HashSet<u64> = heard.files.values().map(|known| known.name).collect();
        let is_gone = |path: &Path| path.metadata().is_err_and(|why| why.kind() == ErrorKind::NotFound);
        if is_gone(directory) {
            return;
        }
        let unheard = self.files.values().filter(|known| !names.contains(&known.name));
        self.removed = unheard.filter(|known| is_gone(&directory.join(&known.path))).map(|known| known.name).collect();
    }

    /// Returns whether the stamps speak of files in a state that is not their last.
    pub fn is_outdated(&self, stamps: &SourceFingerprints) -> bool {
        stamps.files.values().any(|known| self.is_file_outdated(known))
    }

    /// Returns whether some of the files are in a state that is not their last.
    pub fn are_outdated(&self, files: &FileStates) -> bool {
        let has_changed = |name, then| self.files.get(name).is_some_and(|last| file_state(&last.source) != then);
        files.0.iter().any(|(name, then)| self.removed.contains(name) || has_changed(name, *then))
    }

    /// Returns the stamps of frames in files that have not changed since.
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

fn is_newer(one: &Source, other: &Source) -> bool {
    let now = |source: &Source| {
        let metadata = source.file.metadata().ok()?;
        let mtime = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
        Some((metadata.len(), mtime))
    };
    match (now(one) == Some(file_state(one)), now(other) == Some(file_state(other))) {
        (true, false) => true,
        (false, true) => false,
        _ => one.mtime > other.mtime,
    }
}

/// The digest of a source's file, as it is reached from the master's directory, and of its dataset.
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
    fn the_state_that_a_file_is_in_counts_though_it_be_older() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("p3_0000.h5");
        std::fs::write(&file, "12345678").unwrap();
        let metadata = file.metadata().unwrap();
        let mtime = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
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
