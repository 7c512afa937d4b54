//! [`VerifyingStorage`]: the bytes of an HDF5 file that is read. Errors are kept, and bytes that
//! have checksums are verified before the library sees them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use frames::{ByteKind, SharedStorage, Storage};
use system::untrusted_file;

use super::checksums::FileChecksums;
use super::error::{ErrorLatch, Hdf5Error, Result};

/// Start of a global heap, which holds texts of variable length and the sources of virtual datasets
/// (HDF5 file format, III.E). In a damaged one, the library may search for the end without stopping.
const GLOBAL_HEAP_SIGNATURE: &[u8] = b"GCOL";

/// A file that is open for reading, with its checksums.
pub(super) struct VerifyingStorage {
    file: File,
    size: u64,
    segments: Option<FileChecksums>,
    health: ErrorLatch,
}

impl VerifyingStorage {
    /// Reads the checksums of an open file, if it has any.
    pub fn new(file: File, health: ErrorLatch) -> Result<Self> {
        let about = file.metadata().map_err(Hdf5Error::Io)?;
        if !about.is_file() {
            return Err(Hdf5Error::Library("not a regular file".to_owned()));
        }
        let segments = FileChecksums::read(&file, about.len())?;
        let size = segments.as_ref().map_or(about.len(), |segments| segments.size);
        Ok(Self { file, size, segments, health })
    }

    /// Returns whether each byte is verified before it is used.
    pub fn has_checksums(&self) -> bool {
        self.segments.is_some()
    }

    /// Verifies all bytes that were not read yet. Files without checksums count as intact.
    pub fn verify_all(&mut self) -> Result<()> {
        self.segments.as_mut().map_or(Ok(()), |segments| segments.verify_all(&self.file))
    }

    /// Records the error of a read, and returns the one for the library.
    fn refuse(&self, why: Hdf5Error) -> io::Error {
        self.health.record(why);
        io::ErrorKind::Other.into()
    }

    fn verify(&mut self, bytes: ByteKind, at: u64, length: usize) -> Result<()> {
        self.segments
            .as_mut()
            .map_or(Ok(()), |segments| segments.verify(&self.file, bytes, at, length))
    }
}

impl Storage for VerifyingStorage {
    fn size(&self) -> u64 {
        self.size
    }

    /// Reads bytes for the library. Damaged values are read and the damage is recorded, because
    /// each row has its own checksum. Damaged metadata is an error, and so is a damaged global
    /// heap, which the library reads like values.
    fn read(&mut self, bytes: ByteKind, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let there = self.size.saturating_sub(at).min(buffer.len() as u64) as usize;
        let verified = self.verify(bytes, at, there);
        let damage = match verified {
            Err(why @ Hdf5Error::Damaged(_)) if bytes == ByteKind::RawData => Some(why),
            Err(why) => return Err(self.refuse(why)),
            Ok(()) => None,
        };
        self.file
            .read_exact_at(&mut buffer[..there], at)
            .map_err(|why| self.refuse(Hdf5Error::Io(why)))?;
        match damage {
            Some(why) if buffer.starts_with(GLOBAL_HEAP_SIGNATURE) => Err(self.refuse(why)),
            Some(why) => {
                self.health.record(why);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn write(&mut self, _: ByteKind, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_size(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    /// Opens the source of a virtual dataset. A missing file has no rows; a file that can't be read
    /// is recorded as an error, which the library would not tell from a missing file.
    fn open_other(&mut self, path: &Path) -> io::Result<SharedStorage> {
        let opened = untrusted_file::open(path)
            .map_err(Hdf5Error::Io)
            .and_then(|file| Self::new(file, self.health.clone()));
        match opened {
            Ok(other) => {
                if !other.has_checksums() {
                    self.health.set_verified(false);
                }
                Ok(Arc::new(Mutex::new(other)))
            }
            Err(Hdf5Error::Io(why))
                if matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                Err(why)
            }
            Err(why) => {
                let kind = match &why {
                    Hdf5Error::Io(why) => why.kind(),
                    _ => io::ErrorKind::Other,
                };
                let told = io::Error::new(kind, format!("{}: {why}", path.display()));
                self.health.record(Hdf5Error::Io(told));
                Err(io::ErrorKind::Other.into())
            }
        }
    }
}
