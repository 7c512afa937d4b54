//! What a frame's raw data is known by: file, dataset, size, time of last change, and row.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;

use records::Source;
use xxhash_rust::xxh3::Xxh3;

/// The stamp of each frame of some sources; a frame that is in none has no entry. Equal stamps mean
/// equal raw data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stamps(HashMap<u64, u64>);

impl Stamps {
    /// Those of the frames of these sources.
    pub fn of(sources: &[Source]) -> Self {
        let mut stamps = HashMap::new();
        for source in sources {
            let mut hash = Xxh3::new();
            for text in [source.file.as_os_str().as_bytes(), source.dataset.as_bytes()] {
                hash.update(&(text.len() as u64).to_le_bytes());
                hash.update(text);
            }
            hash.update(&source.size.to_le_bytes());
            hash.update(&source.mtime.to_le_bytes());
            for (frame, row) in source.frames.iter().zip(source.rows.iter()) {
                let mut hash = hash.clone();
                hash.update(&row.to_le_bytes());
                // 0 stands for "in no source" where stamps are stored.
                stamps.insert(frame, hash.digest().max(1));
            }
        }
        Self(stamps)
    }

    /// A frame's stamp; 0 where it is in no source.
    pub fn get(&self, frame: u64) -> u64 {
        self.0.get(&frame).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::{Span, Spans};

    #[test]
    fn a_touched_file_or_another_row_is_another_stamp() {
        let source = |mtime, row| Source {
            file: "/raw/p3_0000.h5".into(),
            mtime,
            frames: Spans::all(2),
            rows: Span::new(row, row + 2).into(),
            ..Source::default()
        };
        let stamp = |mtime, row, frame| Stamps::of(&[source(mtime, row)]).get(frame);
        assert_eq!(stamp(5, 0, 1), stamp(5, 0, 1));
        assert_ne!(stamp(5, 0, 1), stamp(6, 0, 1));
        assert_ne!(stamp(5, 0, 1), stamp(5, 1, 1));
        assert_eq!(stamp(5, 0, 2), 0);
    }
}
