//! How to integrate: the user's settings, resolved by content into one recipe with one digest.
//!
//! [`Settings`] is what a user says, by flags or in a TOML file, with paths. [`Recipe`] is what a
//! task carries: every default filled in, the PONI text inside, and each image file beside the
//! SHA-256 of its bytes. Two recipes with the same numbers have the same digest, wherever their
//! files lie and whatever the recipe is called.

mod choice;
mod error;
mod file;
mod resolved;
mod robust;
mod settings;

pub use choice::{Deviation, Dummy, Empty, ErrorModel, Reference, Split};
pub use error::Error;
pub use file::FileRef;
pub use resolved::Recipe;
pub use robust::{Quantiles, SigmaClip};
pub use settings::{OneOrMany, Settings};
