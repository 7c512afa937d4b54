//! Decodes chunks that the filters' own libraries have written (`golden.py`: h5py 3 with
//! hdf5plugin, 61 × 43 pixels).

use kernels::{DecodeError, Pipeline, PixelType};

const PIXELS: u64 = 61 * 43;

/// Returns the frame in each golden chunk: mostly small numbers, and some that need all bits.
fn frame(pixels: u64) -> impl Iterator<Item = u64> {
    (0..pixels).map(|i| i * 2654435761 % (1 << 32)).map(|v| if v % 17 == 0 { v } else { v % 5 })
}

fn native(dtype: PixelType, pixels: u64) -> Vec<u8> {
    frame(pixels)
        .flat_map(|v| match dtype {
            PixelType::F32 => (v as f32 / 8.).to_ne_bytes().to_vec(),
            PixelType::F64 => (v as f64 / 8.).to_ne_bytes().to_vec(),
            _ => v.to_ne_bytes()[..dtype.size()].to_vec(),
        })
        .collect()
}

macro_rules! golden {
    ($($name:ident: $dtype:ident, $filters:expr;)*) => {
        const GOLDEN: &[Golden] = &[$(Golden {
            name: stringify!($name),
            stored: include_bytes!(concat!("golden/", stringify!($name), ".bin")),
            dtype: PixelType::$dtype,
            filters: &$filters,
        }),*];
    };
}

struct Golden {
    name: &'static str,
    stored: &'static [u8],
    dtype: PixelType,
    filters: &'static [(u32, &'static [u32])],
}

golden! {
    deflate_u16: U16, [(1, &[6])];
    shuffle_deflate_fletcher_i32: I32, [(2, &[4]), (1, &[4]), (3, &[])];
    lz4_u32: U32, [(32004, &[1024])];
    lz4_u8: U8, [(32004, &[0])];
    bslz4_u8: U8, [(32008, &[0, 4, 1, 0, 2])];
    bslz4_u16: U16, [(32008, &[0, 4, 2, 0, 2])];
    bslz4_u32: U32, [(32008, &[0, 4, 4, 0, 2])];
    bslz4_u32_64: U32, [(32008, &[0, 4, 4, 64, 2])];
    bslz4_f64: F64, [(32008, &[0, 4, 8, 0, 2])];
    bslz4_be_u16: U16, [(32008, &[0, 4, 2, 0, 2])];
    bszstd_u32: U32, [(32008, &[0, 4, 4, 0, 3, 3])];
    bsnone_i16: I16, [(32008, &[0, 4, 2, 0, 0])];
    zstd_f32: F32, [(32015, &[3])];
    fletcher_u8: U8, [(3, &[])];
    shuffle_zstd_u64: U64, [(2, &[8]), (32015, &[3])];
    blosc_blosclz_u8: U8, [(32001, &[2, 2, 1, 2623, 9, 0, 0])];
    blosc_blosclz_u32_large: U32, [(32001, &[2, 2, 4, 83936, 1, 1, 0])];
    blosc_blosclz_be_u16_large: U16, [(32001, &[2, 2, 2, 41968, 5, 1, 0])];
    blosc_lz4_u16: U16, [(32001, &[2, 2, 2, 5246, 5, 1, 1])];
    blosc_lz4_none_i16: I16, [(32001, &[2, 2, 2, 5246, 5, 0, 1])];
    blosc_lz4_bits_u32_large: U32, [(32001, &[2, 2, 4, 83936, 1, 2, 1])];
    blosc_lz4hc_u32_large: U32, [(32001, &[2, 2, 4, 83936, 9, 1, 2])];
    blosc_zlib_i32: I32, [(32001, &[2, 2, 4, 10492, 5, 1, 4])];
    blosc_zlib_bits_f64: F64, [(32001, &[2, 2, 8, 20984, 5, 2, 4])];
    blosc_zstd_bits_u16_large: U16, [(32001, &[2, 2, 2, 41968, 1, 2, 5])];
    blosc_zstd_u64: U64, [(32001, &[2, 2, 8, 20984, 5, 1, 5])];
    blosc_zstd_f32_large: F32, [(32001, &[2, 2, 4, 83936, 1, 1, 5])];
}

impl Golden {
    /// Returns the number of pixels: more in a chunk that codecs divide into several blocks.
    fn pixels(&self) -> u64 {
        if self.name.contains("_large") { 8 * PIXELS } else { PIXELS }
    }

    fn pipeline(&self) -> Pipeline {
        Pipeline::from_hdf5(self.filters, self.dtype, self.name.contains("_be_"))
            .expect("known filters")
    }

    fn decode(&self, stored: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let mut out = vec![0xee; self.pixels() as usize * self.dtype.size()];
        self.pipeline().decode(0, stored, &mut out).map(|()| out)
    }
}

#[test]
fn chunks_of_the_reference_libraries_decode() {
    for golden in GOLDEN {
        let decoded =
            golden.decode(golden.stored).unwrap_or_else(|e| panic!("{}: {e}", golden.name));
        assert!(decoded == native(golden.dtype, golden.pixels()), "{}", golden.name);
    }
}

