//! Exports patterns for other programs: text files with columns, and HDF5 files by NeXus
//! definitions.
//!
//! A format is an [`ExportFormat`], in a file of its own, and a row of [`formats`], from which the
//! command line, help and manual pages take their lists. `docs/extending.md` shows how one is
//! added.

mod averages;
mod background;
mod columns;
mod csv;
mod dat;
mod error;
mod export_digests;
mod format;
mod fxye;
mod hdf5_file;
mod map;
mod nxazint;
mod nxcansas;
mod subtract;
mod text_files;
mod xye;

pub use background::{Background, BackgroundScale};
pub use error::ExportError;
pub use export_digests::existing_exports;
pub use format::{ExportContent, ExportFormat};
pub use map::{MapRequest, WrittenMap, write_map};
pub use subtract::{WrittenSubtraction, write_subtracted};

/// Returns every format, in the order of help.
pub fn formats() -> &'static [&'static dyn ExportFormat] {
    &[&xye::Xye, &dat::Dat, &csv::Csv, &fxye::Fxye, &nxazint::NxAzint, &nxcansas::NxCanSas]
}

/// Returns the format of this name; `None` for an unknown name.
pub fn find_format(name: &str) -> Option<&'static dyn ExportFormat> {
    formats().iter().copied().find(|format| format.name() == name)
}
