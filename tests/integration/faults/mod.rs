//! Faults of storage: every call to the file system fails once, power is lost at any moment, and
//! random faults hit a long run. Afterwards the bytes are those of a run without faults.
//!
//! `scripts/chaos` runs the long forms. Random choices are printed with their seed, and an
//! environment variable replays them.

mod chaos;
mod combinations;
mod difference;
mod every_call;
mod full_disk;
mod pipe;
mod power_loss;
mod recipe_images;
mod report;
mod state;
mod trace;
