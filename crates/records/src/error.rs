//! Why a field of a record is refused.

use crate::span::Spans;

/// Explains why a field of a record has no value that a scan can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// A field is missing, or has another type than expected.
    #[error("{0}")]
    Json(String),
    /// The record has no version.
    #[error("expected a version number `v`")]
    Version,
    /// An id is empty, too long, or has characters that a file name should not have.
    #[error("`{field}` is {text:?}: expected 1 to 64 letters and digits")]
    Id {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        text: String,
    },
    /// A path is relative, so that it would lead to another file from another directory.
    #[error("`{field}` is {path:?}: expected an absolute path")]
    RelativePath {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        path: std::path::PathBuf,
    },
    /// The scan has more frames than a record may have.
    #[error("{frames} frames: expected at most {most}", frames = .0, most = Spans::MAX_FRAMES)]
    TooManyFrames(u64),
    /// The frames have more pixels than any detector.
    #[error("frames of {} x {} pixels: expected at most {most} pixels", .shape[0], .shape[1])]
    TooManyPixels {
        /// Rows and columns of a frame.
        shape: [u64; 2],
        /// Largest number of pixels.
        most: u64,
    },
    /// A list of frame ranges holds more frames than a record may have.
    #[error("`{field}` has {frames} frames: expected at most {most}", most = Spans::MAX_FRAMES)]
    TooManyListed {
        /// Name of the field.
        field: &'static str,
        /// Number of frames in the list.
        frames: u64,
    },
    /// A list of frame ranges holds more frames in ranges with a step than a record may have.
    #[error("`{field}` has {frames} frames in ranges with a step: expected at most {most}", most = Spans::MAX_STRIDED_FRAMES)]
    TooManyStrided {
        /// Name of the field.
        field: &'static str,
        /// Number of frames in ranges with a step.
        frames: u64,
    },
    /// A source lists another number of frames than of rows.
    #[error("source {}: {frames} frames in {rows} rows: expected one row for each frame", file.display())]
    UnevenSource {
        /// File of the source.
        file: std::path::PathBuf,
        /// Number of frames.
        frames: u64,
        /// Number of rows.
        rows: u64,
    },
    /// A source lists a frame twice.
    #[error("source {}: `frames` lists a frame twice: expected each frame once", .0.display())]
    RepeatedFrame(std::path::PathBuf),
}

/// Describes a JSON error in words that don't presume Rust, and without serde's line number, which
/// is always 1 because a record is one line.
pub(crate) fn describe_json_error(why: &serde_json::Error) -> String {
    let words = [
        (" at line 1 column ", ", column "),
        ("expected u64", "expected a whole number from 0 on"),
        ("expected u32", "expected a whole number from 0 on"),
        ("expected i64", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected a borrowed string", "expected a string"),
        ("expected a sequence", "expected a list"),
        ("expected a map", "expected an object"),
        ("invalid type: sequence", "invalid type: list"),
        ("invalid type: map", "invalid type: object"),
    ];
    words.iter().fold(why.to_string(), |text, (rust, plain)| text.replace(rust, plain))
}
