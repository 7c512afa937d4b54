//! Patterns for other programs: columns of text, and NeXus files by the application definitions.
//!
//! Text holds the patterns of many frames, a file each: `<final>.xye`, or `<final>_00000-00099.xye` where
//! they are of ranges. The NeXus file holds every frame.

mod error;
mod fxye;
mod nxazint;
mod register;
mod text;

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

use filter::ownership::ReplacePolicy;
use filter::{atomic, untrusted_file};

use crate::finals::{Final, Pattern};

use register::Register;

pub use error::Error;

/// How many texts are held at a time.
const BATCH: usize = 256;

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

/// Writes a final's patterns beside it, and says where. What is there already is replaced if azpipe wrote it, or if
/// `policy` says so.
///
/// # Errors
/// A final without patterns of many frames; a cake or an axis that the format has no place for; a file that
/// can't be read or written; somebody else's file.
pub fn write(of: &Final, format: Format, policy: &ReplacePolicy) -> Result<Vec<PathBuf>, Error> {
    if format == Format::NxAzint {
        return nxazint::write(of, policy).map(|path| vec![path]);
    }
    let path = || of.path.clone();
    let averaged = of.averaged.as_ref().ok_or_else(|| Error::NoAverage { path: path() })?;
    if let [azimuthal, radial] = of.shared.axes.shape()[..] {
        return Err(Error::Cake { path: path(), azimuthal, radial });
    }
    let ranges = averaged.average.ranges(of.task.acquisition.frames);
    let ranges: Vec<_> = ranges.into_iter().take(averaged.frames.len()).enumerate().collect();
    let mut register = Register::read(of)?;
    let mut written = Vec::new();
    for batch in ranges.chunks(BATCH) {
        let claim = register.claim(policy);
        let mut new = Vec::new();
        for (index, range) in batch {
            let pattern = averaged.pattern(*index).map_err(|why| Error::Hdf5 { path: path(), why })?;
            let pattern = pattern.ok_or_else(|| Error::Damaged { path: path(), index: *index })?;
            let path = name(of, format, averaged.average.every.is_some(), range);
            let text = text(of, &pattern, format)?;
            claim
                .check(&path)
                .or_else(|why| if holds(&path, &text)? { Ok(()) } else { Err(why) })
                .map_err(at(&path))?;
            if !holds(&path, &text).map_err(at(&path))? {
                new.push((path.clone(), text));
            }
            written.push(path);
        }
        if new.is_empty() {
            continue;
        }
        register.add(new.iter().map(|(path, text)| (path.file_name().unwrap_or_default(), &**text)))?;
        for (path, text) in new {
            atomic::write(&path, text, &claim).map_err(at(&path))?;
        }
    }
    Ok(written)
}

fn at(path: &Path) -> impl Fn(io::Error) -> Error {
    move |why| Error::Io { path: path.to_owned(), why }
}

/// The file of the pattern of a range of frames.
fn name(of: &Final, format: Format, is_of_many: bool, range: &Range<u64>) -> PathBuf {
    let mut name = of.path.file_stem().unwrap_or_default().to_owned();
    match (is_of_many, range.end.saturating_sub(range.start)) {
        (false, _) => (),
        (true, 1) => name.push(format!("_{:05}", range.start)),
        (true, _) => name.push(format!("_{:05}-{:05}", range.start, range.end.saturating_sub(1))),
    }
    name.push(format!(".{}", format.name()));
    of.path.with_file_name(name)
}

/// Whether a file has this content already.
fn holds(path: &Path, text: &str) -> io::Result<bool> {
    match untrusted_file::open(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(false),
        file => {
            if file?.metadata()?.len() != text.len() as u64 {
                return Ok(false);
            }
        }
    }
    Ok(untrusted_file::read(path, text.len() as u64)? == text.as_bytes())
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
