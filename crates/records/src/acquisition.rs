//! Scan records: one detector of one entry of a master file.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::FieldError;
use crate::valid::check_absolute;
use crate::{Extra, FrameLayout, IdHasher, ImageOperation, RawPath, Span, Spans};

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
    /// The detector's name in the entry; for images and bare datasets, the name of the file or
    /// dataset.
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

/// A file that holds frames of a scan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The path of the file, absolute.
    pub file: RawPath,
    /// The path of the dataset in the file; empty for an image file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dataset: String,
    /// The file's size in bytes when it was found; a change of `size` or `mtime` shows that the
    /// file has changed.
    pub size: u64,
    /// The file's modification time in nanoseconds since 1970, on the wire as text:
    /// `"1772616030.000000001"`.
    #[serde(with = "crate::mtime")]
    pub mtime: i64,
    /// The frames of the scan that the file holds, in the order of `rows`.
    pub frames: Spans,
    /// The rows of the dataset that hold the frames: entry k of `rows` holds entry k of `frames`.
    pub rows: Spans,
    /// The stored size of the frames in bytes.
    pub bytes: u64,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Source {
    fn check(&self) -> Result<(), FieldError> {
        check_absolute("sources: file", &self.file)?;
        let (frames, rows) = (self.frames.count(), self.rows.count());
        if frames != rows {
            return Err(FieldError::UnevenSource { file: self.file.to_path_buf(), frames, rows });
        }
        if self.frames.to_sorted().count() != frames {
            return Err(FieldError::RepeatedFrame(self.file.to_path_buf()));
        }
        Ok(())
    }

    /// Returns the part of this source within `range`, with a proportional share of its bytes;
    /// `None` if there is none.
    pub fn restricted_to(&self, range: &Spans) -> Option<Self> {
        let range = range.to_sorted();
        let (mut frames, mut rows) = (Spans::default(), Spans::default());
        for (frame, row) in self.paired_spans() {
            for wanted in range.as_slice().iter().filter(|wanted| frame.overlaps(wanted)) {
                if wanted.step() == 1 {
                    let (from, to) =
                        (frame.count_below(wanted.start()), frame.count_below(wanted.stop()));
                    // The count of frames below a limit never decreases as the limit grows.
                    let count = to.saturating_sub(from);
                    frames.push_span(frame.slice(from, count));
                    rows.push_span(row.slice(from, count));
                    continue;
                }
                for (frame, row) in
                    frame.iter().zip(row.iter()).filter(|(frame, _)| wanted.contains(*frame))
                {
                    frames.push(frame);
                    rows.push(row);
                }
            }
        }
        (!frames.is_empty()).then_some(())?;
        // The product of two 64-bit factors fits, and the divisor is not 0: some of the source's
        // frames are in the range.
        let of_all = u128::from(self.bytes).saturating_mul(u128::from(frames.count()));
        let share = of_all.checked_div(u128::from(self.frames.count())).unwrap_or_default();
        Some(Self {
            file: self.file.clone(),
            dataset: self.dataset.clone(),
            size: self.size,
            mtime: self.mtime,
            frames,
            rows,
            bytes: share as u64,
            extra: self.extra.clone(),
        })
    }

    /// Returns the frames and their rows in pairs of spans of equal length.
    fn paired_spans(&self) -> impl Iterator<Item = (Span, Span)> {
        let (mut frames, mut rows) =
            (self.frames.as_slice().iter().copied(), self.rows.as_slice().iter().copied());
        let (mut frame, mut row) = (frames.next(), rows.next());
        std::iter::from_fn(move || {
            let (run, held) = (frame?, row?);
            let count = run.count().min(held.count());
            let rest = |span: Span| {
                Some(span.slice(count, span.count().checked_sub(count).filter(|left| *left > 0)?))
            };
            frame = rest(run).or_else(|| frames.next());
            row = rest(held).or_else(|| rows.next());
            Some((run.slice(0, count), held.slice(0, count)))
        })
    }
}

