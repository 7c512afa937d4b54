//! [`PixelStatistics`], which adds up the values of each pixel over frames: how often it was invalid
//! or not zero, the sum of its values and of their squares, and the largest.
//!
//! All sums are integers and exact, so statistics of the same frames are equal however the frames
//! are divided among batches, threads and runs. Zeros change no sum: a pixel's zeros are the frames
//! in which it was neither invalid nor counted as not zero.

use std::cell::OnceCell;
use std::io;
use std::sync::{Mutex, PoisonError};

use system::memory;

use crate::bitmap::Bitmap;
use crate::codec::{DecodeError, Pipeline};
use crate::encoded_frame::EncodedFrame;
use crate::fused::{InvalidRules, Lane, PixelSource, SourceBuffers, TileContext};
use crate::invalid_values::InvalidValues;
use crate::lz4_block::SLACK;
use crate::pixel::{PixelType, PixelWidth};
use crate::simd::{Isa, Kernel, Simd};
use crate::summation_order::TILE;

/// How many frames are read side by side, so that the sums of a tile stay in the cache for all of
/// them.
const FRAMES_PER_BATCH: usize = 16;

/// Tiles with fewer pixels than this (of 2048) that are not zero are added pixel by pixel.
const MAX_SPARSE_NONZERO: u32 = 400;

/// The statistics of the pixels of one detector over the frames that were added. Threads add frames
/// at the same time: each tile has a lock of its own.
pub struct PixelStatistics {
    pixels: usize,
    dtype: PixelType,
    invalid: InvalidValues,
    tiles: Vec<Mutex<TileSums>>,
}

/// The sums of the pixels of one tile over all frames.
struct TileSums {
    invalid: [u32; TILE],
    nonzero: [u32; TILE],
    sum: [i64; TILE],
    squares_low: [u64; TILE],
    /// How often `squares_low` overflowed.
    squares_high: [u32; TILE],
    max: [i64; TILE],
}

/// The sums of one pixel over frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelSums {
    /// Frames in which the value means "no measurement".
    pub invalid: u32,
    /// Frames in which the value is valid and not zero.
    pub nonzero: u32,
    /// Sum of the valid values.
    pub sum: i64,
    /// Sum of the squares of the valid values.
    pub squares: u128,
    /// The largest valid value that is not zero; `i64::MIN` if there is none.
    pub max: i64,
}

/// One thread's working memory for [`PixelStatistics::add_frames`], and the instruction set that the
/// thread uses.
pub struct StatisticsScratch {
    isa: Isa,
    lane: Box<Lane>,
    small: Box<SmallSums>,
    buffers: Vec<SourceBuffers>,
    /// A frame of a codec that can't be read tile by tile.
    decoded: Vec<u8>,
}

impl Default for StatisticsScratch {
    fn default() -> Self {
        Self::new(Isa::available()[0])
    }
}

impl StatisticsScratch {
    /// Returns empty working memory for `isa`, or for [`Isa::Portable`] if the processor lacks
    /// `isa`.
    pub fn new(isa: Isa) -> Self {
        let isa = if Isa::available().contains(&isa) { isa } else { Isa::Portable };
        let (lane, small) = (Box::default(), Box::default());
        Self { isa, lane, small, buffers: Vec::new(), decoded: Vec::new() }
    }
}

impl PixelStatistics {
    /// Bytes of memory per pixel.
    pub const BYTES_PER_PIXEL: usize = size_of::<TileSums>() / TILE;

    /// Returns whether there are statistics of pixels of this type. Those of 64-bit integers would
    /// overflow, and sums of real numbers depend on the order of the frames.
    pub fn supports(dtype: PixelType) -> bool {
        use PixelType::{I8, I16, I32, U8, U16, U32};
        matches!(dtype, U8 | I8 | U16 | I16 | U32 | I32)
    }

    /// Creates statistics of no frame, for frames of so many pixels. `invalid` are the values that
    /// are not counted.
    ///
    /// # Errors
    /// There is no memory for them.
    ///
    /// # Panics
    /// If [`PixelStatistics::supports`] doesn't hold.
    pub fn new(pixels: usize, dtype: PixelType, invalid: InvalidValues) -> io::Result<Self> {
        assert!(Self::supports(dtype), "statistics of {dtype} pixels");
        let mut tiles = Vec::new();
        memory::reserve(&mut tiles, pixels.div_ceil(TILE))?;
        tiles.resize_with(pixels.div_ceil(TILE), || Mutex::new(TileSums::new()));
        Ok(Self { pixels, dtype, invalid, tiles })
    }

