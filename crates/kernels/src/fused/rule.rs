//! Invalid values, as they show in bit planes.

use std::ops::Range;

use crate::invalid::InvalidOf;
use crate::pixel::Pixel;

/// A rule on integers whose invalid values come in ranges that share set bits, as those of gaps and dead pixels do: an
/// AND over the planes of these bits leaves few pixels to look at, mostly none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlaneRule {
    pub(crate) ranges: Vec<PlaneRange>,
    /// Whether the top bit is a sign.
    pub(crate) signed: bool,
}

/// A range of invalid values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlaneRange {
    /// Planes that have their bit set in all values of the range.
    pub(crate) planes: Range<usize>,
    /// Whether no other value has all of them set.
    pub(crate) exact: bool,
    /// The range, inclusive, as bit patterns.
    low: u64,
    high: u64,
}

impl PlaneRule {
    /// The rule for an integer type; `None` where the values of a range have no set bit in common, as those around
    /// zero.
    pub(crate) fn of<T: Pixel>(rule: &InvalidOf<T>) -> Option<PlaneRule> {
        let range = |&(low, high): &(T, T)| PlaneRange::of(low.bits().into(), high.bits().into(), 8 * T::SIZE);
        rule.ranges().iter().map(range).collect::<Option<_>>().map(|ranges| PlaneRule { ranges, signed: T::SIGNED })
    }
}

impl PlaneRange {
    fn of(low: u64, high: u64, bits: usize) -> Option<PlaneRange> {
        // A signed range across zero has patterns that do not rise.
        if low > high {
            return None;
        }
        // The values differ in their `free` lowest bits only, and share those above.
        let free = 64 - (low ^ high).leading_zeros() as usize;
        let shared = low.checked_shr(free as u32).filter(|&shared| shared != 0)?;
        let end = 64 - shared.leading_zeros() as usize;
        let start = end - (shared << (64 - end)).leading_ones() as usize;
        let complete = low & ones(free) == 0 && high & ones(free) == ones(free);
        let exact = complete && shared == ones(bits - free);
        Some(PlaneRange { planes: start + free..end + free, exact, low, high })
    }

    /// Whether a pixel of this bit pattern is invalid.
    pub(crate) fn contains(&self, pattern: u64) -> bool {
        self.low <= pattern && pattern <= self.high
    }
}

/// The lowest bits set.
fn ones(bits: usize) -> u64 {
    1u64.checked_shl(bits as u32).unwrap_or(0).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Invalid;

    /// Planes, and whether they are exact, of one range.
    fn of<T: Pixel>(range: std::ops::RangeInclusive<i128>) -> Option<(Range<usize>, bool)> {
        let rule = PlaneRule::of(&Invalid::integers([range]).of::<T>())?;
        let [range] = rule.ranges.try_into().expect("one range");
        Some((range.planes, range.exact))
    }

    #[test]
    fn planes_of_the_rules_of_detectors() {
        assert_eq!(of::<u32>(4294967294..=4294967295), Some((1..32, true)));
        assert_eq!(of::<u32>(65534..=65535), Some((1..16, false)));
        assert_eq!(of::<i32>(-2..=-1), Some((1..32, true)));
        assert_eq!(of::<i32>(i128::MIN..=-1), Some((31..32, true)));
        assert_eq!(of::<u16>(65533..=65535), Some((2..16, false)));
        assert_eq!(of::<u8>(255..=255), Some((0..8, true)));
        assert_eq!(of::<u64>(u64::MAX as i128..=u64::MAX as i128), Some((0..64, true)));
        assert_eq!(of::<i16>(-2..=-2), Some((1..16, false)));
        assert_eq!(of::<u16>(0b1101_0000..=0b1101_0111), Some((6..8, false)));
    }

    #[test]
    fn ranges_without_a_common_bit_are_beyond_planes() {
        assert_eq!(of::<u16>(0..=0), None);
        assert_eq!(of::<i32>(-1..=0), None);
        assert_eq!(of::<u64>(0..=u64::MAX as i128), None);
        assert_eq!(of::<i8>(i128::MIN..=i128::MAX), None);
    }

    #[test]
    fn exact_means_exact() {
        for low in 0..=255u8 {
            for high in low..=255 {
                let Some(range) = PlaneRange::of(low.into(), high.into(), 8) else { continue };
                let mask = ones(range.planes.end) & !ones(range.planes.start);
                let caught = (0..=255).filter(|v| v & mask == mask);
                let invalid = (0..=255u64).filter(|&v| range.contains(v));
                assert!(invalid.clone().all(|v| v & mask == mask), "{range:?}");
                assert_eq!(range.exact, caught.eq(invalid), "{range:?}");
            }
        }
    }
}
