//! [`Status`]: whether a frame has a pattern, or why not.

use records::{Absent, AbsentKind, Spans};

/// Status of a frame, with its number in the dataset `frame_status` of a final file.
///
/// Frames that scan-find lists as missing, not written or corrupt are all [`Absent`](Self::Absent)
/// (2), as are frames for which ai-integrate found no data in the file that scan-find recorded;
/// integrating the same task again can't change that. [`FileMissing`](Self::FileMissing) (3),
/// [`Corrupt`](Self::Corrupt) (4) and [`SourceChanged`](Self::SourceChanged) (6) are what only
/// ai-integrate finds, after scan-find saw the file; a rerun tries such frames again.
/// [`Unreadable`](Self::Unreadable) (8) and [`NeverTaken`](Self::NeverTaken) (9) have one number,
/// whichever of the two found it out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Status {
    /// The frame has a pattern.
    #[default]
    Ok = 0,
    /// The frame has not been integrated: no part has it.
    NotIntegrated = 1,
    /// The frame has no usable data: when scan-find looked, its file was missing or damaged, or the
    /// file doesn't hold the frame.
    Absent = 2,
    /// The frame's file existed when scan-find looked, and was missing when ai-integrate did.
    FileMissing = 3,
    /// The frame's stored bytes can't be decoded.
    Corrupt = 4,
    /// The frame's monitor is missing, or no intensity can be divided by it.
    Monitor = 5,
    /// The frame's file changed after scan-find looked: its size or time of last change differs
    /// from the task's.
    SourceChanged = 6,
    /// The frame's monitor is missing, or no intensity can be divided by it, and the scan was still
    /// running when it was read.
    MonitorPending = 7,
    /// The frame's file exists, and could not be opened or read; another attempt may succeed.
    Unreadable = 8,
    /// The scan was aborted before the frame, or has not reached it yet.
    NeverTaken = 9,
    /// The geometry of the frame is unknown: the recipe has none for it.
    Geometry = 10,
    /// No pixel is in the range at the position of the detector and the sample.
    OutOfRange = 11,
    /// No pixel of the frame is valid: each has a value that stands for no measurement or is beyond a
    /// limit, or sigma clipping rejected it.
    NoValidPixel = 12,
}

impl Status {
    /// Every status, in the order of the numbers.
    pub const ALL: [Self; 13] = [
        Self::Ok,
        Self::NotIntegrated,
        Self::Absent,
        Self::FileMissing,
        Self::Corrupt,
        Self::Monitor,
        Self::SourceChanged,
        Self::MonitorPending,
        Self::Unreadable,
        Self::NeverTaken,
        Self::Geometry,
        Self::OutOfRange,
        Self::NoValidPixel,
    ];

