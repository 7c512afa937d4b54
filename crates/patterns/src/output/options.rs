//! [`OutputOptions`]: what a final file holds, and [`BuildObserver`], which receives the progress.

use std::path::Path;

use crate::compression::Compression;

use super::{Average, OutputError, OutputLayout};

/// When a final file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WritePolicy {
    /// Always; frames without a pattern are marked.
    #[default]
    Always,
    /// Once the scan is over and every frame that has data is integrated
    /// ([`BuildOutcome::is_final_state`](super::BuildOutcome::is_final_state)), even if other
    /// frames have no data.
    WhenComplete,
}

/// Options of a final file.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputOptions {
    /// Storage of the patterns.
    pub layout: OutputLayout,
    /// Compression of cakes. `None` leaves that of the parts or of the existing final file.
    pub compression: Option<Compression>,
    /// When the file is written.
    pub policy: WritePolicy,
    /// Keeps the sums of the frames in the final file.
    pub keep_sums: bool,
    /// Keeps the parts even when the final file no longer needs them.
    pub keep_parts: bool,
    /// Adds average patterns.
    pub average: Option<Average>,
    /// True if the user asked for an export, which needs the average, and not for the average.
    pub averages_for_export: bool,
    /// Replaces a final of another recipe even if it has patterns of frames that are lost by now.
    pub replaces_with_fewer: bool,
}

/// Receives the progress of a build, and can cancel it.
pub trait BuildObserver {
    /// Returns whether to cancel. A cancelled build leaves no files behind.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// Reports that `frames` more frames have been written.
    fn advance(&self, _frames: u64) {}

    /// Reports that the build has waited for some seconds for another gather, which holds this lock.
    fn waits(&self, _lock: &Path) {}
}

/// Observer that ignores the progress and never cancels.
impl BuildObserver for () {}

/// Returns an error if the observer asks to cancel.
pub(super) fn check_cancelled(observer: &dyn BuildObserver) -> Result<(), OutputError> {
    if observer.is_cancelled() { Err(OutputError::Stopped) } else { Ok(()) }
}
