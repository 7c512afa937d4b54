//! Writes an export that is one HDF5 file.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use system::atomic::AtomicFile;
use system::ownership::ReplacePolicy;

use super::ExportError;
use super::export_digests::ExportDigests;
use crate::PatternAxes;
use crate::h5::{self, Group, Hdf5Error, NewHdf5File};
use crate::output::{OutputFile, create_nexus_group, format_iso8601};

/// Name and mark of an HDF5 file.
pub(super) struct Hdf5Export {
    /// Extension of the file, which otherwise has the name of the final file.
    pub extension: &'static str,
    /// Text dataset below the group that the attribute `default` of the file names. It is [`MARK`]
    /// in files of azpipe, and tells them where no digest is known.
    pub mark: &'static str,
}

/// Name of the program in files that azpipe wrote, by which it knows them.
pub(super) const MARK: &str = "azpipe";

/// Reason why the content of an HDF5 file can't be written.
pub(super) enum WriteError {
    /// The final file can't be read.
    Export(ExportError),
    /// The new file can't be written.
    Hdf5(Hdf5Error),
}

impl From<ExportError> for WriteError {
    fn from(why: ExportError) -> Self {
        Self::Export(why)
    }
}

impl From<crate::output::OutputError> for WriteError {
    fn from(why: crate::output::OutputError) -> Self {
        Self::Export(why.into())
    }
}

impl From<Hdf5Error> for WriteError {
    fn from(why: Hdf5Error) -> Self {
        Self::Hdf5(why)
    }
}

/// Writes an HDF5 file beside the final file, and returns its path. `write_content` fills the file,
/// and must write the mark. A file that exists is replaced if azpipe wrote it and nobody changed it,
/// or if `policy` allows it; a final file never is.
///
/// # Errors
/// Fails if a final file or a file of somebody else has the path, and as `write_content` does.
pub(super) fn write_hdf5_file(
    export: &Hdf5Export,
    output: &OutputFile,
    policy: &ReplacePolicy,
    write_content: impl FnOnce(&Group) -> Result<(), WriteError>,
) -> Result<Vec<PathBuf>, ExportError> {
    let path = output.path.with_extension(export.extension);
    let io = |why| ExportError::Io { path: path.clone(), why };
    let hdf5 = |why| match why {
        Hdf5Error::Io(why) => ExportError::Io { path: path.clone(), why },
        why => ExportError::Hdf5 { path: path.clone(), why },
    };
    // A recipe may be called `x.map` beside another called `x`, and nothing makes its patterns again.
    if OutputFile::is_output(&path).map_err(io)? {
        return Err(ExportError::IsFinal { path });
    }
    let (mark, digests) = (export.mark, ExportDigests::read(output)?);
    let claim = digests.owned_exports(move |path| has_mark(path, mark), policy);
    let temporary = AtomicFile::create(&path, &claim).map_err(io)?;
    let file = NewHdf5File::create(&temporary, 0).map_err(hdf5)?;
    write_content(&file).map_err(|why| match why {
        WriteError::Export(why) => why,
        WriteError::Hdf5(why) => hdf5(why),
    })?;
    file.finish().and_then(h5::VerifiedFile::sync).map_err(hdf5)?;
    let _lock = digests.lock()?;
    let digest = |path: &Path| file_mark::digest_file(path).map_err(io);
    let mut contents = Vec::new();
    // Once the file has a digest, its mark tells nothing.
    if digests.is_claimed_by_mark(&path, |path| has_mark(path, mark))? {
        contents.push((path.as_path(), digest(&path)?));
    }
    contents.push((path.as_path(), digest(temporary.temporary_path())?));
    digests.add(contents.into_iter())?;
    temporary.commit().map_err(io)?;
    let written = vec![path];
    digests.note_state(output, &written)?;
    Ok(written)
}

/// Writes the entry of an export whose plot is the group `default`, and the group `process` in it.
/// Returns both.
pub(super) fn write_entry(
    root: &Group,
    output: &OutputFile,
    default: &str,
) -> h5::Result<(Group, Group)> {
    let (entry, process) = write_undated_entry(root, output, default)?;
    process.write_text("date", &format_iso8601(SystemTime::now()))?;
    Ok((entry, process))
}

/// Writes the entry of an export as [`write_entry`] does, but no date, so that the same content gives
/// the same bytes.
pub(super) fn write_undated_entry(
    root: &Group,
    output: &OutputFile,
    default: &str,
) -> h5::Result<(Group, Group)> {
    let scan = &output.task.acquisition;
    root.set_text("NX_class", "NXroot")?;
    root.set_text("default", "entry")?;
    let entry = create_nexus_group(root, "entry", "NXentry")?;
    entry.set_text("default", default)?;
    for (name, text) in
        [("title", &scan.title), ("start_time", &scan.start_time), ("end_time", &scan.end_time)]
    {
        text.as_ref().map_or(Ok(()), |text| entry.write_text(name, text).map(drop))?;
    }
    let process = create_nexus_group(&entry, "process", "NXprocess")?;
    process.write_text("program", MARK)?;
    process.write_text("version", env!("CARGO_PKG_VERSION"))?;
    process.write_text("final_file", &output.path.to_string_lossy())?;
    Ok((entry, process))
}

/// Names the axes of an NXdata group, `first` before those of patterns, and writes the latter.
pub(super) fn write_pattern_axes(
    group: &Group,
    first: &[&str],
    bins: &PatternAxes,
) -> h5::Result<()> {
    let own = bins.iter().map(|axis| axis.name.as_str());
    let names: Vec<&str> = first.iter().copied().chain(own).collect();
    group.set_texts("axes", &names)?;
    for axis in bins.iter() {
        let dataset = group.write_list(&axis.name, &axis.centers)?;
        dataset.set_text("units", &axis.units)?;
        dataset.set_text("long_name", &axis.plot_label())?;
    }
    Ok(())
}

/// Returns whether a file has the mark of azpipe.
fn has_mark(path: &Path, mark: &str) -> io::Result<bool> {
    let read = || {
        let file = h5::Hdf5File::open(path)?;
        file.group(&file.text_attribute("default")?)?.text(mark)
    };
    match read() {
        Err(Hdf5Error::Io(why)) => Err(why),
        // Whose it is can't be told.
        Err(Hdf5Error::Damaged(why)) => Err(io::Error::other(why)),
        program => Ok(program.is_ok_and(|program| program == MARK)),
    }
}
