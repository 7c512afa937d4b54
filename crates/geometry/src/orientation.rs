//! Which corner of the detector the first pixel of an image is.

/// The orientation of an image, numbered as in EXIF and in `Detector_config` of a PONI file. The
/// names say where the first pixel is for one who looks from behind the detector to the sample.
///
/// An orientation maps the index of a pixel to its place on the detector, and does nothing else:
/// since 2026.9 pyFAI turns no axis of the laboratory any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Orientation {
    /// 1: both indices run backwards.
    TopLeft = 1,
    /// 2: the slow index runs backwards.
    TopRight = 2,
    /// 3: as PONI files have always meant it.
    #[default]
    BottomRight = 3,
    /// 4: the fast index runs backwards.
    BottomLeft = 4,
}

impl Orientation {
    /// From its number; `None` for what is not 1 to 4.
    pub fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::TopLeft),
            2 => Some(Self::TopRight),
            3 => Some(Self::BottomRight),
            4 => Some(Self::BottomLeft),
            _ => None,
        }
    }

    /// Its number, 1 to 4.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Whether the slow and the fast index run backwards.
    pub fn reversed_axes(self) -> [bool; 2] {
        match self {
            Self::TopLeft => [true, true],
            Self::TopRight => [true, false],
            Self::BottomRight => [false, false],
            Self::BottomLeft => [false, true],
        }
    }
}
