//! Writes text files, one for each average pattern: `<final>.xye`, or `<final>_00000-00099.xye` for
//! a range of frames.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use system::ownership::{ReplacePolicy, has_mark};
use system::{atomic, untrusted_file};

use super::averages::{Averages, format_range};
use super::export_digests::ExportDigests;
use super::{ExportError, ExportFormat, PatternReduction};
use crate::output::{AveragePattern, OutputFile};

/// Number of text files that are formatted before they are written.
const FILES_AT_ONCE: usize = 256;

/// Writes a file for each average pattern. Its extension is the name of the format;
/// `format_pattern` returns its content, from the pattern and its description.
///
/// # Errors
/// Fails as [`ExportFormat::write`] does, and as `format_pattern` does.
pub(super) fn write_text_files(
    format: &dyn ExportFormat,
    output: &OutputFile,
    reduction: Option<PatternReduction>,
    policy: &ReplacePolicy,
    format_pattern: impl Fn(&AveragePattern, &str) -> Result<String, ExportError>,
) -> Result<Vec<PathBuf>, ExportError> {
    let averages = Averages::new(output, reduction, format.name())?;
    let digests = ExportDigests::read(output)?;
    let _lock = digests.lock()?;
    let claim = digests.owned_exports(has_dat_header, policy);
    let mut written = Vec::new();
    let indices: Vec<usize> = averages.indices().collect();
    for batch in indices.chunks(FILES_AT_ONCE) {
        let mut new = Vec::new();
        for &index in batch {
            let range = averages.are_of_ranges().then(|| format_range(&averages.ranges[index]));
            let path = text_path(output, reduction, range.as_deref(), format.name());
            let pattern = averages.read(index)?;
            let text = format_pattern(&pattern, &averages.describe(&pattern))?;
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
        digests.add(
            new.iter().map(|(path, text)| (path.as_path(), file_mark::digest(text.as_bytes()))),
        )?;
        for (path, text) in new {
            atomic::write(&path, text, &claim).map_err(io_error(&path))?;
        }
    }
    digests.note_state(output, &written)?;
    Ok(written)
}

/// Returns whether a file has the header of a `dat` file of azpipe. No other text format has a mark.
fn has_dat_header(path: &Path) -> io::Result<bool> {
    has_mark(path, b"# == ", b", azpipe ")
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> ExportError {
    move |why| ExportError::Io { path: path.to_owned(), why }
}

/// Returns the path of the text file of all frames, or of a range of frames.
fn text_path(
    output: &OutputFile,
    reduction: Option<PatternReduction>,
    range: Option<&str>,
    extension: &str,
) -> PathBuf {
    let mut name = output.path.file_stem().unwrap_or_default().to_owned();
    if let Some(reduction) = reduction {
        name.push(format!(".{}", reduction.name()));
    }
    if let Some(range) = range {
        name.push(format!("_{range}"));
    }
    name.push(format!(".{extension}"));
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
