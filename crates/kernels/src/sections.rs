//! Writes arrays to a file so that they can be used in place when the file is memory-mapped: the
//! format of cached matrices.
//!
//! A section is a header of 64 bytes that begins with the payload's length in bytes, then the
//! payload, padded to a multiple of 64. Numbers are in the native format of the machine.

use std::fmt;
use std::io::{self, Write};
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit};

/// The alignment of sections, and the length of their headers, in bytes.
const SECTION_ALIGN: usize = 64;

/// Shared read-only memory, such as a mapped file.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// The error for sections that are damaged or of another kind, with the byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {what}")]
pub struct SectionError {
    at: usize,
    what: &'static str,
}

impl SectionError {
    /// Makes the error `what` at byte `at`.
    pub fn new(at: usize, what: &'static str) -> SectionError {
        SectionError { at, what }
    }
}

/// An array that is owned, or that is used in place in a section.
pub enum SharedArray<T> {
    /// An owned array.
    Owned(Vec<T>),
    /// An array in a section.
    Shared(SharedSection<T>),
}

/// The location of an array in shared memory, which it keeps alive.
pub struct SharedSection<T> {
    memory: SharedBytes,
    bytes: Range<usize>,
    item: std::marker::PhantomData<T>,
}

impl<T: AnyBitPattern> Deref for SharedArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            SharedArray::Owned(items) => items,
            SharedArray::Shared(section) => {
                bytemuck::cast_slice(&(*section.memory).as_ref()[section.bytes.clone()])
            }
        }
    }
}

impl<T: AnyBitPattern> SharedArray<T> {
    /// Returns the array for changes; copies it first if it is shared.
    pub fn to_mut(&mut self) -> &mut Vec<T> {
        if let SharedArray::Shared(_) = self {
            *self = SharedArray::Owned(self.to_vec());
        }
        match self {
            SharedArray::Owned(items) => items,
            SharedArray::Shared(_) => unreachable!("it was made owned above"),
        }
    }
}

impl<T> From<Vec<T>> for SharedArray<T> {
    fn from(items: Vec<T>) -> SharedArray<T> {
        SharedArray::Owned(items)
    }
}

impl<T: AnyBitPattern + fmt::Debug> fmt::Debug for SharedArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Writes an array as a section.
///
/// # Errors
/// An error of `out`.
pub fn write_section<T: NoUninit>(out: &mut impl Write, items: &[T]) -> io::Result<()> {
    let bytes: &[u8] = bytemuck::cast_slice(items);
    let mut header = [0; SECTION_ALIGN];
    header[..8].copy_from_slice(&(bytes.len() as u64).to_ne_bytes());
    out.write_all(&header)?;
    out.write_all(bytes)?;
    out.write_all(&[0; SECTION_ALIGN][..bytes.len().next_multiple_of(SECTION_ALIGN) - bytes.len()])
}

/// Reads sections from shared memory one after another, without copying them.
pub struct SectionReader {
    memory: SharedBytes,
    at: usize,
}

impl SectionReader {
    /// Starts at byte `at` of the memory, which has to begin on a multiple of 64, as a mapped file
    /// does.
    pub fn new(memory: SharedBytes, at: usize) -> SectionReader {
        SectionReader { memory, at }
    }

    /// Returns the next section as an array of `T`.
    ///
    /// # Errors
    /// A section that reaches beyond the memory, whose length is not a multiple of the size of `T`,
    /// or that is not aligned for `T`.
    pub fn read_section<T: AnyBitPattern>(&mut self) -> Result<SharedArray<T>, SectionError> {
        let (at, all) = (self.at, (*self.memory).as_ref());
        let beyond_end = SectionError { at, what: "a section reaches beyond the end of the file" };
        let header = all.get(at..).and_then(|rest| rest.first_chunk()).ok_or(beyond_end)?;
        let start = at + SECTION_ALIGN;
        let len = usize::try_from(u64::from_ne_bytes(*header)).ok().filter(|&len| len <= all.len());
        let bytes = len.map(|len| start..start + len).filter(|bytes| bytes.end <= all.len());
        let bytes = bytes.ok_or(beyond_end)?;
        if bytemuck::try_cast_slice::<u8, T>(&all[bytes.clone()]).is_err() {
            return Err(SectionError {
                at,
                what: "a section has items of another size, or is not aligned",
            });
        }
        self.at = bytes.end.next_multiple_of(SECTION_ALIGN);
        Ok(SharedArray::Shared(SharedSection {
            memory: Arc::clone(&self.memory),
            bytes,
            item: std::marker::PhantomData,
        }))
    }

    /// Returns the next section, which must have `items` items.
    ///
    /// # Errors
    /// As [`SectionReader::read_section`], and another number of items.
    pub fn read_section_of_len<T: AnyBitPattern>(
        &mut self,
        items: usize,
    ) -> Result<SharedArray<T>, SectionError> {
        let at = self.at;
        let array = self.read_section()?;
        if array.len() == items {
            Ok(array)
        } else {
            Err(SectionError { at, what: "a section has another length" })
        }
    }

    /// Returns the byte at which the next section begins.
    pub fn offset(&self) -> usize {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitmap::Bitmap;

    /// Memory that begins on a multiple of 64, as a mapped file does.
    struct Aligned(Vec<Bitmap>);

    impl AsRef<[u8]> for Aligned {
        fn as_ref(&self) -> &[u8] {
            bytemuck::cast_slice(&self.0)
        }
    }

    fn memory(bytes: &[u8]) -> SharedBytes {
        let mut lines = vec![Bitmap::EMPTY; bytes.len().div_ceil(size_of::<Bitmap>())];
        bytemuck::cast_slice_mut(&mut lines)[..bytes.len()].copy_from_slice(bytes);
        Arc::new(Aligned(lines))
    }

    #[test]
    fn arrays_are_read_in_place() {
        let mut bytes = Vec::new();
        write_section(&mut bytes, &[1.5f64, -0.0]).unwrap();
        write_section::<u32>(&mut bytes, &[]).unwrap();
        write_section(&mut bytes, &[7u8; 65]).unwrap();
        let mut reader = SectionReader::new(memory(&bytes), 0);
        assert_eq!(*reader.read_section::<f64>().unwrap(), [1.5, 0.0]);
        assert_eq!(*reader.read_section_of_len::<u32>(0).unwrap(), [0_u32; 0]);
        let last = reader.read_section::<u8>().unwrap();
        drop(reader);
        assert_eq!(*last, [7; 65]);
    }

    #[test]
    fn damaged_sections_are_errors() {
        let mut bytes = Vec::new();
        write_section(&mut bytes, &[1u8; 9]).unwrap();
        let error_at = |bytes: &[u8], at| {
            SectionReader::new(memory(bytes), at).read_section::<u32>().unwrap_err().to_string()
        };
        assert_eq!(
            error_at(&bytes, 0),
            "byte 0: a section has items of another size, or is not aligned"
        );
        assert_eq!(
            error_at(&bytes, 1024),
            "byte 1024: a section reaches beyond the end of the file"
        );
        bytes[..8].fill(0xff);
        assert_eq!(error_at(&bytes, 0), "byte 0: a section reaches beyond the end of the file");
        assert!(SectionReader::new(memory(&bytes), 64).read_section_of_len::<u8>(3).is_err());
    }
}
