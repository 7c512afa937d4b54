//! Why an object that exists can't be read as frames.

use std::path::PathBuf;

use records::{Spans, format_count};

use super::frame_selection::SelectionError;
use crate::coding::{Dtype, PixelTypeError};
use crate::frame_shape::{FrameShapeError, MAX_FRAME_PIXELS, format_pixels};

/// Explains why an object, or the files that it refers to, can't be read as the frames of one scan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnusableError {
    #[error(transparent)]
    Shape(#[from] FrameShapeError),
    #[error(transparent)]
    PixelType(#[from] PixelTypeError),
    #[error(transparent)]
    Selection(#[from] SelectionError),
    #[error("a group: expected a dataset")]
    NotDataset,
    #[error("not a group: expected an NXentry")]
    NotGroup,
    /// Frames of a sparse format: lists of photons.
    #[error("sparse frames (index, intensity, frame_ptr): expected images")]
    Sparse,
    #[error("a list of image files: pass these files to scan-find")]
    FileNames,
    #[error(
        "{}: a virtual dataset whose sources have a block number (%b) in their names: expected \
         sources by name; name the datasets of the sources instead: FILE::/PATH",
        .0.display()
    )]
    NumberedSources(PathBuf),
    #[error("no images")]
    NoImages,
    #[error("no datasets data_000001, data_000002, …: expected at least one")]
    NoDataFiles,
    #[error("data/{name}: expected a number of at most {most}")]
    DataFileNumber { name: String, most: u64 },
    #[error("no Lima files")]
    NoLimaFiles,
    /// The number in a Lima file's name is larger than any scan has files.
    #[error("{}: number {number} in its name: expected a number below {end}", file.display())]
    LimaFileNumber { file: PathBuf, number: String, end: u64 },
    /// The files seem to be numbered from another number than 0, or the master is wrong.
    #[error(
        "{}: the first Lima file, yet the last one would hold frames beyond the {requested} that \
         were requested: expected files numbered from 0; restore those that are missing, or rename \
         these",
        file.display()
    )]
    LimaNumbersContradict { file: PathBuf, requested: u64 },
    #[error("acq_nb_frames is {}: expected at most {}", .0, Spans::MAX_FRAMES)]
    RequestedFrames(u64),
    #[error("{}: expected at most {}", format_count(*.0, "frame"), Spans::MAX_FRAMES)]
    TooManyFrames(u64),
    #[error("frames of {}: expected at most {MAX_FRAME_PIXELS} pixels", format_pixels(*.0))]
    TooManyPixels([u64; 2]),
    #[error("frame {0} is mapped twice: expected one source for each frame")]
    MappedTwice(u64),
    #[error("frame {frame} is mapped, but the dataset has only {}", format_count(*frames, "frame"))]
    MappedBeyondEnd { frame: u64, frames: u64 },
    #[error("{found} pixels: expected {expected} like the other frames")]
    OtherPixelType { found: Dtype, expected: Dtype },
    #[error("frames of {}: expected {} like the other frames", format_pixels(*found), format_pixels(*expected))]
    OtherShape { found: [u64; 2], expected: [u64; 2] },
    #[error("virtual datasets that refer to each other in a cycle, or more than {0} levels deep")]
    Cycle(usize),
    #[error("{path}: more than {most} links on the way: do they form a cycle?")]
    TooManyLinks { path: String, most: usize },
    #[error("{path}: a text of {len} bytes: expected at most {most}")]
    TextLength { path: String, len: usize, most: usize },
    /// Lima's description of what it did to the images can't be understood.
    #[error("image_operation: {path} is {found}: expected {expected}")]
    ImageOperation { path: String, found: String, expected: &'static str },
    #[error(
        "external storage with a segment of {segment} bytes: expected a multiple of the {frame} bytes of a frame"
    )]
    SegmentSize { segment: u64, frame: u64 },
    #[error(
        "external storage in {used} of the {} of {}: expected all of them; `scan-find {}` finds them in the file itself",
        format_count(*images, "image"),
        file.display(),
        file.display()
    )]
    SomeImages { file: PathBuf, images: u64, used: u64 },
    #[error(
        "{} has {}: expected at most {frames_per_file}, as the first file that can be read, or as the scan says; which frames \
         they are is unknown",
        file.display(),
        format_count(*frames, "frame")
    )]
    LimaFileTooLong { file: PathBuf, frames: u64, frames_per_file: u64 },
    #[error(
        "{} and {} have the same number: expected one file for each; move one of them elsewhere",
        one.display(),
        other.display()
    )]
    SameNumber { one: PathBuf, other: PathBuf },
    #[error("external storage with more bytes than its {} take", format_count(*.0, "frame"))]
    SegmentsTooLong(u64),
}
