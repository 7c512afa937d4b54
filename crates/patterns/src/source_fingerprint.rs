//! Source fingerprints, by which a frame's raw data is recognized: file, dataset, size, time of
//! last change, and row.
//!
//! A file is identified by its path relative to the master's directory, so that frames are
//! recognized after the whole tree was moved. Callers make sure that both fingerprints are of the
//! same scan ([`output_owners::compare_files`]).

use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use records::{Acquisition, Source, Spans, relative_path};
use xxhash_rust::xxh3::Xxh3;

use crate::rounding::canonical_nan;

/// Source fingerprints of a scan's frames. Equal fingerprints mean equal raw data.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceFingerprints {
    frames: BTreeMap<u64, SourceFingerprint>,
    /// Sources of the frames, by their digest.
    files: HashMap<u64, FingerprintedSource>,
}

/// A source, and the name by which it is recognized.
#[derive(Clone, Debug)]
pub(crate) struct FingerprintedSource {
    /// Digest of the file's path and the dataset.
    pub name: u64,
    /// Path of the file relative to the master's directory.
    pub path: PathBuf,
    pub source: Source,
}

/// Source fingerprint of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceFingerprint {
    /// Digest of file, dataset, size and time of last change.
    file: u64,
    row: u64,
    mtime: i64,
}

impl SourceFingerprint {
    /// Returns the file, in its state, and the row that the frame is in.
    pub fn raw_row(&self) -> (u64, u64) {
        (self.file, self.row)
    }
}

impl SourceFingerprints {
    /// Returns the fingerprints of the frames in a scan's sources.
    pub fn new(scan: &Acquisition) -> Self {
        let mut stamps = Self::default();
        stamps.add_newest(scan);
        stamps
    }

    /// Adds the sources of a scan. If two sources hold the same frame, the one that was changed
    /// last counts, or the one that was added first if both were changed at the same time.
    fn add_newest(&mut self, scan: &Acquisition) {
        let directory = scan.file.parent().unwrap_or(Path::new("/"));
        for source in &scan.sources {
            let path = relative_path(directory, &source.file);
            let name = name_digest(&path, source);
            let file = file_digest(name, source);
            let mtime = source.mtime;
            for (frame, row) in source.frames.iter().zip(source.rows.iter()) {
                let stamp =
                    self.frames.entry(frame).or_insert(SourceFingerprint { file, row, mtime });
                if stamp.mtime < mtime {
                    *stamp = SourceFingerprint { file, row, mtime };
                }
            }
            self.files.entry(file).or_insert_with(|| FingerprintedSource {
                name,
                path,
                source: source.clone(),
            });
        }
    }

    /// Adds other fingerprints, by the same rule.
    pub fn add_newest_of(&mut self, others: &Self) {
        self.add_where(others, |_, is_newer| is_newer);
    }

    /// Adds other fingerprints. Those of a frame that is here replace it if `replaces` says so, given the
    /// frame, and whether the other file was changed later.
    pub fn add_where(&mut self, others: &Self, mut replaces: impl FnMut(u64, bool) -> bool) {
        for (&frame, other) in &others.frames {
            let known = self.frames.get(&frame);
            let is_newer = known.is_none_or(|known| known.mtime < other.mtime);
            // Asked in any case: it may keep count of the frames.
            if replaces(frame, is_newer) || known.is_none() {
                self.frames.insert(frame, *other);
            }
        }
        for (digest, known) in &others.files {
            self.files.entry(*digest).or_insert_with(|| known.clone());
        }
    }

