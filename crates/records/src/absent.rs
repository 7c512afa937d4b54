//! Frames without a pattern, and why.

use serde::{Deserialize, Serialize};

use crate::Spans;

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
    /// The frame's file exists, and holds no data for the frame, or the scan's dataset lacks it.
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
    /// The geometry of the frame is unknown, or has no pixel in the range.
    NoGeometry,
    /// Each pixel of the frame has a value that stands for no measurement or is beyond a limit, or sigma
    /// clipping rejected it.
    NoValidPixel,
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
    /// `--allow-missing`, a frame without data, valid pixel, monitor or geometry does not, because no rerun
    /// would give it a pattern. A frame that could not be read, is damaged, or waits to be integrated always
    /// does.
    pub fn is_failure(self, allows_missing: bool) -> bool {
        match self {
            Self::NeverTaken => false,
            Self::Missing
            | Self::NotWritten
            | Self::NoMonitor
            | Self::NoGeometry
            | Self::NoValidPixel => !allows_missing,
            Self::Unreadable | Self::Corrupt | Self::SourceChanged | Self::NotIntegrated => true,
        }
    }
}

/// Frames that have no pattern or can't have one, with the reason. "Absent" refers to the pattern:
/// a scan record lists frames without data, results and summaries also list damaged frames, frames
/// without a monitor value, geometry or valid pixel and frames that are still to do.
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
