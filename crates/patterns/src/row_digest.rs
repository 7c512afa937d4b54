//! The digest of a frame's pattern, which parts of cakes and final files hold.

use xxhash_rust::xxh3::Xxh3;

use crate::Status;

/// Returns XXH3-64 of a frame's status and pattern.
pub(crate) fn row_digest(status: Status, intensity: &[f32], errors: Option<&[f32]>) -> u64 {
    /// Values that are converted to bytes at once.
    const BLOCK: usize = 1024;
    let mut hash = Xxh3::new();
    hash.update(&[status as u8]);
    let mut bytes = [[0; size_of::<f32>()]; BLOCK];
    for values in [intensity, errors.unwrap_or_default()] {
        for block in values.chunks(BLOCK) {
            for (bytes, value) in bytes.iter_mut().zip(block) {
                *bytes = value.to_le_bytes();
            }
            hash.update(bytes[..block.len()].as_flattened());
        }
    }
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_all_bytes_together() {
        for length in [0, 1, 1023, 1024, 3000] {
            let values: Vec<f32> = (0..length).map(|index| (index as f32).sqrt()).collect();
            let mut bytes = vec![Status::Ok as u8];
            bytes.extend(values.iter().chain(&values).flat_map(|value| value.to_le_bytes()));
            let found = row_digest(Status::Ok, &values, Some(&values));
            assert_eq!(found, xxhash_rust::xxh3::xxh3_64(&bytes));
        }
    }
}
