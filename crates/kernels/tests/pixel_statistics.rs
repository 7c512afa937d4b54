//! Compares statistics of pixels with sums by plain loops: exact for each pixel type, instruction
//! set and rule for invalid values, and the same for any division of the frames among threads.

mod support;

use std::thread;

use kernels::{
    EncodedFrame, InvalidValues, Isa, Pipeline, PixelStatistics, PixelSums, PixelType,
    StatisticsScratch,
};
use support::{Frame, Photons, Random, Ranges};

const BSLZ4: (u32, &[u32]) = (32008, &[0, 4, 0, 0, 2]);
const SHUFFLE: (u32, &[u32]) = (2, &[]);

/// The statistics of one pixel by the definition. Values of at most 32 bits are exact in f64.
fn expected(frames: &[Frame], pixel: usize) -> PixelSums {
    let valid = || frames.iter().filter(|frame| frame.valid[pixel]);
    let values = || valid().map(|frame| frame.values[pixel] as i64);
    PixelSums {
        invalid: (frames.len() - valid().count()) as u32,
        nonzero: values().filter(|value| *value != 0).count() as u32,
        sum: values().sum(),
        squares: values().map(|value| u128::from(value.unsigned_abs()).pow(2)).sum(),
        max: values().filter(|value| *value != 0).max().unwrap_or(i64::MIN),
    }
}

fn found(statistics: &PixelStatistics) -> Vec<PixelSums> {
    let mut all = Vec::new();
    statistics.for_each(|sums| all.push(sums));
    all
}

#[test]
fn sums_are_those_of_plain_loops_for_any_division_of_the_frames() {
    use PixelType::{I8, I16, I32, U8, U16, U32};
    let random = &mut Random::new(7);
    for dtype in [U8, I8, U16, I16, U32, I32] {
        let rules: [Ranges; 5] = [
            support::gaps(dtype),
            vec![],
            vec![-4..=-2, 65533..=65534, 200..=203],
            vec![0..=0, 3..=7],
            vec![i128::MIN..=-1],
        ];
        for (round, rule) in rules.iter().enumerate() {
            let pixels = [17, 2048, 5000][random.below(3) as usize];
            let block = [8192 / dtype.size(), 2048, 104][random.below(3) as usize];
            let draw = |random: &mut Random| {
                let photons = [
                    Photons::Sparse(2000),
                    Photons::Sparse(20),
                    Photons::Below(6),
                    Photons::Below(300),
                    Photons::Noise,
                ];
                let photons = photons[random.below(5) as usize];
                let one_in = [0, 2, 1000][random.below(3) as usize];
                Frame::random(dtype, pixels, photons, one_in, rule, random)
            };
            let frames: Vec<Frame> = (0..41).map(|_| draw(random)).collect();
            let expected: Vec<PixelSums> =
                (0..pixels).map(|pixel| expected(&frames, pixel)).collect();
            let chunks: Vec<(Vec<u8>, u32)> = frames
                .iter()
                .map(|frame| match random.below(8) {
                    0 => (frame.bytes.clone(), 1),
                    _ => (support::bslz4(&frame.bytes, dtype.size(), block), 0),
                })
                .collect();
            let stored: Vec<EncodedFrame<'_>> = chunks
                .iter()
                .map(|(bytes, mask)| EncodedFrame { bytes, filter_mask: *mask })
                .collect();
            let pipeline = Pipeline::from_hdf5(&[BSLZ4], dtype, false).expect("a known filter");
            let invalid = InvalidValues::from_integers(rule.clone());
            let new = || PixelStatistics::new(pixels, dtype, invalid.clone()).expect("memory");
            for isa in Isa::available() {
                let statistics = new();
                let mut scratch = StatisticsScratch::new(isa);
                for batch in stored.chunks(1 + random.below(40) as usize) {
                    statistics.add_frames(&pipeline, batch, &mut scratch).expect("good chunks");
                }
                assert!(found(&statistics) == expected, "{dtype} {isa:?}, round {round}");
            }
            let statistics = new();
            thread::scope(|scope| {
                for share in stored.chunks(11) {
                    let add = || {
                        let scratch = &mut StatisticsScratch::default();
                        statistics.add_frames(&pipeline, share, scratch).expect("good chunks");
                    };
                    scope.spawn(add);
                }
            });
            assert!(found(&statistics) == expected, "{dtype}, four threads, round {round}");
            // Frames of a codec that isn't read tile by tile.
            let shuffle = [(SHUFFLE.0, &[dtype.size() as u32][..])];
            let pipeline = Pipeline::from_hdf5(&shuffle, dtype, false).expect("a known filter");
            let shuffled: Vec<Vec<u8>> = frames
                .iter()
                .map(|frame| {
                    let size = dtype.size();
                    (0..size)
                        .flat_map(|byte| frame.bytes.iter().skip(byte).step_by(size).copied())
                        .collect()
                })
                .collect();
            let stored: Vec<EncodedFrame<'_>> =
                shuffled.iter().map(|bytes| EncodedFrame { bytes, filter_mask: 0 }).collect();
            let statistics = new();
            statistics
                .add_frames(&pipeline, &stored, &mut StatisticsScratch::default())
                .expect("chunks");
            assert!(found(&statistics) == expected, "{dtype}, shuffled, round {round}");
        }
    }
}

#[test]
fn squares_of_the_largest_values_do_not_overflow() {
    let pixels = u32::MAX.to_ne_bytes().repeat(3);
    let frame = EncodedFrame { bytes: &pixels, filter_mask: 0 };
    let statistics =
        PixelStatistics::new(3, PixelType::U32, InvalidValues::none()).expect("memory");
    let pipeline = Pipeline::native(PixelType::U32);
    for _ in 0..10 {
        statistics
            .add_frames(&pipeline, &[frame; 30], &mut StatisticsScratch::default())
            .expect("frames");
    }
    let (value, square) = (i64::from(u32::MAX), u128::from(u32::MAX).pow(2));
    let sums =
        PixelSums { invalid: 0, nonzero: 300, sum: 300 * value, squares: 300 * square, max: value };
    assert_eq!(found(&statistics), [sums; 3]);
}

#[test]
fn a_damaged_frame_is_an_error() {
    let statistics =
        PixelStatistics::new(3, PixelType::U16, InvalidValues::none()).expect("memory");
    let frame = EncodedFrame { bytes: &[0; 5], filter_mask: 0 };
    let pipeline = Pipeline::native(PixelType::U16);
    assert!(statistics.add_frames(&pipeline, &[frame], &mut StatisticsScratch::default()).is_err());
}
