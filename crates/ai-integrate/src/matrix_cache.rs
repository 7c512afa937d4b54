//! Matrices kept in files: built once, and mapped by later runs and by all processes of a machine.
//!
//! ```text
//! {"azpipe":"matrix","v":1,"key":"…","recipe":"…","bytes":92274688,"xxh3":"…"}
//! ```
//!
//! The header is padded with spaces up to byte 511, which is a line break. The output of
//! [`Integrator::write_to`] follows. A file that fails its checksum is built again. One process
//! builds a matrix while the others wait for it.

use std::collections::HashSet;
use std::fmt::Display;
use std::fs::{File, TryLockError};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use integrator::{Integrator, IntegratorError, PixelType};
use recipe::Recipe;
use records::FrameLayout;
use serde::{Deserialize, Serialize};
use system::atomic::{self, AtomicFile};
use system::mapped_file::{MappedFile, is_mapped};
use system::ownership::{self, OwnershipRule, has_mark, is_in_azpipe_dir};

use crate::checksum::{ChecksumWriter, checksum};

/// Length of the header in bytes.
const MATRIX_HEADER_BYTES: usize = 512;

/// The largest total size of a cache directory; the least recently used files are evicted.
const MAX_CACHE_BYTES: u64 = 8 << 30;

/// How long to wait for another process that builds the matrix.
const BUILD_LOCK_TIMEOUT: Duration = Duration::from_secs(120);

/// The matrices kept in a directory.
pub struct MatrixCache<'a> {
    directory: Option<&'a Path>,
}

/// An integrator, with the origin of its matrix and the cache's warnings.
pub struct CachedIntegrator {
    /// The integrator, its matrix mapped from the cache or just computed.
    pub integrator: Integrator,
    /// The origin of the matrix.
    pub origin: MatrixOrigin,
    /// Problems with the directory or with a file in it.
    pub warnings: Vec<String>,
}

/// How an integrator got its matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatrixOrigin {
    /// The matrix is mapped from this file.
    Mapped(PathBuf),
    /// The matrix was built in this run.
    Built,
}

#[derive(Serialize, Deserialize)]
struct MatrixFileHeader {
    azpipe: String,
    v: u64,
    key: String,
    /// The digest of the recipe that the matrix was first built for; other recipes may share the
    /// matrix.
    #[serde(default)]
    recipe: String,
    bytes: u64,
    xxh3: String,
}

impl<'a> MatrixCache<'a> {
    /// Creates the cache of a directory, which need not exist yet; `None` disables the cache.
    pub fn new(directory: Option<&'a Path>) -> Self {
        Self { directory }
    }

    /// Removes the leftovers of processes that were killed while they built a matrix, once per
    /// process. Runs that have no frame to integrate and so need no matrix call it, too.
    pub fn remove_leftovers(&self) {
        static CLEANED_DIRECTORIES: LazyLock<Mutex<HashSet<PathBuf>>> =
            LazyLock::new(Mutex::default);
        let Some(directory) = self.directory else { return };
        let is_new = CLEANED_DIRECTORIES
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(directory.to_owned());
        if is_new {
            remove_leftovers(directory);
        }
    }

