//! Decoding and summing in one pass: a tile is decoded into the first-level cache, and summed before it leaves it.

pub(crate) mod column;
mod group;
pub(crate) mod kernel;
pub(crate) mod lane;
pub(crate) mod native;
pub(crate) mod planes;
mod rule;
pub(crate) mod source;
pub(crate) mod table;

pub(crate) use group::Workspace;
pub(crate) use rule::PlaneRule;
pub(crate) use source::{BlockSource, Rules, Source};
