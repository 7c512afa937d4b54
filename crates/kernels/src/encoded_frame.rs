//! [`EncodedFrame`], the input of all integrations.

/// The stored bytes of exactly one whole frame, as read from the file.
#[derive(Clone, Copy, Debug)]
pub struct EncodedFrame<'a> {
    /// The chunk's bytes as they are in the file.
    pub bytes: &'a [u8],
    /// HDF5's filter mask: bit `i` is set if filter `i` of the pipeline was skipped for this chunk.
    pub filter_mask: u32,
}
