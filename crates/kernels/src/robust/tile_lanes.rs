//! [`TileLanes`], which reads a tile of several frames and interleaves it.

use std::cell::OnceCell;

use crate::codec::DecodeError;
use crate::fused::{InvalidRules, Lane, PixelSource, SourceBuffers, TileContext};
use crate::pixel::PixelWidth;
use crate::plan::IntegrationPlan;
use crate::simd::Simd;
use crate::summation_order::TILE;

/// Number of frames that are interleaved: SIMD lanes of 16 bits in 16 bytes.
pub(crate) const INTERLEAVED_FRAMES: usize = 8;

/// The current tile of up to [`INTERLEAVED_FRAMES`] frames.
pub(super) struct TileLanes {
    pub(super) lanes: Vec<Lane>,
    buffers: Vec<SourceBuffers>,
    low: Box<TileBytes>,
    high: Box<TileBytes>,
}

/// The low or the high bytes of a tile's pixels: one row per pixel, one element per frame.
pub(super) type TileBytes = [[u8; INTERLEAVED_FRAMES]; TILE];

/// A tile's counts of up to 16 bits: one row per pixel, one element per frame.
pub(super) type TileCounts = [[u16; INTERLEAVED_FRAMES]; TILE];

impl Default for TileLanes {
    fn default() -> Self {
        let bytes = || -> Box<TileBytes> {
            let zeros = vec![[0; INTERLEAVED_FRAMES]; TILE].into_boxed_slice();
            zeros.try_into().unwrap_or_else(|_| unreachable!("the length is TILE"))
        };
        Self {
            lanes: (0..INTERLEAVED_FRAMES).map(|_| Lane::default()).collect(),
            buffers: (0..INTERLEAVED_FRAMES).map(|_| SourceBuffers::default()).collect(),
            low: bytes(),
            high: bytes(),
        }
    }
}

impl TileLanes {
    /// Makes the lanes ready for the first tile of other frames.
    pub(super) fn start(&mut self) {
        for lane in &mut self.lanes {
            lane.width = PixelWidth::Zero;
            lane.invalid.clear();
        }
    }

    /// Reads the next tile of all frames, and calls `visit` with the index of each lane, the lane
    /// and the tile.
    ///
    /// A source that fails is replaced by its error; its lane then holds arbitrary counts.
    #[inline(always)]
    pub(super) fn read<S: Simd>(
        &mut self,
        simd: S,
        plan: &IntegrationPlan,
        tile_index: usize,
        rules: &InvalidRules,
        sources: &mut [Result<PixelSource<'_>, DecodeError>],
        mut visit: impl FnMut(usize, &mut Lane, TileContext<'_>),
    ) {
        // `is_dense`: all pixels are stored, so nothing depends on which of them are bright.
        let tile = TileContext {
            tile_index,
            pixels: plan.pixels(),
            unused: &plan.unused[tile_index],
            is_dense: true,
            used_mask: &OnceCell::new(),
        };
        let lanes = self.lanes.iter_mut().zip(&mut self.buffers).enumerate();
        for (source, (index, (lane, buffers))) in sources.iter_mut().zip(lanes) {
            let Ok(opened) = source else { continue };
            match opened.read(simd, tile, rules, buffers, lane) {
                Ok(()) => visit(index, lane, tile),
                Err(error) => {
                    lane.width = PixelWidth::Zero;
                    *source = Err(error);
                }
            }
        }
    }

    /// Interleaves the tile, whose pixels have at most 8 bits.
    #[inline(always)]
    pub(super) fn interleave_bytes<S: Simd>(&mut self, simd: S, bytes: &mut TileBytes) {
        if self.widen_lanes() == PixelWidth::Zero {
            bytes.fill([0; INTERLEAVED_FRAMES]);
            return;
        }
        let lanes = &self.lanes;
        simd.interleave(std::array::from_fn(|lane| &lanes[lane].low_bytes), bytes);
    }

    /// Interleaves the tile, whose pixels have at most 16 bits. Returns false, and leaves `counts`
    /// as they are, if all pixels are 0.
    #[inline(always)]
    pub(super) fn interleave<S: Simd>(&mut self, simd: S, counts: &mut TileCounts) -> bool {
        let width = self.widen_lanes();
        let Self { lanes, low, high, .. } = self;
        let lanes: [&Lane; INTERLEAVED_FRAMES] = std::array::from_fn(|lane| &lanes[lane]);
        if width == PixelWidth::Zero {
            return false;
        }
        simd.interleave(lanes.map(|lane| &lane.low_bytes), low);
        // As one sequence of numbers: the compiler would assemble each row byte by byte.
        let counts = counts.as_flattened_mut();
        if width == PixelWidth::U8 {
            for (count, &low) in counts.iter_mut().zip(low.as_flattened()) {
                *count = u16::from(low);
            }
        } else {
            simd.interleave(lanes.map(|lane| &lane.high_bytes), high);
            let bytes = low.as_flattened().iter().zip(high.as_flattened());
            for (count, (&low, &high)) in counts.iter_mut().zip(bytes) {
                *count = u16::from_le_bytes([low, high]);
            }
        }
        true
    }

    /// Converts all lanes to the width of the widest, and returns it.
    fn widen_lanes(&mut self) -> PixelWidth {
        let width = self.lanes.iter().map(|lane| lane.width).max().unwrap_or_default();
        for lane in &mut self.lanes {
            lane.widen_to(width);
        }
        width
    }
}
