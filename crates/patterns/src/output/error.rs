//! [`OutputError`]: why a final file can't be built or read.

use std::io;
use std::path::{Path, PathBuf};

use records::{Spans, format_frames};

use crate::{h5, part};

/// Most ranges of frames in a message.
pub(super) const MAX_RANGES: usize = 5;

/// Reason why a final file can't be built or read.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A part can't be read.
    #[error(transparent)]
    Part(#[from] part::PartError),
    /// A system call failed.
    #[error("{}: {why}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        why: io::Error,
    },
    /// A raw file is known in two states, and can't be examined.
    #[error("{}: can't determine whether it has changed since it was integrated: {why}; run gather again", path.display())]
    SourceStateUnknown {
        /// The raw file.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// The HDF5 library failed, or an object of the file is missing or damaged.
    #[error("{}: {why}", path.display())]
    Hdf5 {
        /// Path of the final file.
        path: PathBuf,
        /// Error of the library.
        why: h5::Hdf5Error,
    },
    /// The content of the file contradicts itself or the records.
    #[error("{}: {why}", path.display())]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// Contradiction, and what was expected.
        why: String,
    },
    /// Another file, which azpipe did not write, has the path of the final file.
    #[error(
        "{}: exists, and is not a file of azpipe or is damaged beyond recognition; move or remove it, or choose another name \
         for the final with plan-split --recipe-name",
        path.display()
    )]
    NotOwned {
        /// Path of the file.
        path: PathBuf,
    },
    /// Another gather replaced the final file in each of several attempts.
    #[error(
        "{}: another gather writes it at the same time, probably on another machine; run gather again when that has ended",
        path.display()
    )]
    ConcurrentWrite {
        /// Path of the final file.
        path: PathBuf,
    },
    /// The task names a final file outside of the output directory.
    #[error("{}: outside of the output directory; expected a final's path below it", path.display())]
    EscapesRoot {
        /// Path in the task.
        path: PathBuf,
    },
    /// Two tasks of the same scan and settings have different final files.
    #[error(
        "{}: the same scan and settings as {}: expected one name; gather the two plans one after the other, each right after \
         its integration",
        one.display(), other.display()
    )]
    TwoNames {
        /// The final of a task, below the output root.
        one: PathBuf,
        /// The final of an earlier task, below the output root.
        other: PathBuf,
    },
    /// Two parts have the same frame with different sums.
    #[error("frame {frame} has different sums in {} and {}; remove one of these parts", one.display(), two.display())]
    ConflictingParts {
        /// Number of the frame.
        frame: u64,
        /// Path of one part.
        one: PathBuf,
        /// Path of the other part.
        two: PathBuf,
    },
    /// Two files of one recipe have different axes or weights.
    #[error(
        "{}: has other axes or weights than {}, though their recipe is the same, as another version of azpipe may make them; \
         only the first has {}: run ai-integrate --force on all tasks of the scan and gather again, or remove the one that is wrong",
        one.display(), two.display(), format_frames(only_in_one, MAX_RANGES)
    )]
    ConflictingBins {
        /// Path of a part or of the final file.
        one: PathBuf,
        /// Path of the part that was written last.
        two: PathBuf,
        /// Frames of which only the first has a pattern.
        only_in_one: Spans,
    },
    /// The file is not damaged, and holds what this version does not know.
    #[error(
        "{}: another version of azpipe wrote it, probably a newer one ({why}): use that version, or choose another --out",
        path.display()
    )]
    OfOtherVersion {
        /// Path of the final file.
        path: PathBuf,
        /// Content that is unknown.
        why: String,
    },
    /// Two final files can't be merged.
    #[error("{}: can't be merged with {}: {why}", one.display(), two.display())]
    NotMergeable {
        /// Path of one final file.
        one: PathBuf,
        /// Path of the other final file.
        two: PathBuf,
        /// Difference, and what was expected.
        why: String,
    },
    /// Sums are needed of frames whose patterns alone were kept.
    #[error(
        "{}: {what} needs the sums of {}, which were removed with the parts; run {} to compute them again",
        path.display(), format_frame_count(frames), if *is_cake { "ai-integrate --keep-sums --force" } else { "ai-integrate --force" }
    )]
    SumsNotKept {
        /// Path of the final file.
        path: PathBuf,
        /// Flag or circumstance that needs the sums.
        what: &'static str,
        /// Frames without sums.
        frames: Spans,
        /// True for cakes, of which parts hold the sums only on request.
        is_cake: bool,
    },
    /// Sums are needed of cakes, of which parts hold patterns alone.
    #[error(
        "{}: {what} needs the sums of {}, which parts of cakes hold only on request; run ai-integrate --keep-sums --force",
        path.display(), format_frame_count(frames)
    )]
    SumsNotInParts {
        /// Path of the final file.
        path: PathBuf,
        /// Flag or circumstance that needs the sums.
        what: &'static str,
        /// Frames without sums.
        frames: Spans,
    },
    /// Sums are needed that are damaged.
    #[error(
        "{}: damaged: the sums of {} were changed after writing; run ai-integrate to compute them again",
        path.display(), format_frame_count(frames)
    )]
    SumsDamaged {
        /// Path of the final file.
        path: PathBuf,
        /// Frames with damaged sums.
        frames: Spans,
    },
    /// Another run uses the directory that is to be cleaned.
    #[error("{}: another run is at work there; remove leftovers when it has ended", path.display())]
    Busy {
        /// Path of a lock or temporary file of that run.
        path: PathBuf,
    },
    /// The observer cancelled the build.
    #[error("stopped")]
    Stopped,
    /// The new file reads back differently from what was written.
    #[error("{}: reads back differently from what was written; the disk may be faulty", path.display())]
    ReadBackMismatch {
        /// Path of the temporary file.
        path: PathBuf,
    },
}

/// Formats a number of frames, such as `1 frame` or `20 frames`.
fn format_frame_count(frames: &Spans) -> String {
    match frames.count() {
        1 => "1 frame".to_owned(),
        count => format!("{count} frames"),
    }
}

impl OutputError {
    /// Returns the system's error if a system call failed, so that the state of the file is
    /// unknown.
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Part(why) => why.io_error(),
            Self::Io { why, .. } | Self::SourceStateUnknown { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Tells whether there is no such file.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { why, .. } if why.kind() == io::ErrorKind::NotFound)
    }

    pub(super) fn io(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |why| Self::Io { path: path.clone(), why }
    }

    pub(crate) fn hdf5(path: &Path) -> impl Fn(h5::Hdf5Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |why| match why {
            h5::Hdf5Error::Io(why) => Self::Io { path: path.clone(), why },
            why => Self::Hdf5 { path: path.clone(), why },
        }
    }

    pub(super) fn content(path: &Path, why: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_path_buf(), why: why.into() }
    }
}
