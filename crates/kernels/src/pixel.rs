//! The pixel types that detectors write, and the conversion of a pixel to the number that is
//! summed.

use std::fmt;
use std::ops::BitOrAssign;
use std::str::FromStr;

/// The type of a frame's pixels. `Display` and `FromStr` use the names of the records: `u8`, `i32`,
/// `f64`, ...
///
/// Crate `frames` has its own list of types, `Dtype`, because the kernels don't depend on files and
/// frames don't depend on the kernels; records connect the two by these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum PixelType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
}

/// The error for a name that is no pixel type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pixel type `{0}` is not supported; expected one of u8 i8 u16 i16 u32 i32 u64 i64 f32 f64")]
pub struct UnknownPixelType(String);

impl PixelType {
    /// All pixel types.
    pub const ALL: [PixelType; 10] = {
        use PixelType::*;
        [U8, I8, U16, I16, U32, I32, U64, I64, F32, F64]
    };

    /// Returns the bytes per pixel.
    pub fn size(self) -> usize {
        match self {
            PixelType::U8 | PixelType::I8 => 1,
            PixelType::U16 | PixelType::I16 => 2,
            PixelType::U32 | PixelType::I32 | PixelType::F32 => 4,
            PixelType::U64 | PixelType::I64 | PixelType::F64 => 8,
        }
    }

    /// Returns whether pixels are integers.
    pub(crate) fn is_integer(self) -> bool {
        !matches!(self, PixelType::F32 | PixelType::F64)
    }

    /// Returns the name that records use.
    pub fn name(self) -> &'static str {
        match self {
            PixelType::U8 => "u8",
            PixelType::I8 => "i8",
            PixelType::U16 => "u16",
            PixelType::I16 => "i16",
            PixelType::U32 => "u32",
            PixelType::I32 => "i32",
            PixelType::U64 => "u64",
            PixelType::I64 => "i64",
            PixelType::F32 => "f32",
            PixelType::F64 => "f64",
        }
    }
}

impl fmt::Display for PixelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PixelType {
    type Err = UnknownPixelType;

    fn from_str(name: &str) -> Result<PixelType, UnknownPixelType> {
        PixelType::ALL
            .into_iter()
            .find(|t| t.name() == name)
            .ok_or_else(|| UnknownPixelType(name.to_owned()))
    }
}

/// The width in which the pixels of a tile are stored: as narrow as their values allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PixelWidth {
    /// All pixels are zero; nothing is stored.
    #[default]
    Zero,
    /// All pixels fit in 8 bits.
    U8,
    /// All pixels fit in 16 bits.
    U16,
    /// Pixels are converted to f64.
    F64,
}

/// The Rust type of a [`PixelType`], for kernels that are generic over it.
pub(crate) trait Pixel: Copy + PartialOrd + Send + 'static {
    /// Bytes per pixel.
    const SIZE: usize;

    /// True if pixels are integers.
    const INTEGER: bool;

    /// True if pixels can be negative.
    const SIGNED: bool;

    /// The unsigned integer of the same size.
    type Bits: Copy + Default + BitOrAssign + Into<u64>;

    /// Reads a native-endian pixel from the first [`Pixel::SIZE`] bytes.
    fn read(bytes: &[u8]) -> Self;

    /// Returns the pixel's bit pattern.
    fn bits(self) -> Self::Bits;

    /// Returns the two least significant bytes, the lowest first.
    fn low_bytes(bits: Self::Bits) -> [u8; 2];

    /// Returns the narrowest width that holds all pixels of a tile, given the OR of their bits.
    fn min_width(any: Self::Bits) -> PixelWidth {
        let (any, sign) = (any.into(), 1u64 << (8 * Self::SIZE - 1));
        match any {
            0 => PixelWidth::Zero,
            _ if !Self::INTEGER || Self::SIGNED && any & sign != 0 => PixelWidth::F64,
            1..0x100 => PixelWidth::U8,
            0x100..0x1_0000 => PixelWidth::U16,
            _ => PixelWidth::F64,
        }
    }

    /// Converts the pixel to the number that is summed. 64-bit integers are rounded to nearest.
    fn to_f64(self) -> f64;

    /// Returns whether the pixel is neither NaN nor infinite.
    fn is_finite(self) -> bool;

    /// Returns the part of an inclusive range that this type can hold; `None` if it is empty.
    /// Integer types use `integers`, floating-point types `reals`.
    fn clip_range(integers: (i128, i128), reals: (f64, f64)) -> Option<(Self, Self)>;
}

