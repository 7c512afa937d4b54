//! Chunks of frames, by every codec.

use std::sync::LazyLock;

use integrator::{Integrator, MultiIntegrator};
use kernels::{EncodedFrame, Isa, Pipeline, PixelType, Scratch};
use recipe::{Recipe, Settings};
use records::FrameLayout;

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

/// Returns the filter that an input means by a number below 16: a known one, the unknown filter
/// 777, or none. The numbers of known filters stay when others are added, so that seeds keep their
/// meaning.
fn filter_of_input(number: u8) -> Option<u32> {
    if number == 15 { Some(777) } else { Pipeline::supported_filters().nth(usize::from(number)) }
}

/// A chunk of up to 16,384 bytes, whatever its filters, types and mask: it decodes, twice to the
/// same, or is refused.
pub fn chunk(data: &[u8]) {
    let [kind, filters, mask, size, value, stored @ ..] = data else { return };
    let dtype = TYPES[usize::from(kind % 10)];
    let values = [
        0,
        u32::from(*value),
        dtype.size() as u32,
        u32::from(value % 8) * 1024,
        u32::from(value / 8 % 4),
    ];
    let chosen: Vec<(u32, &[u32])> = [filters & 15, filters >> 4]
        .into_iter()
        .filter_map(filter_of_input)
        .map(|filter| (filter, &values[..usize::from(value % 6)]))
        .collect();
    let Ok(pipeline) = Pipeline::from_hdf5(&chosen, dtype, kind & 128 != 0) else { return };
    let bytes = usize::from(*size) * 64 / dtype.size() * dtype.size();
    let (mut first, mut second) = (vec![0; bytes], vec![0xa5; bytes]);
    let results =
        [&mut first, &mut second].map(|out| pipeline.decode(u32::from(*mask), stored, out).is_ok());
    assert_eq!(results[0], results[1]);
    if results[0] {
        assert_eq!(first, second, "every byte is decoded, none is left as it was");
    }
}

/// A block of LZ4 as HDF5's filter has it: what lz4_flex decodes, and nothing else.
pub fn lz4(data: &[u8]) {
    let [length, block @ ..] = data else { return };
    let bytes = usize::from(*length).max(1) * 16;
    let pipeline =
        Pipeline::from_hdf5(&[(32004, &[])], PixelType::U8, false).expect("a filter that is known");
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
        Ok(theirs) if theirs.len() == bytes => {
            assert!(!ours || theirs == out, "decodes to something else")
        }
        _ => assert!(!ours, "a damaged block decodes"),
    }
}

/// Integrators of frames that are a little larger than two tiles.
static INTEGRATORS: LazyLock<[Integrator; 3]> = LazyLock::new(|| {
    let poni = "poni_version: 2\nDetector: Detector\nDetector_config: {\"pixel1\": 1e-4, \"pixel2\": 1e-4}\n\
                Distance: 0.1\nPoni1: 0.0025\nPoni2: 0.003\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";
    let settings =
        Settings { geometry: Some(poni.to_owned()), npt: Some(50), ..Settings::default() };
    let recipe = Recipe::resolve(&settings).expect("a recipe");
    let framing = FrameLayout::full_frame([FRAME[0] as u64, FRAME[1] as u64]);
    [PixelType::U16, PixelType::U32, PixelType::I32]
        .map(|dtype| Integrator::new(&recipe, &framing, dtype).expect("an integrator"))
});

const FRAME: [usize; 2] = [60, 75];

/// A bitshuffled frame of LZ4 is summed block by block to what it is decoded to, beside sound
/// frames that stay as they are; or it is refused in both ways.
pub fn sums(data: &[u8]) {
    let [kind, stored @ ..] = data else { return };
    let together = MultiIntegrator::new(vec![&INTEGRATORS[usize::from(kind % 3)]]);
    let (_, dtype) = together.integrators()[0].frame_format();
    let all = Isa::available();
    let mut scratch = Scratch::new(all[usize::from(kind / 3) % all.len()]);
    let coding = [(32008, &[0, 2, dtype.size() as u32, 0, 2][..])];
    let pipeline = Pipeline::from_hdf5(&coding, dtype, false).expect("a filter that is known");
    let sound = sound_chunk(dtype.size());
    let frame = |bytes| EncodedFrame { bytes, filter_mask: 0 };
    let mut batch =
        together.integrate(&pipeline, &[frame(&sound), frame(stored), frame(&sound)], &mut scratch);
    let (third, second, first) = (batch.pop(), batch.pop().expect("three frames"), batch.pop());
    let alone = together.integrate(&pipeline, &[frame(&sound)], &mut scratch).pop();
    assert_eq!(first, alone, "the frame before");
    assert_eq!(third, alone, "the frame behind");
    let mut pixels = vec![0; together.frame_bytes()];
    match pipeline.decode(0, stored, &mut pixels) {
        Ok(()) => {
            let native = together
                .integrate(&together.native_decoder(), &[frame(&pixels)], &mut scratch)
                .pop()
                .expect("a frame");
            assert_eq!(second.expect("it decodes"), native.expect("pixels"));
        }
        Err(_) => assert!(second.is_err(), "it does not decode, and has sums"),
    }
}

/// An empty frame: blocks of zeros, each of which LZ4 has as one literal and a match that repeats
/// it.
fn sound_chunk(size: usize) -> Vec<u8> {
    let bytes = FRAME[0] * FRAME[1] * size;
    let block = 8192 / size * size;
    let mut chunk = (bytes as u64).to_be_bytes().to_vec();
    chunk.extend_from_slice(&(block as u32).to_be_bytes());
    let whole = bytes / (8 * size) * (8 * size);
    for start in (0..whole).step_by(block) {
        let packed = lz4_flex::block::compress(&vec![0; block.min(whole - start)]);
        chunk.extend_from_slice(&(packed.len() as u32).to_be_bytes());
        chunk.extend_from_slice(&packed);
    }
    chunk.extend(std::iter::repeat_n(0, bytes - whole));
    chunk
}