    /// Returns the integrator of a recipe for frames of this layout and type. Its matrix is mapped
    /// from the cache, or built and stored there.
    ///
    /// # Errors
    /// Fails as [`Integrator::new`] does. Problems with the cache are warnings.
    pub fn integrator(
        &self,
        recipe: &Recipe,
        framing: &FrameLayout,
        dtype: PixelType,
    ) -> Result<CachedIntegrator, IntegratorError> {
        let make = |warnings| {
            let integrator = Integrator::new(recipe, framing, dtype)?;
            Ok(CachedIntegrator { integrator, origin: MatrixOrigin::Built, warnings })
        };
        self.remove_leftovers();
        let Some(directory) = self.directory else { return make(Vec::new()) };
        let key = Integrator::cache_key(recipe, framing);
        let path = directory.join(format!("{}.matrix", &key[..32]));
        let mut warnings = Vec::new();
        let open = |warnings: &mut Vec<String>| match open_matrix(&path, &key) {
            Ok(memory) => {
                match Integrator::from_memory(recipe, framing, dtype, memory, MATRIX_HEADER_BYTES) {
                    Ok(integrator) => Some(integrator),
                    Err(why) => {
                        warnings.push(describe_unusable_matrix(&path, &why));
                        None
                    }
                }
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => None,
            Err(why) => {
                warnings.push(describe_unusable_matrix(&path, &why));
                None
            }
        };
        let mapped = |integrator, warnings| CachedIntegrator {
            integrator,
            origin: MatrixOrigin::Mapped(path.clone()),
            warnings,
        };
        if let Some(integrator) = open(&mut warnings) {
            return Ok(mapped(integrator, warnings));
        }
        let making = BuildLock::acquire(&path);
        if let Ok(Some(_)) = &making
            && let Some(integrator) = open(&mut Vec::new())
        {
            return Ok(mapped(integrator, warnings));
        }
        let mut found = make(warnings)?;
        let kept = making.and_then(|_making| {
            write_matrix(&found.integrator, &path, key.clone(), recipe.digest())
        });
        match kept {
            // Mapping the new file frees the private copy: processes share the file's memory.
            Ok(()) => {
                if let Some(integrator) = open(&mut found.warnings) {
                    found.integrator = integrator;
                }
                evict_least_recent(directory, &path, MAX_CACHE_BYTES);
            }
            Err(why) => found.warnings.push(describe_uncached(directory, &why)),
        }
        Ok(found)
    }
}

pub(crate) fn describe_unusable_matrix(path: &Path, why: &dyn Display) -> String {
    format!("{}: {why}: the matrix is built again", path.display())
}

pub(crate) fn describe_uncached(directory: &Path, why: &io::Error) -> String {
    format!(
        "{}: {why}: the matrix is not cached, and each run builds it again",
        directory.display()
    )
}

/// Maps the matrix file of a key after it has verified the header and the checksum.
fn open_matrix(path: &Path, key: &str) -> io::Result<Arc<MappedFile>> {
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
    Ok(Arc::new(mapped))
}

/// Writes the matrix and its header to a file that appears whole.
fn write_matrix(
    integrator: &Integrator,
    path: &Path,
    key: String,
    recipe: String,
) -> io::Result<()> {
    let file = AtomicFile::create(path, &claim_matrix_of_key())?;
    let mut out = BufWriter::with_capacity(1 << 20, file.create_temporary()?);
    out.write_all(&[b' '; MATRIX_HEADER_BYTES])?;
    let mut body = ChecksumWriter::new(out);
    integrator.write_to(&mut body)?;
    let (out, bytes, xxh3) = body.finish();
    let mut written = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let head = MatrixFileHeader { azpipe: "matrix".to_owned(), v: 1, key, recipe, bytes, xxh3 };
    let mut line = serde_json::to_vec(&head)?;
    line.push(b'\n');
    line.resize(MATRIX_HEADER_BYTES - 1, b' ');
    line.push(b'\n');
    written.rewind()?;
    written.write_all(&line)?;
    // Some systems report a failed write only once, to the handle that wrote.
    written.sync_all()?;
    file.commit()
}

/// The lock that allows one process at a time to build a matrix.
struct BuildLock {
    path: PathBuf,
    /// The file that holds the lock while it is open.
    _lock: File,
}

impl BuildLock {
    /// Waits until no other process builds the matrix. Returns `None` if the file system has no
    /// locks, or after [`BUILD_LOCK_TIMEOUT`]; each process then builds the matrix itself.
    fn acquire(matrix: &Path) -> io::Result<Option<Self>> {
        ownership::create_directories(matrix.parent().unwrap_or(Path::new("")))?;
        let path = matrix.with_extension("making");
        let lock = ownership::open_lock(&path)?;
        let began = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Some(Self { path, _lock: lock })),
                Err(TryLockError::WouldBlock) if began.elapsed() < BUILD_LOCK_TIMEOUT => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(_) => return Ok(None),
            }
        }
    }
}

impl Drop for BuildLock {
    fn drop(&mut self) {
        // A waiting process has the lock file open, and finds the matrix built.
        let _ = ownership::remove_lock(&self.path);
    }
}

/// Removes the leftovers of processes that were killed while they built a matrix. A process that
/// waits for a removed lock finds no builder and builds the matrix itself, as a process that can't
/// see the lock does.
fn remove_leftovers(directory: &Path) {
    atomic::remove_stale_files_once(directory);
    for path in
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
    {
        let is_ours = path.extension().is_some_and(|end| end == "making")
            && has_matrix_name(&path.with_extension("matrix"));
        if is_ours && is_mapped(&path).is_ok_and(|in_use| !in_use) {
            let _ = ownership::remove_lock(&path);
        }
    }
}

