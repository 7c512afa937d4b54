//! What is asked of a final, and who watches it being made.

use super::{Average, OutputError, OutputLayout};

/// When to write a final.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WritePolicy {
    /// Always; what is missing is marked.
    #[default]
    Always,
    /// When the scan is over and every frame whose data is there is integrated.
    WhenComplete,
}

/// How to make a final.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputOptions {
    /// How patterns are stored.
    pub layout: OutputLayout,
    /// When to write.
    pub policy: WritePolicy,
    /// Keep the frames' sums in the final.
    pub keep_sums: bool,
    /// Keep the parts even where the final no longer needs them.
    pub keep_parts: bool,
    /// Patterns of many frames besides.
    pub average: Option<Average>,
}

/// Who is told of the work as it goes on, and may stop it.
pub trait BuildObserver {
    /// Whether to stop. What was begun then leaves nothing behind.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// So many frames more have been written.
    fn advance(&self, _frames: u64) {}
}

/// Nobody.
impl BuildObserver for () {}

/// # Errors
/// Somebody asks to stop.
pub(super) fn check_cancelled(watch: &dyn BuildObserver) -> Result<(), OutputError> {
    if watch.is_cancelled() { Err(OutputError::Stopped) } else { Ok(()) }
}
