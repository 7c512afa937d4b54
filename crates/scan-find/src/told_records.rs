//! Remembers which records were written, so that a following search writes only those that are new.

use std::collections::HashMap;
use std::path::PathBuf;

use records::{IdHasher, Record};

/// A file and the dataset of a scan in it.
type Place = (PathBuf, String);

/// The last record of each scan, and the last scan of each place, as far as they were written. One scan
/// after the other may have the same place, and one may come back to it.
#[derive(Default)]
pub struct ToldRecords {
    /// The digest of the last record by the scan's id and place; the records themselves may have megabytes.
    digests: HashMap<(String, Place), String>,
    /// The id of the last scan by place, entry and detector: two entries may show one dataset.
    scans: HashMap<(Place, String, String), String>,
    /// The last place of each scan.
    places: HashMap<String, Place>,
}

impl ToldRecords {
    /// Returns whether no record was written.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// Returns whether the record of a scan has to be written: it differs from the last one of this scan in
    /// this place, or since then, another scan was in this place, or this scan was moved away and is back.
    pub fn is_new(&mut self, id: &str, place: Place, record: &Record) -> bool {
        let digest = IdHasher::new("told").add_text(&record.to_line()).to_short_hex();
        let Record::Scan(scan) = record else { return true };
        let slot =
            (place.clone(), scan.acquisition.entry.clone(), scan.acquisition.detector.clone());
        let last_scan = self.scans.insert(slot, id.to_owned());
        // Copies of one scan are in several places at once.
        let is_gone = |file: &PathBuf| matches!(file.try_exists(), Ok(false));
        let was_elsewhere =
            self.places.get(id).is_some_and(|last| *last != place && is_gone(&last.0));
        let last_digest = self.digests.insert((id.to_owned(), place.clone()), digest.clone());
        let is_new = last_digest.is_none_or(|last| last != digest)
            || last_scan.is_none_or(|last| last != id)
            || was_elsewhere;
        if is_new {
            self.places.insert(id.to_owned(), place);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use records::{Acquisition, Scan};

    use super::*;

    #[test]
    fn a_scan_that_comes_back_to_its_place_is_told_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let [here, there] = ["here", "there"].map(|name| directory.path().join(name));
        let mut told = ToldRecords::default();
        let mut tell = |id: &str, file: &PathBuf, frames| {
            let acquisition = Acquisition { frames, file: file.into(), ..Acquisition::default() };
            let record = Record::from(Scan { id: id.to_owned(), acquisition });
            told.is_new(id, (file.clone(), String::new()), &record)
        };
        std::fs::write(&here, "").expect("a file");
        assert!(tell("a", &here, 1) && !tell("a", &here, 1) && tell("a", &here, 2));
        assert!(tell("b", &here, 2) && !tell("b", &here, 2), "another scan");
        assert!(tell("a", &here, 2) && !tell("a", &here, 2), "the first one is back");
        // A copy is told once, though both are seen at every look.
        std::fs::write(&there, "").expect("a file");
        assert!(tell("a", &there, 2));
        assert!(!tell("a", &here, 2) && !tell("a", &there, 2) && !tell("a", &here, 2));
        std::fs::remove_file(&there).expect("a file");
        assert!(tell("a", &here, 2) && !tell("a", &here, 2), "moved away and back");
    }

    #[test]
    fn two_entries_of_one_dataset_are_told_once_each() {
        let mut told = ToldRecords::default();
        let mut tell = |entry: &str| {
            let acquisition = Acquisition { entry: entry.to_owned(), ..Acquisition::default() };
            let record = Record::from(Scan { id: entry.to_owned(), acquisition });
            told.is_new(entry, (PathBuf::new(), "/data".to_owned()), &record)
        };
        assert_eq!(["1.1", "2.1", "1.1", "2.1"].map(&mut tell), [true, true, false, false]);
    }
}
