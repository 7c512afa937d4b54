//! Reads ranges of a file, and checks that they exist before memory is allocated for them.

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use system::memory;

use super::ImageError;

/// Number of bytes that are read to detect the format.
const FORMAT_PROBE_BYTES: usize = 512;

/// A format error without the path of its file.
#[derive(Debug)]
pub(super) enum FormatError {
    Io(io::Error),
    Broken(String),
    NoFrame { frame: usize, frames: usize },
}

impl FormatError {
    /// Converts the error to the one that is reported for the file.
    pub(super) fn into_image_error(self, path: &Path, format: &'static str) -> ImageError {
        let path = path.to_owned();
        match self {
            Self::Io(why) => ImageError::Io { path, why },
            Self::Broken(why) => ImageError::Invalid { path, format, why },
            Self::NoFrame { frame, frames } => ImageError::NoFrame { path, frame, frames },
        }
    }

    /// Returns an error for a violation of the format.
    pub(super) fn invalid(why: impl Into<String>) -> Self {
        Self::Broken(why.into())
    }
}

impl From<io::Error> for FormatError {
    fn from(why: io::Error) -> Self {
        Self::Io(why)
    }
}

/// A file, or bytes in its place.
trait ReadSeek: Read + Seek {}

impl<T: Read + Seek> ReadSeek for T {}

/// A file with its length.
pub(super) struct FileBytes<'a> {
    reader: BufReader<Box<dyn ReadSeek + 'a>>,
    len: u64,
}

impl<'a> FileBytes<'a> {
    pub(super) fn new(mut file: impl Read + Seek + 'a) -> io::Result<Self> {
        let len = file.seek(SeekFrom::End(0))?;
        Ok(Self { reader: BufReader::new(Box::new(file)), len })
    }

    /// Returns the length of the file in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the first 512 bytes, or all of a shorter file.
    pub(super) fn read_start(&mut self) -> io::Result<Vec<u8>> {
        self.read_at_most(0, FORMAT_PROBE_BYTES)
    }

    /// Returns up to `count` bytes from `offset` on; fewer at the end of the file.
    pub(super) fn read_at_most(&mut self, offset: u64, count: usize) -> io::Result<Vec<u8>> {
        let available = self.len.saturating_sub(offset).min(count as u64) as usize;
        self.reader.seek(SeekFrom::Start(offset))?;
        let mut bytes = memory::zeroed(available)?;
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns exactly `count` bytes from `offset` on. `what` names them in the error for a file
    /// that is too short.
    pub(super) fn read_exact(
        &mut self,
        offset: u64,
        count: u64,
        what: &str,
    ) -> Result<Vec<u8>, FormatError> {
        let available = self.len.saturating_sub(offset);
        if available < count {
            return Err(FormatError::Broken(format!(
                "{what}: expected {count} bytes at offset {offset}, the file has {available} there"
            )));
        }
        Ok(self.read_at_most(offset, count as usize)?)
    }

    /// Returns the reader at the start of the file, for a decoder that seeks by itself.
    pub(super) fn reader(&mut self) -> io::Result<impl Read + Seek> {
        self.reader.rewind()?;
        Ok(&mut self.reader)
    }
}
