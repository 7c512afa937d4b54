//! Pixels of any type that detectors and masks use.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! pixel_types {
    ($($kind:ident $type:ident $doc:literal,)*) => {
        /// Type of the pixels in a dataset or image file; crate `kernels` has the same names in its
        /// `PixelType`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Dtype { $(#[doc = $doc] $kind,)* }

        impl Dtype {
            /// Returns the name of the type in records: `u8`, `i32`, `f32`, ….
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => stringify!($type),)* }
            }

            /// Returns the size of a pixel in bytes.
            pub fn size(self) -> usize {
                match self { $(Self::$kind => size_of::<$type>(),)* }
            }

            /// Returns the size of a frame in bytes, or `u64::MAX` on overflow, which no file can
            /// have.
            pub fn frame_bytes(self, [rows, columns]: [u64; 2]) -> u64 {
                rows.saturating_mul(columns).saturating_mul(self.size() as u64)
            }
        }

        /// Pixels of one image in row-major order.
        #[derive(Clone, Debug, PartialEq)]
        pub enum PixelData { $(#[doc = $doc] $kind(Vec<$type>),)* }

        impl PixelData {
            /// Returns the number of pixels.
            pub fn len(&self) -> usize {
                match self { $(Self::$kind(values) => values.len(),)* }
            }

            /// Returns the type of the pixels.
            pub fn dtype(&self) -> Dtype {
                match self { $(Self::$kind(_) => Dtype::$kind,)* }
            }

            /// Returns the pixels as f64, which is exact except for 64-bit integers beyond 2^53.
            pub fn to_f64(&self) -> Vec<f64> {
                match self { $(Self::$kind(values) => values.iter().map(|&value| value as f64).collect(),)* }
            }

            /// Returns the pixels as bytes in native byte order.
            pub fn to_ne_bytes(&self) -> Vec<u8> {
                match self { $(Self::$kind(values) => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),)* }
            }

            /// Converts bytes in the given byte order to pixels; an incomplete pixel at the end is
            /// dropped.
            pub(super) fn from_bytes(kind: Dtype, bytes: &[u8], big_endian: bool) -> Self {
                match kind {
                    $(Dtype::$kind => {
                        let (pixels, _) = bytes.as_chunks();
                        let parse = if big_endian { $type::from_be_bytes } else { $type::from_le_bytes };
                        Self::$kind(pixels.iter().copied().map(parse).collect())
                    })*
                }
            }

            /// Returns the transpose of a `rows` x `columns` image.
            pub(super) fn transpose(&self, rows: usize, columns: usize) -> Self {
                match self {
                    $(Self::$kind(values) => {
                        let column = |x| values.iter().skip(x).step_by(columns.max(1)).take(rows).copied();
                        Self::$kind((0..columns).flat_map(column).collect())
                    })*
                }
            }
        }

        $(impl From<Vec<$type>> for PixelData {
            fn from(values: Vec<$type>) -> Self {
                Self::$kind(values)
            }
        })*
    };
}

pixel_types! {
    U8 u8 "8 bits, unsigned",
    I8 i8 "8 bits, signed",
    U16 u16 "16 bits, unsigned",
    I16 i16 "16 bits, signed",
    U32 u32 "32 bits, unsigned",
    I32 i32 "32 bits, signed",
    U64 u64 "64 bits, unsigned",
    I64 i64 "64 bits, signed",
    F32 f32 "IEEE single precision",
    F64 f64 "IEEE double precision",
}

impl PixelData {
    /// Returns whether there are no pixels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Formats the type by its name in NumPy, for messages: `uint16`, `float32`.
impl fmt::Display for Dtype {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
            Self::U32 => "uint32",
            Self::I32 => "int32",
            Self::U64 => "uint64",
            Self::I64 => "int64",
            Self::F32 => "float32",
            Self::F64 => "float64",
        })
    }
}
