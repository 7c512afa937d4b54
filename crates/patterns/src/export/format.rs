//! [`ExportFormat`]: what a format is.

use std::path::PathBuf;

use system::ownership::ReplacePolicy;

use super::{ExportError, PatternReduction};
use crate::output::OutputFile;

/// A format in which final files are exported for other programs: a value of `gather --export`.
pub trait ExportFormat: Send + Sync {
    /// Returns the name on the command line.
    fn name(&self) -> &'static str;

    /// Returns what the files are and for which programs, in one line for help and manual pages.
    fn help(&self) -> &'static str;

    /// Returns which patterns the files have.
    fn content(&self) -> ExportContent;

    /// Returns what the files have in place of errors if patterns have none, as a sentence goes on
    /// that begins with the format; `None` if programs that read them don't need any.
    fn missing_errors(&self) -> Option<&'static str> {
        None
    }

    /// Writes the files beside the final file, and returns their paths. With a reduction, the
    /// averages are reduced, and the files have names of their own; formats of
    /// [`ExportContent::AllFrames`] are written without. A file that exists is
    /// replaced if azpipe wrote it, or if `policy` allows it. `write_text_files` in `text_files.rs`
    /// and `write_hdf5_file` in `hdf5_file.rs` see to that.
    ///
    /// # Errors
    /// Fails if the final file has no average patterns and the format needs them, if the format
    /// doesn't support the axis or cakes, if a file of somebody else has the path, or if a file
    /// can't be read or written.
    fn write(
        &self,
        output: &OutputFile,
        reduction: Option<PatternReduction>,
        policy: &ReplacePolicy,
    ) -> Result<Vec<PathBuf>, ExportError>;
}

/// Patterns that the files of a format have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportContent {
    /// Average patterns; `gather` averages all frames unless `--average` says otherwise.
    Averages,
    /// Patterns of all frames.
    AllFrames,
}