    /// Decodes frames and adds their pixels. The sums have room for 2^31 frames; a record has fewer.
    ///
    /// # Errors
    /// A frame can't be decoded. Some of its pixels may have been added then, so that the statistics
    /// are of no use: add frames that are known to decode.
    ///
    /// # Panics
    /// If the pipeline is for pixels of another type.
    pub fn add_frames(
        &self,
        pipeline: &Pipeline,
        frames: &[EncodedFrame<'_>],
        scratch: &mut StatisticsScratch,
    ) -> Result<(), DecodeError> {
        assert_eq!(pipeline.dtype(), self.dtype, "frames of the type of the statistics");
        add_frames(self, pipeline, frames, scratch)
    }

    /// Returns the number of pixels.
    pub fn pixels(&self) -> usize {
        self.pixels
    }

    /// Calls `take` with the sums of each pixel, in their order.
    pub fn for_each(&self, mut take: impl FnMut(PixelSums)) {
        for (index, tile) in self.tiles.iter().enumerate() {
            let tile = tile.lock().unwrap_or_else(PoisonError::into_inner);
            for pixel in 0..TILE.min(self.pixels - index * TILE) {
                let high = u128::from(tile.squares_high[pixel]) << 64;
                take(PixelSums {
                    invalid: tile.invalid[pixel],
                    nonzero: tile.nonzero[pixel],
                    sum: tile.sum[pixel],
                    squares: high | u128::from(tile.squares_low[pixel]),
                    max: tile.max[pixel],
                });
            }
        }
    }
}

fn add_frames(
    statistics: &PixelStatistics,
    pipeline: &Pipeline,
    frames: &[EncodedFrame<'_>],
    scratch: &mut StatisticsScratch,
) -> Result<(), DecodeError> {
    let isa = scratch.isa;
    let rules = InvalidRules::new(&statistics.invalid, statistics.dtype);
    let frame_bytes = statistics.pixels * statistics.dtype.size();
    let (direct, others): (Vec<_>, Vec<_>) =
        frames.iter().partition(|frame| PixelSource::can_open(pipeline, frame));
    for batch in direct.chunks(FRAMES_PER_BATCH) {
        let sources = batch.iter().map(|&frame| PixelSource::open(pipeline, frame, frame_bytes));
        let sources = sources.collect::<Result<Vec<_>, _>>()?;
        isa.run(AddTiles { statistics, rules: &rules, sources, scratch })?;
    }
    for frame in others {
        let mut pixels = std::mem::take(&mut scratch.decoded);
        pixels.resize(frame_bytes + SLACK, 0);
        pipeline.decode_with_slack(frame.filter_mask, frame.bytes, &mut pixels, frame_bytes)?;
        let sources = vec![PixelSource::Native(&pixels[..frame_bytes])];
        isa.run(AddTiles { statistics, rules: &rules, sources, scratch })?;
        scratch.decoded = pixels;
    }
    Ok(())
}

/// Adds frames tile by tile.
struct AddTiles<'a> {
    statistics: &'a PixelStatistics,
    rules: &'a InvalidRules,
    sources: Vec<PixelSource<'a>>,
    scratch: &'a mut StatisticsScratch,
}

impl Kernel for AddTiles<'_> {
    type Output = Result<(), DecodeError>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Self::Output {
        self.add(simd)
    }
}

impl AddTiles<'_> {
    /// Adds the frames. As in [`crate::fused::Workspace::integrate`], each kernel that runs here
    /// stays a function of its own.
    #[inline(never)]
    fn add<S: Simd>(self, simd: S) -> Result<(), DecodeError> {
        let Self { statistics, rules, mut sources, scratch } = self;
        let StatisticsScratch { lane, small, buffers, .. } = scratch;
        if buffers.len() < sources.len() {
            buffers.resize_with(sources.len(), SourceBuffers::default);
        }
        let used_mask = OnceCell::new();
        lane.invalid.clear();
        for (tile_index, tile) in statistics.tiles.iter().enumerate() {
            let context = TileContext {
                tile_index,
                pixels: statistics.pixels,
                unused: &Bitmap::EMPTY,
                is_dense: false,
                used_mask: &used_mask,
            };
            let mut tile = tile.lock().unwrap_or_else(PoisonError::into_inner);
            for (source, buffers) in sources.iter_mut().zip(&mut *buffers) {
                source.read(simd, context, rules, buffers, lane)?;
                for pixel in lane.invalid.pixels() {
                    tile.invalid[pixel % TILE] += 1;
                }
                lane.invalid.clear();
                tile.add(simd, lane, small);
            }
            if small.is_used {
                simd.run(AddSmallSums { tile: &mut tile, small });
                **small = SmallSums::default();
            }
        }
        Ok(())
    }
}

impl TileSums {
    fn new() -> Self {
        Self {
            invalid: [0; TILE],
            nonzero: [0; TILE],
            sum: [0; TILE],
            squares_low: [0; TILE],
            squares_high: [0; TILE],
            max: [i64::MIN; TILE],
        }
    }

