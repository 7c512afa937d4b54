//! Matrices kept in files ([`crate::matrix_file`]): built once, and mapped by later runs and by all
//! processes of a machine. A file that fails its checksum is built again. One process builds a
//! matrix while the others wait for it.

use std::collections::HashSet;
use std::fmt::Display;
use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use integrator::{Integrator, IntegratorError, PixelType};
use recipe::Recipe;
use records::FrameLayout;
use system::mapped_file::is_mapped;
use system::{atomic, ownership};

use crate::matrix_file::{
    self, MATRIX_HEADER_BYTES, MatrixFile, claim_any_matrix, has_matrix_name,
};

/// The largest total size of a cache directory; the least recently used files are evicted.
const MAX_CACHE_BYTES: u64 = 8 << 30;

/// How long a note of a first use is kept. Notes are small, but a detector that moves leaves many.
const MAX_NOTE_AGE: Duration = Duration::from_secs(30 * 86400);

/// How long to wait for another process that builds the matrix.
const BUILD_LOCK_TIMEOUT: Duration = Duration::from_secs(120);

/// The matrices kept in a directory.
pub struct MatrixCache<'a> {
    directory: Option<&'a Path>,
    kept_from: KeptFrom,
    recipe_digest: &'a str,
}

/// The use of a matrix from which on it is kept in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptFrom {
    /// The first use: the matrix of a recipe, which each process needs.
    FirstUse,
    /// The second use: the matrix of one position of many. Writing it takes as long as building it,
    /// and most positions of a detector that moves never come back.
    SecondUse,
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

/// The file of a matrix, or its absence.
enum Kept {
    /// None: the matrix was not used yet, or long ago.
    Nothing,
    /// A note that the matrix was used, or a file that is damaged.
    Used,
    /// A whole file, mapped.
    Matrix(Box<Integrator>),
}

