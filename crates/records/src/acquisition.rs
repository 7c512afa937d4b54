//! Scan records: one detector of one entry of a master file.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::FieldError;
use crate::valid::check_absolute;
use crate::{Absent, Extra, FrameLayout, IdHasher, ImageOperation, RawPath, Source, Spans};

/// A scan record: the frames that one detector took during one entry. Its `type` is `scan`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scan {
    /// The scan's id, computed by [`Acquisition::compute_id`].
    pub id: String,
    /// The fields that task and result records share.
    #[serde(flatten)]
    pub acquisition: Acquisition,
}

/// A detector's measurement and its files: the fields that scan, task and result records share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Acquisition {
    /// The master file, or the data file or first image of a scan without a master; absolute.
    pub file: RawPath,
    /// The master's path relative to the directory that was given to scan-find, or its name if the
    /// file itself was given. Results go to the same path below OUT.
    pub below: RawPath,
    /// The entry, such as `1.1`; `1.1` for images and bare datasets, which have none.
    pub entry: String,
    /// The detector's name in the entry; for images, the name of the file without its number and
    /// the separator before it; for bare datasets, the name of the dataset.
    pub detector: String,
    /// The dataset through which the master shows the frames, such as `/1.1/instrument/p3/data`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dataset: String,
    /// The scan's title, such as `ascan rot 0 90 100 0.1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The start time in ISO 8601, as the file has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// The end time in ISO 8601, as the file has it; absent while the scan runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<String>,
    /// The end reason: `SUCCESS`, `USER_ABORT`, `FAILURE` or `DELETION`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<String>,
    /// True if the scan has ended and every frame exists.
    pub complete: bool,
    /// The number of frames of the scan, including absent frames.
    pub frames: u64,
    /// Rows and columns of a frame.
    pub shape: [u64; 2],
    /// The pixel type: `u8 i8 u16 i16 u32 i32 u64 f32 f64`.
    pub dtype: String,
    /// The shape of a chunk, which Lima writes as `[1, rows, columns]`; empty if the dataset is not
    /// chunked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunk: Vec<u64>,
    /// The compression of frames, such as `bslz4`, `bszstd`, `lz4`, `deflate`, `none`, `tiff`.
    pub codec: String,
    /// The operation that Lima applied to the images before saving; absent if frames show the
    /// detector unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_operation: Option<ImageOperation>,
    /// A digest that distinguishes scans whose entry, start time, detector and `below` agree. It
    /// covers the first frame's stored bytes if the start time is unknown, or the file's path if
    /// another file of the run claims the same scan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The exposure time of a frame in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposure_time: Option<f64>,
    /// The number of frames that the detector was configured to take, if there are fewer (Dectris): the
    /// scan runs, was ended early, or lacks data files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_frames: Option<u64>,
    /// True if the file says that the detector has corrected its counts for dead time; absent if it
    /// does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub countrate_correction_applied: Option<bool>,
    /// The scan's counters: for each name, the path of its dataset in the master.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, String>,
    /// The files that hold the frames, in the order of their first frame.
    pub sources: Vec<Source>,
    /// Frames that are known to be absent, with reasons. A task lists only those of its range.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<Absent>,
    /// The number of absent frames that the record does not list, since a task lists only those of
    /// its range.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub absent_elsewhere: u64,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The state of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanState {
    /// The file does not say. Images and bare datasets have this state and count as complete.
    #[default]
    Unknown,
    /// The scan has begun and not ended. A scan whose program was killed keeps this state forever.
    Running,
    /// The scan was ended before its last frame: by the user, by a failure, or by deletion.
    Aborted,
    /// The scan ended as intended.
    Ended,
}

/// The largest number of pixels of a frame; larger frames need more memory than a node has.
const MAX_FRAME_PIXELS: u64 = 1 << 27;

/// How often a source lists each of its frames: once as a frame and once as a row.
const FRAMES_AND_ROWS: NonZero<u64> = NonZero::new(2).unwrap();

impl Acquisition {
    /// Returns the scan's id: a digest of entry, start time, detector, the master's path below the
    /// operand, and `content` if it is set. The id depends on the measurement, and stays the same
    /// when the files are moved.
    pub fn compute_id(&self) -> String {
        use std::os::unix::ffi::OsStrExt;
        let digest = IdHasher::new("scan")
            .add_bytes(self.below.as_os_str().as_bytes())
            .add_text(&self.entry)
            .add_text(self.start_time.as_deref().unwrap_or(""))
            .add_text(&self.detector);
        match &self.content {
            Some(content) => digest.add_text("content").add_text(content).to_short_hex(),
            None => digest.to_short_hex(),
        }
    }

