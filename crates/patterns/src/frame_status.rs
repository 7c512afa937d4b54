//! What became of a frame.

use records::{Absent, AbsentKind, Spans};

/// The entry of a frame in `frame_status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Status {
    /// It has a pattern.
    #[default]
    Ok = 0,
    /// No part covers it.
    NotIntegrated = 1,
    /// scan-find knew that it is not there.
    Absent = 2,
    /// Its file was there when the scan was found, and is not any more.
    FileMissing = 3,
    /// Its bytes do not decode.
    Corrupt = 4,
    /// Its monitor is zero, not a number, or missing.
    Monitor = 5,
    /// Its file is not the one that the task names: another size or time of last change.
    SourceChanged = 6,
    /// Its monitor is zero, not a number, or missing, and the scan had not ended when it was read.
    MonitorPending = 7,
    /// Its file is there and could not be opened or read: trying again may help.
    Unreadable = 8,
    /// The scan was aborted before it, or has not reached it yet.
    NeverTaken = 9,
}

impl Status {
    /// Every status, in the order of its number.
    pub const ALL: [Self; 10] = [
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
    ];

    /// Reads its number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Its name in the `flag_meanings` of a final file.
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
        }
    }

    /// The reason that a record gives.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotIntegrated => "not integrated",
            Self::Absent => "absent",
            Self::FileMissing => "file missing",
            Self::Corrupt => "does not decode",
            Self::Monitor => "monitor zero, not a number, or missing",
            Self::SourceChanged => "source file changed",
            Self::MonitorPending => "monitor zero, not a number, or missing in a scan that had not ended",
            Self::Unreadable => "file unreadable",
            Self::NeverTaken => "never taken",
        }
    }

    /// Returns the record of frames without a pattern for this reason.
    pub fn to_absent(self, range: Spans) -> Absent {
        let kind = match self {
            Self::Ok | Self::NotIntegrated => AbsentKind::NotIntegrated,
            Self::Absent | Self::FileMissing => AbsentKind::Missing,
            Self::Corrupt => AbsentKind::Corrupt,
            Self::Monitor | Self::MonitorPending => AbsentKind::NoMonitor,
            Self::SourceChanged => AbsentKind::SourceChanged,
            Self::Unreadable => AbsentKind::Unreadable,
            Self::NeverTaken => AbsentKind::NeverTaken,
        };
        Absent { range, kind, reason: self.reason().to_owned() }
    }

    /// Returns the status of a frame that scan-find says is absent.
    pub fn from_absent_kind(kind: AbsentKind) -> Self {
        match kind {
            AbsentKind::Unreadable => Self::Unreadable,
            AbsentKind::NeverTaken => Self::NeverTaken,
            _ => Self::Absent,
        }
    }

    /// Whether the frame is dealt with for good: integrating it again from the same file would give
    /// the same. What was lost on the way, or had no monitor yet, is tried again by a rerun.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Ok | Self::Absent | Self::Monitor | Self::NeverTaken)
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
        assert_eq!(Status::from_number(10), None);
    }
}