macro_rules! integer_pixel {
    ($($t:ty as $unsigned:ty),*) => {$(
        impl Pixel for $t {
            type Bits = $unsigned;

            const SIZE: usize = size_of::<$t>();

            const INTEGER: bool = true;

            #[allow(unused_comparisons)]
            const SIGNED: bool = <$t>::MIN < 0;

            #[inline(always)]
            fn read(bytes: &[u8]) -> $t {
                let mut native = [0; size_of::<$t>()];
                native.copy_from_slice(&bytes[..size_of::<$t>()]);
                <$t>::from_ne_bytes(native)
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn bits(self) -> $unsigned {
                self as $unsigned
            }

            #[inline(always)]
            fn low_bytes(bits: $unsigned) -> [u8; 2] {
                [bits as u8, (u64::from(bits) >> 8) as u8]
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                true
            }

            fn clip_range((low, high): (i128, i128), _: (f64, f64)) -> Option<($t, $t)> {
                let (low, high) = (low.max(<$t>::MIN as i128), high.min(<$t>::MAX as i128));
                (low <= high).then_some((low as $t, high as $t))
            }
        }
    )*};
}

integer_pixel!(
    u8 as u8, i8 as u8, u16 as u16, i16 as u16, u32 as u32, i32 as u32, u64 as u64, i64 as u64
);

impl Pixel for f32 {
    type Bits = u32;

    const SIZE: usize = 4;

    const INTEGER: bool = false;

    const SIGNED: bool = true;

    #[inline(always)]
    fn read(bytes: &[u8]) -> f32 {
        f32::from_bits(u32::read(bytes))
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self as f64
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        self.to_bits()
    }

    #[inline(always)]
    fn low_bytes(bits: u32) -> [u8; 2] {
        [bits as u8, (bits >> 8) as u8]
    }

    #[inline(always)]
    fn is_finite(self) -> bool {
        self.is_finite()
    }

    fn clip_range(_: (i128, i128), (low, high): (f64, f64)) -> Option<(f32, f32)> {
        // Limits are rounded inward: rounding to nearest could include an f32 that lies outside the
        // range.
        let (mut lowest, mut highest) = (low as f32, high as f32);
        if (lowest as f64) < low {
            lowest = lowest.next_up();
        }
        if (highest as f64) > high {
            highest = highest.next_down();
        }
        (lowest <= highest).then_some((lowest, highest))
    }
}

impl Pixel for f64 {
    type Bits = u64;

    const SIZE: usize = 8;

    const INTEGER: bool = false;

    const SIGNED: bool = true;

    #[inline(always)]
    fn read(bytes: &[u8]) -> f64 {
        f64::from_bits(u64::read(bytes))
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits()
    }

    #[inline(always)]
    fn low_bytes(bits: u64) -> [u8; 2] {
        [bits as u8, (bits >> 8) as u8]
    }

    #[inline(always)]
    fn is_finite(self) -> bool {
        self.is_finite()
    }

    fn clip_range(_: (i128, i128), (low, high): (f64, f64)) -> Option<(f64, f64)> {
        (low <= high).then_some((low, high))
    }
}

/// Calls a function that is generic over [`Pixel`] with the Rust type of a [`PixelType`].
macro_rules! with_pixel {
    ($dtype:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $dtype {
            $crate::PixelType::U8 => $function::<u8>($($argument),*),
            $crate::PixelType::I8 => $function::<i8>($($argument),*),
            $crate::PixelType::U16 => $function::<u16>($($argument),*),
            $crate::PixelType::I16 => $function::<i16>($($argument),*),
            $crate::PixelType::U32 => $function::<u32>($($argument),*),
            $crate::PixelType::I32 => $function::<i32>($($argument),*),
            $crate::PixelType::U64 => $function::<u64>($($argument),*),
            $crate::PixelType::I64 => $function::<i64>($($argument),*),
            $crate::PixelType::F32 => $function::<f32>($($argument),*),
            $crate::PixelType::F64 => $function::<f64>($($argument),*),
        }
    };
}
pub(crate) use with_pixel;
