//! How to integrate: the user's settings, resolved by content into one recipe with one digest.
//!
//! [`Settings`] is what a user says, by flags or in a TOML file, with paths. [`Recipe`] is what a
//! task carries: every default filled in, the PONI text inside, and each image file beside the
//! SHA-256 of its bytes. Two recipes with the same numbers have the same digest, wherever their
//! files lie and whatever the recipe is called.

mod error;
mod file_ref;
mod import;
mod monitor;
mod one_or_many;
mod options;
mod outliers;
mod poni_text;
mod recipe_file;
mod region;
mod resolved_recipe;
mod sensor;
mod settings;
mod template;
mod validate;

pub use error::RecipeError;
pub use file_ref::FileRef;
pub use monitor::{Monitor, MonitorReference, MonitorSetting, Quantity};
pub use one_or_many::OneOrMany;
pub use options::{
    DummySetting, EmptyBinValue, ErrorFloor, ErrorMeasure, ErrorModel, FlatMode, MedianError, ReferenceSetting, Split,
};
pub use outliers::{Quantiles, SigmaClip};
pub use recipe_file::RecipeFile;
pub use region::{MaskRegion, RegionShape};
pub use resolved_recipe::Recipe;
pub use sensor::Sensor;
pub use settings::{Settings, closest_name};
