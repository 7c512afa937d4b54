//! Where the bytes of an HDF5 file are read from and written to.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The kind of bytes that the library reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteKind {
    /// Values of datasets.
    RawData,
    /// Everything else: the file's structure, and texts of variable length.
    Metadata,
}

/// Storage of an HDF5 file's bytes. An error makes the library's call fail.
pub trait Storage: Send {
    /// Returns the size in bytes.
    fn size(&self) -> u64;

    /// Fills `buffer` with the bytes from offset `at` on, and with zeros after the end.
    ///
    /// # Errors
    /// The bytes can't be read.
    fn read(&mut self, bytes: ByteKind, at: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes `buffer` at offset `at`.
    ///
    /// # Errors
    /// The bytes can't be written.
    fn write(&mut self, bytes: ByteKind, at: u64, buffer: &[u8]) -> io::Result<()>;

    /// Truncates the storage to `size` bytes, or extends it with zeros.
    ///
    /// # Errors
    /// The file system refuses.
    fn set_size(&mut self, size: u64) -> io::Result<()>;

    /// Opens another file for reading, to which this one refers in an external link or a virtual
    /// dataset.
    ///
    /// # Errors
    /// The file doesn't exist or can't be opened.
    fn open_other(&mut self, path: &Path) -> io::Result<SharedStorage>;
}

/// A storage that is shared by the library and the code that opened the file.
pub type SharedStorage = Arc<Mutex<dyn Storage>>;
