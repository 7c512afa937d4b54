//! [`FrameRange`], the value of `--preview-frames`.

use std::str::FromStr;

/// The frames that `--preview-frames` names: the first and the last, which is included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRange {
    /// The first frame.
    pub first: u64,
    /// The last frame.
    pub last: u64,
}

impl FromStr for FrameRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once(',').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self { first, last }),
            _ => Err("expected a frame, or the first and the last, as in 0,9".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_chosen_by_number_or_first_and_last() {
        assert_eq!("7".parse(), Ok(FrameRange { first: 7, last: 7 }));
        assert_eq!("0, 9".parse(), Ok(FrameRange { first: 0, last: 9 }));
        for wrong in ["", "9,0", "1,2,3", "-1", "a"] {
            assert!(wrong.parse::<FrameRange>().is_err(), "{wrong}");
        }
    }
}
