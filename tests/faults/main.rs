//! What storage may do to the filters: every call to the file system fails once, power is lost at any moment, and a
//! storm of faults passes over a long run. Afterwards the bytes are those of a quiet run.
//!
//! `scripts/chaos` runs the long forms. What was chosen by chance is printed with its seed, and an environment variable
//! replays it.

mod chaos;
mod every_call;
mod full_disk;
mod pipe;
mod power_loss;
mod shim;
mod state;
mod trace;
