//! [`InvalidValues`], the pixel values that mean "no measurement".

use std::ops::RangeInclusive;

use crate::pixel::{Pixel, PixelType};

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

    /// Returns false if none of the pixels, converted by [`Pixel::to_f64`], is invalid. Of 64-bit
    /// integers, it may return true because some are rounded to the limits of a range.
    #[inline(always)]
    pub(crate) fn may_contain_any(&self, values: &[f64]) -> bool {
        let within = |&(low, high): &(T, T)| {
            let (low, high) = (low.to_f64(), high.to_f64());
            values.iter().fold(false, |any, &value| any | ((low <= value) & (value <= high)))
        };
        let infinite =
            !T::INTEGER && values.iter().fold(false, |any, value| any | !value.is_finite());
        infinite || self.ranges.iter().any(within)
    }

    /// Returns whether a pixel of this value is invalid.
    #[inline(always)]
    pub(crate) fn contains(&self, pixel: T) -> bool {
        !pixel.is_finite() || self.ranges.iter().any(|&(low, high)| low <= pixel && pixel <= high)
    }
}

/// The [`InvalidRanges`] of a pixel type that is known at run time.
///
/// Whatever is generic over the pixel type is compiled ten times for each instruction set, so only the
/// code that reads pixels is; all else takes this.
#[derive(PartialEq)]
pub(crate) enum TypedInvalidRanges {
    U8(InvalidRanges<u8>),
    I8(InvalidRanges<i8>),
    U16(InvalidRanges<u16>),
    I16(InvalidRanges<i16>),
    U32(InvalidRanges<u32>),
    I32(InvalidRanges<i32>),
    U64(InvalidRanges<u64>),
    I64(InvalidRanges<i64>),
    F32(InvalidRanges<f32>),
    F64(InvalidRanges<f64>),
}

impl TypedInvalidRanges {
    /// Returns the invalid ranges that pixels of a type can hold.
    pub(crate) fn new(invalid: &InvalidValues, dtype: PixelType) -> Self {
        match dtype {
            PixelType::U8 => Self::U8(invalid.for_type()),
            PixelType::I8 => Self::I8(invalid.for_type()),
            PixelType::U16 => Self::U16(invalid.for_type()),
            PixelType::I16 => Self::I16(invalid.for_type()),
            PixelType::U32 => Self::U32(invalid.for_type()),
            PixelType::I32 => Self::I32(invalid.for_type()),
            PixelType::U64 => Self::U64(invalid.for_type()),
            PixelType::I64 => Self::I64(invalid.for_type()),
            PixelType::F32 => Self::F32(invalid.for_type()),
            PixelType::F64 => Self::F64(invalid.for_type()),
        }
    }
}

/// Evaluates an expression with the [`InvalidRanges`] of [`TypedInvalidRanges`], for each pixel type.
macro_rules! with_ranges {
    ($typed:expr, |$ranges:ident| $result:expr) => {
        match $typed {
            $crate::invalid_values::TypedInvalidRanges::U8($ranges) => $result,
            $crate::invalid_values::TypedInvalidRanges::I8($ranges) => $result,
            $crate::invalid_values::TypedInvalidRanges::U16($ranges) => $result,
            $crate::invalid_values::TypedInvalidRanges::I16($ranges) => $result,
            $crate::invalid_values::TypedInvalidRanges::U32($ranges) => $result,
            $crate::invalid_values::TypedInvalidRanges::I32($ranges) => $result,
            $crate::invalid_values::TypedInvalidRanges::U64($ranges) => $result,
            $crate::invalid_values::TypedInvalidRanges::I64($ranges) => $result,
            $crate::invalid_values::TypedInvalidRanges::F32($ranges) => $result,
            $crate::invalid_values::TypedInvalidRanges::F64($ranges) => $result,
        }
    };
}
pub(crate) use with_ranges;

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
