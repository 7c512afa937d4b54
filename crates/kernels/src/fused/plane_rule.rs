//! [`PlaneInvalidRule`], which finds invalid pixels in bit planes without unshuffling them.

use std::ops::{Range, RangeInclusive};

use crate::invalid_values::InvalidRanges;
use crate::pixel::Pixel;

/// The rule for invalid integers, as ranges whose values have set bits in common, as those of gaps and
/// dead pixels do, and zero, which has none. An AND over the planes of these bits leaves the pixels to
/// compare, mostly none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlaneInvalidRule {
    pub(crate) ranges: Vec<InvalidPlaneRange>,
    /// True if pixels without any set bit are invalid.
    pub(crate) zero: bool,
    /// True if the top bit is a sign.
    pub(crate) signed: bool,
}

/// A range of invalid values, and the bit planes in which it shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InvalidPlaneRange {
    /// Consecutive planes whose bit is set in all values of the range.
    pub(crate) planes: Range<usize>,
    /// True if only values of the range have all these bits set.
    pub(crate) exact: bool,
    /// The values of the range, as bit patterns.
    pub(crate) patterns: RangeInclusive<u64>,
}

impl PlaneInvalidRule {
    /// Makes the rule for an integer type. Ranges whose values have no bit in common, such as that of
    /// all counts above a limit, are divided at powers of two.
    pub(crate) fn new<T: Pixel>(rule: &InvalidRanges<T>) -> PlaneInvalidRule {
        let mut plane_rule =
            PlaneInvalidRule { ranges: Vec::new(), zero: false, signed: T::SIGNED };
        let bits = 8 * T::SIZE;
        for &(low, high) in rule.ranges() {
            let (low, high): (u64, u64) = (low.bits().into(), high.bits().into());
            if low <= high {
                plane_rule.add_patterns(low, high, bits);
            } else {
                // A signed range across zero: from its lowest value to -1, and from zero on.
                plane_rule.add_patterns(low, low_bits_mask(bits), bits);
                plane_rule.add_patterns(0, high, bits);
            }
        }
        plane_rule
    }

    /// Adds the bit patterns from `low` to `high`.
    fn add_patterns(&mut self, low: u64, mut high: u64, bits: usize) {
        self.zero |= low == 0;
        let low = low.max(1);
        while high >= low {
            let with_top_bit = low.max(1 << high.ilog2());
            self.ranges.extend(InvalidPlaneRange::new(with_top_bit, high, bits));
            high = with_top_bit - 1;
        }
    }
}

impl InvalidPlaneRange {
    /// Makes a range of bit patterns; `None` if they have no bit in common.
    fn new(low: u64, high: u64, bits: usize) -> Option<InvalidPlaneRange> {
        // The values differ only in their `free` lowest bits, and share those above.
        let free = 64 - (low ^ high).leading_zeros() as usize;
        let shared = low.checked_shr(free as u32).filter(|&shared| shared != 0)?;
        let end = 64 - shared.leading_zeros() as usize;
        let start = end - (shared << (64 - end)).leading_ones() as usize;
        let complete =
            low & low_bits_mask(free) == 0 && high & low_bits_mask(free) == low_bits_mask(free);
        let exact = complete && shared == low_bits_mask(bits - free);
        Some(InvalidPlaneRange { planes: start + free..end + free, exact, patterns: low..=high })
    }
}

/// Returns a mask of the lowest `bits` bits.
fn low_bits_mask(bits: usize) -> u64 {
    1u64.checked_shl(bits as u32).unwrap_or(0).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InvalidValues;

    /// Returns the planes of one range, and whether they are exact.
    fn planes_of<T: Pixel>(range: RangeInclusive<i128>) -> (Range<usize>, bool) {
        let rule = PlaneInvalidRule::new(&InvalidValues::from_integers([range]).for_type::<T>());
        let [range] = rule.ranges.try_into().expect("one range");
        (range.planes, range.exact)
    }

    #[test]
    fn invalid_values_of_detectors_have_common_planes() {
        assert_eq!(planes_of::<u32>(4294967294..=4294967295), (1..32, true));
        assert_eq!(planes_of::<u32>(65534..=65535), (1..16, false));
        assert_eq!(planes_of::<i32>(-2..=-1), (1..32, true));
        assert_eq!(planes_of::<i32>(i128::MIN..=-1), (31..32, true));
        assert_eq!(planes_of::<u16>(65533..=65535), (2..16, false));
        assert_eq!(planes_of::<u8>(255..=255), (0..8, true));
        assert_eq!(planes_of::<u64>(u64::MAX as i128..=u64::MAX as i128), (0..64, true));
        assert_eq!(planes_of::<i16>(-2..=-2), (1..16, false));
        assert_eq!(planes_of::<u16>(0b1101_0000..=0b1101_0111), (6..8, false));
    }

    #[test]
    fn ranges_without_a_common_bit_are_divided_at_powers_of_two() {
        let pieces = |range: RangeInclusive<i128>| -> Vec<RangeInclusive<u64>> {
            let rule = InvalidValues::from_integers([range]).for_type::<u16>();
            let rule = PlaneInvalidRule::new(&rule);
            rule.ranges.into_iter().map(|piece| piece.patterns).collect()
        };
        assert_eq!(pieces(20_000..=i128::MAX), [32768..=65535, 20_000..=32767]);
        assert_eq!(pieces(1..=5), [4..=5, 2..=3, 1..=1]);
        assert_eq!(pieces(65533..=65534), [65533..=65534]);
    }

    #[test]
    fn each_invalid_value_is_in_one_piece() {
        fn check<T: Pixel>(all: RangeInclusive<i128>) {
            for low in all.clone() {
                for high in low..=*all.end() {
                    let invalid = InvalidValues::from_integers([low..=high]);
                    let rule = PlaneInvalidRule::new(&invalid.for_type::<T>());
                    for value in all.clone() {
                        let pattern = (value as u8).into();
                        let pieces =
                            rule.ranges.iter().filter(|piece| piece.patterns.contains(&pattern));
                        let found = pieces.count() + usize::from(rule.zero && value == 0);
                        let expected = usize::from((low..=high).contains(&value));
                        assert_eq!(found, expected, "{value} in {low}..={high}");
                    }
                }
            }
        }
        check::<u8>(0..=255);
        check::<i8>(-128..=127);
    }

    #[test]
    fn exact_planes_select_the_range_alone() {
        for low in 0..=255u8 {
            for high in low..=255 {
                let Some(range) = InvalidPlaneRange::new(low.into(), high.into(), 8) else {
                    continue;
                };
                let mask = low_bits_mask(range.planes.end) & !low_bits_mask(range.planes.start);
                let caught = (0..=255).filter(|v| v & mask == mask);
                let invalid = (0..=255u64).filter(|&v| range.patterns.contains(&v));
                assert!(invalid.clone().all(|v| v & mask == mask), "{range:?}");
                assert_eq!(range.exact, caught.eq(invalid), "{range:?}");
            }
        }
    }
}
