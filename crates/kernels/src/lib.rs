//! The hot loops: stored frames are decoded, unshuffled and summed into bins.
//!
//! A [`Pipeline`] says how a chunk is stored, a [`IntegrationPlan`] what becomes of its pixels, and [`integrate_batch`] turns
//! the one into [`Sums`] by the other. [`accumulate`] does the same for a decoded frame; it is portable, plain, and
//! the oracle: every faster way gives its bytes, bit for bit, because all keep one [`summation_order`] of summation. [`ByBin`]
//! looks at all pixels of a bin before it sums those that count.

mod batch;
mod bitmap;
mod codec;
mod decode_paths;
mod double_double;
mod fused;
mod integrate;
mod invalid_values;
mod lz4_block;
pub mod opencl;
mod pixel;
mod plan;
mod robust;
mod scalar;
pub mod sections;
mod simd;
pub mod summation_order;
mod sums;
mod tiled_csc;

pub use batch::{Scratch, StoredFrame, integrate_batch, integrate_batch_multi};
pub use codec::{DecodeError, Pipeline, StreamFault};
pub use decode_paths::DecodePathCounts;
pub use integrate::{IntegrationSpec, integrate_frames};
pub use invalid_values::InvalidValues;
pub use pixel::{PixelType, UnknownPixelType};
pub use plan::{IntegrationPlan, IntegrationPlanError, VarianceModel};
pub use robust::{CsrMatrix, Statistic};
pub use scalar::accumulate_frame;
pub use simd::Isa;
pub use sums::{Sums, WeightOverride};
pub use tiled_csc::{MatrixError, TiledCsc};
