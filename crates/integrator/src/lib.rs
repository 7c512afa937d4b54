//! From stored chunks to sums per bin: a recipe, applied to the frames of one detector.
//!
//! [`Integrator::new`] does once what all frames share: geometry, mask, binning, corrections, and
//! the sums of normalization over the matrix. [`MultiIntegrator::integrate`] then turns stored frames into
//! [`Sums`] by one recipe or by several at once, from any thread; frames that are in several chunks, or in one with
//! others, are put together before, by [`MultiIntegrator::assemble`].

mod assemble;
mod check;
mod detector_file;
mod detector_view;
mod dummy;
mod dummy_check;
mod error;
mod images;
mod integrator;
mod multi_integrator;
mod plan;
mod serialize;
mod setup;

pub use assemble::{AssembleError, Assembler};
pub use check::{check, check_files};
pub use error::IntegratorError;
pub use integrator::{BinAxis, Decoder, Integrator};
pub use kernels::sections::{SectionError, SharedBytes};
pub use kernels::{DecodeError, DecodePathCounts, PixelType, Scratch, StoredFrame, Sums, opencl};
pub use multi_integrator::MultiIntegrator;
