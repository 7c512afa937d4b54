//! Index of the parts in a directory by their frames.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::UnusableFile;
use crate::part::{self, range_in_name};

/// Index of the parts of one directory by their first and last frames.
///
/// Most parts have both numbers in their names, so a directory of 10^5 parts is listed once and no
/// part is opened until a task asks for its frames. For a part with any other name, the user block
/// is read once.
#[derive(Debug, Default)]
pub(super) struct PartListing {
    directory: PathBuf,
    /// Parts by the binary logarithm of the number of frames that they span, then by their first
    /// frame. A part of logarithm k that overlaps a range begins at most 2^(k+1) frames before the
    /// range.
    by_log_length: BTreeMap<u32, BTreeMap<u64, Vec<ListedPart>>>,
    names: HashSet<OsString>,
}

#[derive(Debug)]
struct ListedPart {
    last: u64,
    name: OsString,
}

impl PartListing {
    /// Lists a directory. Files that can't be read are added to `unusable`.
    pub fn read(directory: &Path, unusable: &mut Vec<UnusableFile>) -> Self {
        let mut listing = Self { directory: directory.to_owned(), ..Self::default() };
        match part::list_files(directory) {
            Ok(paths) => paths.iter().for_each(|path| listing.add(path, unusable)),
            Err(why) => unusable.push(UnusableFile::directory(directory, &why)),
        }
        listing
    }

    /// Adds a part, unless it is already listed.
    pub fn add(&mut self, path: &Path, unusable: &mut Vec<UnusableFile>) {
        let Some(name) = path.file_name().filter(|name| !self.names.contains(*name)) else {
            return;
        };
        let range = match range_in_name(name.as_encoded_bytes()) {
            Some(range) => Ok(Some(range)),
            None => part::read_user_block(path)
                .map(|head| (head.count > 0).then_some((head.first, head.last))),
        };
        match range {
            Ok(Some((first, last))) => {
                let length = last.saturating_sub(first).saturating_add(1).ilog2();
                let entry = ListedPart { last, name: name.to_owned() };
                self.by_log_length.entry(length).or_default().entry(first).or_default().push(entry);
            }
            Ok(None) => (),
            // Gather may have merged the part into the final file and removed it since it was
            // listed.
            Err(error) if error.was_removed() => return,
            Err(error) => unusable.push(error.into()),
        }
        self.names.insert(name.to_owned());
    }

    /// Returns the parts that may have frames from `first` to `last` (inclusive), ordered by name.
    pub fn parts_between(&self, first: u64, last: u64) -> Vec<PathBuf> {
        let mut names: Vec<&OsString> = Vec::new();
        for (&length, by_first) in &self.by_log_length {
            let earliest = first.saturating_sub(2_u64.saturating_pow(length.saturating_add(1)));
            for (_, entries) in by_first.range(earliest..=last) {
                names.extend(
                    entries.iter().filter(|entry| first <= entry.last).map(|entry| &entry.name),
                );
            }
        }
        names.sort_unstable();
        names.into_iter().map(|name| self.directory.join(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_two_numbers_gives_the_frames() {
        assert_eq!(range_in_name(b"00000500-00000999.h5"), Some((500, 999)));
        assert_eq!(range_in_name(b"100000000-100000000.h5"), Some((100_000_000, 100_000_000)));
        for other in [
            "00000000-0123456789012345.h5",
            "00000000-0123456789abcdef.h5",
            "lost-00000000-00000001.h5",
        ] {
            assert_eq!(range_in_name(other.as_bytes()), None, "{other}");
        }
        for other in ["00000005-00000004.h5", "a.h5", "-.h5", "+1-+2.h5", "00000001-00000002.h5.h5"]
        {
            assert_eq!(range_in_name(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn parts_of_all_lengths_are_found_by_any_frame() {
        let mut listing = PartListing::default();
        let ranges: Vec<(u64, u64)> = (0..40)
            .map(|first| (first, first))
            .chain((0..40).step_by(3).map(|first| (first, first + 4)))
            .chain([(0, 39), (7, 38), (39, 1000)])
            .collect();
        let path = |(first, last): (u64, u64)| PathBuf::from(format!("{first:08}-{last:08}.h5"));
        ranges.iter().for_each(|range| listing.add(&path(*range), &mut Vec::new()));
        for first in 0..45 {
            for last in first..45 {
                let mut expected: Vec<PathBuf> = ranges
                    .iter()
                    .filter(|range| range.0 <= last && first <= range.1)
                    .map(|range| path(*range))
                    .collect();
                expected.sort();
                assert_eq!(listing.parts_between(first, last), expected, "{first} to {last}");
            }
        }
    }
}
