//! What is asked of a final, and who watches it being made.

use super::{Average, Error, Layout};

/// When to write a final.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Want {
    /// Always; what is missing is marked.
    #[default]
    Partial,
    /// When the scan is over and every frame whose data is there is integrated.
    Complete,
}

/// How to make a final.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How patterns are stored.
    pub layout: Layout,
    /// When to write.
    pub want: Want,
    /// Keep the frames' sums in the final.
    pub keep_sums: bool,
    /// Keep the parts even where the final no longer needs them.
    pub keep_parts: bool,
    /// Patterns of many frames besides.
    pub average: Option<Average>,
}

/// Who is told of the work as it goes on, and may stop it.
pub trait Watch {
    /// Whether to stop. What was begun then leaves nothing behind.
    fn asks_to_stop(&self) -> bool {
        false
    }

    /// So many frames more have been written.
    fn advance(&self, _frames: u64) {}
}

/// Nobody.
impl Watch for () {}

/// # Errors
/// Somebody asks to stop.
pub(super) fn go_on(watch: &dyn Watch) -> Result<(), Error> {
    if watch.asks_to_stop() { Err(Error::Stopped) } else { Ok(()) }
}
