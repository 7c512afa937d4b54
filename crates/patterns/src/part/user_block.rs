//! The 512 bytes before a part's HDF5: one JSON line that says what it is, and its checksum.
//!
//! ```text
//! {"azpipe":"part","v":2,"scan":"…","recipe":"…","first":0,"last":499,"count":500,"xxh3":"…","sources":"…"}
//! ```
//!
//! then a line break and spaces up to byte 511, which is a line break again. `xxh3` is XXH3-128 over
//! every byte behind the block. `sources` is XXH3-64 over the frames and the fingerprints of their raw data, so that a rerun
//! need not open the part as HDF5; parts of version 1, and those with a frame to be tried again, have none. The block
//! has one form only, so that a flipped byte in it shows too.

use std::fs::File;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// Bytes before the HDF5 signature.
pub(super) const USER_BLOCK_BYTES: usize = 512;

/// The first line of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartUserBlock {
    azpipe: String,
    v: u64,
    /// The scan's id.
    pub scan: String,
    /// The recipe's digest.
    pub recipe: String,
    /// The first of its frames; 0 where it has none.
    pub first: u64,
    /// The last of its frames; 0 where it has none.
    pub last: u64,
    /// How many frames it has.
    pub count: u64,
    /// XXH3-128 of every byte behind the block, in 32 hexadecimal digits.
    pub xxh3: String,
    /// XXH3-64 over its frames and the fingerprints of their raw data, where each frame is dealt with for good.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "hexadecimal")]
    pub sources: Option<u64>,
}

/// A number of 64 bits as 16 hexadecimal digits: as a JSON number, many readers would round it.
mod hexadecimal {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(number: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        number.map(|number| format!("{number:016x}")).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        let digits = String::deserialize(deserializer)?;
        u64::from_str_radix(&digits, 16).map(Some).map_err(D::Error::custom)
    }
}

/// Why the first bytes of a file are not a part's.
#[derive(Debug, thiserror::Error)]
pub enum UserBlockError {
    /// The file can't be read, or is shorter than the block.
    #[error("its first 512 bytes can't be read: {0}")]
    Io(#[from] io::Error),
    /// They are something else.
    #[error("not a part: expected a JSON line that says \"azpipe\":\"part\"")]
    NotPart,
    /// Written by a newer azpipe.
    #[error("a part of version {0}: this azpipe reads versions 1 and 2; update it")]
    UnsupportedVersion(u64),
    /// A known line with changes.
    #[error("damaged: its first 512 bytes are not as they were written")]
    Damaged,
}

impl PartUserBlock {
    /// That of a part with these frames, rising.
    pub(super) fn new(scan: &str, recipe: &str, frames: &[u64], xxh3: String, sources: Option<u64>) -> Self {
        let (first, last) = (frames.first().copied().unwrap_or(0), frames.last().copied().unwrap_or(0));
        let (scan, recipe, count) = (scan.to_owned(), recipe.to_owned(), frames.len() as u64);
        let v = if sources.is_some() { 2 } else { 1 };
        Self { azpipe: "part".to_owned(), v, scan, recipe, first, last, count, xxh3, sources }
    }

    /// Reads the block of an open file, from its start.
    pub(super) fn read(file: &mut File) -> Result<Self, UserBlockError> {
        let mut block = [0; USER_BLOCK_BYTES];
        file.read_exact(&mut block)?;
        let line = block.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let head: Self = serde_json::from_slice(line).map_err(|_| UserBlockError::NotPart)?;
        match (head.azpipe.as_str(), head.v) {
            ("part", 1 | 2) if head.to_block().as_ref() == Some(&block) => Ok(head),
            ("part", 1 | 2) => Err(UserBlockError::Damaged),
            ("part", newer) => Err(UserBlockError::UnsupportedVersion(newer)),
            _ => Err(UserBlockError::NotPart),
        }
    }

    /// The 512 bytes; `None` where ids are too long to be ids.
    pub(super) fn to_block(&self) -> Option<[u8; USER_BLOCK_BYTES]> {
        let line = serde_json::to_vec(self).expect("text and numbers always serialize");
        let mut block = [b' '; USER_BLOCK_BYTES];
        block.get_mut(..line.len())?.copy_from_slice(&line);
        *block.get_mut(line.len())? = b'\n';
        block[USER_BLOCK_BYTES - 1] = b'\n';
        Some(block)
    }
}

/// XXH3-128 of all that is left to read, in 32 hexadecimal digits.
pub(super) fn digest_rest(file: &mut File) -> io::Result<String> {
    let (mut hash, mut buffer) = (Xxh3::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(format!("{:032x}", hash.digest128())),
            Ok(read) => hash.update(&buffer[..read]),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => (),
            Err(why) => return Err(why),
        }
    }
}
