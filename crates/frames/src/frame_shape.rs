//! Interprets HDF5 extents of 2, 3 or 4 dimensions as (frames, rows, columns).

/// Returns the frames, rows and columns of a dataset with these extents. A 2-D dataset is one frame. Lima 2
/// writes `(frames, channels, rows, columns)`, which is accepted for one channel.
pub(crate) fn frame_dimensions(extents: &[u64]) -> Result<[u64; 3], String> {
    match *extents {
        [rows, columns] => Ok([1, rows, columns]),
        [frames, rows, columns] | [frames, 1, rows, columns] => Ok([frames, rows, columns]),
        [_, channels, _, _] => Err(format!(
            "{channels} channels a frame {}: expected one, (frames, 1, rows, columns)",
            format_shape(extents)
        )),
        _ => Err(format!("shape {}: expected (frames, rows, columns)", format_shape(extents))),
    }
}

/// Reduces a position or chunk shape in a dataset of `rank` dimensions to (frames, rows, columns), like
/// [`frame_dimensions`]. `first` is used for the frame dimension that a 2-D dataset lacks.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_channel_is_a_stack_and_several_are_not() {
        assert_eq!(frame_dimensions(&[5, 1, 20, 30]), Ok([5, 20, 30]));
        assert_eq!(frame_dimensions(&[20, 30]), Ok([1, 20, 30]));
        assert!(frame_dimensions(&[5, 2, 20, 30]).unwrap_err().contains("2 channels a frame (5, 2, 20, 30)"));
        assert!(frame_dimensions(&[7]).unwrap_err().contains("(7)"));
    }
}
