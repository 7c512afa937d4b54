//! Patterns for other programs: columns of text, and NeXus files by the application definitions.
//!
//! Text holds the patterns of many frames, a file each: `<final>.xye`, or `<final>_00000-00099.xye` where
//! they are of ranges. The NeXus file holds every frame.

mod error;
mod fxye;
mod nxazint;
mod text;

use std::path::PathBuf;

use manners::atomic;

use crate::finals::{Final, Pattern};

pub use error::Error;

/// What the patterns are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Three columns, radial, intensity and error, without a header and without bins that hold nothing:
    /// what TOPAS and FullProf read.
    Xye,
    /// Columns under a header of `#` lines, as pyFAI saves patterns.
    Dat,
    /// Comma-separated, with a line of names.
    Csv,
    /// GSAS's powder data with a position in each record, without bins that hold nothing.
    Fxye,
    /// An HDF5 file by the NeXus definition NXazint1d, or NXazint2d for cakes.
    NxAzint,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 5] = [Self::Xye, Self::Dat, Self::Csv, Self::Fxye, Self::NxAzint];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xye => "xye",
            Self::Dat => "dat",
            Self::Csv => "csv",
            Self::Fxye => "fxye",
            Self::NxAzint => "nxazint",
        }
    }

    /// Whether it holds the patterns of many frames, and not those of each.
    pub fn is_of_averages(self) -> bool {
        self != Self::NxAzint
    }
}

/// Writes a final's patterns beside it, and says where.
///
/// # Errors
/// A final without patterns of many frames; a cake or an axis that the format has no place for; a file that
/// can't be read or written.
pub fn write(of: &Final, format: Format) -> Result<Vec<PathBuf>, Error> {
    if format == Format::NxAzint {
        return nxazint::write(of).map(|path| vec![path]);
    }
    let path = || of.path.clone();
    let averaged = of.averaged.as_ref().ok_or_else(|| Error::NoAverage { path: path() })?;
    if let [azimuthal, radial] = of.shared.axes.shape()[..] {
        return Err(Error::Cake { path: path(), azimuthal, radial });
    }
    let ranges = averaged.average.ranges(of.task.acquisition.frames);
    let mut written = Vec::new();
    for (index, range) in ranges.iter().enumerate().take(averaged.frames.len()) {
        let pattern = averaged.pattern(index).map_err(|why| Error::Hdf5 { path: path(), why })?;
        let pattern = pattern.ok_or_else(|| Error::Damaged { path: path(), index })?;
        let mut name = of.path.file_stem().unwrap_or_default().to_owned();
        match (averaged.average.every, range.end - range.start) {
            (None, _) => (),
            (Some(_), 1) => name.push(format!("_{:05}", range.start)),
            (Some(_), _) => name.push(format!("_{:05}-{:05}", range.start, range.end - 1)),
        }
        name.push(format!(".{}", format.name()));
        let path = of.path.with_file_name(name);
        let text = text(of, &pattern, format)?;
        atomic::write(&path, text).map_err(|why| Error::Io { path: path.clone(), why })?;
        written.push(path);
    }
    Ok(written)
}

fn text(of: &Final, pattern: &Pattern, format: Format) -> Result<String, Error> {
    match format {
        Format::Xye => Ok(text::xye(of, pattern)),
        Format::Dat => Ok(text::dat(of, pattern)),
        Format::Csv => Ok(text::csv(of, pattern)),
        Format::Fxye => fxye::text(of, pattern),
        Format::NxAzint => unreachable!("it is no text"),
    }
}