    /// Returns the status that has a number; `None` for an unknown number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the name of the status in the attribute `flag_meanings` of `frame_status`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotIntegrated => "not_integrated",
            Self::Absent => "absent",
            Self::FileMissing => "file_missing",
            Self::Corrupt => "corrupt",
            Self::Monitor => "monitor",
            Self::SourceChanged => "source_changed",
            Self::MonitorPending => "monitor_pending",
            Self::Unreadable => "unreadable",
            Self::NeverTaken => "never_taken",
            Self::Geometry => "geometry",
            Self::OutOfRange => "out_of_range",
            Self::NoValidPixel => "no_valid_pixel",
        }
    }

    /// Explanation of the statuses that are easily confused, for the attribute `description` of
    /// `frame_status`.
    pub(crate) const DESCRIPTION: &str = "absent: the frame had no data when scan-find looked, because its file was \
         missing or did not hold the frame; file_missing: the file vanished between scan-find and ai-integrate";

    /// Returns the reason that records and reports give for a frame of this status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotIntegrated => "not integrated",
            Self::Absent => "absent",
            Self::FileMissing => "file missing",
            Self::Corrupt => "can't be decoded",
            Self::Monitor => "monitor zero, negative, out of range, or missing",
            Self::SourceChanged => "source file changed",
            Self::MonitorPending => {
                "monitor zero, negative, out of range, or missing in a scan that had not ended"
            }
            Self::Unreadable => "file unreadable",
            Self::NeverTaken => "never taken",
            Self::Geometry => {
                "geometry unknown: no line in the table of PONI files, or a motor without a value"
            }
            Self::OutOfRange => {
                "no pixel in the range at the position of the detector and the sample"
            }
            Self::NoValidPixel => {
                "no valid pixel: each has a value that stands for no measurement or is beyond a limit (also that of dead-time), or was clipped"
            }
        }
    }

    /// Returns whether the reason is about the file that holds the frame, so that a message should
    /// name the file.
    pub fn is_about_file(self) -> bool {
        matches!(self, Self::FileMissing | Self::Corrupt | Self::SourceChanged | Self::Unreadable)
    }

    /// Returns the record of frames without a pattern for this reason. The reason names `file` if
    /// it is about the file.
    pub fn to_absent(self, range: Spans, file: Option<&str>) -> Absent {
        let kind = match self {
            Self::Ok | Self::NotIntegrated => AbsentKind::NotIntegrated,
            Self::Absent | Self::FileMissing => AbsentKind::Missing,
            Self::Corrupt => AbsentKind::Corrupt,
            Self::Monitor | Self::MonitorPending => AbsentKind::NoMonitor,
            Self::SourceChanged => AbsentKind::SourceChanged,
            Self::Unreadable => AbsentKind::Unreadable,
            Self::NeverTaken => AbsentKind::NeverTaken,
            Self::Geometry | Self::OutOfRange => AbsentKind::NoGeometry,
            Self::NoValidPixel => AbsentKind::NoValidPixel,
        };
        let reason = match file.filter(|_| self.is_about_file()) {
            Some(file) => format!("{}: {file}", self.reason()),
            None => self.reason().to_owned(),
        };
        Absent { range, kind, reason }
    }

    /// Returns the status of a frame that a scan record lists as absent. Only unreadable frames and
    /// frames that were never taken have a status of their own; the other kinds that scan-find
    /// reports (missing, not written, corrupt) are [`Absent`](Self::Absent).
    pub fn from_absent_kind(kind: AbsentKind) -> Self {
        match kind {
            AbsentKind::Unreadable => Self::Unreadable,
            AbsentKind::NeverTaken => Self::NeverTaken,
            _ => Self::Absent,
        }
    }

    /// Returns whether the frame's data are not there, or could not be read or decoded.
    pub fn is_without_data(self) -> bool {
        matches!(
            self,
            Self::NotIntegrated
                | Self::Absent
                | Self::FileMissing
                | Self::Corrupt
                | Self::SourceChanged
                | Self::Unreadable
                | Self::NeverTaken
        )
    }

    /// Returns whether the frame has sums, if they are kept: it was integrated, whatever its monitor is.
    pub fn may_have_sums(self) -> bool {
        matches!(self, Self::Ok | Self::Monitor | Self::MonitorPending)
    }

    /// Returns whether the frame could be read, and its recipe has no pattern for it, whatever its monitor.
    pub fn is_without_sums_by_recipe(self) -> bool {
        matches!(self, Self::Geometry | Self::OutOfRange | Self::NoValidPixel)
    }

    /// Returns whether a rerun skips the frame: it has a pattern, or its task can't give it one.
    /// All other frames are tried again, because their file may come back, be repaired, or become
    /// readable.
    pub fn is_settled(self) -> bool {
        self.is_without_sums_by_recipe()
            || matches!(self, Self::Ok | Self::Absent | Self::Monitor | Self::NeverTaken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_file_format() {
        for (number, status) in (0u8..).zip(Status::ALL) {
            assert_eq!((status as u8, Status::from_number(number)), (number, Some(status)));
        }
        assert_eq!(Status::from_number(13), None);
    }
}
