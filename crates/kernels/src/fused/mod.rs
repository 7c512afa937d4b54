//! Decoding and summing in one pass: a tile is decoded into the first-level cache, and summed before it leaves it.

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
