//! Decodes and sums in one pass: a tile is decoded into the first-level cache, and summed before it
//! leaves the cache.
//!
//! [`Workspace::integrate`] takes up to `L` frames. Tile by tile, a [`PixelSource`] per frame reads
//! the frame's pixels into a [`Lane`], as narrow as the values allow. The lanes are interleaved
//! ([`interleaved_tile`]), so that a SIMD register holds one pixel of many frames, and
//! [`accumulate`] applies the tile of the matrix to all frames at once. The sums collect in
//! [`accumulators`].

mod accumulate;
mod accumulators;
mod bit_planes;
mod interleaved_tile;
mod lane;
mod native;
mod pixel_source;
mod plane_rule;
mod spread_factors;
mod tile_context;
mod workspace;

pub(crate) use lane::Lane;
pub(crate) use pixel_source::{InvalidRules, PixelSource, SourceBuffers};
pub(crate) use tile_context::TileContext;
pub(crate) use workspace::Workspace;
