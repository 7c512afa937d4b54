//! Types of pixels, and what a detector writes where it has no count.

use clap::ValueEnum;

/// A pixel's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dtype {
    /// 8 bits, unsigned.
    U8,
    /// 8 bits, signed.
    I8,
    /// 16 bits, unsigned.
    U16,
    /// 16 bits, signed.
    I16,
    /// 32 bits, unsigned: Eiger.
    U32,
    /// 32 bits, signed: Pilatus.
    I32,
    /// 64 bits, unsigned.
    U64,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

/// The value of a pixel before it is converted to a [`Dtype`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// Photons; as many as the type can hold.
    Count(u32),
    /// No sensor: all bits set, which is -1 in signed types and in floats.
    Gap,
    /// A defective pixel: the value below that.
    Dead,
}

impl Dtype {
    /// Bytes a pixel.
    pub fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::F64 => 8,
        }
    }

    /// Its little-endian bytes appended.
    pub(crate) fn append(self, value: Value, out: &mut Vec<u8>) {
        /// The highest count leaves two values above it free in unsigned types.
        macro_rules! integer {
            ($type:ty) => {{
                let number = match value {
                    Value::Count(count) => {
                        <$type>::try_from(count).unwrap_or(<$type>::MAX).min(<$type>::MAX - 2)
                    }
                    Value::Gap => !0,
                    Value::Dead => !1,
                };
                out.extend(number.to_le_bytes());
            }};
        }
        let float = match value {
            Value::Count(count) => f64::from(count),
            Value::Gap => -1.0,
            Value::Dead => -2.0,
        };
        match self {
            Self::U8 => integer!(u8),
            Self::I8 => integer!(i8),
            Self::U16 => integer!(u16),
            Self::I16 => integer!(i16),
            Self::U32 => integer!(u32),
            Self::I32 => integer!(i32),
            Self::U64 => integer!(u64),
            Self::F32 => out.extend((float as f32).to_le_bytes()),
            Self::F64 => out.extend(float.to_le_bytes()),
        }
    }
}
