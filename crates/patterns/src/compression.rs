//! [`Compression`]: how cakes are compressed in parts and final files.

use std::str::FromStr;

use hdf5_filters::bitshuffle::BlockCodec;

/// Level of deflate. Higher levels take twice the time to save another 2 %; of runs alone, which cakes
/// are compressed by, all levels are the same.
pub(crate) const DEFLATE_LEVEL: u8 = 1;

/// Compression of cakes in result files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Shuffle and deflate, which every HDF5 reader supports without a plugin.
    #[default]
    Gzip,
    /// Bitshuffle and LZ4, of HDF5 filter 32008.
    Lz4,
    /// Bitshuffle and Zstandard, of HDF5 filter 32008.
    Zstd,
    /// Chunks as they are.
    None,
}

impl Compression {
    /// All compressions.
    pub const ALL: [Self; 4] = [Self::Gzip, Self::Lz4, Self::Zstd, Self::None];

    /// Returns the name, as in flags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::None => "none",
        }
    }

    /// Returns a description for help.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Gzip => "Shuffle and deflate, which every HDF5 reader opens",
            Self::Lz4 => {
                "Bitshuffle and LZ4, the fastest. Python reads it after `import hdf5plugin`"
            }
            Self::Zstd => "Bitshuffle and Zstandard, smaller than lz4. Read as lz4",
            Self::None => "No compression",
        }
    }

    /// Returns the codec of bitshuffle's blocks; `None` for other filters.
    pub(crate) fn block_codec(self) -> Option<BlockCodec> {
        match self {
            Self::Lz4 => Some(BlockCodec::Lz4),
            Self::Zstd => Some(BlockCodec::Zstd),
            Self::Gzip | Self::None => None,
        }
    }
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let known = Self::ALL.into_iter().find(|known| known.name() == text);
        known.ok_or_else(|| format!("expected {}", Self::ALL.map(Self::name).join(", ")))
    }
}
