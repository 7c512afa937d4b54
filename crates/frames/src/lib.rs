//! frames
pub mod image;