/// The kind of reason for which frames have no pattern. scan-find reports the first five kinds,
/// ai-integrate and gather all.
///
/// A file that is missing, a file that can't be read, and a frame that was never taken all show as
/// data that is not there. They need different reactions, so the kind is set where the error occurs
/// and is kept in every record from `scan` to `summary`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum AbsentKind {
    /// The frame's file does not exist.
    #[default]
    Missing,
    /// The frame's file exists, and holds no data for the frame.
    NotWritten,
    /// The frame's file could not be opened or read (EIO, ESTALE, EACCES, EMFILE); another attempt
    /// may succeed.
    Unreadable,
    /// The scan was aborted before the frame, or has not reached it yet.
    NeverTaken,
    /// The frame's bytes are invalid.
    Corrupt,
    /// The frame's file has changed since scan-find recorded it; run scan-find again.
    SourceChanged,
    /// The frame's monitor has no usable value.
    NoMonitor,
    /// The frame has not been integrated yet.
    NotIntegrated,
}

impl AbsentKind {
    /// Returns whether the frame should have a pattern, which holds for all but frames that were
    /// never taken.
    pub fn is_loss(self) -> bool {
        self != Self::NeverTaken
    }

    /// Returns whether a frame of this kind makes a filter end with status 1. Every loss does. With
    /// `--allow-missing`, a frame without data or monitor does not, because no rerun would give it
    /// a pattern. A frame that could not be read, is damaged, or waits to be integrated always
    /// does.
    pub fn is_failure(self, allows_missing: bool) -> bool {
        match self {
            Self::NeverTaken => false,
            Self::Missing | Self::NotWritten | Self::NoMonitor => !allows_missing,
            Self::Unreadable | Self::Corrupt | Self::SourceChanged | Self::NotIntegrated => true,
        }
    }
}

/// Frames that have no pattern or can't have one, with the reason. "Absent" refers to the pattern:
/// a scan record lists frames without data, results and summaries also list damaged frames, frames
/// without a monitor value and frames that are still to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Absent {
    /// The frames, by their numbers in the scan.
    pub range: Spans,
    /// The kind of reason, for programs. Lines that azpipe wrote before this field was added read
    /// as `missing`.
    #[serde(default)]
    pub kind: AbsentKind,
    /// The reason for people, with the file that it is about: `file missing: p3_0003.h5`, `not
    /// written`, ….
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(frames: &str, rows: &str) -> Source {
        let spans = |json| serde_json::from_str(json).unwrap();
        Source {
            file: "/p3.h5".into(),
            frames: spans(frames),
            rows: spans(rows),
            bytes: 1000,
            ..Source::default()
        }
    }

    #[test]
    fn what_a_source_holds_of_a_range_is_what_a_plain_list_says() {
        let sources = [
            source("[[0,10]]", "[[5,15]]"),
            source("[[1,20,4]]", "[[0,5]]"),
            source("[[8,12],[0,3]]", "[[0,14,2]]"),
            source("[[3,3],[3,9,3],[20,22]]", "[[7,8],[1,4]]"),
        ];
        let ranges = [
            "[[0,100]]",
            "[[2,9]]",
            "[[4,5]]",
            "[[8,9],[1,3]]",
            "[[0,20,3]]",
            "[[0,9,4],[1,10,4]]",
            "[]",
        ];
        for (source, range) in sources.iter().flat_map(|source| ranges.map(|range| (source, range)))
        {
            let wanted: Spans = serde_json::from_str(range).unwrap();
            let pairs = source.frames.iter().zip(source.rows.iter());
            let expected: Vec<(u64, u64)> =
                pairs.filter(|(frame, _)| wanted.iter().any(|wanted| wanted == *frame)).collect();
            let found = source.restricted_to(&wanted).unwrap_or_default();
            let found: Vec<(u64, u64)> = found.frames.iter().zip(found.rows.iter()).collect();
            assert_eq!(found, expected, "{source:?} within {range}");
        }
        assert_eq!(
            source("[[0,10]]", "[[0,10]]").restricted_to(&Span::new(0, 5).into()).unwrap().bytes,
            500
        );
    }

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
