//! Patterns for other programs: columns of text, and NeXus files by the application definitions.
//!
//! Text holds the patterns of many frames, a file each: `<final>.xye`, or `<final>_00000-00099.xye` where
//! they are of ranges. The NeXus file holds every frame.

mod error;
mod export_digests;
mod fxye;
mod nxazint;
mod text;

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

use filter::ownership::ReplacePolicy;
use filter::{atomic, untrusted_file};

use crate::output::{AveragePattern, OutputFile};

use export_digests::ExportDigests;

pub use error::ExportError;

/// How many texts are held at a time.
const FILES_AT_ONCE: usize = 256;

/// What the patterns are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
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

impl ExportFormat {
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
    pub fn exports_averages(self) -> bool {
        self != Self::NxAzint
    }
}

/// Writes a final's patterns beside it, and says where. What is there already is replaced if azpipe wrote it, or if
/// `policy` says so.
///
/// # Errors
/// A final without patterns of many frames; a cake or an axis that the format has no place for; a file that
/// can't be read or written; somebody else's file.
pub fn write(of: &OutputFile, format: ExportFormat, policy: &ReplacePolicy) -> Result<Vec<PathBuf>, ExportError> {
    if format == ExportFormat::NxAzint {
        return nxazint::write(of, policy).map(|path| vec![path]);
    }
    let path = || of.path.clone();
    let averaged = of.averaged.as_ref().ok_or_else(|| ExportError::NoAverage { path: path() })?;
    if let [azimuthal, radial] = of.shared.axes.shape()[..] {
        return Err(ExportError::Cake { path: path(), azimuthal, radial });
    }
    let ranges = averaged.average.ranges(of.task.acquisition.frames);
    let ranges: Vec<_> = ranges.into_iter().take(averaged.frames.len()).enumerate().collect();
    let mut register = ExportDigests::read(of)?;
    let mut written = Vec::new();
    for batch in ranges.chunks(FILES_AT_ONCE) {
        let claim = register.owned_exports(policy);
        let mut new = Vec::new();
        for (index, range) in batch {
            let pattern = averaged.pattern(*index).map_err(|why| ExportError::Hdf5 { path: path(), why })?;
            let pattern = pattern.ok_or_else(|| ExportError::Damaged { path: path(), index: *index })?;
            let path = export_path(of, format, averaged.average.every.is_some(), range);
            let text = format_text(of, &pattern, format)?;
            claim
                .check(&path)
                .or_else(|why| if has_content(&path, &text)? { Ok(()) } else { Err(why) })
                .map_err(io_error(&path))?;
            if !has_content(&path, &text).map_err(io_error(&path))? {
                new.push((path.clone(), text));
            }
            written.push(path);
        }
        if new.is_empty() {
            continue;
        }
        register.add(new.iter().map(|(path, text)| (path.file_name().unwrap_or_default(), &**text)))?;
        for (path, text) in new {
            atomic::write(&path, text, &claim).map_err(io_error(&path))?;
        }
    }
    Ok(written)
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> ExportError {
    move |why| ExportError::Io { path: path.to_owned(), why }
}

/// The file of the pattern of a range of frames.
fn export_path(of: &OutputFile, format: ExportFormat, is_of_many: bool, range: &Range<u64>) -> PathBuf {
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
fn has_content(path: &Path, text: &str) -> io::Result<bool> {
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

fn format_text(of: &OutputFile, pattern: &AveragePattern, format: ExportFormat) -> Result<String, ExportError> {
    match format {
        ExportFormat::Xye => Ok(text::format_xye(of, pattern)),
        ExportFormat::Dat => Ok(text::format_dat(of, pattern)),
        ExportFormat::Csv => Ok(text::format_csv(of, pattern)),
        ExportFormat::Fxye => fxye::format_fxye(of, pattern),
        ExportFormat::NxAzint => unreachable!("it is no text"),
    }
}
