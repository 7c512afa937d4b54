//! Chunks of frames, by every codec.

use kernels::{Pipeline, PixelType};

/// Pixels' types, by number.
const TYPES: [PixelType; 10] = [
    PixelType::U8,
    PixelType::I8,
    PixelType::U16,
    PixelType::I16,
    PixelType::U32,
    PixelType::I32,
    PixelType::U64,
    PixelType::I64,
    PixelType::F32,
    PixelType::F64,
];

/// HDF5's filters: deflate, shuffle, Fletcher-32, LZ4, bitshuffle with its compressors, Zstd; and one that is not known.
const FILTERS: [u32; 7] = [1, 2, 3, 32004, 32008, 32015, 777];

/// A chunk of up to 16,384 bytes, whatever its filters, types and mask: it decodes, twice to the same, or is refused.
pub fn chunk(data: &[u8]) {
    let [kind, filters, mask, size, value, stored @ ..] = data else { return };
    let dtype = TYPES[usize::from(kind % 10)];
    let values = [0, u32::from(*value), dtype.size() as u32, u32::from(value % 8) * 1024, u32::from(value / 8 % 4)];
    let chosen: Vec<(u32, &[u32])> = [filters % 8, filters / 8 % 8]
        .into_iter()
        .filter_map(|index| FILTERS.get(usize::from(index)))
        .map(|&filter| (filter, &values[..usize::from(value % 6)]))
        .collect();
    let Ok(pipeline) = Pipeline::from_hdf5(&chosen, dtype, kind & 128 != 0) else { return };
    let bytes = usize::from(*size) * 64 / dtype.size() * dtype.size();
    let (mut first, mut second) = (vec![0; bytes], vec![0xa5; bytes]);
    let results = [&mut first, &mut second].map(|out| pipeline.decode(u32::from(*mask), stored, out).is_ok());
    assert_eq!(results[0], results[1]);
    if results[0] {
        assert_eq!(first, second, "every byte is decoded, none is left as it was");
    }
}

/// A block of LZ4 as HDF5's filter has it: what lz4_flex decodes, and nothing else.
pub fn lz4(data: &[u8]) {
    let [length, block @ ..] = data else { return };
    let bytes = usize::from(*length).max(1) * 16;
    let pipeline = Pipeline::from_hdf5(&[(32004, &[])], PixelType::U8, false).expect("a filter that is known");
    let mut stored = (bytes as u64).to_be_bytes().to_vec();
    stored.extend((bytes as u32).to_be_bytes());
    stored.extend((block.len() as u32).to_be_bytes());
    stored.extend(block);
    let mut out = vec![0; bytes];
    let ours = pipeline.decode(0, &stored, &mut out).is_ok();
    // A block as long as what it holds is stored as it is.
    if block.len() == bytes {
        assert!(ours && out == block);
        return;
    }
    match lz4_flex::block::decompress(block, bytes) {
        Ok(theirs) if theirs.len() == bytes => assert!(!ours || theirs == out, "decodes to something else"),
        _ => assert!(!ours, "a damaged block decodes"),
    }
}