    /// Returns the frames with their fingerprints.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &SourceFingerprint)> {
        self.frames.iter().map(|(frame, stamp)| (*frame, stamp))
    }

    /// Keeps the frames that `keeps` accepts.
    pub fn retain(&mut self, mut keeps: impl FnMut(u64, &SourceFingerprint) -> bool) {
        self.frames.retain(|frame, stamp| keeps(*frame, stamp));
    }

    /// Forgets the source of a frame.
    pub fn remove(&mut self, frame: u64) {
        self.frames.remove(&frame);
    }

    /// Returns the sources that the frames are in, each once.
    pub fn files(&self) -> impl Iterator<Item = &FingerprintedSource> {
        self.files.values()
    }

    /// Returns the fingerprints of the frames in the sources that `keeps` accepts.
    pub fn with_files(&self, keeps: impl Fn(&FingerprintedSource) -> bool) -> Self {
        let mut stamps = self.clone();
        stamps.files.retain(|_, known| keeps(known));
        stamps.frames.retain(|_, stamp| stamps.files.contains_key(&stamp.file));
        stamps
    }

    /// Returns the fingerprint of a frame; `None` if no source has it.
    pub fn get(&self, frame: u64) -> Option<SourceFingerprint> {
        self.frames.get(&frame).copied()
    }

    /// Returns the source that a frame is in; `None` if no source has it.
    pub fn source_of(&self, frame: u64) -> Option<&FingerprintedSource> {
        self.files.get(&self.frames.get(&frame)?.file)
    }

    /// Returns whether a frame's raw data is known in both, and is the same.
    pub fn is_same_data(&self, others: &Self, frame: u64) -> bool {
        self.get(frame).is_some_and(|stamp| others.get(frame) == Some(stamp))
    }

    /// Returns XXH3-64 over these frames and their fingerprints, and over their monitors if the
    /// recipe has one.
    pub fn digest(&self, frames: &[u64], monitors: Option<&[f64]>) -> u64 {
        let mut hash = Xxh3::new();
        for &frame in frames {
            hash.update(&frame.to_le_bytes());
            match self.get(frame) {
                None => hash.update(&[0]),
                Some(SourceFingerprint { file, row, mtime }) => {
                    hash.update(&[1]);
                    [file, row, mtime as u64]
                        .iter()
                        .for_each(|number| hash.update(&number.to_le_bytes()));
                }
            }
        }
        for monitor in monitors.unwrap_or_default() {
            hash.update(&canonical_nan(*monitor).to_bits().to_le_bytes());
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

/// Returns the frames that both records have in the same file, in the same state. This is quicker
/// than comparing fingerprints frame by frame, and overlooks that a frame is in another row.
pub(crate) fn frames_in_same_files(one: &Acquisition, other: &Acquisition) -> Spans {
    let mut of_other: HashMap<u64, Vec<Spans>> = HashMap::new();
    for (file, frames) in frames_by_file(other) {
        of_other.entry(file).or_default().push(frames.clone());
    }
    let same = frames_by_file(one).flat_map(|(file, frames)| {
        let found = of_other.get(&file).into_iter().flatten();
        found.map(|others| frames.intersection(others)).collect::<Vec<_>>()
    });
    Spans::union_all(&same.collect::<Vec<_>>())
}

/// Returns the digest of the file of each source, and the source's frames.
fn frames_by_file(scan: &Acquisition) -> impl Iterator<Item = (u64, &Spans)> {
    let directory = scan.file.parent().unwrap_or(Path::new("/"));
    scan.sources.iter().map(move |source| {
        let name = name_digest(&relative_path(directory, &source.file), source);
        (file_digest(name, source), &source.frames)
    })
}

/// Returns the digest of a source's path relative to the master's directory, and of its dataset.
pub(crate) fn name_digest(path: &Path, source: &Source) -> u64 {
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
        let stamp =
            |mtime, row, frame| SourceFingerprints::new(&scan([source(mtime, row)])).get(frame);
        assert_eq!(stamp(5, 0, 1), stamp(5, 0, 1));
        assert_ne!(stamp(5, 0, 1), stamp(6, 0, 1));
        assert_ne!(stamp(5, 0, 1), stamp(5, 1, 1));
        assert_eq!(stamp(5, 0, 2), None);
    }

    #[test]
    fn frames_of_a_file_that_has_changed_are_in_no_same_file() {
        let beside = |mtime| Source {
            file: "/raw/p3_0001.h5".into(),
            frames: Span::new(2, 6).into(),
            rows: Spans::first_n(4),
            ..source(mtime, 0)
        };
        let then = scan([source(5, 0), beside(5)]);
        let same = |now: &Acquisition| frames_in_same_files(now, &then);
        assert_eq!(same(&then), Spans::first_n(6));
        assert_eq!(same(&scan([source(6, 0), beside(5)])), Span::new(2, 6).into());
        let cut = beside(5).restricted_to(&Span::new(3, 4).into()).unwrap();
        assert_eq!(same(&scan([cut])), Span::new(3, 4).into());
        assert_eq!(same(&scan([])), Spans::default());
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
            assert_eq!(
                SourceFingerprints::new(&scan(sources)).sources(9),
                std::slice::from_ref(&new)
            );
        }
        assert_eq!(SourceFingerprints::new(&scan([new])).sources(1)[0].bytes, 5);
    }
}
