//! Decodes and sums in one pass: a tile is decoded into the first-level cache, and summed before it leaves the cache.
//!
//! [`Workspace::integrate`] takes up to `L` frames. Tile by tile, a [`PixelSource`] per frame reads the frame's pixels
//! into a [`lane::Lane`], as narrow as the values allow. The lanes are interleaved ([`interleaved_tile`]), so that a
//! SIMD register holds one pixel of many frames, and [`accumulate`] applies the tile of the matrix to all frames at
//! once. The sums collect in [`accumulators`].

pub(crate) mod accumulate;
pub(crate) mod accumulators;
pub(crate) mod bit_planes;
pub(crate) mod interleaved_tile;
pub(crate) mod lane;
pub(crate) mod native;
pub(crate) mod pixel_source;
mod plane_rule;
mod workspace;

pub(crate) use pixel_source::{BlockSource, InvalidRules, PixelSource};
pub(crate) use plane_rule::PlaneInvalidRule;
pub(crate) use workspace::Workspace;
