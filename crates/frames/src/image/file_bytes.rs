//! A file's bytes, asked for in pieces that are known to be there before memory is taken for them.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use filter::memory;

use super::{ImageError, ImageFormat};

/// How much of a file is looked at to tell its format.
const FORMAT_PROBE_BYTES: usize = 512;

/// What is wrong with an image, before it is known where.
#[derive(Debug)]
pub(super) enum FormatError {
    Io(io::Error),
    Broken(String),
    NoFrame { frame: usize, frames: usize },
}

impl FormatError {
    /// The error to report of this flaw in the named file.
    pub(super) fn into_image_error(self, path: &Path, format: ImageFormat) -> ImageError {
        let path = path.to_owned();
        match self {
            Self::Io(why) => ImageError::Io { path, why },
            Self::Broken(why) => ImageError::Invalid { path, format, why },
            Self::NoFrame { frame, frames } => ImageError::NoFrame { path, frame, frames },
        }
    }

    /// A break of the format's rules.
    pub(super) fn invalid(why: impl Into<String>) -> Self {
        Self::Broken(why.into())
    }
}

impl From<io::Error> for FormatError {
    fn from(why: io::Error) -> Self {
        Self::Io(why)
    }
}

/// A file of known length.
pub(super) struct FileBytes<R> {
    reader: R,
    len: u64,
}

impl<R: Read + Seek> FileBytes<R> {
    pub(super) fn new(mut reader: R) -> io::Result<Self> {
        let len = reader.seek(SeekFrom::End(0))?;
        Ok(Self { reader, len })
    }

    /// The file's length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The first 512 bytes, or all where there are fewer.
    pub(super) fn read_start(&mut self) -> io::Result<Vec<u8>> {
        self.read_at_most(0, FORMAT_PROBE_BYTES)
    }

    /// The `count` bytes from `offset` on, or those of them that the file has.
    pub(super) fn read_at_most(&mut self, offset: u64, count: usize) -> io::Result<Vec<u8>> {
        let there = self.len.saturating_sub(offset).min(count as u64) as usize;
        self.reader.seek(SeekFrom::Start(offset))?;
        let mut bytes = memory::zeroed(there)?;
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// All the `count` bytes from `offset` on; `what` names them where the file is too short.
    pub(super) fn read_exact(&mut self, offset: u64, count: u64, what: &str) -> Result<Vec<u8>, FormatError> {
        let there = self.len.saturating_sub(offset);
        if there < count {
            return Err(FormatError::Broken(format!(
                "{what}: expected {count} bytes at offset {offset}, the file has {there} there"
            )));
        }
        Ok(self.read_at_most(offset, count as usize)?)
    }

    /// The reader, for a decoder that seeks by itself.
    pub(super) fn reader(&mut self) -> io::Result<&mut R> {
        self.reader.rewind()?;
        Ok(&mut self.reader)
    }
}
