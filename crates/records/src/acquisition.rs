//! What scan-find says of a scan: one detector of one entry of a master file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Digest, Extra, RawPath, Spans};

/// One detector of one scan. `type` is `scan`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scan {
    /// [`Acquisition::identity`].
    pub id: String,
    /// All else.
    #[serde(flatten)]
    pub acquisition: Acquisition,
}

/// What was measured, and where it is: the fields that scan, task and result records share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Acquisition {
    /// The master file, or the data file or first image where there is no master. Absolute.
    pub file: RawPath,
    /// The master's path below the operand that it was found under; its mirror below OUT holds
    /// the results.
    pub below: RawPath,
    /// The entry, such as `1.1`; `1.1` for images and bare datasets, which have none.
    pub entry: String,
    /// The detector's name in the entry; for images and bare datasets that of the file or dataset.
    pub detector: String,
    /// The dataset that the master shows the frames under, such as `/1.1/instrument/p3/data`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dataset: String,
    /// The scan's title, such as `ascan rot 0 90 100 0.1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// ISO 8601, as the file says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// ISO 8601, as the file says it; absent while the scan runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<String>,
    /// `SUCCESS`, `USER_ABORT`, `FAILURE` or `DELETION`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<String>,
    /// Whether the scan has ended and every frame is there.
    pub complete: bool,
    /// How many frames the scan has, absent ones among them.
    pub frames: u64,
    /// Rows and columns of a frame.
    pub shape: [u64; 2],
    /// The pixels' type: `u8 i8 u16 i16 u32 i32 u64 f32 f64`.
    pub dtype: String,
    /// Shape of a chunk, `[1, rows, columns]` as Lima writes it; empty where not chunked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunk: Vec<u64>,
    /// How frames are stored, such as `bslz4`, `bszstd`, `lz4`, `deflate`, `none`, `tiff`.
    pub codec: String,
    /// Seconds a frame was exposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposure_time: Option<f64>,
    /// The scan's counters by name: the path of each dataset in the master.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, String>,
    /// Where the frames are, in the order of their first frame.
    pub sources: Vec<Source>,
    /// Frames that are known not to be there, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<Absent>,
    /// Fields of others.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Acquisition {
    /// The id of the scan: a digest of entry, start time, detector, and the master's path below the
    /// operand. Where the files were moved to does not matter, what was measured does.
    pub fn identity(&self) -> String {
        use std::os::unix::ffi::OsStrExt;
        Digest::new("scan")
            .bytes(self.below.as_os_str().as_bytes())
            .text(&self.entry)
            .text(self.start_time.as_deref().unwrap_or(""))
            .text(&self.detector)
            .short()
    }

    /// The frames of `range` that are known to be absent, and why.
    pub fn absent_in(&self, range: &Spans) -> Vec<Absent> {
        let within = |absent: &Absent| Absent { range: absent.range.and(range), reason: absent.reason.clone() };
        self.absent.iter().map(within).filter(|absent| !absent.range.is_empty()).collect()
    }
}

/// One file with frames of a scan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The file, absolute.
    pub file: RawPath,
    /// The dataset in it; empty for an image file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dataset: String,
    /// The file's size in bytes when it was found; with `mtime`, what it is known by.
    pub size: u64,
    /// The file's time of last change, nanoseconds since 1970.
    pub mtime: i64,
    /// The scan's frames that this file holds, in the order of `rows`.
    pub frames: Spans,
    /// The rows of the dataset that hold them: entry k of `rows` is entry k of `frames`.
    pub rows: Spans,
    /// Stored bytes of those frames.
    pub bytes: u64,
    /// Fields of others.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Source {
    /// What this source holds of `range`, its bytes in proportion; `None` where it holds nothing.
    pub fn within(&self, range: &Spans) -> Option<Self> {
        let wanted: Vec<u64> = range.and(&self.frames).iter().collect();
        let pairs = self.frames.iter().zip(self.rows.iter());
        let (frames, rows): (Vec<u64>, Vec<u64>) =
            pairs.filter(|(frame, _)| wanted.binary_search(frame).is_ok()).unzip();
        (!frames.is_empty()).then_some(())?;
        let share = u128::from(self.bytes) * frames.len() as u128 / u128::from(self.frames.count());
        let (frames, rows) = (frames.into_iter().collect(), rows.into_iter().collect());
        Some(Self { frames, rows, bytes: share as u64, ..self.clone() })
    }
}

/// Frames that can't be had, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Absent {
    /// Which of the scan's frames.
    pub range: Spans,
    /// Why: `file missing`, `not written`, ….
    pub reason: String,
}
