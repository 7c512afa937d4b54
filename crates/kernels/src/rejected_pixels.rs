//! [`RejectedPixels`], which sigma clipping finds beside the sums of a frame.

/// The pixels of a frame that sigma clipping rejected above the mean.
#[derive(Clone, Debug, PartialEq)]
pub enum RejectedPixels {
    /// The pixels that each of their bins rejected, each above its mean.
    Few {
        /// Index of each pixel in the frame, ascending.
        pixels: Vec<u32>,
        /// The value of each pixel as it was decoded, corrected for dead time alone.
        values: Vec<f64>,
        /// The number of shares (a pixel in a bin) that clipping rejected and that are of no pixel
        /// of `pixels`: below the mean, or of pixels that another of their bins kept or rejected
        /// below its mean.
        other_shares: u64,
    },
    /// More shares are rejected above the mean than [`crate::CsrMatrix::max_rejected`].
    TooMany {
        /// The number of all shares that clipping rejected.
        shares: u64,
    },
}
