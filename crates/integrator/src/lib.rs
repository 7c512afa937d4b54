//! From stored chunks to sums per bin: a recipe, applied to the frames of one detector.
//!
//! [`Integrator::new`] does once what all frames share: geometry, mask, binning, corrections, and
//! the sums of normalization over the matrix. [`Together::batch`] then turns stored frames into
//! [`Sums`] by one recipe or by several at once, from any thread; frames that are in several chunks, or in one with
//! others, are put together before, by [`Together::assemble`].

mod assemble;
mod dummy;
mod error;
mod image;
mod integrator;
mod method;
mod nexus;
mod saved;
mod setup;
mod suspect;
mod together;
mod window;

pub use assemble::{AssembleError, Assembler};
pub use error::Error;
pub use integrator::{Axis, Decoder, Integrator};
pub use kernels::sections::{Memory, SectionError};
pub use kernels::{DecodeError, PixelType, Scratch, Stored, Sums, Ways, opencl};
pub use together::Together;
