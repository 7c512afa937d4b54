//! Coalesces reads of neighbouring chunks into one `preadv`, because storage is faster at few long
//! reads than at many short ones.

use std::fs::File;
use std::io::{self, IoSliceMut};

use rustix::io::{Errno, preadv};

use crate::chunk::Chunk;

/// Largest gap in bytes between two chunks that are still read together. The bytes of the gap, such
/// as nodes of HDF5's index, are read and dropped.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// Maximum size of a coalesced read in bytes, except for a single larger chunk. 16 MiB is the usual
/// block size of parallel file systems, and long enough that latency is small compared with the
/// transfer.
const MAX_RUN_BYTES: u64 = 16 << 20;

/// Maximum number of chunks in a coalesced read: the kernel accepts 1024 buffers, and each chunk
/// may need a second one for the gap before it.
const MAX_RUN_CHUNKS: usize = 512;

/// Groups chunks, which are in ascending order of offset, into coalesced reads.
pub(crate) fn group_adjacent(chunks: &[Chunk]) -> Vec<&[Chunk]> {
    let (mut runs, mut start) = (Vec::new(), 0_usize);
    for (end, pair) in (1_usize..).zip(chunks.windows(2)) {
        let (first, before, next) = (&chunks[start], &pair[0], &pair[1]);
        let behind = before.offset.saturating_add(before.len);
        let gap = next.offset.checked_sub(behind);
        let bytes = next.offset.saturating_add(next.len).saturating_sub(first.offset);
        let fits = bytes <= MAX_RUN_BYTES && end.saturating_sub(start) < MAX_RUN_CHUNKS;
        if gap.is_none_or(|gap| gap > MAX_GAP_BYTES) || !fits {
            runs.push(&chunks[start..end]);
            start = end;
        }
    }
    runs.extend((start < chunks.len()).then_some(&chunks[start..]));
    runs
}

/// Reads a group of chunks, each into its own buffer, which already has the chunk's length.
///
/// # Errors
/// The system's error, or `UnexpectedEof` if the file ends within the group. The contents of the
/// buffers are then undefined.
pub(crate) fn read_adjacent(
    file: &File,
    chunks: &[Chunk],
    buffers: &mut [Vec<u8>],
) -> io::Result<()> {
    let Some(first) = chunks.first() else { return Ok(()) };
    let behind = |chunk: &Chunk| chunk.offset.saturating_add(chunk.len);
    let gaps: Vec<usize> = chunks
        .windows(2)
        .map(|pair| pair[1].offset.saturating_sub(behind(&pair[0])) as usize)
        .collect();
    let mut waste: Vec<Vec<u8>> = gaps.iter().map(|gap| vec![0; *gap]).collect();
    let mut slices = Vec::with_capacity(chunks.len().saturating_mul(2));
    let mut between = waste.iter_mut().filter(|gap| !gap.is_empty());
    for (index, buffer) in buffers.iter_mut().enumerate() {
        slices.push(IoSliceMut::new(buffer));
        if gaps.get(index).is_some_and(|gap| *gap > 0) {
            slices.extend(between.next().map(|gap| IoSliceMut::new(gap)));
        }
    }
    let (mut slices, mut offset) = (&mut slices[..], first.offset);
    while !slices.is_empty() {
        match preadv(file, slices, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                offset = offset.saturating_add(read as u64);
                IoSliceMut::advance_slices(&mut slices, read);
            }
            Err(Errno::INTR) => (),
            Err(why) => return Err(why.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(offset: u64, len: u64) -> Chunk {
        Chunk { offset, len, filter_mask: 0, origin: [0; 3], shape: [1; 3] }
    }

    #[test]
    fn chunks_beside_each_other_are_a_run() {
        let near = [chunk(100, 50), chunk(150, 10), chunk(160 + MAX_GAP_BYTES, 10)];
        assert_eq!(group_adjacent(&near), [&near[..]]);
        for apart in [
            chunk(171 + 2 * MAX_GAP_BYTES, 5),
            chunk(0, 5),
            chunk(u64::MAX, 5),
            chunk(155 + MAX_GAP_BYTES, 5),
        ] {
            let far = [near[0], near[1], near[2], apart];
            let lengths: Vec<usize> =
                group_adjacent(&far).into_iter().map(<[Chunk]>::len).collect();
            assert_eq!(lengths, [3, 1], "{apart:?}");
        }
        let long: Vec<Chunk> = (0..5).map(|index| chunk(index * (7 << 20), 7 << 20)).collect();
        assert_eq!(
            group_adjacent(&long).into_iter().map(<[Chunk]>::len).collect::<Vec<_>>(),
            [2, 2, 1]
        );
        let many: Vec<Chunk> =
            (0..MAX_RUN_CHUNKS as u64 + 1).map(|index| chunk(index, 1)).collect();
        assert_eq!(group_adjacent(&many).len(), 2);
        assert_eq!(group_adjacent(&[chunk(5, u64::MAX)]).len(), 1);
        assert!(group_adjacent(&[]).is_empty());
    }

    #[test]
    fn a_run_is_read_as_its_chunks_are_and_not_beyond_the_end() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("a");
        let bytes: Vec<u8> = (0..1000u32).map(|byte| byte as u8).collect();
        std::fs::write(&path, &bytes).expect("a file");
        let file = File::open(&path).expect("the file");
        let all = [chunk(3, 100), chunk(103, 0), chunk(110, 500), chunk(999, 1)];
        let mut buffers: Vec<Vec<u8>> =
            all.iter().map(|chunk| vec![0; chunk.len as usize]).collect();
        read_adjacent(&file, &all, &mut buffers).expect("the run");
        for (chunk, buffer) in all.iter().zip(&buffers) {
            assert_eq!(*buffer, bytes[chunk.offset as usize..][..chunk.len as usize]);
        }
        let why = read_adjacent(&file, &[chunk(900, 101)], &mut [vec![0; 101]])
            .expect_err("the file has 1000 bytes");
        assert_eq!(why.kind(), io::ErrorKind::UnexpectedEof);
    }
}
