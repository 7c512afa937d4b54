//! Result files: the parts that ai-integrate leaves, and the finals that gather makes of them.
//!
//! A [part] holds sums per bin and frame; [`Finish`] turns sums into patterns; [`coverage`]
//! says which frames are done, by whatever cut of the work.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod axes;
pub mod coverage;
mod exceptions;
pub mod export;
pub mod finals;
mod finish;
mod h5;
mod pack;
pub mod part;
pub mod plot;
pub mod report;
mod stamp;
mod status;
mod stored;
mod sums;
mod table;
mod variance;

pub use axes::{Axes, Axis};
pub use finish::Finish;
pub use h5::Error as Hdf5Error;
pub use status::Status;
pub use sums::{Row, Shared, Weights};
