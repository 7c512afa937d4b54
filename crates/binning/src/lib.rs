//! Which share of each pixel falls in which bin of a pattern or of a cake.
mod axis;
mod cake;
mod clip;
mod csc;
mod error;
mod outline;
mod pattern;
mod positions;
mod regroup;
mod request;
mod ruler;
mod sector;
mod turn;

pub use axis::{Axis, ChiAxis};
pub use csc::Csc;
pub use error::{Error, Limits};
pub use regroup::{Binning, bin, regroup};
pub use request::{Azimuth, Bins, Regroup, Request, Split};
