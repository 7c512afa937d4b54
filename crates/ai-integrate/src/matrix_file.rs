//! Files of matrices, and of notes that a matrix was used once.
//!
//! ```text
//! {"azpipe":"matrix","v":1,"key":"…","recipe":"…","bytes":92274688,"xxh3":"…"}
//! ```
//!
//! The header is padded with spaces up to byte 511, which is a line break. The output of
//! [`Integrator::write_to`] follows; nothing follows in a note.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use integrator::Integrator;
use serde::{Deserialize, Serialize};
use system::atomic::AtomicFile;
use system::mapped_file::MappedFile;
use system::ownership::{OwnershipRule, has_mark, is_in_azpipe_dir};

use crate::checksum::{ChecksumWriter, checksum};

/// Length of the header in bytes.
pub const MATRIX_HEADER_BYTES: usize = 512;

/// The content of a file of the cache directory.
pub enum MatrixFile {
    /// The matrix, with everything that [`Integrator::from_memory`] reads.
    Matrix(Arc<MappedFile>),
    /// A note: the matrix was wanted once, and is not kept yet.
    UseNote,
}

#[derive(Serialize, Deserialize)]
struct MatrixFileHeader {
    azpipe: String,
    v: u64,
    key: String,
    /// The digest of the recipe that the matrix was first built for, of all its positions; other
    /// recipes may share the matrix.
    #[serde(default)]
    recipe: String,
    bytes: u64,
    xxh3: String,
}

impl MatrixFile {
    /// Maps the file of a key after it has verified the header and the checksum.
    ///
    /// # Errors
    /// Fails if there is no such file, if it can't be read, and if it is damaged or of another key.
    pub fn open(path: &Path, key: &str) -> io::Result<MatrixFile> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
        let mapped = MappedFile::open(path)?;
        let (head, body) = mapped
            .as_ref()
            .split_at_checked(MATRIX_HEADER_BYTES)
            .ok_or_else(|| wrong("not a cached matrix"))?;
        let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let found: MatrixFileHeader =
            serde_json::from_slice(line).map_err(|_| wrong("not a cached matrix"))?;
        if (found.azpipe.as_str(), found.v, found.key.as_str()) != ("matrix", 1, key) {
            return Err(wrong("the matrix of another recipe or version"));
        }
        if found.bytes != body.len() as u64 || found.xxh3 != checksum(body) {
            return Err(wrong("damaged"));
        }
        // The modification time serves as the time of last use, by which files are evicted.
        let _ = mapped.file().set_modified(SystemTime::now());
        Ok(if body.is_empty() { Self::UseNote } else { Self::Matrix(Arc::new(mapped)) })
    }
}

/// Writes the matrix and its header to a file that appears whole.
///
/// # Errors
/// Fails if the file can't be written.
pub fn write_matrix(
    integrator: &Integrator,
    path: &Path,
    key: &str,
    recipe: &str,
) -> io::Result<()> {
    write(path, key, recipe, |body| integrator.write_to(body))?.commit()
}

/// Writes a note that the matrix of a key is used for the first time, unless there is a file. It is a
/// matrix file without content.
///
/// # Errors
/// Fails if the file can't be written.
pub fn write_use_note(path: &Path, key: &str, recipe: &str) -> io::Result<()> {
    let written = || write(path, key, recipe, |_| Ok(()));
    match written()?.commit_new() {
        // The file system has no hard links. The matrix may have been kept meanwhile, and is then built
        // once more.
        Err(why) if matches!(why.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
            written()?.commit()
        }
        noted => noted.map(drop),
    }
}

fn write(
    path: &Path,
    key: &str,
    recipe: &str,
    write_body: impl FnOnce(&mut ChecksumWriter<BufWriter<File>>) -> io::Result<()>,
) -> io::Result<AtomicFile> {
    let file = AtomicFile::create(path, &claim_matrix_of_key())?;
    let mut out = BufWriter::with_capacity(1 << 20, file.create_temporary()?);
    out.write_all(&[b' '; MATRIX_HEADER_BYTES])?;
    let mut body = ChecksumWriter::new(out);
    write_body(&mut body)?;
    let (out, bytes, xxh3) = body.finish();
    let mut written = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let (azpipe, key, recipe) = ("matrix".to_owned(), key.to_owned(), recipe.to_owned());
    let head = MatrixFileHeader { azpipe, v: 1, key, recipe, bytes, xxh3 };
    let mut line = serde_json::to_vec(&head)?;
    line.push(b'\n');
    line.resize(MATRIX_HEADER_BYTES - 1, b' ');
    line.push(b'\n');
    written.rewind()?;
    written.write_all(&line)?;
    // Some systems report a failed write only once, to the handle that wrote.
    written.sync_all()?;
    Ok(file)
}

/// Claims matrices of any key: every file in azpipe's own cache directory, and elsewhere every file
/// with a matrix header.
pub fn claim_any_matrix() -> OwnershipRule {
    OwnershipRule::new("a matrix", |path| {
        Ok(is_in_azpipe_dir(path) || has_mark(path, b"{\"azpipe\":\"matrix\"", b"xxh3")?)
    })
}

/// Claims the file of one key. Its name is a digest of everything that the matrix depends on, which
/// no other file bears, so even a damaged file may be replaced.
fn claim_matrix_of_key() -> OwnershipRule {
    OwnershipRule::new("a matrix", |path| Ok(has_matrix_name(path)))
}

/// Returns whether a file has the name of a matrix: 32 hexadecimal digits and `.matrix`.
pub fn has_matrix_name(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    path.extension().is_some_and(|end| end == "matrix")
        && stem.len() == 32
        && stem.bytes().all(|byte| byte.is_ascii_hexdigit())
}
