//! Exports patterns for other programs: text files with columns, and NeXus files by application definitions.
//!
//! A text file has one average pattern: `<final>.xye`, or `<final>_00000-00099.xye` for the average of a range of frames. The
//! NeXus file has the patterns of all frames.

mod error;
mod export_digests;
mod fxye;
mod nxazint;
mod text;

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

use system::ownership::ReplacePolicy;
use system::{atomic, untrusted_file};

use crate::output::{AveragePattern, OutputFile};

use export_digests::ExportDigests;

pub use error::ExportError;

/// Number of text files that are formatted before they are written.
const FILES_AT_ONCE: usize = 256;

/// Format of exported patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Three columns for TOPAS and FullProf: radial position, intensity and error. There is no header, and empty bins are left
    /// out.
    Xye,
    /// Columns under a header of `#` lines, as pyFAI saves patterns.
    Dat,
    /// Comma-separated values, with the names of the columns in the first line.
    Csv,
    /// GSAS's powder data, with a position in each record. Empty bins are left out.
    Fxye,
    /// HDF5 file by the NeXus definition NXazint1d, or NXazint2d for cakes.
    NxAzint,
}

impl ExportFormat {
    /// Every format.
    pub const ALL: [Self; 5] = [Self::Xye, Self::Dat, Self::Csv, Self::Fxye, Self::NxAzint];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Xye => "xye",
            Self::Dat => "dat",
            Self::Csv => "csv",
            Self::Fxye => "fxye",
            Self::NxAzint => "nxazint",
        }
    }

    /// Returns whether the format has average patterns, instead of the patterns of all frames.
    pub fn exports_averages(self) -> bool {
        self != Self::NxAzint
    }
}

/// Exports a final file to files beside it, and returns their paths. Existing exports are replaced if azpipe wrote
/// them, or if `policy` allows it.
///
/// # Errors
/// Fails if the final file has no average patterns and the format needs them, if the format doesn't support the axis or
/// cakes, if a file of somebody else has the path, or if a file can't be read or written.
pub fn write(output: &OutputFile, format: ExportFormat, policy: &ReplacePolicy) -> Result<Vec<PathBuf>, ExportError> {
    if format == ExportFormat::NxAzint {
        return nxazint::write(output, policy).map(|path| vec![path]);
    }
    let path = || output.path.clone();
    let averaged = output.averaged.as_ref().ok_or_else(|| ExportError::NoAverage { path: path() })?;
    if let [azimuthal, radial] = output.shared.axes.shape()[..] {
        return Err(ExportError::Cake { path: path(), azimuthal, radial });
    }
    let ranges = averaged.average.ranges(output.task.acquisition.frames);
    let ranges: Vec<_> = ranges.into_iter().take(averaged.frames.len()).enumerate().collect();
    let mut digests = ExportDigests::read(output)?;
    let mut written = Vec::new();
    for batch in ranges.chunks(FILES_AT_ONCE) {
        let claim = digests.owned_exports(policy);
        let mut new = Vec::new();
        for (index, range) in batch {
            let pattern = averaged.pattern(*index).map_err(|why| ExportError::Hdf5 { path: path(), why })?;
            let pattern = pattern.ok_or_else(|| ExportError::Damaged { path: path(), index: *index })?;
            let path = export_path(output, format, averaged.average.every.is_some(), range);
            let text = format_text(output, &pattern, format)?;
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
        digests.add(new.iter().map(|(path, text)| (path.file_name().unwrap_or_default(), &**text)))?;
        for (path, text) in new {
            atomic::write(&path, text, &claim).map_err(io_error(&path))?;
        }
    }
    Ok(written)
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> ExportError {
    move |why| ExportError::Io { path: path.to_owned(), why }
}

/// Returns the path of the export of a range of frames.
fn export_path(output: &OutputFile, format: ExportFormat, is_of_many: bool, range: &Range<u64>) -> PathBuf {
    let mut name = output.path.file_stem().unwrap_or_default().to_owned();
    match (is_of_many, range.end.saturating_sub(range.start)) {
        (false, _) => (),
        (true, 1) => name.push(format!("_{:05}", range.start)),
        (true, _) => name.push(format!("_{:05}-{:05}", range.start, range.end.saturating_sub(1))),
    }
    name.push(format!(".{}", format.name()));
    output.path.with_file_name(name)
}

/// Returns whether a file has this content already.
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

fn format_text(output: &OutputFile, pattern: &AveragePattern, format: ExportFormat) -> Result<String, ExportError> {
    match format {
        ExportFormat::Xye => Ok(text::format_xye(output, pattern)),
        ExportFormat::Dat => Ok(text::format_dat(output, pattern)),
        ExportFormat::Csv => Ok(text::format_csv(output, pattern)),
        ExportFormat::Fxye => fxye::format_fxye(output, pattern),
        ExportFormat::NxAzint => unreachable!("it is no text"),
    }
}