    /// Returns the scan's state, from its end time and end reason, or for a file without times,
    /// from whether it is complete.
    pub fn scan_state(&self) -> ScanState {
        match (self.end_reason.as_deref(), &self.start_time, &self.end_time) {
            (Some("SUCCESS"), ..) | (None, _, Some(_)) => ScanState::Ended,
            (Some(_), ..) => ScanState::Aborted,
            // Dectris masters have a start time and no end time.
            (None, Some(_), None) if self.complete => ScanState::Ended,
            (None, Some(_), None) => ScanState::Running,
            // The scan is incomplete although no frame is absent: its writer has not closed the
            // file.
            (None, None, None)
                if !self.complete && self.absent.is_empty() && self.absent_elsewhere == 0 =>
            {
                ScanState::Running
            }
            (None, None, None) => ScanState::Unknown,
        }
    }

    /// Returns the layout of the frames: their shape, and the part of the detector that they show.
    pub fn frame_layout(&self) -> FrameLayout {
        FrameLayout { shape: self.shape, operation: self.image_operation.clone() }
    }

    /// Checks that the numbers are possible for a scan, so that users of the record need not check
    /// again.
    pub(crate) fn check(&self) -> Result<(), FieldError> {
        let [rows, columns] = self.shape;
        if self.frames > Spans::MAX_FRAMES {
            return Err(FieldError::TooManyFrames(self.frames));
        }
        if rows.checked_mul(columns).is_none_or(|pixels| pixels > MAX_FRAME_PIXELS) {
            return Err(FieldError::TooManyPixels { shape: self.shape, most: MAX_FRAME_PIXELS });
        }
        check_absolute("file", &self.file)?;
        check_frames(
            "sources",
            self.sources.iter().flat_map(|source| [&source.frames, &source.rows]),
            FRAMES_AND_ROWS,
        )?;
        check_frames(
            "absent",
            self.absent.iter().map(|absent| &absent.range),
            NonZero::<u64>::MIN,
        )?;
        self.sources.iter().try_for_each(Source::check)
    }

    /// Returns the name of a file of the scan for messages: its path below the master's directory,
    /// or its whole path if it is elsewhere.
    pub fn short_name(&self, file: &Path) -> String {
        let below = self.file.parent().and_then(|directory| file.strip_prefix(directory).ok());
        below.unwrap_or(file).display().to_string()
    }

    /// Returns the frames of `range` that are known to be absent, with reasons.
    pub fn absent_within(&self, range: &Spans) -> Vec<Absent> {
        let within =
            |absent: &Absent| Absent { range: absent.range.intersection(range), ..absent.clone() };
        self.absent.iter().map(within).filter(|absent| !absent.range.is_empty()).collect()
    }
}

