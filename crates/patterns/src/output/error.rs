//! Why there is no final.

use std::io;
use std::path::{Path, PathBuf};

use records::Spans;

use crate::{h5, part};

/// Why a final can't be made or read.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A part.
    #[error(transparent)]
    Part(#[from] part::PartError),
    /// The file system refused.
    #[error("{}: {why}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        why: io::Error,
    },
    /// The HDF5 library refused, or found other bytes than were written.
    #[error("{}: {why}", path.display())]
    Hdf5 {
        /// The final.
        path: PathBuf,
        /// What it said.
        why: h5::Hdf5Error,
    },
    /// The final is damaged.
    #[error("{}: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What was found and what was expected.
        why: String,
    },
    /// A file that azpipe did not write lies where the final is to be.
    #[error("{}: not a file of azpipe, or damaged beyond reading: remove it, or name finals with plan-split --recipe-name", path.display())]
    NotOwned {
        /// The file.
        path: PathBuf,
    },
    /// Another gather was faster, again and again.
    #[error("{}: another gather, which no lock keeps apart from this one, writes it at the same time: run gather again", path.display())]
    ConcurrentWrite {
        /// The final.
        path: PathBuf,
    },
    /// A path that leads out of the output root.
    #[error("{}: expected a path that stays below the output directory", path.display())]
    EscapesRoot {
        /// The path.
        path: PathBuf,
    },
    /// Two parts hold the same frame with different sums.
    #[error("frame {frame} is not the same in {} and {}: remove one of them", one.display(), two.display())]
    ConflictingParts {
        /// The frame.
        frame: u64,
        /// A part.
        one: PathBuf,
        /// Another.
        two: PathBuf,
    },
    /// Two parts of one recipe have different axes or weights.
    #[error("{} and {} have different axes or weights: remove one of them", one.display(), two.display())]
    ConflictingBins {
        /// A part, or the final.
        one: PathBuf,
        /// Another part.
        two: PathBuf,
    },
    /// Patterns that can't be merged.
    #[error("{} and {} can't be merged: {why}", one.display(), two.display())]
    NotMergeable {
        /// A final.
        one: PathBuf,
        /// Another.
        two: PathBuf,
        /// What differs and what was expected.
        why: String,
    },
    /// Something needs the sums of frames of which only the patterns were kept.
    #[error(
        "{}: {what} needs the sums of {} frames, which went with their parts; to make them again, run ai-integrate --force",
        path.display(), frames.count()
    )]
    SumsGone {
        /// The final.
        path: PathBuf,
        /// What needs them.
        what: &'static str,
        /// Whose.
        frames: Spans,
    },
    /// Something needs the sums of frames of which only the patterns are as they were written.
    #[error(
        "{}: damaged: the sums of {} frames are not as they were written; to make them again, run ai-integrate",
        path.display(), frames.count()
    )]
    SumsDamaged {
        /// The final.
        path: PathBuf,
        /// Whose.
        frames: Spans,
    },
    /// Another run is at work where leftovers are to be removed.
    #[error("{}: another run is at work there: remove leftovers once it has ended", path.display())]
    Busy {
        /// A file of that run.
        path: PathBuf,
    },
    /// Somebody asked to stop.
    #[error("stopped")]
    Stopped,
    /// What was written does not read back.
    #[error("{}: what was written does not read back as it was", path.display())]
    ReadBackMismatch {
        /// The temporary file.
        path: PathBuf,
    },
}

impl OutputError {
    /// Returns the error of the file system, where it is one: nothing is known of the file then.
    pub fn io_error(&self) -> Option<&io::Error> {
        match self {
            Self::Part(why) => why.io_error(),
            Self::Io { why, .. } => Some(why),
            _ => None,
        }
    }

    pub(super) fn io(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |why| Self::Io { path: path.clone(), why }
    }

    pub(super) fn hdf5(path: &Path) -> impl Fn(h5::Hdf5Error) -> Self + use<> {
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
