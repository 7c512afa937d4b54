//! The user block of a part: 512 bytes before the HDF5 file, with a JSON line that describes the
//! part and its checksum.
//!
//! ```text
//! {"azpipe":"part","v":3,"scan":"…","recipe":"…","first":0,"last":499,"count":500,"xxh3":"…","sources":"…"}
//! ```
//!
//! A line feed and spaces follow, and byte 511 is a line feed again. `xxh3` is XXH3-128 over all
//! bytes after the user block. `sources` is XXH3-64 over the frames and their source fingerprints,
//! with which a rerun finds the covered frames without opening the part as HDF5. Parts of version 3
//! and 4 have it if every frame has a pattern; in version 4 it is also over the frames' monitors, by
//! which the recipe divides; parts of version 2 had it, too, if frames can't have one,
//! such as frames without a monitor, which a rerun has to report again. All other parts are of
//! version 1. The block is reproduced from the line when it is read, so that a flipped bit anywhere
//! in it is noticed.

use std::fs::File;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// Number of bytes before the HDF5 signature.
pub(super) const USER_BLOCK_BYTES: usize = 512;

/// First bytes of an HDF5 file, which follow the user block.
const HDF5_SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// User block of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartUserBlock {
    azpipe: String,
    v: u64,
    /// Id of the scan.
    pub scan: String,
    /// Digest of the recipe.
    pub recipe: String,
    /// First frame of the part; 0 if it has no frames.
    pub first: u64,
    /// Last frame of the part; 0 if it has no frames.
    pub last: u64,
    /// Number of frames.
    pub count: u64,
    /// XXH3-128 of all bytes after the block, in 32 hexadecimal digits.
    pub xxh3: String,
    /// XXH3-64 over the frames and their source fingerprints, if each frame has a pattern (versions
    /// 3 and 4, the latter with their monitors), or a final status (version 2).
    #[serde(default, skip_serializing_if = "Option::is_none", with = "hexadecimal")]
    sources: Option<u64>,
}

/// Writes a 64-bit number as 16 hexadecimal digits, because many readers round large JSON numbers.
mod hexadecimal {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(
        number: &Option<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        number.map(|number| format!("{number:016x}")).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u64>, D::Error> {
        let digits = String::deserialize(deserializer)?;
        u64::from_str_radix(&digits, 16).map(Some).map_err(D::Error::custom)
    }
}

/// Reason why the first 512 bytes of a file are not the user block of a part.
#[derive(Debug, thiserror::Error)]
pub enum UserBlockError {
    /// The bytes can't be read, or the file is shorter.
    #[error("its first 512 bytes can't be read: {0}")]
    Io(#[from] io::Error),
    /// The bytes are something else.
    #[error("not a part; expected a first line of JSON with \"azpipe\":\"part\"")]
    NotPart,
    /// The part was written by a newer azpipe.
    #[error("a part of version {0}, which a newer azpipe wrote; this azpipe reads versions 1 to 4")]
    UnsupportedVersion(u64),
    /// The line describes a part, and some bytes were changed.
    #[error(
        "damaged: its first 512 bytes were changed; remove the file and run ai-integrate again"
    )]
    Damaged,
    /// The line is as it was written, but no frames fit its numbers.
    #[error(
        "damaged: {count} frames from {first} to {last} are impossible; remove the file and run ai-integrate again"
    )]
    ImpossibleFrames {
        /// First frame that the line names.
        first: u64,
        /// Last frame that the line names.
        last: u64,
        /// Number of frames that the line names.
        count: u64,
    },
}

impl PartUserBlock {
    /// Returns the user block of a part with these frames, which are in ascending order.
    /// `has_monitor` says that the digest `sources` is also over their monitors.
    pub(super) fn new(
        scan: &str,
        recipe: &str,
        frames: &[u64],
        xxh3: String,
        sources: Option<u64>,
        has_monitor: bool,
    ) -> Self {
        let (first, last) =
            (frames.first().copied().unwrap_or(0), frames.last().copied().unwrap_or(0));
        let (scan, recipe, count) = (scan.to_owned(), recipe.to_owned(), frames.len() as u64);
        let v = match (sources, has_monitor) {
            (None, _) => 1,
            (Some(_), false) => 3,
            (Some(_), true) => 4,
        };
        Self { azpipe: "part".to_owned(), v, scan, recipe, first, last, count, xxh3, sources }
    }

