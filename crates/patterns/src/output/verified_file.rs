//! Writes final files, which are read back and compared before they replace earlier ones, and opens
//! them with their checksums verified.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use system::atomic::AtomicFile;
use system::ownership::{self, OwnershipRule, ProtectedFiles};
use system::set_aside::rename_aside;
use system::untrusted_file::FileVersion;

use super::content::OutputContent;
use super::frame_source::FrameSource;
use super::writer;
use super::{BuildObserver, OutputError, OutputFile, OutputLayout, OutputSpec};
use crate::h5::{Group, NewHdf5File};

/// Writes a final file, reads it back, and renames it to its path. Returns the digest of its data.
///
/// `more` adds to the file before it is closed. `was` is the version of the file that is replaced.
/// Where locks don't work between machines, a gather on another machine may have written a final
/// file in the meantime and removed the parts that it holds; that file is not replaced.
pub(super) fn write_verified(
    content: &OutputContent,
    frames: &mut dyn FrameSource,
    observer: &dyn BuildObserver,
    was: Option<FileVersion>,
    more: impl FnOnce(&Group) -> Result<(), OutputError>,
) -> Result<String, OutputError> {
    let path = content.target.path();
    let io = OutputError::io(&path);
    ownership::create_directories(path.parent().unwrap_or(content.target.out_root()))
        .map_err(&io)?;
    let claim = owned_outputs(content.target);
    let temporary = AtomicFile::create(&path, &claim).map_err(&io)?;
    let file = NewHdf5File::create(&temporary, 0).map_err(OutputError::hdf5(&path))?;
    let digest = writer::write_output(&file, content, frames, observer)?;
    more(&file)?;
    let sealed = file.finish().map_err(OutputError::hdf5(&path))?;
    sealed.append_checksums().and_then(|()| sealed.sync()).map_err(OutputError::hdf5(&path))?;
    let mut written = OutputFile::open(temporary.temporary_path())?;
    written.verify(0..content.row_sources.status.len())?;
    written.verify_sparse()?;
    let intact = content.layout == OutputLayout::Virtual || written.is_intact();
    let has_sparse = written.sparse.is_some() == content.row_sources.has_sparse_pixels()
        && written.damaged_sparse.is_empty();
    if !intact || !has_sparse || written.data_digest != digest {
        return Err(OutputError::ReadBackMismatch {
            path: temporary.temporary_path().to_path_buf(),
        });
    }
    drop(written);
    if file_version(&path)? != was {
        return Err(OutputError::ConcurrentWrite { path });
    }
    if let Some((reason, what)) = &content.set_aside {
        let aside = rename_aside(&path, *reason, &claim).map_err(&io)?;
        let warning = format!("{}: {what}, kept under this name", aside.display());
        content.warnings.borrow_mut().push(warning);
    }
    temporary.commit().map_err(&io)?;
    Ok(digest)
}

/// Names a damaged file that is kept under another name.
pub(super) const DAMAGED_FILE: &str = "the damaged file";

/// Opens a final file and verifies its rows, its sums if they are needed or bytes are damaged, and all
/// its other bytes.
pub(super) fn open_verified(path: &Path, needs_sums: bool) -> Result<OutputFile, OutputError> {
    let mut there = OutputFile::open(path)?;
    there.verify(0..there.status.len())?;
    there.verify_bytes()?;
    if needs_sums || there.damaged_bytes.is_some() {
        there.verify_sums(0..there.status.len())?;
    }
    there.verify_sparse()?;
    Ok(there)
}

/// Claims final files, except those that are a source of the scan itself.
fn owned_outputs(target: &OutputSpec) -> OwnershipRule {
    let sources = ProtectedFiles::default();
    let scan = &target.task().acquisition;
    [&scan.file]
        .into_iter()
        .chain(scan.sources.iter().map(|source| &source.file))
        .for_each(|path| sources.add(path));
    OwnershipRule::new("a final", OutputFile::is_output)
        .with_derived_names()
        .with_protected(&sources)
}

/// Returns the version of a part or final; `None` if there is no such file.
pub(super) fn file_version(path: &Path) -> Result<Option<FileVersion>, OutputError> {
    match fs::metadata(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        metadata => Ok(Some(FileVersion::new(&metadata.map_err(OutputError::io(path))?))),
    }
}
