//! Bitshuffle with LZ4, as Lima stores a frame.
//!
//! A chunk is 8 bytes with its decoded length and 4 with the block's, big-endian, and for each
//! block of 8 KiB 4 bytes with its compressed length and an LZ4 block. In a block all lowest bits
//! stand first, then all second ones, and so on. Of the last block up to seven elements are left;
//! they follow as they are. Source: `bitshuffle_core.c`, `bshuf_h5filter.c`.

/// Bytes of a block.
const BLOCK: usize = 8192;

/// Encodes elements of `size` bytes. `block_header` stands in the chunk as the length of a block:
/// 0 as Lima 1 writes it, 8192 as the HDF5 filter does; both mean 8192.
pub fn encode(bytes: &[u8], size: usize, block_header: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() / 4);
    out.extend((bytes.len() as u64).to_be_bytes());
    out.extend(block_header.to_be_bytes());
    let raw = bytes.len() % (8 * size);
    let (blocks, left) = bytes.split_at(bytes.len() - raw);
    for block in blocks.chunks(BLOCK) {
        let packed = lz4_flex::block::compress(&shuffle(block, size));
        out.extend((packed.len() as u32).to_be_bytes());
        out.extend(packed);
    }
    out.extend(left);
    out
}

/// Bit planes of elements of `size` bytes, their number a multiple of 8: plane after plane of each
/// byte from the lowest bit on, eight elements a byte with the first in the lowest bit.
pub fn shuffle(block: &[u8], size: usize) -> Vec<u8> {
    let plane = block.len() / size / 8;
    let mut out = vec![0; block.len()];
    for (group, elements) in block.chunks_exact(8 * size).enumerate() {
        for byte in 0..size {
            let column = std::array::from_fn(|element| elements[element * size + byte]);
            let planes = transpose(u64::from_le_bytes(column)).to_le_bytes();
            for (bit, value) in planes.into_iter().enumerate() {
                out[(byte * 8 + bit) * plane + group] = value;
            }
        }
    }
    out
}

/// The transpose of an 8 x 8 bit matrix, rows from the lowest byte, columns from the lowest bit
/// (Warren, Hacker's Delight, 7-3).
fn transpose(mut bits: u64) -> u64 {
    for (shift, mask) in
        [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)]
    {
        let swapped = (bits ^ (bits >> shift)) & mask;
        bits ^= swapped ^ (swapped << shift);
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_goes_to_its_plane() {
        // Element 3 of 8 has bit 9 set: byte 1, bit 1 of it, in the place of element 3.
        let mut block = [0; 16];
        block[3 * 2 + 1] = 0b10;
        let mut expected = [0; 16];
        expected[9] = 1 << 3;
        assert_eq!(shuffle(&block, 2), expected);
    }

    #[test]
    fn a_chunk_says_its_length_and_ends_in_raw_elements() {
        let bytes: Vec<u8> = (0..8192 + 4 * 19).map(|n| (n % 251) as u8).collect();
        let chunk = encode(&bytes, 4, 0);
        assert_eq!(chunk[..12], [&(bytes.len() as u64).to_be_bytes()[..], &[0; 4]].concat());
        assert!(chunk.ends_with(&bytes[8192 + 4 * 16..]));
    }
}
