//! [`InvalidValues`], the pixel values that mean "no measurement".

use std::ops::RangeInclusive;

use crate::pixel::Pixel;

/// The values that make a pixel invalid in a frame.
///
/// Integers are compared as integers, because not every u32 has an f32 of its own (2^32 - 2 has
/// none). Ranges outside the pixel type are ignored, so that one rule serves detectors of several
/// types. A floating-point pixel that is NaN or infinite is always invalid, as in pyFAI 2026.9 (its
/// preprocessing and its histogram and CSR engines; its CSC engine accepts infinities).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InvalidValues {
    integers: Vec<RangeInclusive<i128>>,
    reals: Vec<RangeInclusive<f64>>,
}

impl InvalidValues {
    /// Returns the rule by which every integer and every finite real is valid.
    pub fn none() -> InvalidValues {
        InvalidValues::default()
    }

    /// Returns the rule for integer pixels that values in these ranges are invalid:
    /// `4294967294..=4294967295`, `i128::MIN..=-1`.
    pub fn from_integers(ranges: impl IntoIterator<Item = RangeInclusive<i128>>) -> InvalidValues {
        InvalidValues { integers: ranges.into_iter().collect(), reals: Vec::new() }
    }

    /// Returns the rule for floating-point pixels that values in these ranges are invalid.
    pub fn from_reals(ranges: impl IntoIterator<Item = RangeInclusive<f64>>) -> InvalidValues {
        InvalidValues { integers: Vec::new(), reals: ranges.into_iter().collect() }
    }

    /// Returns the rule by which a value is invalid if it is so by `self` or by `other`.
    pub fn or(mut self, other: InvalidValues) -> InvalidValues {
        self.integers.extend(other.integers);
        self.reals.extend(other.reals);
        self
    }

    /// Returns the ranges of invalid integers.
    pub fn integers(&self) -> &[RangeInclusive<i128>] {
        &self.integers
    }

    /// Returns whether every integer in `all` is invalid. If `all` is the range of a pixel type, no
    /// pixel can be valid.
    pub fn covers_integers(&self, all: &RangeInclusive<i128>) -> bool {
        let mut ranges: Vec<_> = self.integers.iter().filter(|range| !range.is_empty()).collect();
        ranges.sort_by_key(|range| *range.start());
        let mut first_left = *all.start();
        for range in ranges.iter().take_while(|range| *range.start() <= *all.end()) {
            if *range.start() > first_left {
                return false;
            }
            first_left = first_left.max(range.end().saturating_add(1));
        }
        first_left > *all.end()
    }

    /// Returns whether every real in `all` is invalid.
    pub fn covers_reals(&self, all: &RangeInclusive<f64>) -> bool {
        let mut ranges: Vec<_> = self.reals.iter().filter(|range| !range.is_empty()).collect();
        ranges.sort_by(|a, b| a.start().total_cmp(b.start()));
        let mut first_left = *all.start();
        for range in ranges.iter().take_while(|range| *range.start() <= *all.end()) {
            if *range.start() > first_left {
                return false;
            }
            first_left = first_left.max(range.end().next_up());
        }
        first_left > *all.end()
    }

    /// Returns the invalid ranges that pixels of type `T` can hold.
    pub(crate) fn for_type<T: Pixel>(&self) -> InvalidRanges<T> {
        let nothing = (1, 0);
        let integers =
            self.integers.iter().filter_map(|r| T::clip_range((*r.start(), *r.end()), (1., 0.)));
        let reals =
            self.reals.iter().filter_map(|r| T::clip_range(nothing, (*r.start(), *r.end())));
        InvalidRanges { ranges: integers.chain(reals).collect() }
    }
}

/// The [`InvalidValues`] that one pixel type can hold.
#[derive(Default, PartialEq)]
pub(crate) struct InvalidRanges<T> {
    /// Inclusive ranges; seldom more than one.
    ranges: Vec<(T, T)>,
}

impl<T: Pixel> InvalidRanges<T> {
    /// Returns the invalid ranges, inclusive. Floating-point pixels that are NaN or infinite are
    /// invalid, too.
    pub(crate) fn ranges(&self) -> &[(T, T)] {
        &self.ranges
    }

    /// Returns whether any of the pixels is invalid.
    #[inline(always)]
    pub(crate) fn any_invalid(&self, pixels: &[T]) -> bool {
        let within = |&(low, high): &(T, T)| {
            pixels.iter().fold(false, |any, &p| any | ((low <= p) & (p <= high)))
        };
        let infinite = !T::INTEGER && pixels.iter().fold(false, |any, p| any | !p.is_finite());
        infinite || self.ranges.iter().any(within)
    }

    /// Returns whether a pixel of this value is invalid.
    #[inline(always)]
    pub(crate) fn contains(&self, pixel: T) -> bool {
        !pixel.is_finite() || self.ranges.iter().any(|&(low, high)| low <= pixel && pixel <= high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clipped_to_the_type() {
        let rule = InvalidValues::from_integers([4294967294..=4294967295, i128::MIN..=-1]);
        let (unsigned, signed) = (rule.for_type::<u32>(), rule.for_type::<i32>());
        assert!(
            unsigned.contains(u32::MAX)
                && unsigned.contains(u32::MAX - 1)
                && !unsigned.contains(u32::MAX - 2)
        );
        assert!(
            signed.contains(-1)
                && signed.contains(i32::MIN)
                && !signed.contains(0)
                && !signed.contains(i32::MAX)
        );
        assert!(!rule.for_type::<u16>().contains(u16::MAX));
    }

    #[test]
    fn reals_round_inward_and_nan_is_never_valid() {
        let rule = InvalidValues::from_reals([-10.1..=-9.9]);
        assert!(rule.for_type::<f32>().contains(-10.0) && rule.for_type::<f64>().contains(-10.1));
        assert!(
            !rule.for_type::<f32>().contains((-10.1f32).next_down())
                && !rule.for_type::<u8>().contains(0)
        );
        assert!(
            InvalidValues::none().for_type::<f32>().contains(f32::NAN)
                && InvalidValues::none().for_type::<f64>().contains(f64::INFINITY)
        );
        assert!(!InvalidValues::none().for_type::<f64>().contains(f64::MAX));
    }
}
