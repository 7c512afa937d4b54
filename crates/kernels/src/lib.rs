//! The hot loops: stored frames are decoded, unshuffled and summed into bins.
//!
//! A [`Pipeline`] says how a chunk is stored, a [`Plan`] what becomes of its pixels, and [`integrate_batch`] turns
//! the one into [`Sums`] by the other. [`accumulate`] does the same for a decoded frame; it is portable, plain, and
//! the oracle: every faster way gives its bytes, bit for bit, because all keep one [`order`] of summation. [`ByBin`]
//! looks at all pixels of a bin before it sums those that count.

mod backend;
mod batch;
mod bitmap;
mod decode;
mod fused;
mod invalid;
mod lz4;
mod matrix;
pub mod opencl;
pub mod order;
mod pixel;
mod plan;
mod robust;
mod scalar;
pub mod sections;
mod sums;
mod target;
mod twofold;
mod ways;

pub use backend::Isa;
pub use batch::{Scratch, Stored, integrate_batch, integrate_by_all};
pub use decode::{DecodeError, Fault, Pipeline};
pub use invalid::Invalid;
pub use matrix::{Matrix, MatrixError};
pub use pixel::{PixelType, UnknownPixelType};
pub use plan::{ErrorModel, Plan, PlanError};
pub use robust::{ByBin, Statistic};
pub use scalar::accumulate;
pub use sums::{Exception, Sums};
pub use target::{Target, integrate_all};
pub use ways::Ways;
