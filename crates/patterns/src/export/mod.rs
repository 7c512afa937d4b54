//! Exports patterns for other programs: text files with columns, and HDF5 files by NeXus
//! definitions.
//!
//! A format is an [`ExportFormat`], in a file of its own, and a row of [`formats`], from which the
//! command line, help and manual pages take their lists. `docs/extending.md` shows how one is
//! added.

mod absolute;
mod averages;
mod background;
mod calibration;
mod columns;
mod csv;
mod dat;
mod drift;
mod error;
mod export_digests;
mod format;
mod frame_value;
mod fxye;
mod glassy_carbon;
mod hdf5_file;
mod map;
mod mean_pattern;
mod nxazint;
mod nxcansas;
mod outdated_subtractions;
mod pixels;
mod q_axis;
mod reduced;
mod reduction;
mod standard;
mod text_files;
mod xye;

pub use absolute::{AbsoluteScale, CalibrationFactor, Thickness, Transmission};
pub use background::Background;
pub use calibration::{Calibration, calibrate};
pub use drift::{
    CalibrantLine, Displacement, Drift, DriftDoubt, DriftRequest, LineUse, write_drift,
};
pub use error::ExportError;
pub use export_digests::{existing_exports, mark_outdated, outdated_exports};
pub use format::{ExportContent, ExportFormat};
pub use frame_value::FrameValue;
pub use map::{MapRequest, WrittenMap, write_map};
pub use outdated_subtractions::{OutdatedSubtraction, find_outdated_subtractions};
pub use pixels::{MarkedPixels, WrittenImages, write_pixel_images};
pub use reduced::{WrittenPatterns, write_reduced};
pub use reduction::PatternReduction;
pub use standard::Standard;

/// Returns every format, in the order of help.
pub fn formats() -> &'static [&'static dyn ExportFormat] {
    &[&xye::Xye, &dat::Dat, &csv::Csv, &fxye::Fxye, &nxazint::NxAzint, &nxcansas::NxCanSas]
}

/// Returns the format of this name; `None` for an unknown name.
pub fn find_format(name: &str) -> Option<&'static dyn ExportFormat> {
    formats().iter().copied().find(|format| format.name() == name)
}
