//! [`HugePageBuffer`], memory in huge pages where the system has some.

use std::io;

use memmap2::{MmapMut, MmapOptions};

use crate::memory;

/// Memory that is read in no order, in pages of some megabytes where the system has them. The
/// processor remembers where few pages are, so that with small ones nearly every such read looks
/// the page up in memory first.
#[derive(Debug, Default)]
pub struct HugePageBuffer {
    /// `None` if the buffer is empty.
    map: Option<MmapMut>,
}

impl HugePageBuffer {
    /// Makes the buffer at least so many bytes long. If it grows, all its bytes are 0; else they stay
    /// as they are. It never shrinks, so that users of several lengths don't allocate it in turns.
    ///
    /// # Errors
    /// Fails as [`memory::reserve`] does. The buffer is empty then.
    pub fn grow(&mut self, len: usize) -> io::Result<()> {
        if len <= self.as_bytes().len() {
            return Ok(());
        }
        self.map = None;
        memory::check_available(len as u64)?;
        let map = MmapOptions::new().len(len).map_anon()?;
        // A system without huge pages refuses the advice; the memory is as good, but slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        self.map = Some(map);
        Ok(())
    }

    /// Returns the bytes. They begin at a page, and so are aligned for all types.
    pub fn as_bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }

    /// Returns the bytes as [`HugePageBuffer::as_bytes`] does.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        self.map.as_deref_mut().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_keeps_its_bytes_until_it_grows() {
        let mut buffer = HugePageBuffer::default();
        buffer.grow(0).expect("nothing");
        assert!(buffer.as_bytes().is_empty());
        buffer.grow(3 << 20).expect("a little memory");
        assert!(buffer.as_bytes().len() == 3 << 20 && buffer.as_bytes().iter().all(|&b| b == 0));
        buffer.as_bytes_mut()[5] = 1;
        buffer.grow(10).expect("less");
        assert_eq!((buffer.as_bytes().len(), buffer.as_bytes()[5]), (3 << 20, 1));
        buffer.grow(4 << 20).expect("more");
        assert!(buffer.as_bytes().len() == 4 << 20 && buffer.as_bytes().iter().all(|&b| b == 0));
        let why = buffer.grow(1 << 60).expect_err("too much");
        assert_eq!(why.kind(), io::ErrorKind::OutOfMemory);
        assert!(buffer.as_bytes().is_empty());
    }
}