    /// Returns the digest of the frames and their source fingerprints, and their monitors if there
    /// is one, if every frame is known to have a pattern.
    pub(crate) fn sources_of_patterns(&self, has_monitor: bool) -> Option<u64> {
        self.sources.filter(|_| self.v == if has_monitor { 4 } else { 3 })
    }

    /// Returns whether every frame is known to have a pattern.
    pub(crate) fn has_all_patterns(&self) -> bool {
        self.sources.is_some() && self.v >= 3
    }

    /// Returns whether this is the block of a part with these frames. `sources` computes the digest
    /// of their source fingerprints, with their monitors or without, which is needed if the block
    /// has one.
    pub(super) fn describes(
        &self,
        scan: &str,
        recipe: &str,
        frames: &[u64],
        sources: impl FnOnce(bool) -> u64,
    ) -> bool {
        let has_monitor = self.v == 4;
        let sources = self.sources.is_some().then(|| sources(has_monitor));
        let block = Self::new(scan, recipe, frames, self.xxh3.clone(), sources, has_monitor);
        *self == Self { v: self.v, ..block }
    }

    /// Reads the user block of a file that was just opened.
    pub(super) fn read(file: &mut File) -> Result<Self, UserBlockError> {
        let mut block = [0; USER_BLOCK_BYTES];
        file.read_exact(&mut block)?;
        let line = block.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let Ok(head) = serde_json::from_slice::<Self>(line) else {
            return Err(Self::error_of_other_line(file));
        };
        match (head.azpipe.as_str(), head.v) {
            ("part", 1..=4) if head.to_block().as_ref() != Some(&block) => {
                Err(UserBlockError::Damaged)
            }
            ("part", 1..=4) if !head.has_possible_frames() => {
                let Self { first, last, count, .. } = head;
                Err(UserBlockError::ImpossibleFrames { first, last, count })
            }
            ("part", 1..=4) => Ok(head),
            ("part", newer) => Err(UserBlockError::UnsupportedVersion(newer)),
            _ => Err(Self::error_of_other_line(file)),
        }
    }

    /// Returns the error of a file whose first line is not that of a part. HDF5 behind the first 512
    /// bytes is that of a part whose first line was changed.
    fn error_of_other_line(file: &mut File) -> UserBlockError {
        let mut signature = [0; HDF5_SIGNATURE.len()];
        match file.read_exact(&mut signature) {
            Ok(()) if signature == HDF5_SIGNATURE => UserBlockError::Damaged,
            Ok(()) => UserBlockError::NotPart,
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => UserBlockError::NotPart,
            Err(why) => UserBlockError::Io(why),
        }
    }

    /// Returns whether `count` distinct frames can lie between the first and the last frame.
    fn has_possible_frames(&self) -> bool {
        match (self.last.checked_sub(self.first), self.count.checked_sub(1)) {
            (Some(range), Some(others)) => others <= range,
            (Some(_), None) => self.first == 0 && self.last == 0,
            (None, _) => false,
        }
    }

    /// Returns the 512 bytes; `None` if the ids are too long for them.
    pub(super) fn to_block(&self) -> Option<[u8; USER_BLOCK_BYTES]> {
        let line = serde_json::to_vec(self).expect("text and numbers always serialize");
        let mut block = [b' '; USER_BLOCK_BYTES];
        block.get_mut(..line.len())?.copy_from_slice(&line);
        *block.get_mut(line.len())? = b'\n';
        block[USER_BLOCK_BYTES - 1] = b'\n';
        Some(block)
    }
}

/// Returns XXH3-128 over all bytes that are left to read, in 32 hexadecimal digits.
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