    /// Adds the pixels in the lane, in which invalid ones are zero; to `small` if they are small and
    /// many.
    fn add<S: Simd>(&mut self, simd: S, lane: &Lane, small: &mut SmallSums) {
        match lane.width {
            PixelWidth::Zero => {}
            PixelWidth::U8 if lane.nonzero.count() < MAX_SPARSE_NONZERO => {
                for pixel in lane.nonzero.iter_ones() {
                    self.add_value(pixel, i64::from(lane.low_bytes[pixel]));
                }
            }
            PixelWidth::U8 => simd.run(AddU8 { small, pixels: &lane.low_bytes }),
            PixelWidth::U16 => {
                simd.run(AddU16 { tile: self, low: &lane.low_bytes, high: &lane.high_bytes });
            }
            PixelWidth::F64 => {
                for (pixel, value) in lane.f64_pixels.iter().enumerate() {
                    // Integers of at most 32 bits are exact.
                    self.add_value(pixel, *value as i64);
                }
            }
        }
    }

    #[inline(always)]
    fn add_value(&mut self, pixel: usize, value: i64) {
        if value == 0 {
            return;
        }
        self.nonzero[pixel] += 1;
        self.sum[pixel] += value;
        self.add_square(pixel, value.unsigned_abs().pow(2));
        self.max[pixel] = self.max[pixel].max(value);
    }
}

/// The sums of the pixels of one tile over the frames of one batch in which all are below 256. They
/// are so narrow that they stay in the first-level cache, and are added up by wide registers.
struct SmallSums {
    is_used: bool,
    nonzero: [u8; TILE],
    sum: [u16; TILE],
    squares: [u32; TILE],
    max: [u8; TILE],
}

// The sums of a batch fit.
const _: () = assert!(FRAMES_PER_BATCH * 255 <= u16::MAX as usize);

impl Default for SmallSums {
    fn default() -> Self {
        Self {
            is_used: false,
            nonzero: [0; TILE],
            sum: [0; TILE],
            squares: [0; TILE],
            max: [0; TILE],
        }
    }
}

/// Adds pixels of 8 bits. The loops are written so that the compiler vectorizes them also where it
/// checks for overflows, of which there is none.
struct AddU8<'a> {
    small: &'a mut SmallSums,
    pixels: &'a [u8; TILE],
}

impl Kernel for AddU8<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { small, pixels } = self;
        small.is_used = true;
        for (pixel, &value) in pixels.iter().enumerate() {
            small.nonzero[pixel] = small.nonzero[pixel].wrapping_add(u8::from(value != 0));
            small.max[pixel] = small.max[pixel].max(value);
        }
        for (pixel, &value) in pixels.iter().enumerate() {
            let value = u16::from(value);
            let square = u32::from(value.wrapping_mul(value));
            small.sum[pixel] = small.sum[pixel].wrapping_add(value);
            small.squares[pixel] = small.squares[pixel].wrapping_add(square);
        }
    }
}

/// Adds the sums of a batch.
struct AddSmallSums<'a> {
    tile: &'a mut TileSums,
    small: &'a SmallSums,
}

impl Kernel for AddSmallSums<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { tile, small } = self;
        for pixel in 0..TILE {
            let (nonzero, sum) = (small.nonzero[pixel].into(), small.sum[pixel].into());
            tile.nonzero[pixel] = tile.nonzero[pixel].wrapping_add(nonzero);
            tile.sum[pixel] = tile.sum[pixel].wrapping_add(sum);
            tile.add_square(pixel, small.squares[pixel].into());
            let max = i64::from(small.max[pixel]);
            tile.max[pixel] = tile.max[pixel].max(if max == 0 { i64::MIN } else { max });
        }
    }
}

/// Adds pixels of 16 bits. The loop is written so that the compiler vectorizes it.
struct AddU16<'a> {
    tile: &'a mut TileSums,
    low: &'a [u8; TILE],
    high: &'a [u8; TILE],
}

impl Kernel for AddU16<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { tile, low, high } = self;
        for pixel in 0..TILE {
            let value = u32::from(u16::from_le_bytes([low[pixel], high[pixel]]));
            let nonzero = u32::from(value != 0);
            tile.nonzero[pixel] = tile.nonzero[pixel].wrapping_add(nonzero);
            tile.sum[pixel] = tile.sum[pixel].wrapping_add(value.into());
            tile.add_square(pixel, value.wrapping_mul(value).into());
            let max = if value == 0 { i64::MIN } else { i64::from(value) };
            tile.max[pixel] = tile.max[pixel].max(max);
        }
    }
}

impl TileSums {
    #[inline(always)]
    fn add_square(&mut self, pixel: usize, square: u64) {
        let (low, overflows) = self.squares_low[pixel].overflowing_add(square);
        self.squares_low[pixel] = low;
        self.squares_high[pixel] = self.squares_high[pixel].wrapping_add(u32::from(overflows));
    }
}
