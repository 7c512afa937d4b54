//! The instruction sets that the fused kernels are compiled for, and the choice among them.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::bitmap::Bitmap;
use crate::fused::column::Column;
use crate::fused::kernel::Selection;
use crate::fused::table::Table;
use crate::lz4::Room;
use crate::matrix::Tile;
use crate::order::TILE;

pub(crate) use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

/// The steps of the fused kernels, for one instruction set and `L` frames side by side. All implementations give the
/// same bytes.
pub(crate) trait Backend<const L: usize>: Copy {
    /// Decodes a raw LZ4 block that must be `len` bytes long. Returns how many leading bytes may be other than zero;
    /// `None` if the block is not sound.
    fn expand(self, block: &[u8], room: &mut Room, len: usize) -> Option<usize>;

    /// The pixels of a tile that have a bit set in any of some planes, which are `stride` bytes each; the tile starts
    /// at byte `from` of each.
    fn union(self, planes: &[u8], stride: usize, from: usize) -> Bitmap;

    /// The pixels of a tile that have their bit set in all of some planes.
    fn intersection(self, planes: &[u8], stride: usize, from: usize) -> Bitmap;

    /// The bytes of a tile's pixels, from eight planes.
    fn unshuffle(self, planes: &[u8], stride: usize, from: usize, out: &mut [u8; TILE]);

    /// From bytes by frame to bytes by pixel.
    fn interleave(self, lanes: [&[u8; TILE]; L], out: &mut [[u8; L]; TILE]);

    /// See [`crate::fused::kernel`].
    fn accumulate<C: Column<L>>(self, table: &mut Table<L>, tile: Tile<'_>, column: &C, selection: Selection<'_>);
}

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What the compiler's target has; 8 frames side by side.
    Portable,
    /// AVX2 and FMA; 8 frames side by side.
    Avx2,
    /// AVX-512 (F, BW, VL, DQ, VBMI) and GFNI; 16 frames side by side, or 8 where there are no more.
    Avx512,
}

impl Isa {
    /// The sets that this processor has, the best one first.
    pub fn available() -> Vec<Isa> {
        let mut all = vec![Isa::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(Avx2::detect().map(|_| Isa::Avx2));
            all.extend(Avx512::detect().map(|_| Isa::Avx512));
        }
        all.reverse();
        all
    }
}
