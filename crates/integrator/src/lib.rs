//! From stored chunks to sums per bin: a recipe, applied to the frames of one detector.
//!
//! [`Integrator::new`] does once what all frames share: geometry, mask, binning, corrections, and
//! the sums of normalization over the matrix. [`Integrator::batch`] and [`Integrator::assembled`]
//! then turn stored frames into [`Sums`], from any thread.

mod assemble;
mod dummy;
mod error;
mod image;
mod integrator;
mod method;
mod nexus;
mod setup;
mod suspect;

pub use assemble::{AssembleError, Assembler};
pub use error::Error;
pub use integrator::{Assembled, Axis, Decoder, Integrator};
pub use kernels::{DecodeError, PixelType, Scratch, Stored, Sums, opencl};