impl<'a> MatrixCache<'a> {
    /// Creates the cache of a directory, which need not exist yet; `None` disables the cache. Files
    /// bear the digest of the recipe that the tasks have, by which `gather --clean` knows them.
    pub fn new(directory: Option<&'a Path>, kept_from: KeptFrom, recipe_digest: &'a str) -> Self {
        Self { directory, kept_from, recipe_digest }
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
        let open = |warnings: &mut Vec<String>| {
            let mut unusable = |why: &dyn Display| {
                warnings.push(describe_unusable_matrix(&path, why));
                Kept::Used
            };
            match MatrixFile::open(&path, &key) {
                Ok(MatrixFile::Matrix(memory)) => {
                    Integrator::from_memory(recipe, framing, dtype, memory, MATRIX_HEADER_BYTES)
                        .map_or_else(|why| unusable(&why), |found| Kept::Matrix(Box::new(found)))
                }
                Ok(MatrixFile::UseNote) => Kept::Used,
                Err(why) if why.kind() == io::ErrorKind::NotFound => Kept::Nothing,
                Err(why) => unusable(&why),
            }
        };
        let mapped = |integrator, warnings| CachedIntegrator {
            integrator,
            origin: MatrixOrigin::Mapped(path.clone()),
            warnings,
        };
        match open(&mut warnings) {
            Kept::Matrix(integrator) => return Ok(mapped(*integrator, warnings)),
            Kept::Nothing if self.kept_from == KeptFrom::SecondUse => {
                let noted = ownership::create_directories(directory)
                    .and_then(|()| matrix_file::write_use_note(&path, &key, self.recipe_digest));
                warnings.extend(noted.err().map(|why| describe_uncached(directory, &why)));
                return make(warnings);
            }
            Kept::Nothing | Kept::Used => (),
        }
        let making = BuildLock::acquire(&path);
        if let Ok(Some(_)) = &making
            && let Kept::Matrix(integrator) = open(&mut Vec::new())
        {
            return Ok(mapped(*integrator, warnings));
        }
        let mut found = make(warnings)?;
        let kept = making.and_then(|_making| {
            matrix_file::write_matrix(&found.integrator, &path, &key, self.recipe_digest)
        });
        match kept {
            // Mapping the new file frees the private copy: processes share the file's memory.
            Ok(()) => {
                if let Kept::Matrix(integrator) = open(&mut found.warnings) {
                    found.integrator = *integrator;
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

/// Removes the leftovers of processes that were killed while they built a matrix, and notes of a
/// first use after which no second one came. A process that waits for a removed lock finds no builder
/// and builds the matrix itself, as a process that can't see the lock does.
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
        let is_old_note = |metadata: Metadata| {
            let age = metadata.modified().ok().and_then(|modified| modified.elapsed().ok());
            metadata.len() == MATRIX_HEADER_BYTES as u64
                && age.is_some_and(|age| age > MAX_NOTE_AGE)
        };
        // What stays is tried again by the next run, and a note in use is only written again.
        if has_matrix_name(&path) && path.symlink_metadata().is_ok_and(is_old_note) {
            let _ = ownership::remove(&path, &claim_any_matrix());
        }
    }
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
    use system::mapped_file::MappedFile;

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
            MatrixCache::new(Some(&kept), KeptFrom::FirstUse, "").integrator(
                recipe,
                &framing,
                PixelType::U16,
            )
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
    fn a_matrix_of_many_is_kept_from_its_second_use_on() {
        let directory = tempfile::tempdir().unwrap();
        let settings = recipe::Settings {
            geometry: Some("Detector: Pilatus100k\nDistance: 0.2\nPoni1: 0\nPoni2: 0\n".to_owned()),
            unit: "2th_deg".parse().ok(),
            npt: Some(50),
            ..recipe::Settings::default()
        };
        let recipe = Recipe::resolve(&settings).unwrap();
        let framing = FrameLayout::full_frame([195, 487]);
        let kept = directory.path().join("cache");
        let path = kept.join(format!("{}.matrix", &Integrator::cache_key(&recipe, &framing)[..32]));
        let bytes = || path.metadata().unwrap().len();
        let note_bytes = MATRIX_HEADER_BYTES as u64;
        let integrate = |kept_from| {
            let found = MatrixCache::new(Some(&kept), kept_from, "").integrator(
                &recipe,
                &framing,
                PixelType::U16,
            );
            let CachedIntegrator { integrator, origin, warnings } = found.unwrap();
            let is_mapped = origin != MatrixOrigin::Built;
            (is_mapped, warnings.len(), integrator.plan().nbins())
        };
        assert_eq!(integrate(KeptFrom::SecondUse), (false, 0, 50));
        assert_eq!(bytes(), note_bytes);
        assert_eq!(integrate(KeptFrom::SecondUse), (false, 0, 50));
        assert!(bytes() > note_bytes);
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(integrate(KeptFrom::SecondUse), (true, 0, 50));
        // A damaged file was used, too.
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(integrate(KeptFrom::SecondUse), (false, 1, 50));
        assert!(std::fs::read(&path).unwrap() == whole);
        // Where a matrix is kept at once, a note says nothing.
        std::fs::remove_file(&path).unwrap();
        integrate(KeptFrom::SecondUse);
        assert_eq!(integrate(KeptFrom::FirstUse), (false, 0, 50));
        assert!(std::fs::read(&path).unwrap() == whole);
        // Nothing takes the place of a matrix that was kept meanwhile.
        matrix_file::write_use_note(&path, "", "").unwrap();
        assert!(std::fs::read(&path).unwrap() == whole);
        // Notes are evicted as matrices are, and don't stay for ever.
        std::fs::remove_file(&path).unwrap();
        integrate(KeptFrom::SecondUse);
        let old = SystemTime::now() - MAX_NOTE_AGE - Duration::from_secs(60);
        File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        remove_leftovers(&kept);
        assert!(!path.exists());
        std::fs::write(&path, &whole).unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        remove_leftovers(&kept);
        assert!(path.exists());
        std::fs::remove_file(&path).unwrap();
        integrate(KeptFrom::SecondUse);
        evict_least_recent(&kept, Path::new(""), 0);
        assert!(!path.exists());
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
