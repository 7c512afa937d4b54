//! Tests whether a byte range of a file is in the page cache, so that reading it doesn't wait for
//! storage.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::path::Path;

use rustix::io::{ReadWriteFlags, preadv2};
use system::untrusted_file;

/// Maximum length in bytes of a range for which only the last byte is tested.
const SINGLE_PROBE_BYTES: u64 = 128 << 10;

/// Maximum size in bytes of a file that is loaded into the cache.
const MAX_PRELOAD_BYTES: u64 = 64 << 20;

/// Returns whether a range of a file is in the page cache, judging by a few of its bytes. Returns
/// `false` if the file system can't tell, because reading may then take any time.
pub(crate) fn is_range_cached(file: &File, offset: u64, len: u64) -> bool {
    let Some(last) = len.checked_sub(1) else { return true };
    let some: &[u64] = if len <= SINGLE_PROBE_BYTES { &[last] } else { &[last, len / 2, 0] };
    some.iter().all(|at| offset.checked_add(*at).is_some_and(|at| is_byte_cached(file, at)))
}

fn is_byte_cached(file: &File, offset: u64) -> bool {
    let mut byte = [0];
    preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT) == Ok(1)
}

/// Reads a short file to load it into the page cache.
///
/// # Errors
/// The file can't be read.
pub(crate) fn load_into_cache(path: &Path) -> io::Result<()> {
    let mut file = untrusted_file::open(path)?;
    let len = file.metadata()?.len();
    if len <= MAX_PRELOAD_BYTES && !is_range_cached(&file, 0, len) {
        io::copy(&mut file, &mut io::sink())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_cached_and_nothing_always_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a");
        std::fs::write(&path, vec![7; 1 << 20]).expect("a file");
        let file = File::open(&path).expect("the file");
        assert!(is_range_cached(&file, 5, 0));
        assert!(!is_range_cached(&file, 1 << 19, (1 << 19) + 1), "it ends before");
        assert!(!is_range_cached(&file, u64::MAX, 2) && !is_range_cached(&file, u64::MAX - 9, 5));
        load_into_cache(&path).expect("the file");
        assert!(load_into_cache(&dir.path().join("b")).is_err());
    }
}