/// Claims matrices of any key: every file in azpipe's own cache directory, and elsewhere every file
/// with a matrix header.
fn claim_any_matrix() -> OwnershipRule {
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
fn has_matrix_name(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    path.extension().is_some_and(|end| end == "matrix")
        && stem.len() == 32
        && stem.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Removes the least recently used files until all files together take at most `most` bytes. It
/// never removes `new` or a file that is in use.
fn evict_least_recent(directory: &Path, new: &Path, most: u64) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
        .filter(|entry| {
            has_matrix_name(&entry.path()) && claim_any_matrix().check(&entry.path()).is_ok()
        })
        .filter_map(|entry| {
            let found = entry.metadata().ok()?;
            Some((found.modified().ok()?, found.len(), entry.path()))
        })
        .collect();
    files.sort_unstable();
    let mut all: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, path) in files {
        if all <= most {
            break;
        }
        if path != new
            && is_mapped(&path).is_ok_and(|in_use| !in_use)
            && ownership::remove(&path, &claim_any_matrix()).is_ok_and(|there| there)
        {
            all -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_go_and_none_that_is_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|digit| format!("{}.matrix", digit.repeat(32)));
        let path = |name: &str| directory.path().join(name);
        let write = |name: &str, age: usize, head: &str| {
            std::fs::write(path(name), format!("{head:<100}")).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(age as u64);
            File::options().write(true).open(path(name)).unwrap().set_modified(time).unwrap();
        };
        let ours = "{\"azpipe\":\"matrix\",\"v\":1,\"key\":\"k\",\"bytes\":1,\"xxh3\":\"0\"}";
        for (age, name) in [&a, &b, &c, &d].into_iter().enumerate() {
            write(name, age, ours);
        }
        // Files of other programs in the directory that --cache names must stay.
        let theirs = [
            "mine.matrix".to_owned(),
            format!("{}.matrix", "e".repeat(32)),
            format!("{}.other", "f".repeat(32)),
        ];
        write(&theirs[0], 0, ours);
        write(&theirs[1], 0, "1 0 0 1");
        write(&theirs[2], 0, ours);
        let used = MappedFile::open(&path(&a)).unwrap();
        evict_least_recent(directory.path(), &path(&d), 250);
        let there = |name: &String| path(name).exists();
        assert_eq!([&a, &b, &c, &d].map(there), [true, false, false, true]);
        drop(used);
        evict_least_recent(directory.path(), &path(&d), 0);
        assert_eq!([&a, &d].map(there), [false, true]);
        assert_eq!(theirs.each_ref().map(there), [true; 3]);
    }

    #[test]
    fn a_mask_that_changes_during_a_run_makes_no_matrix() {
        let directory = tempfile::tempdir().unwrap();
        let mask = directory.path().join("mask.npy");
        let write_mask = |value: u8| {
            let head = "{'descr': '|u1', 'fortran_order': False, 'shape': (195, 487), }";
            let mut bytes = format!("{head:<117}\n").into_bytes();
            bytes.splice(0..0, *b"\x93NUMPY\x01\x00\x76\x00");
            bytes.extend([0; 195 * 486]);
            bytes.extend([value; 195]);
            std::fs::write(&mask, bytes).unwrap();
        };
        write_mask(0);
        let geometry = "Detector: Pilatus100k\nDistance: 0.2\nPoni1: 0.01\nPoni2: 0\n";
        let settings = recipe::Settings {
            geometry: Some(geometry.to_owned()),
            unit: "2th_deg".parse().ok(),
            npt: Some(50),
            mask: Some(recipe::OneOrMany::One(mask.clone().into())),
            ..recipe::Settings::default()
        };
        let recipe = Recipe::resolve(&settings).unwrap();
        let moved = |distance: &str| {
            let poni = geometry.replace("0.2", distance);
            recipe.at_geometry(&poni, &records::RawPath::default(), None)
        };
        let kept = directory.path().join("cache");
        let build = |recipe: &Recipe| {
            let framing = FrameLayout::full_frame([195, 487]);
            MatrixCache::new(Some(&kept)).integrator(recipe, &framing, PixelType::U16)
        };
        let matrices = || std::fs::read_dir(&kept).unwrap().count();
        assert_eq!(build(&moved("0.2")).unwrap().origin, MatrixOrigin::Built);
        assert_eq!(matrices(), 1);
        for value in [1, 7] {
            write_mask(value);
            let refused = build(&moved("0.3")).err().unwrap().to_string();
            assert!(refused.starts_with(&mask.display().to_string()), "{refused}");
            assert!(refused.contains("has changed since the recipe was made"), "{refused}");
            assert_eq!(matrices(), 1);
        }
        assert!(matches!(build(&moved("0.2")).unwrap().origin, MatrixOrigin::Mapped(_)));
        write_mask(0);
        assert_eq!(build(&moved("0.3")).unwrap().origin, MatrixOrigin::Built);
        std::fs::remove_file(&mask).unwrap();
        assert!(build(&moved("0.4")).err().unwrap().is_retryable());
    }

    #[test]
    fn one_makes_it_and_the_others_wait() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sub/a.matrix");
        let first = BuildLock::acquire(&path).unwrap().unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| BuildLock::acquire(&path).unwrap().is_some());
            std::thread::sleep(Duration::from_millis(50));
            assert!(!second.is_finished());
            drop(first);
            assert!(second.join().unwrap());
        });
    }
}
