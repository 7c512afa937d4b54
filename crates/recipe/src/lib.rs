//! Recipes: the settings of an integration, resolved into one file with one digest.
//!
//! 1. [`RecipeFile::read`] reads a user's recipe file: TOML with the names of `plan-split`'s flags
//!    as keys, the JSON of pyFAI's worker, or the INI file of ESRF's integrator. It holds
//!    [`Settings`] for all detectors and, in sections `[detector.NAME]`, for some.
//! 2. [`Settings::with_defaults`] combines command-line flags with the file: flags come first.
//! 3. [`Recipe::resolve`] makes the [`Recipe`] that tasks refer to: defaults filled in, values
//!    checked, the PONI text included, and each image file listed with the SHA-256 of its bytes.
//! 4. [`Recipe::digest`] identifies a recipe by content. Two recipes with equal settings and files
//!    of equal content have the same digest, wherever the files are and whatever the recipe is
//!    called.
//! 5. [`Recipe::load`] reads a resolved recipe back in `ai-integrate` and refuses it if it, or one
//!    of its files, has changed.
//!
//! ```
//! use recipe::{Recipe, Settings};
//! let text = "geometry = 'Distance: 0.1'\nnpt = 500\nunit = 'q_A^-1'\n";
//! let file = Settings::parse(text, "recipe.toml".as_ref())?;
//! let flags = Settings { npt: Some(2000), ..Settings::default() };
//! let recipe = Recipe::resolve(&flags.with_defaults(file))?;
//! assert_eq!((recipe.npt, recipe.unit.name()), (2000, "q_A^-1"));
//! assert_eq!(recipe.digest().len(), 64);
//! # Ok::<(), recipe::RecipeError>(())
//! ```

mod calibrant;
mod combination;
mod constant_monitors;
mod error;
mod error_model;
mod expression;
mod file_ref;
mod goniometer;
mod import;
mod incident_angle;
mod mask_region;
mod monitor;
mod moving_geometry;
mod one_or_many;
mod options;
mod outliers;
mod poni_table;
mod poni_text;
mod recipe_digest;
mod recipe_file;
mod resolve;
mod resolved_recipe;
mod sensor;
mod settings;
mod template;
mod time;
mod validate;

pub use calibrant::{Calibrant, ring_angles};
pub use combination::{Combination, Mismatches};
pub use constant_monitors::VALID_MONITOR_RATIOS;
pub use error::{RecipeError, describe_toml_error};
pub use error_model::{ErrorModel, SpreadUse, VarianceSource};
pub use file_ref::{FileRef, LinkedFile};
pub use goniometer::{Goniometer, GoniometerFile};
pub use import::{IniSection, read_integrator_sections};
pub use incident_angle::IncidentAngle;
pub use mask_region::{MaskRegion, RegionShape};
pub use monitor::{Monitor, MonitorReference, MonitorSetting, Quantity};
pub use one_or_many::OneOrMany;
pub use options::{
    DummySetting, EmptyBinValue, ErrorFloor, ErrorMeasure, FlatMode, Mean, MedianError,
    ReferenceSetting, Split,
};
pub use outliers::{Quantiles, SigmaClip};
pub use poni_table::{MAX_PONI_RANGES, PoniRange};
pub use recipe_file::RecipeFile;
pub use resolved_recipe::Recipe;
pub use sensor::Sensor;
pub use settings::{Settings, closest_name};
pub use time::Time;
