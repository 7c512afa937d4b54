//! Lists all errors and notes of the crate's decoders, matrix and plan, so that they can be read
//! side by side.

use std::sync::Arc;

use kernels::sections::{SectionReader, SharedBytes, write_section};
use kernels::{
    DecodeError, DecodePathCounts, IntegrationPlan, MatrixError, PixelType, StreamFault, TiledCsc,
    VarianceModel,
};

#[test]
fn decode_errors() {
    let block = |fault| DecodeError::Block { filter: "bitshuffle", block: 7, offset: 4096, fault };
    let errors = [
        DecodeError::Unsupported { id: 32026 },
        DecodeError::Unsupported { id: 777 },
        DecodeError::ClientValues {
            id: 32008,
            values: vec![0, 4, 4, 12, 2],
            expected: "a block of a multiple of 8 elements",
        },
        DecodeError::Header {
            filter: "lz4",
            offset: 0,
            fault: StreamFault::DeclaredLength { found: 99, expected: 100 },
        },
        block(StreamFault::Truncated { needed: 800, left: 12 }),
        block(StreamFault::BlockSize(12)),
        block(StreamFault::Corrupt { codec: "LZ4", expected: 8192 }),
        DecodeError::Library { filter: "zstd", message: "Unknown frame descriptor".to_owned() },
        DecodeError::Checksum { stored: 0x0123_4567, computed: 0x89ab_cdef },
        DecodeError::Memory("no memory for 8 GiB".to_owned()),
        DecodeError::Length { filter: "raw", found: 99, expected: 100 },
    ];
    let messages = [
        "HDF5 filter 32026 (blosc2) is not supported; \
         expected deflate, shuffle, fletcher32, lz4, bitshuffle, zstd or blosc: rewrite the file, e.g. with h5repack",
        "HDF5 filter 777 (unknown) is not supported; \
         expected deflate, shuffle, fletcher32, lz4, bitshuffle, zstd or blosc: rewrite the file, e.g. with h5repack",
        "HDF5 filter 32008: client values [0, 4, 4, 12, 2]; expected a block of a multiple of 8 elements",
        "lz4: header at byte 0: 99 bytes announced; expected 100",
        "bitshuffle: block 7 at byte 4096: truncated: 800 bytes needed, 12 left",
        "bitshuffle: block 7 at byte 4096: block size of 12 bytes; expected a multiple of 8 elements, not 0",
        "bitshuffle: block 7 at byte 4096: corrupt LZ4 data; expected 8192 decoded bytes",
        "zstd: Unknown frame descriptor",
        "fletcher32: the chunk is corrupt: checksum 89abcdef; expected 01234567 as stored",
        "no memory for 8 GiB",
        "raw: 99 bytes; expected 100",
    ];
    assert_eq!(errors.map(|error| error.to_string()), messages);
}

#[test]
fn errors_of_a_matrix_and_a_plan() {
    let errors = [
        MatrixError::Shape { starts: 3, bins: 5, weights: 4 },
        MatrixError::Bin { pixel: 12, bin: 1000, nbins: 1000 },
        MatrixError::Weight { pixel: 12, weight: -0.5 },
        MatrixError::Size { nbins: 0, pixels: 100 },
        MatrixError::Pairs { first_bins: 3, pair_weights: 2, pixels: 3 },
        MatrixError::ExtraPixel { pixel: 3 },
    ];
    let messages = [
        "matrix: 3 column starts, 5 bin indices and 4 weights; \
         expected starts that rise from 0 to the number of entries, and as many weights as bin indices",
        "matrix: pixel 12 has an entry in bin 1000; expected rising bins below 1000",
        "matrix: pixel 12 has the weight -0.5; expected a finite number, not negative",
        "matrix: 0 bins for 100 pixels; expected 1 to 2^31 bins and fewer than 2^32 pixels",
        "matrix: 3 first bins and 2 pairs of weights for 3 pixels; expected one of each per pixel",
        "matrix: an extra entry of pixel 3 is after one of a later pixel, or not of the block; expected rising pixels",
    ];
    assert_eq!(errors.map(|error| error.to_string()), messages);

    let matrix = || TiledCsc::new(&[0, 1], &[0], &[1.0], 1).expect("a matrix of one pixel");
    let dark = IntegrationPlan::new(matrix(), &[1.0], VarianceModel::NONE, Some(&[0.0; 3]))
        .expect_err("3 darks");
    assert_eq!(dark.to_string(), "dark has 3 pixels; expected 1, as many as the matrix");
    let name = "f16".parse::<PixelType>().expect_err("no pixel type");
    assert_eq!(
        name.to_string(),
        "pixel type `f16` is not supported; expected one of u8 i8 u16 i16 u32 i32 u64 i64 f32 f64"
    );
}

/// Memory that begins on a multiple of 64, as a mapped file does.
#[repr(align(64))]
struct Aligned([u8; 1024]);

impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[test]
fn errors_of_sections() {
    let error_of = |sections: &[u8]| {
        let mut memory = Aligned([0; 1024]);
        memory.0[..sections.len()].copy_from_slice(sections);
        let memory: SharedBytes = Arc::new(memory);
        IntegrationPlan::from_sections(&mut SectionReader::new(memory, 0), VarianceModel::NONE)
            .expect_err("damaged sections")
            .to_string()
    };
    let section = |numbers: &[u64]| {
        let mut bytes = Vec::new();
        write_section(&mut bytes, numbers).expect("memory");
        bytes
    };
    let odd = {
        let mut bytes = Vec::new();
        write_section(&mut bytes, &[1_u8; 9]).expect("memory");
        bytes
    };
    let messages = [
        error_of(&section(&[0; 200])[..1024]),
        error_of(&odd),
        error_of(&section(&[1])),
        error_of(&section(&[0, 100])),
    ];
    assert_eq!(
        messages,
        [
            "byte 0: a section reaches beyond the end of the file",
            "byte 0: a section has items of another size, or is not aligned",
            "byte 0: a section has another length",
            "byte 0: the matrix has no valid number of bins and pixels",
        ]
    );
}

#[test]
fn decode_paths() {
    let all = DecodePathCounts {
        planes: 1,
        unshuffled: 2,
        native: 3,
        decoded: 4,
        csr: 5,
        on_device: 6,
        sent_decoded: 7,
    };
    assert_eq!(
        all.to_string(),
        "1 frame from bit planes, \
         2 frames from unshuffled blocks (slower: pixels are floating-point numbers, or tiles cross blocks), \
         3 frames as stored, \
         4 frames decoded whole (slower: the codec can't be decoded block by block), \
         5 frames decoded for sums by bin (slower: the method needs all pixels of a bin at once), \
         6 frames decoded on the device, \
         7 frames decoded for the device (slower: it decodes blocks of bitshuffled LZ4 only)"
    );
}
