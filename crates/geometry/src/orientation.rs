//! Image orientation: the corner of the detector at which the first pixel lies.

/// The orientation of an image, numbered as in EXIF and in `Detector_config` of a PONI file. A
/// variant is named after the corner of the first pixel, seen from behind the detector toward the
/// sample.
///
/// An orientation only maps the index of a pixel to its position on the detector. Since 2026.9,
/// pyFAI no longer flips laboratory axes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Orientation {
    /// 1: both indices are reversed.
    TopLeft = 1,
    /// 2: the slow index is reversed.
    TopRight = 2,
    /// 3: neither index is reversed; the meaning of PONI files without an orientation.
    #[default]
    BottomRight = 3,
    /// 4: the fast index is reversed.
    BottomLeft = 4,
}

impl Orientation {
    /// Returns the orientation with this number; `None` unless it is 1 to 4.
    pub fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::TopLeft),
            2 => Some(Self::TopRight),
            3 => Some(Self::BottomRight),
            4 => Some(Self::BottomLeft),
            _ => None,
        }
    }

    /// Returns the number of the orientation, 1 to 4.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns whether the slow and the fast index are reversed.
    pub fn reversed_axes(self) -> [bool; 2] {
        match self {
            Self::TopLeft => [true, true],
            Self::TopRight => [true, false],
            Self::BottomRight => [false, false],
            Self::BottomLeft => [false, true],
        }
    }
}
