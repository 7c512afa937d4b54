//! Parsers of numbers on the command line. Their errors say what was expected, where those of clap
//! and of Rust's own parsers speak of digits, literals and types.

use std::fmt::Display;
use std::num::IntErrorKind;
use std::ops::{Bound, RangeBounds};

/// Returns a parser of whole numbers in a range, for clap.
pub fn whole_number<T: TryFrom<u64>>(
    range: impl RangeBounds<u64> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let expected = describe_range(&range);
        let number: u64 = text.parse().map_err(|why: std::num::ParseIntError| {
            let is_too_large = *why.kind() == IntErrorKind::PosOverflow;
            format!("{}{expected}", if is_too_large { "too large; " } else { "" })
        })?;
        if !range.contains(&number) {
            return Err(expected);
        }
        T::try_from(number).map_err(|_| format!("too large; {expected}"))
    }
}

fn describe_range(range: &impl RangeBounds<u64>) -> String {
    let first = match range.start_bound() {
        Bound::Included(&first) => first,
        Bound::Excluded(&before) => before + 1,
        Bound::Unbounded => 0,
    };
    let last: &dyn Display = match range.end_bound() {
        Bound::Included(last) => last,
        Bound::Excluded(after) => &(after - 1),
        Bound::Unbounded => return format!("expected a whole number from {first} on"),
    };
    format!("expected a whole number from {first} to {last}")
}

/// Returns a parser of numbers, for clap. Its error shows an example.
pub fn number(
    example: &'static str,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| text.parse().map_err(|_| format!("expected a number, such as {example}"))
}

/// Parses a number of bytes as `sort -S` and `split -b` do: K is 1024.
///
/// # Errors
/// The text is no such number, or the number is 0.
pub fn byte_count(text: &str) -> Result<u64, &'static str> {
    let parse = || {
        let (digits, shift) = match text.char_indices().last()? {
            (at, 'K' | 'k') => (&text[..at], 10),
            (at, 'M' | 'm') => (&text[..at], 20),
            (at, 'G' | 'g') => (&text[..at], 30),
            (at, 'T' | 't') => (&text[..at], 40),
            _ => (text, 0),
        };
        let count: u64 = digits.parse().ok()?;
        count.checked_mul(1 << shift).filter(|&bytes| bytes > 0)
    };
    parse()
        .ok_or("expected a number of bytes, such as 500M or 2G (K, M, G and T are powers of 1024)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_of_their_range() {
        let threads = whole_number::<u16>(1..=1024);
        assert_eq!((threads("1"), threads("1024")), (Ok(1), Ok(1024)));
        for wrong in ["", "x", "-1", "1e3", "0", "2.5", "1025"] {
            let expected = "expected a whole number from 1 to 1024".to_owned();
            assert_eq!(threads(wrong), Err(expected), "{wrong}");
        }
        let frames = whole_number::<u32>(0..);
        assert_eq!(frames("0"), Ok(0));
        for large in ["4294967296", "99999999999999999999999"] {
            let expected = "too large; expected a whole number from 0 on".to_owned();
            assert_eq!(frames(large), Err(expected), "{large}");
        }
    }

    #[test]
    fn numbers_are_shown_by_an_example() {
        let limit = number("60000");
        assert_eq!((limit("60000"), limit("-1e3")), (Ok(60000.0), Ok(-1000.0)));
        for wrong in ["", "x", "60,000", "1,"] {
            assert_eq!(limit(wrong), Err("expected a number, such as 60000".to_owned()), "{wrong}");
        }
    }

    #[test]
    fn bytes_are_counted_in_powers_of_1024() {
        assert_eq!((byte_count("400"), byte_count("2G")), (Ok(400), Ok(2 << 30)));
        for wrong in ["", "0", "G", "2X", "-1", "99999999T", "1.5G"] {
            assert!(byte_count(wrong).is_err(), "{wrong}");
        }
    }
}
