//! Result files: parts, which ai-integrate writes, and final files, which gather makes of them.
//! Crate `records` explains the words.
//!
//! A [part] holds the sums per bin of some frames of a scan. A [`Normalizer`] turns sums into
//! patterns: intensities and their errors. [`output::build`] gathers the parts of a scan and recipe
//! in one final file, a NeXus/HDF5 file with a row for every frame of the scan. [`coverage`]
//! answers which frames have a result already, however the scan was cut into tasks. [`export`],
//! [`plot`] and [`report`] show a final file to other programs and to people.
//!
//! # Example
//! Sums of one frame become a pattern: counts over normalization, and the standard error of the
//! mean.
//! ```
//! use patterns::{BinWeights, FrameRow, Normalizer, Status};
//! use recipe::{Recipe, Settings};
//!
//! let poni = "Distance: 0.1\nPoni1: 0\nPoni2: 0\nWavelength: 1e-10\n".to_owned();
//! let settings = Settings { geometry: Some(poni), npt: Some(2), ..Settings::default() };
//! let recipe = Recipe::resolve(&settings).expect("valid settings");
//!
//! // Two bins; no pixel falls in the second.
//! let weights = BinWeights { norm: vec![4.0, 0.0], norm_sq: vec![4.0, 0.0], count: vec![4.0, 0.0] };
//! let row = FrameRow { signal: vec![100.0, 0.0], variance: Some(vec![100.0, 0.0]), ..FrameRow::default() };
//! let (intensity, errors) = Normalizer::new(&recipe).normalize(&row, &weights, 1.0).expect("the frame has sums");
//! assert_eq!(intensity[0], 25.0);
//! assert_eq!(errors.expect("the default error model is Poisson's")[0], 2.5);
//! assert!(intensity[1].is_nan());
//! ```

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod agreement;
mod axes;
mod bin_quotients;
mod compress;
mod compression;
pub mod coverage;
pub mod export;
mod file_states;
mod frame_geometry;
mod frame_row;
mod frame_status;
mod h5;
mod measurement_differences;
mod monitor_values;
mod normalize;
pub mod output;
pub mod part;
pub mod pixel_statistics;
pub mod plot;
pub mod report;
mod rounding;
mod row_blocks;
mod row_digest;
mod row_writer;
mod scan_identity;
mod solid_angle;
mod source_fingerprint;
pub mod sparse_pixels;
mod stored_patterns;
mod variance;
mod weight_overrides;

pub use axes::{PatternAxes, PatternAxis};
pub use compression::Compression;
pub use frame_geometry::{FrameGeometries, FrameGeometry};
pub use frame_row::{BinWeights, FrameRow, SharedBins};
pub use frame_status::Status;
pub use h5::Hdf5Error;
pub use monitor_values::{MonitorError, MonitorValues};
pub use normalize::Normalizer;
