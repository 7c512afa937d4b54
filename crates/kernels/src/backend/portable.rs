//! The steps in plain Rust: for processors without a backend of their own, and the pattern of the others.

use super::Backend;
use crate::bitmap::Bitmap;
use crate::decode::bitshuffle::transpose;
use crate::fused::column::Column;
use crate::fused::kernel::{self, Selection};
use crate::fused::table::Table;
use crate::lz4::{self, Room};
use crate::matrix::Tile;
use crate::order::TILE;

/// Any processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl<const L: usize> Backend<L> for Portable {
    fn expand(self, block: &[u8], room: &mut Room, len: usize) -> Option<usize> {
        lz4::expand_into(block, room, len)
    }

    fn union(self, planes: &[u8], stride: usize, from: usize) -> Bitmap {
        union(planes, stride, from)
    }

    fn intersection(self, planes: &[u8], stride: usize, from: usize) -> Bitmap {
        intersection(planes, stride, from)
    }

    fn unshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8; TILE]) {
        for (j, out) in out.chunks_exact_mut(8).enumerate() {
            let mut bits = 0;
            for plane in (0..8).rev() {
                bits = bits << 8 | u64::from(planes[plane * stride + from + j]);
            }
            out.copy_from_slice(&transpose(bits).to_le_bytes());
        }
    }

    fn interleave(self, lanes: [&[u8; TILE]; L], out: &mut [[u8; L]; TILE]) {
        for (pixel, out) in out.iter_mut().enumerate() {
            *out = lanes.map(|lane| lane[pixel]);
        }
    }

    fn accumulate<C: Column<L>>(self, table: &mut Table<L>, tile: Tile<'_>, column: &C, selection: Selection<'_>) {
        kernel::accumulate::<L, false, C>(table, tile, column, selection);
    }
}

/// OR over planes.
#[inline(always)]
pub(super) fn union(planes: &[u8], stride: usize, from: usize) -> Bitmap {
    planes.chunks_exact(stride).fold(Bitmap::EMPTY, |all, plane| all.zip(&tile_of(plane, from), |a, b| a | b))
}

/// AND over planes.
#[inline(always)]
pub(super) fn intersection(planes: &[u8], stride: usize, from: usize) -> Bitmap {
    planes.chunks_exact(stride).fold(Bitmap::FULL, |all, plane| all.zip(&tile_of(plane, from), |a, b| a & b))
}

/// A tile's bits of a plane.
#[inline(always)]
fn tile_of(plane: &[u8], from: usize) -> Bitmap {
    let mut bits = Bitmap::EMPTY;
    for (word, bytes) in bits.0.iter_mut().zip(plane[from..from + TILE / 8].as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    bits
}
