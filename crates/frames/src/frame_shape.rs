//! Interprets HDF5 extents of 2, 3 or 4 dimensions as (frames, rows, columns).

/// Maximum number of pixels in a frame: the limit of the record format.
pub(crate) const MAX_FRAME_PIXELS: u64 = 1 << 27;

/// Explains why the extents of a dataset don't fit a stack of frames, or the expected frames.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameShapeError {
    #[error("shape {}: expected (rows, columns), (frames, rows, columns) or (frames, 1, rows, columns)", format_shape(.0))]
    Rank(Vec<u64>),
    #[error("shape {}, which has {channels} channels: expected one, as in (frames, 1, rows, columns)", format_shape(.extents))]
    Channels { extents: Vec<u64>, channels: u64 },
    #[error("frames of {}: expected {}", format_pixels(*found), format_pixels(*expected))]
    Mismatch { found: [u64; 2], expected: [u64; 2] },
}

/// Returns the frames, rows and columns of a dataset with these extents. A 2-D dataset is one
/// frame. Lima 2 writes `(frames, channels, rows, columns)`, which is accepted for one channel.
///
/// # Errors
/// Fails if the extents don't fit a stack of frames.
pub(crate) fn frame_dimensions(extents: &[u64]) -> Result<[u64; 3], FrameShapeError> {
    match *extents {
        [rows, columns] => Ok([1, rows, columns]),
        [frames, rows, columns] | [frames, 1, rows, columns] => Ok([frames, rows, columns]),
        [_, channels, _, _] => {
            Err(FrameShapeError::Channels { extents: extents.to_vec(), channels })
        }
        _ => Err(FrameShapeError::Rank(extents.to_vec())),
    }
}

/// Checks that frames have the expected rows and columns, if any are expected.
///
/// # Errors
/// The shapes differ.
pub(crate) fn check_shape(
    found: [u64; 2],
    expected: Option<[u64; 2]>,
) -> Result<(), FrameShapeError> {
    match expected {
        Some(expected) if expected != found => Err(FrameShapeError::Mismatch { found, expected }),
        _ => Ok(()),
    }
}

/// Reduces a position or chunk shape in a dataset of `rank` dimensions to (frames, rows, columns),
/// like [`frame_dimensions`]. `first` is used for the frame dimension that a 2-D dataset lacks.
pub(crate) fn to_three_dimensions(of: &[u64], rank: usize, first: u64) -> [u64; 3] {
    match (rank, of) {
        (2, [rows, columns, ..]) => [first, *rows, *columns],
        (4, [frame, _, rows, columns]) => [*frame, *rows, *columns],
        (_, [frame, rows, columns, ..]) => [*frame, *rows, *columns],
        _ => [first; 3],
    }
}

/// Formats extents as a tuple: `(5, 2048, 2048)`.
pub(crate) fn format_shape(extents: &[u64]) -> String {
    let extents: Vec<String> = extents.iter().map(u64::to_string).collect();
    format!("({})", extents.join(", "))
}

/// Formats rows and columns: `2162 x 2068 pixels`.
pub(crate) fn format_pixels([rows, columns]: [u64; 2]) -> String {
    format!("{rows} x {columns} pixels")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_channel_is_a_stack_and_several_are_not() {
        assert_eq!(frame_dimensions(&[5, 1, 20, 30]), Ok([5, 20, 30]));
        assert_eq!(frame_dimensions(&[20, 30]), Ok([1, 20, 30]));
        let channels = FrameShapeError::Channels { extents: vec![5, 2, 20, 30], channels: 2 };
        assert_eq!(frame_dimensions(&[5, 2, 20, 30]), Err(channels));
        assert_eq!(frame_dimensions(&[7]), Err(FrameShapeError::Rank(vec![7])));
    }
}
