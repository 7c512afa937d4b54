//! Chunks of cakes, which `hdf5-filters` encodes and decodes by code of its own.

use hdf5_filters::bitshuffle::{self, BlockCodec, Encoder};
use kernels::{Pipeline, PixelType};

/// Types by the size of their elements.
const TYPES: [PixelType; 4] = [PixelType::U8, PixelType::U16, PixelType::U32, PixelType::F64];

/// A chunk decodes to what the decoder of frames makes of it, or both refuse it; and whatever is
/// encoded comes back, in both.
pub fn cake(data: &[u8]) {
    let [kind, length, block, rest @ ..] = data else { return };
    let (codec, number) = if kind & 1 == 0 { (BlockCodec::Lz4, 2) } else { (BlockCodec::Zstd, 3) };
    let dtype = TYPES[usize::from(kind >> 1 & 3)];
    let size = dtype.size();
    let parameters = [0, 4, size as u32, 0, number];
    let pipeline = Pipeline::from_hdf5(&[(bitshuffle::ID, &parameters)], dtype, false)
        .expect("a filter that is known");
    let compare = |stored: &[u8], bytes: usize| -> Option<Vec<u8>> {
        let (mut ours, mut of_frames) = (vec![0; bytes], vec![0; bytes]);
        let decoded = bitshuffle::decode(codec, stored, size, &mut ours).is_ok();
        let mut decodes_as_frame =
            |length: &usize| pipeline.decode(0, &stored[..*length], &mut of_frames).is_ok();
        if !decodes_as_frame(&stored.len()) {
            assert!(!decoded, "the decoder of frames refuses it");
            return None;
        }
        // That decoder ignores bytes behind the last block, as the format's own one does.
        let lengths: Vec<usize> = (0..=stored.len()).collect();
        let end = lengths.partition_point(|length| !decodes_as_frame(length));
        let sound = &stored[..lengths[end]];
        assert!(decodes_as_frame(&sound.len()));
        // Blocks of 64 MiB and more are none of ours.
        if sound[8] >= 4 {
            return None;
        }
        assert!(decoded == (sound.len() == stored.len()), "one decoder takes it");
        bitshuffle::decode(codec, sound, size, &mut ours).expect("as a frame it decodes");
        assert_eq!(ours, of_frames, "two decoders, two results");
        decoded.then_some(ours)
    };
    // Most inputs have a header that is right, so that their blocks are read.
    let bytes = usize::from(*length) * size;
    if kind & 8 == 0 {
        compare(rest, bytes);
    } else {
        let block_bytes = u32::from(*block) * 8 * size as u32;
        let header = [&(bytes as u64).to_be_bytes()[..], &block_bytes.to_be_bytes()].concat();
        compare(&[&header, rest].concat(), bytes);
    }
    let whole = &rest[..rest.len() / size * size];
    let mut encoder = Encoder::new(codec).expect("there is memory");
    let stored = encoder.encode(whole, size).expect("there is memory");
    assert_eq!(compare(&stored, whole.len()).as_deref(), Some(whole), "it comes back");
}