#[test]
fn a_truncated_chunk_is_an_error_at_every_length() {
    for golden in GOLDEN {
        for len in (0..golden.stored.len()).step_by(7) {
            assert!(
                golden.decode(&golden.stored[..len]).is_err(),
                "{} cut to {len} bytes",
                golden.name
            );
        }
    }
}

#[test]
fn a_damaged_chunk_decodes_or_is_refused_but_never_harms() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize % below
    };
    for golden in GOLDEN {
        let mut refused = 0;
        for _ in 0..300 {
            let mut stored = golden.stored.to_vec();
            for _ in 0..1 + random(3) {
                let at = random(stored.len());
                stored[at] = [0, 0xff, random(256) as u8][random(3)];
            }
            refused += golden.decode(&stored).is_err() as u32;
        }
        assert!(refused > 0 || golden.name.contains("none"), "{}: all damage passed", golden.name);
    }
}

#[test]
fn hostile_lengths_are_refused_before_anything_is_allocated() {
    for golden in
        GOLDEN.iter().filter(|g| matches!(g.filters, [(32004 | 32008, v)] if v.get(4) != Some(&0)))
    {
        for (range, what) in
            [(0..8, "total"), (8..12, "block size"), (12..16, "first block's length")]
        {
            let mut stored = golden.stored.to_vec();
            stored[range].fill(0xff);
            match golden.decode(&stored) {
                Err(
                    DecodeError::Header { offset: 0, .. }
                    | DecodeError::Block { block: 0, offset: 12, .. },
                ) => {}
                // A single block may have any size that is enough for the frame.
                Ok(_) if golden.name == "lz4_u8" && what == "block size" => {}
                other => panic!("{}: {what}: {:?}", golden.name, other.err()),
            }
        }
    }
}

#[test]
fn errors_say_which_block_and_where() {
    let golden = GOLDEN.iter().find(|g| g.name == "bslz4_u32").expect("golden");
    let first = u32::from_be_bytes(golden.stored[12..16].try_into().expect("four bytes")) as usize;
    let mut stored = golden.stored.to_vec();
    stored[16 + first..20 + first].fill(0);
    let error = golden.decode(&stored).expect_err("a block of no bytes").to_string();
    assert_eq!(
        error,
        format!(
            "bitshuffle: block 1 at byte {}: corrupt LZ4 data; expected 2272 decoded bytes",
            16 + first
        )
    );
    stored.truncate(18 + first);
    let error = golden.decode(&stored).expect_err("half a length").to_string();
    assert_eq!(
        error,
        format!("bitshuffle: block 1 at byte {}: truncated: 4 bytes needed, 2 left", 16 + first)
    );
}

#[test]
fn client_values_may_lack_the_element_size() {
    let golden = GOLDEN.iter().find(|g| g.name == "bslz4_u32").expect("golden");
    for values in [&[0, 2][..], &[0, 4, 0, 0, 2]] {
        let pipeline =
            Pipeline::from_hdf5(&[(32008, values)], PixelType::U32, false).expect("known filter");
        let mut out = vec![0; PIXELS as usize * 4];
        assert_eq!(pipeline.decode(0, golden.stored, &mut out), Ok(()));
        assert!(out == native(PixelType::U32, PIXELS));
    }
}

#[test]
fn skipped_filters_are_not_undone() {
    let raw = native(PixelType::U32, PIXELS);
    let pipeline =
        Pipeline::from_hdf5(&[(2, &[4]), (1, &[6])], PixelType::U32, false).expect("known filters");
    let mut out = vec![0; raw.len()];
    assert_eq!(pipeline.decode(0b11, &raw, &mut out), Ok(()));
    assert!(out == raw);
    let error = pipeline.decode(0b11, &raw[1..], &mut out).expect_err("a byte is missing");
    assert_eq!(error.to_string(), "raw: 10491 bytes; expected 10492");
}

#[test]
fn a_flipped_bit_does_not_pass_fletcher32() {
    let golden = GOLDEN.iter().find(|g| g.name == "fletcher_u8").expect("golden");
    let mut stored = golden.stored.to_vec();
    stored[100] ^= 1;
    assert!(matches!(golden.decode(&stored), Err(DecodeError::Checksum { .. })));
}

#[test]
fn unknown_filters_are_named() {
    let refused = |filters| {
        Pipeline::from_hdf5(filters, PixelType::U32, false).expect_err("refused").to_string()
    };
    assert!(
        refused(&[(32026, &[])])
            .starts_with("HDF5 filter 32026 (blosc2) is not supported; expected ")
    );
    assert!(
        refused(&[(32008, &[0, 4, 4, 0, 9])])
            .contains("expected codec 0 (none), 2 (LZ4) or 3 (Zstd)")
    );
    assert!(refused(&[(32008, &[0, 4, 4, 12, 2])]).contains("multiple of 8"));
}
