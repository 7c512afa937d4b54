//! [`UnsuitableScan`]: why a recipe can't be applied to a scan.

/// The reason why a recipe can't be applied to a scan.
#[derive(Clone, Debug)]
pub struct UnsuitableScan {
    /// The property of the scan or the file that does not suit, and what was expected.
    pub why: String,
    /// True if a file of the recipe can't be read, and may be readable later.
    pub retryable: bool,
}

impl From<String> for UnsuitableScan {
    fn from(why: String) -> Self {
        Self { why, retryable: false }
    }
}
