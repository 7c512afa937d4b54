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
    /// Gives the buffer a length in bytes. Where that changes it, all bytes are 0 then; else they
    /// stay as they are.
    ///
    /// # Errors
    /// Fails as [`memory::reserve`] does. The buffer is empty then.
    pub fn resize(&mut self, len: usize) -> io::Result<()> {
        if self.as_bytes().len() == len {
            return Ok(());
        }
        self.map = None;
        if len == 0 {
            return Ok(());
        }
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
    fn a_buffer_keeps_its_bytes_until_its_length_changes() {
        let mut buffer = HugePageBuffer::default();
        assert!(buffer.as_bytes().is_empty());
        buffer.resize(3 << 20).expect("a little memory");
        assert!(buffer.as_bytes().len() == 3 << 20 && buffer.as_bytes().iter().all(|&b| b == 0));
        buffer.as_bytes_mut()[5] = 1;
        buffer.resize(3 << 20).expect("the same");
        assert_eq!(buffer.as_bytes()[5], 1);
        buffer.resize(10).expect("less");
        assert_eq!(buffer.as_bytes(), [0; 10]);
        let why = buffer.resize(1 << 60).expect_err("too much");
        assert_eq!(why.kind(), io::ErrorKind::OutOfMemory);
        assert!(buffer.as_bytes().is_empty());
        buffer.resize(0).expect("nothing");
    }
}
