//! Scans of which later records say something else than earlier ones: frames that move to other rows because
//! images came between them, scans that turn out shorter, and frames that were never written.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::uniform_frames::{RawDirectory, StorageKind, list_finals, read_counts, with_pattern};
use crate::support::{NO_ARGUMENTS, Outcome, run, uniform_edf};

/// A series of images, of which some are there.
struct Series(RawDirectory);

impl Series {
    fn new() -> Self {
        let place = RawDirectory::new();
        fs::create_dir(place.path("raw")).unwrap();
        Self(place)
    }

    fn image(&self, number: u16) -> PathBuf {
        self.0.path("raw").join(format!("a_{number:04}.edf"))
    }

    /// Writes an image whose pixels have its number as their counts.
    fn write(&self, number: u16) {
        fs::write(self.image(number), uniform_edf([20, 30], number)).unwrap();
    }

    /// Returns the record of the scan.
    fn find(&self) -> String {
        run("scan-find", &[self.0.operand(StorageKind::Series, "raw")], "").stdout
    }

    fn gather(&self, scans: &str) -> Outcome {
        let plan = self.0.plan_scans(scans, "out", &["--by", "frames=1"]);
        let results = run("ai-integrate", &["--threads", "1"], &plan.stdout);
        run("gather", NO_ARGUMENTS, &results.stdout)
    }

    fn process(&self) -> Outcome {
        self.gather(&self.find())
    }
}

/// The last summary, and the counts that its final shows.
fn last_summary(gathered: &Outcome) -> (Value, Vec<Option<u16>>) {
    let counts = read_counts(list_finals(gathered).last().unwrap());
    (gathered.records("summary").pop().unwrap(), counts)
}

#[test]
fn an_image_that_is_another_frame_now_is_no_longer_the_frame_that_it_was() {
    let series = Series::new();
    [10, 12].into_iter().for_each(|number| series.write(number));
    // Every second number, as far as is known.
    assert_eq!(last_summary(&series.process()).1, with_pattern(&[10, 12]));
    series.write(13);
    for gathered in [series.process(), series.process(), gather_from(&series)] {
        let (summary, counts) = last_summary(&gathered);
        assert_eq!(counts, [Some(10), None, Some(12), Some(13)], "{summary}");
        assert_eq!((&summary["complete"], gathered.status), (&json!(false), 1), "{summary}");
    }
    series.write(11);
    let (summary, counts) = last_summary(&series.process().assert_success());
    assert_eq!(counts, with_pattern(&[10, 11, 12, 13]), "{summary}");
}

fn gather_from(series: &Series) -> Outcome {
    run("gather", &["--from", series.0.path("out").to_str().unwrap()], "")
}

#[test]
fn an_image_that_came_late_with_its_time_kept_takes_its_row() {
    let series = Series::new();
    let write = |number: u16| {
        series.write(number);
        let file = fs::File::options().write(true).open(series.image(number)).unwrap();
        let age = Duration::from_secs(3600 - u64::from(number));
        file.set_modified(SystemTime::now() - age).unwrap();
    };
    [1, 3].into_iter().for_each(write);
    let mut scans = series.find();
    write(2);
    scans += &series.find();
    write(4);
    scans += &series.find();
    // As a pipe that follows the search has them: all records, in their order.
    let (summary, counts) = last_summary(&series.gather(&scans));
    assert_eq!(counts, with_pattern(&[1, 2, 3, 4]), "{summary}");
    assert_eq!(summary["complete"], true, "{summary}");
}

/// A scan record with fewer files than the scan is thought to have frames.
fn with_lacking_frames(scans: &str, there: u64, frames: u64, kind: &str) -> String {
    let mut scan: Value = serde_json::from_str(scans.trim()).unwrap();
    scan["frames"] = json!(frames);
    scan["complete"] = json!(false);
    scan["absent"] = json!([{"range": [[there, frames]], "kind": kind, "reason": kind}]);
    format!("{scan}\n")
}

#[test]
fn a_scan_that_is_shorter_than_it_was_thought_is_complete() {
    for is_live in [false, true] {
        let series = Series::new();
        (1..=3).for_each(|number| series.write(number));
        // The last file, which nobody can read yet, counts as long as the others.
        let before = with_lacking_frames(&series.find(), 3, 6, "missing");
        if !is_live {
            let (summary, counts) = last_summary(&series.gather(&before));
            assert_eq!((counts.len(), &summary["complete"]), (6, &json!(false)), "{summary}");
        }
        series.write(4);
        let now = series.find();
        let scans = if is_live { before.clone() + &now } else { now };
        let (summary, counts) = last_summary(&series.gather(&scans).assert_success());
        assert_eq!(counts, with_pattern(&[1, 2, 3, 4]), "{summary}");
        assert_eq!((&summary["frames"], &summary["complete"]), (&json!(4), &json!(true)));
        // The plan of before knows nothing new.
        let (summary, counts) = last_summary(&series.gather(&before));
        assert_eq!(counts.iter().flatten().count(), 4, "{summary}");
    }
}

#[test]
fn frames_that_were_to_come_are_not_written_once_the_scan_is_over() {
    let series = Series::new();
    (1..=2).for_each(|number| series.write(number));
    let running = with_lacking_frames(&series.find(), 2, 4, "never_taken");
    series.gather(&running);
    let over = with_lacking_frames(&series.find(), 2, 4, "not_written");
    let gathered = series.gather(&over);
    let (summary, _) = last_summary(&gathered);
    assert_eq!((&summary["missing"][0]["kind"], gathered.status), (&json!("not_written"), 1));
}

#[test]
fn a_frame_whose_row_is_another_frame_by_a_later_record_is_absent() {
    let series = Series::new();
    [1, 2, 4].into_iter().for_each(|number| series.write(number));
    let later = series.find();
    // All that a file name tells was taken for its place: the last file, which was seen first, is shorter.
    let mut before: Value = serde_json::from_str(later.trim()).unwrap();
    let mut moved = before["sources"].as_array().unwrap().last().unwrap().clone();
    moved["frames"] = json!([[2, 3]]);
    before["sources"].as_array_mut().unwrap().pop();
    before["sources"].as_array_mut().unwrap().push(moved);
    before["absent"] = json!([{"range": [[3, 4]], "kind": "missing", "reason": "missing"}]);
    let (summary, counts) = last_summary(&series.gather(&format!("{before}\n{later}")));
    assert_eq!(counts, [Some(1), Some(2), None, Some(4)], "{summary}");
}
