//! What a frame's raw data is known by: file, dataset, size, time of last change, and row.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStrExt as _;

use records::{Source, Spans};
use xxhash_rust::xxh3::Xxh3;

/// The stamps of a scan's frames. Equal stamps mean equal raw data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stamps {
    frames: BTreeMap<u64, Stamp>,
    /// The sources that the stamps are of, by the digest of what they are known by.
    files: HashMap<u64, Source>,
}

/// What one frame's raw data is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The digest of file, dataset, size and time of last change.
    file: u64,
    row: u64,
    mtime: i64,
}

impl Stamps {
    /// Those of the frames of these sources.
    pub fn of(sources: &[Source]) -> Self {
        let mut stamps = Self::default();
        stamps.add_newest(sources);
        stamps
    }

    /// Adds sources. Of two that hold the same frame, the one changed last counts; of two changed at
    /// once, the one that was there before.
    pub fn add_newest(&mut self, sources: &[Source]) {
        for source in sources {
            let file = digest(source);
            let mtime = source.mtime;
            for (frame, row) in source.frames.iter().zip(source.rows.iter()) {
                let stamp = self.frames.entry(frame).or_insert(Stamp { file, row, mtime });
                if stamp.mtime < mtime {
                    *stamp = Stamp { file, row, mtime };
                }
            }
            self.files.entry(file).or_insert_with(|| source.clone());
        }
    }

    /// A frame's stamp; `None` where it is in no source.
    pub fn get(&self, frame: u64) -> Option<Stamp> {
        self.frames.get(&frame).copied()
    }

    /// Returns XXH3-64 over these frames and what the raw data of each is known by.
    pub fn digest(&self, frames: &[u64]) -> u64 {
        let mut hash = Xxh3::new();
        for &frame in frames {
            hash.update(&frame.to_le_bytes());
            match self.get(frame) {
                None => hash.update(&[0]),
                Some(Stamp { file, row, mtime }) => {
                    hash.update(&[1]);
                    [file, row, mtime as u64].iter().for_each(|number| hash.update(&number.to_le_bytes()));
                }
            }
        }
        hash.digest()
    }

    /// These stamps, and those of `others` for frames that have none here.
    pub fn or(mut self, others: &Self) -> Self {
        for (frame, stamp) in &others.frames {
            self.frames.entry(*frame).or_insert(*stamp);
        }
        for (digest, source) in &others.files {
            self.files.entry(*digest).or_insert_with(|| source.clone());
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
            let known = self.files.get(&file)?;
            let share = u128::from(known.bytes) * u128::from(frames.count()) / u128::from(known.frames.count().max(1));
            Some(Source { frames, rows, bytes: share as u64, ..known.clone() })
        };
        let mut sources: Vec<Source> = held.into_iter().filter_map(source).collect();
        sources.sort_by_key(|source| source.frames.iter().next());
        sources
    }
}

fn digest(source: &Source) -> u64 {
    let mut hash = Xxh3::new();
    for text in [source.file.as_os_str().as_bytes(), source.dataset.as_bytes()] {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text);
    }
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
            frames: Spans::all(2),
            rows: Span::new(row, row + 2).into(),
            bytes: 10,
            ..Source::default()
        }
    }

    #[test]
    fn a_touched_file_or_another_row_is_another_stamp() {
        let stamp = |mtime, row, frame| Stamps::of(&[source(mtime, row)]).get(frame);
        assert_eq!(stamp(5, 0, 1), stamp(5, 0, 1));
        assert_ne!(stamp(5, 0, 1), stamp(6, 0, 1));
        assert_ne!(stamp(5, 0, 1), stamp(5, 1, 1));
        assert_eq!(stamp(5, 0, 2), None);
    }

    #[test]
    fn the_newest_file_counts_in_any_order() {
        let (old, new) = (source(5, 0), source(6, 0));
        for sources in [[old.clone(), new.clone()], [new.clone(), old]] {
            assert_eq!(Stamps::of(&sources).sources(9), std::slice::from_ref(&new));
        }
        assert_eq!(Stamps::of(&[new]).sources(1)[0].bytes, 5);
    }
}