/// Refuses lists with more frames than a scan can have. Each frame may be listed `times` times.
/// Short lines can name many frames, and a union of interleaved spans lists its frames one by one.
fn check_frames<'a>(
    field: &'static str,
    lists: impl Iterator<Item = &'a Spans>,
    times: NonZero<u64>,
) -> Result<(), FieldError> {
    let (mut all, mut apart) = (0_u64, 0_u64);
    for list in lists {
        all = all.saturating_add(list.count());
        apart = apart.saturating_add(list.strided_count());
    }
    match (all / times, apart) {
        (frames, _) if frames > Spans::MAX_FRAMES => {
            Err(FieldError::TooManyListed { field, frames })
        }
        (_, frames) if frames > Spans::MAX_STRIDED_FRAMES => {
            Err(FieldError::TooManyStrided { field, frames })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;
    use crate::source::tests::source;

    #[test]
    fn a_scan_without_an_end_runs_unless_it_is_whole() {
        let scan = |start: bool, end: bool, reason: Option<&str>, complete| Acquisition {
            start_time: start.then(|| "2026-03-04T10:20:30+01:00".to_owned()),
            end_time: end.then(|| "2026-03-04T10:21:30+01:00".to_owned()),
            end_reason: reason.map(str::to_owned),
            complete,
            ..Acquisition::default()
        };
        assert_eq!(scan(true, true, Some("SUCCESS"), true).scan_state(), ScanState::Ended);
        assert_eq!(scan(true, true, Some("USER_ABORT"), false).scan_state(), ScanState::Aborted);
        assert_eq!(scan(true, true, None, false).scan_state(), ScanState::Ended);
        assert_eq!(scan(true, false, None, false).scan_state(), ScanState::Running);
        assert_eq!(scan(true, false, None, true).scan_state(), ScanState::Ended);
        assert_eq!(scan(false, false, None, true).scan_state(), ScanState::Unknown);
    }

    #[test]
    fn limits_are_what_the_manual_says() {
        let good = Acquisition {
            file: "/m.h5".into(),
            frames: 9,
            shape: [100, 100],
            ..Acquisition::default()
        };
        let check = |frames: u64, shape: [u64; 2]| {
            Acquisition { frames, shape, ..good.clone() }.check().is_ok()
        };
        let (most, most_apart) = (134_217_728, 16_777_216);
        assert!(check(most, [100, 100]) && !check(most + 1, [100, 100]));
        assert!(
            check(9, [8192, 16384])
                && check(9, [1, most])
                && !check(9, [8192, 16385])
                && !check(9, [1, most + 1])
        );
        let spans = |text: String| serde_json::from_str::<Spans>(&text).is_ok();
        assert!(spans(format!("[[0,{most}]]")) && !spans(format!("[[0,{}]]", most + 1)));
        assert!(!spans(format!("[[0,{most}],[5,6]]")));
        assert!(
            spans(format!("[[0,{},2]]", 2 * most_apart))
                && !spans(format!("[[0,{},2]]", 2 * most_apart + 1))
        );
        // Divides the same number of frames among sources.
        let with = |count: u64| {
            let source = |from: u64| Source {
                file: "/a.h5".into(),
                frames: Span::strided(from, count / 2, 2).into(),
                rows: Spans::first_n(count / 2),
                ..Source::default()
            };
            Acquisition {
                frames: 2 * most_apart,
                sources: vec![source(0), source(1)],
                ..good.clone()
            }
            .check()
        };
        assert_eq!(with(most_apart), Ok(()));
        let frames = most_apart + 2;
        assert_eq!(with(frames), Err(FieldError::TooManyStrided { field: "sources", frames }));
    }

    #[test]
    fn numbers_that_no_scan_has_are_refused() {
        let refuse = |acquisition: Acquisition| acquisition.check().unwrap_err().to_string();
        let good = Acquisition {
            file: "/m.h5".into(),
            frames: 9,
            shape: [4362, 4148],
            ..Acquisition::default()
        };
        assert_eq!(good.check(), Ok(()));
        assert!(
            refuse(Acquisition { frames: 1 << 60, ..good.clone() }).contains("at most 134217728")
        );
        assert!(
            refuse(Acquisition { shape: [1 << 40, 1 << 40], ..good.clone() })
                .contains("at most 134217728")
        );
        assert!(
            refuse(Acquisition { file: "m.h5".into(), ..good.clone() })
                .contains("expected an absolute path")
        );
        let relative = Source { file: "p3.h5".into(), ..source("[[0,8]]", "[[0,8]]") };
        assert!(
            refuse(Acquisition { sources: vec![relative], ..good.clone() })
                .contains("expected an absolute path")
        );
        let many = vec![source("[[0,134217728]]", "[[0,134217728]]"); 3];
        assert!(
            refuse(Acquisition { sources: many, ..good.clone() })
                .contains("402653184 frames: expected at most 134217728")
        );
        let interleaved = vec![source("[[0,33554431,2]]", "[[0,16777216]]"); 2];
        let why = refuse(Acquisition { sources: interleaved.clone(), ..good.clone() });
        assert!(
            why.contains("33554432 frames in ranges with a step: expected at most 16777216"),
            "{why}"
        );
        let absent = interleaved
            .iter()
            .map(|source| Absent { range: source.frames.clone(), ..Absent::default() });
        let why = refuse(Acquisition { absent: absent.collect(), ..good.clone() });
        assert!(why.contains("`absent`"), "{why}");
        let uneven = source("[[0,8]]", "[[0,3]]");
        assert!(
            refuse(Acquisition { sources: vec![uneven], ..good.clone() })
                .contains("8 frames in 3 rows")
        );
        let twice = source("[[0,5],[3,8]]", "[[0,10]]");
        assert!(refuse(Acquisition { sources: vec![twice], ..good }).contains("twice"));
    }
}
