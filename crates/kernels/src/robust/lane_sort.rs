//! [`sort_lanes`], which sorts numbers of 8 frames at once.

use super::tile_lanes::INTERLEAVED_FRAMES;

/// One number of each frame.
pub(super) type LaneNumbers = [f32; INTERLEAVED_FRAMES];

/// Sorts the numbers of each lane, by Batcher's odd-even merge sort: which numbers are compared does
/// not depend on them, so all lanes are sorted at once. The length is a power of two.
#[inline(always)]
pub(super) fn sort_lanes(rows: &mut [LaneNumbers]) {
    let mut merged = 1;
    while merged < rows.len() {
        let mut distance = merged;
        while distance > 0 {
            let mut first = distance % merged;
            while first + distance < rows.len() {
                for index in first..(first + distance).min(rows.len() - distance) {
                    if index / (2 * merged) == (index + distance) / (2 * merged) {
                        order_lanes(rows, index, index + distance);
                    }
                }
                first += 2 * distance;
            }
            distance /= 2;
        }
        merged *= 2;
    }
}

/// Swaps the numbers of two rows where the first is larger.
#[inline(always)]
fn order_lanes(rows: &mut [LaneNumbers], first: usize, second: usize) {
    let (mut smaller, mut larger) = (rows[first], rows[second]);
    for lane in 0..INTERLEAVED_FRAMES {
        let (a, b) = (smaller[lane], larger[lane]);
        smaller[lane] = if a < b { a } else { b };
        larger[lane] = if a < b { b } else { a };
    }
    (rows[first], rows[second]) = (smaller, larger);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lanes_are_sorted() {
        for size in [1, 2, 64, 256] {
            let mut state = 1_u32;
            let mut number = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as f32
            };
            let mut rows: Vec<LaneNumbers> =
                (0..size).map(|_| std::array::from_fn(|_| number())).collect();
            let mut expected = rows.clone();
            for lane in 0..INTERLEAVED_FRAMES {
                let mut sorted: Vec<f32> = rows.iter().map(|row| row[lane]).collect();
                sorted.sort_by(f32::total_cmp);
                for (row, sorted) in expected.iter_mut().zip(sorted) {
                    row[lane] = sorted;
                }
            }
            sort_lanes(&mut rows);
            assert_eq!(rows, expected, "{size}");
        }
    }
}
