//! How to integrate: the user's settings, resolved by content into one recipe with one digest.
//!
//! [`Settings`] is what a user says, by flags or in a TOML file, with paths. [`Recipe`] is what a
//! task carries: every default filled in, the PONI text inside, and each image file beside the
//! SHA-256 of its bytes. Two recipes with the same numbers have the same digest, wherever their
//! files lie and whatever the recipe is called.

mod check;
mod choice;
mod error;
mod file;
mod foreign;
mod lists;
mod monitor;
mod poni;
mod region;
mod resolved;
mod robust;
mod sensor;
mod settings;
mod sheet;
mod template;

pub use choice::{Deviation, Dummy, Empty, ErrorFloor, ErrorModel, FlatMode, MedianError, Reference, Split};
pub use error::Error;
pub use file::FileRef;
pub use lists::OneOrMany;
pub use monitor::{Monitor, MonitorName, Over, Quantity};
pub use region::{Region, Shape};
pub use resolved::Recipe;
pub use robust::{Quantiles, SigmaClip};
pub use sensor::Sensor;
pub use settings::Settings;
pub use sheet::RecipeFile;
