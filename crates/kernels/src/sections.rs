//! Arrays in a row of bytes, each where it can be used as it lies: in memory that others have, such as a mapped file.
//!
//! A section is [`SECTION_ALIGN`] bytes that begin with the payload's length in bytes, then the payload, filled up to a multiple
//! of [`SECTION_ALIGN`]. Numbers are those of this machine.

use std::fmt;
use std::io::{self, Write};
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit};

/// What all sections begin on.
const SECTION_ALIGN: usize = 64;

/// Memory of others, shared.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// What is wrong with sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {what}")]
pub struct SectionError {
    at: usize,
    what: &'static str,
}

impl SectionError {
    /// That is wrong at this byte.
    pub fn new(at: usize, what: &'static str) -> SectionError {
        SectionError { at, what }
    }
}

/// An array of its own, or one that lies in a section.
pub enum SharedArray<T> {
    /// Its own.
    Owned(Vec<T>),
    /// In a section.
    Shared(SharedSection<T>),
}

/// Where an array lies in memory of others.
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
            SharedArray::Shared(section) => bytemuck::cast_slice(&(*section.memory).as_ref()[section.bytes.clone()]),
        }
    }
}

impl<T: AnyBitPattern> SharedArray<T> {
    /// The array as one of its own, to be changed.
    pub fn to_mut(&mut self) -> &mut Vec<T> {
        if let SharedArray::Shared(_) = self {
            *self = SharedArray::Owned(self.to_vec());
        }
        match self {
            SharedArray::Owned(items) => items,
            SharedArray::Shared(_) => unreachable!("it has just been made its own"),
        }
    }
}

impl<T> From<Vec<T>> for SharedArray<T> {
    fn from(items: Vec<T>) -> SharedArray<T> {
        SharedArray::Owned(items)
    }
}

impl<T: Clone> Clone for SharedArray<T> {
    fn clone(&self) -> SharedArray<T> {
        match self {
            SharedArray::Owned(items) => SharedArray::Owned(items.clone()),
            SharedArray::Shared(section) => SharedArray::Shared(SharedSection {
                memory: Arc::clone(&section.memory),
                bytes: section.bytes.clone(),
                item: std::marker::PhantomData,
            }),
        }
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
/// Those of the writer.
pub fn write_section<T: NoUninit>(out: &mut impl Write, items: &[T]) -> io::Result<()> {
    let bytes: &[u8] = bytemuck::cast_slice(items);
    let mut head = [0; SECTION_ALIGN];
    head[..8].copy_from_slice(&(bytes.len() as u64).to_ne_bytes());
    out.write_all(&head)?;
    out.write_all(bytes)?;
    out.write_all(&[0; SECTION_ALIGN][..bytes.len().next_multiple_of(SECTION_ALIGN) - bytes.len()])
}

/// Takes sections from memory, one after the other.
pub struct SectionReader {
    memory: SharedBytes,
    at: usize,
}

impl SectionReader {
    /// The sections from byte `at` of the memory on. The memory has to begin on a multiple of 64, as a mapped file does.
    pub fn new(memory: SharedBytes, at: usize) -> SectionReader {
        SectionReader { memory, at }
    }

    /// The next section.
    ///
    /// # Errors
    /// It reaches beyond the memory, is not one of such items, or does not lie where they may.
    pub fn read_section<T: AnyBitPattern>(&mut self) -> Result<SharedArray<T>, SectionError> {
        let (at, all) = (self.at, (*self.memory).as_ref());
        let wrong = |what| SectionError { at, what };
        let head = all.get(at..).and_then(|rest| rest.first_chunk()).ok_or(wrong("a section beyond the end"))?;
        let start = at + SECTION_ALIGN;
        let len = usize::try_from(u64::from_ne_bytes(*head)).ok().filter(|&len| len <= all.len());
        let bytes = len.map(|len| start..start + len).filter(|bytes| bytes.end <= all.len());
        let bytes = bytes.ok_or(wrong("a section beyond the end"))?;
        if bytemuck::try_cast_slice::<u8, T>(&all[bytes.clone()]).is_err() {
            return Err(wrong("a section of other items, or at another place"));
        }
        self.at = bytes.end.next_multiple_of(SECTION_ALIGN);
        Ok(SharedArray::Shared(SharedSection {
            memory: Arc::clone(&self.memory),
            bytes,
            item: std::marker::PhantomData,
        }))
    }

    /// The next section, which has to have so many items.
    ///
    /// # Errors
    /// As [`SectionReader::read_section`]; another number of items.
    pub fn read_section_of_len<T: AnyBitPattern>(&mut self, items: usize) -> Result<SharedArray<T>, SectionError> {
        let at = self.at;
        let array = self.read_section()?;
        if array.len() == items { Ok(array) } else { Err(SectionError { at, what: "a section of another length" }) }
    }

    /// Where the next section begins.
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
    fn arrays_come_back_from_where_they_lie() {
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
    fn what_is_no_section_is_refused() {
        let mut bytes = Vec::new();
        write_section(&mut bytes, &[1u8; 9]).unwrap();
        let refuse =
            |bytes: &[u8], at| SectionReader::new(memory(bytes), at).read_section::<u32>().unwrap_err().to_string();
        assert_eq!(refuse(&bytes, 0), "byte 0: a section of other items, or at another place");
        assert_eq!(refuse(&bytes, 1024), "byte 1024: a section beyond the end");
        bytes[..8].fill(0xff);
        assert_eq!(refuse(&bytes, 0), "byte 0: a section beyond the end");
        assert!(SectionReader::new(memory(&bytes), 64).read_section_of_len::<u8>(3).is_err());
    }
}
