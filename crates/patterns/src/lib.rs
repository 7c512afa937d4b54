//! Result files: the parts that ai-integrate leaves, and the finals that gather makes of them.
//!
//! A [part] holds sums per bin and frame; [`Normalizer`] turns sums into patterns; [`coverage`]
//! says which frames are done, by whatever cut of the work.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod axes;
mod compress;
pub mod coverage;
pub mod export;
mod frame_row;
mod frame_status;
mod h5;
mod normalize;
pub mod output;
pub mod part;
pub mod plot;
pub mod report;
mod row_writer;
mod source_fingerprint;
mod stored_patterns;
mod variance;
mod weight_overrides;

pub use axes::{PatternAxes, PatternAxis};
pub use frame_row::{BinWeights, FrameRow, SharedBins};
pub use frame_status::Status;
pub use h5::Hdf5Error;
pub use normalize::Normalizer;
