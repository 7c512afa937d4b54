//! The inner loops of azimuthal integration: decodes stored frames and sums their pixels into bins,
//! on the CPU or an OpenCL device. Crate `integrator` builds the inputs from a recipe and calls
//! these functions.
//!
//! 1. A [`Pipeline`] describes how a chunk is stored: HDF5 filters (bitshuffle, LZ4, Zstd, ...),
//!    pixel type, byte order.
//! 2. A [`TiledCsc`] is the sparse matrix from pixels to bins. An [`IntegrationPlan`] adds the
//!    normalization, dark and variance of each pixel, and all sums over the matrix that do not
//!    depend on the frame.
//! 3. [`InvalidValues`] are the pixel values that mean "no measurement"; the others can be corrected for
//!    a [`DeadTime`].
//! 4. [`integrate_batch`] decodes a batch of [`EncodedFrame`]s and returns [`Sums`] per frame, on
//!    one thread, with memory from a [`Scratch`]. [`integrate_frames`] applies several plans at
//!    once and includes the methods of [`CsrMatrix`]: sigma clipping and means between quantiles.
//!    [`opencl`] does it on a device.
//!
//! Intensities are left to the caller: `signal / norm`; see [`Sums`].
//!
//! [`accumulate_frame`] integrates one decoded frame in plain scalar code. It is the reference for
//! plain sums: every faster path on the CPU gives the same bytes, because all keep the order that
//! [`summation_order`] defines. Sums on an OpenCL device have another fixed order, and agree with
//! the CPU's to rounding. The methods of [`CsrMatrix`] sum each bin in sixteen partial sums; those
//! that a device computes, too, have the same bytes there.
//!
//! # Example
//! Two frames of four pixels, stored as they are, and a matrix that puts two pixels into each of
//! two bins:
//! ```
//! use kernels::{
//!     IntegrationPlan, InvalidValues, PixelType, Pipeline, Scratch, EncodedFrame, TiledCsc, VarianceModel, integrate_batch,
//! };
//! let matrix = TiledCsc::new(&[0, 1, 2, 3, 4], &[0, 0, 1, 1], &[1.0; 4], 2)?;
//! let plan = IntegrationPlan::new(matrix, &[1.0; 4], VarianceModel::POISSON, None)?;
//! let pipeline = Pipeline::native(PixelType::U8);
//! let invalid = InvalidValues::from_integers([255..=255]);
//! let frames = [[1, 2, 3, 4], [10, 20, 255, 40]];
//! let stored = frames.each_ref().map(|pixels| EncodedFrame { bytes: pixels, filter_mask: 0 });
//!
//! let sums = integrate_batch(&pipeline, &plan, &invalid, &stored, &mut Scratch::default());
//! let sums: Vec<_> = sums.into_iter().collect::<Result<_, _>>()?;
//! assert_eq!(sums[0].signal, [3.0, 7.0]);
//! assert_eq!(plan.norm(), [2.0, 2.0]);
//! // The second frame has one pixel less in bin 1, so it comes with its own norms.
//! assert_eq!(sums[1].signal, [30.0, 40.0]);
//! assert_eq!(sums[1].weight_override.as_ref().unwrap().norm, [2.0, 1.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod bitmap;
mod codec;
mod dead_time;
mod decode_paths;
mod double_double;
mod encoded_frame;
mod fused;
mod integrate;
mod invalid_pixels;
mod invalid_values;
mod lz4_block;
pub mod opencl;
mod partial_static_sums;
mod photon_sums;
mod pixel;
mod pixel_statistics;
mod plan;
mod rejected_pixels;
mod robust;
mod scalar;
pub mod sections;
mod simd;
mod spare_lists;
mod static_sums;
mod static_sums_without;
mod sum_of_all_pixels;
pub mod summation_order;
mod sums;
mod sums_block;
mod tiled_csc;
mod variance_model;
mod weight_override;

pub use batch::{Scratch, integrate_batch, integrate_batch_by_plans, integrate_blocks_by_plans};
pub use codec::{DecodeError, Pipeline, StreamFault};
pub use dead_time::DeadTime;
pub use decode_paths::DecodePathCounts;
pub use encoded_frame::EncodedFrame;
pub use integrate::{FrameResults, IntegrationSpec, integrate_frames};
pub use invalid_values::InvalidValues;
pub use pixel::{PixelType, UnknownPixelType};
pub use pixel_statistics::{PixelStatistics, PixelSums, StatisticsScratch};
pub use plan::{IntegrationPlan, IntegrationPlanError};
pub use rejected_pixels::RejectedPixels;
pub use robust::{CsrMatrix, MAX_REJECTED_DIVISOR, Statistic};
pub use scalar::accumulate_frame;
pub use simd::Isa;
pub use sums::Sums;
pub use sums_block::{SumsBlock, SumsConsumer};
pub use tiled_csc::{BlockExtra, MatrixBlock, MatrixError, TiledCsc, TiledCscBuilder};
pub use variance_model::{PixelVarianceModel, SpreadRole, VarianceModel};
pub use weight_override::WeightOverride;
