//! Counts and frame numbers as messages and reports write them.

use std::fmt::Display;

use crate::{Span, Spans};

/// Formats a count with its noun, in the plural unless the count is 1: `1 frame`, `24 frames`.
///
/// ```
/// assert_eq!(records::format_count(1, "frame"), "1 frame");
/// assert_eq!(records::format_count(0, "frame"), "0 frames");
/// assert_eq!(records::format_count(2, "batch"), "2 batches");
/// ```
pub fn format_count<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let ending = match (count == N::from(1), noun.ends_with("ch")) {
        (true, _) => "",
        (false, true) => "es",
        (false, false) => "s",
    };
    format!("{count} {noun}{ending}")
}

/// Formats frame numbers as people write them: ranges include their last frame. At most `most`
/// ranges are listed.
///
/// ```
/// use records::{Span, Spans, format_frames};
/// assert_eq!(format_frames(&Span::new(12, 13).into(), 8), "frame 12");
/// assert_eq!(format_frames(&[0, 1, 2, 9].into_iter().collect(), 8), "frames 0 to 2, 9");
/// assert_eq!(format_frames(&Span::strided(31, 30, 3).into(), 8), "frames 31 to 118 by 3");
/// assert_eq!(format_frames(&[1, 2, 5, 6, 7].into_iter().collect(), 1), "frames 1 to 2, and 3 more");
/// ```
pub fn format_frames(frames: &Spans, most: usize) -> String {
    let noun = if frames.count() == 1 { "frame" } else { "frames" };
    format!("{noun} {}", format_ranges(frames, most))
}

/// Formats frame numbers like [`format_frames`], without the noun.
pub fn format_ranges(frames: &Spans, most: usize) -> String {
    let frames = frames.to_sorted().split_strided_pairs();
    let listed: Vec<Span> = frames.as_slice().iter().flat_map(as_listed).take(most).collect();
    let count: u64 = listed.iter().map(Span::count).sum();
    let mut words: Vec<String> = listed.iter().map(format_range).collect();
    match frames.count().saturating_sub(count) {
        0 => (),
        more => words.push(format!("and {more} more")),
    }
    words.join(", ")
}

/// Returns the spans that are listed one by one: two frames that are not neighbours are two.
fn as_listed(span: &Span) -> Vec<Span> {
    if span.count() == 2 && span.step() > 1 {
        span.iter().map(|frame| Span::strided(frame, 1, 1)).collect()
    } else {
        vec![*span]
    }
}

fn format_range(span: &Span) -> String {
    let (first, last) = (span.start(), span.stop().saturating_sub(1));
    match (span.count(), span.step()) {
        (1, _) => first.to_string(),
        (_, 1) => format!("{first} to {last}"),
        (_, step) => format!("{first} to {last} by {step}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_does_not_list_a_thousand_ranges() {
        let scattered: Spans = (0..1000u64).map(|number| number * number).collect();
        let text = format_frames(&scattered, 8);
        assert_eq!(text, "frames 0 to 1, 4, 9, 16, 25, 36, 49, 64, and 991 more");
    }

    #[test]
    fn frames_that_interleave_are_told_once_and_in_order() {
        let frames = [4, 5, 0, 6, 0].into_iter().collect();
        assert_eq!(format_ranges(&frames, 8), "0, 4 to 6");
    }
}
