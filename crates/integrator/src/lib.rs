//! Applies a recipe to the stored frames of one detector: chunks in, sums per bin out. This crate
//! joins `recipe`, `geometry`, `binning` and `kernels` for `ai-integrate`, and checks recipes for
//! `plan-split`.
//!
//! 1. [`check_files`] and [`check()`] tell early, without building the matrix, whether a recipe can
//!    be applied.
//! 2. [`Integrator::new`] does once what all frames share: it reads the PONI, the detector, masks,
//!    darks and flats, builds the matrix, and sums the normalization over it.
//!    [`Integrator::write_to`] and [`Integrator::from_memory`] keep the result in a file, under
//!    [`Integrator::cache_key`].
//! 3. [`Integrator::decoder`] checks the coding of a source's chunks and returns how they are
//!    decoded.
//! 4. [`MultiIntegrator::integrate`] turns stored frames into [`Sums`] by several recipes at once,
//!    on any thread, and [`MultiIntegrator::integrate_on_device`] on an OpenCL device. Frames that
//!    are not exactly one chunk each are put together before by [`MultiIntegrator::assemble`].
//!
//! # Example
//! One frame of a Pilatus 100k, integrated to 100 bins:
//! ```
//! use integrator::{Integrator, MultiIntegrator, PixelType, Scratch, EncodedFrame};
//! use recipe::{Recipe, Settings};
//! use records::FrameLayout;
//! let poni = "poni_version: 2.1\nDetector: Pilatus100k\nDetector_config: {\"orientation\": 3}\n\
//!             Distance: 0.2\nPoni1: 0.01677\nPoni2: 0.0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";
//! let settings = Settings { geometry: Some(poni.to_owned()), npt: Some(100), ..Settings::default() };
//! let recipe = Recipe::resolve(&settings)?;
//! let layout = FrameLayout::full_frame([195, 487]);
//! let integrator = Integrator::new(&recipe, &layout, PixelType::U16)?;
//!
//! let integrators = MultiIntegrator::new(vec![&integrator]);
//! let pixels = vec![1_u8; integrators.frame_bytes()];
//! let frame = EncodedFrame { bytes: &pixels, filter_mask: 0 };
//! let sums = integrators.integrate(&integrators.native_decoder(), &[frame], &mut Scratch::default());
//! let sums = &sums[0].as_ref().unwrap()[0];
//! assert_eq!(sums.signal.len(), integrator.radial().centers.len());
//! // A frame with invalid pixels of its own has weights of its own.
//! let norm = sums.weight_override.as_ref().map_or(integrator.plan().norm(), |weights| &weights.norm);
//! let intensity = sums.signal[50] / norm[50];
//! assert!(intensity > 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod build_plan;
mod correction_images;
mod dead_time;
mod detector_file;
mod detector_view;
mod dummy_check;
mod error;
mod frame_assembly;
mod image_role;
mod image_stack;
mod images;
mod integrator;
mod invalid_values;
mod matrix;
mod multi_integrator;
pub mod preview;
mod recipe_check;
mod serialize;
mod setup;
mod statistics_rule;

pub use error::IntegratorError;
pub use frame_assembly::{AssembleError, Assembler};
pub use image_stack::linked_files;
pub use integrator::{BinAxis, Decoder, Integrator, recipe_axes};
pub use kernels::sections::{SectionError, SharedBytes};
pub use kernels::{
    DecodeError, DecodePathCounts, EncodedFrame, InvalidValues, MAX_REJECTED_DIVISOR,
    PixelStatistics, PixelType, RejectedPixels, Scratch, StatisticsScratch, Sums, SumsBlock,
    SumsConsumer, WeightOverride, opencl,
};
pub use multi_integrator::MultiIntegrator;
pub use recipe_check::{check, check_files};
pub use statistics_rule::{StatisticsRule, StatisticsRuleError};
