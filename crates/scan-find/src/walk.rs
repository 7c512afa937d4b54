//! Operands: files, directories, datasets, globs, and lists of them.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

use filter::Stop;
use frames::address::Address;
use frames::find::{self, FileKind, Found, KindError, Numbered, What};
use records::AbsentKind;

use crate::directory::{Directory, identity, is_hdf5_name, is_image_name, looked_for};
use crate::finder::Finder;
use crate::glob::{expand, is_glob};
use crate::quiet::is_recent;

/// Takes operands one after the other.
pub struct Walk<'a> {
    pub(crate) finder: Finder<'a>,
    /// Images of one series, as long as each operand is the neighbour of the last.
    series: Vec<PathBuf>,
    /// Files that need no second look, and what they looked like then.
    settled: HashMap<PathBuf, (u64, i64)>,
    /// Data files that a patient walk has met.
    met: HashSet<PathBuf>,
    /// Whether the search goes on until something is there.
    is_patient: bool,
    look: Look,
}

/// What a patient walk makes of one look at all operands.
#[derive(Default)]
struct Look {
    /// Of the files that it came by, and what they looked like.
    files: DefaultHasher,
    /// The digest of these at the look before, and how many records there were then.
    before: Option<(u64, u64)>,
    /// Whether something was left for the next look.
    is_unfinished: bool,
    was_unfinished: bool,
}

/// One directory tree being walked.
struct Tree<'a> {
    root: &'a Path,
    /// Directories that have been in it, by identity: links may lead back to them.
    seen: HashSet<(u64, u64)>,
    /// HDF5 files that the system refused: what lies below or beside them may be theirs.
    unreadable: Vec<PathBuf>,
}

impl Tree<'_> {
    /// Returns the file that this one may belong to, and that could not be read to know.
    fn doubtful_master(&self, file: &Path) -> Option<&Path> {
        let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_master = |master: &&PathBuf| {
            let Some(below) = master.parent().and_then(|directory| file.strip_prefix(directory).ok()) else {
                return false;
            };
            let of_name = stem(file).starts_with(stem(master).trim_end_matches("_master"));
            *master != file && (below.components().count() > 1 || of_name)
        };
        self.unreadable.iter().find(is_master).map(PathBuf::as_path)
    }
}

impl<'a> Walk<'a> {
    /// A walk that tells `finder`. One that is patient takes it well where there is nothing yet.
    pub fn new(finder: Finder<'a>, is_patient: bool) -> Self {
        let (settled, met, look) = (HashMap::new(), HashSet::new(), Look::default());
        Self { finder, series: Vec::new(), settled, met, is_patient, look }
    }

    /// Whether the last look left something for the next one.
    pub fn wants_another_look(&self) -> bool {
        self.look.was_unfinished
    }

    /// Ends a look at all operands. Returns whether files have changed, or something was told, since the look before.
    pub fn take_changed(&mut self) -> bool {
        let Look { files, before, is_unfinished, .. } = std::mem::take(&mut self.look);
        let now = (files.finish(), self.finder.emitted);
        self.look = Look { before: Some(now), was_unfinished: is_unfinished, ..Look::default() };
        // Files of a scan may lie in directories that the walk does not come by.
        self.finder.watch_directories();
        before != Some(now)
    }

    /// Notes what a file looks like, whatever becomes of it, and returns that.
    fn note(&mut self, file: &Path) -> Option<(u64, i64)> {
        let stamp = if self.is_patient { stamp(file) } else { None };
        (file, stamp).hash(&mut self.look.files);
        stamp
    }

    /// Takes one operand.
    ///
    /// # Errors
    /// As [`Finder::take`].
    pub fn operand(&mut self, operand: &Path) -> Result<(), Stop> {
        let path = std::path::absolute(operand).unwrap_or_else(|_| operand.to_owned());
        let Address { file, dataset } = match Address::look(&path) {
            Ok(address) => address,
            Err(why) => return self.tell_error(&path, &why),
        };
        match file.metadata() {
            Ok(metadata) if metadata.is_dir() && dataset.is_none() => self.tree(&path),
            Ok(_) if dataset.is_some() => self.file(&path, &file),
            Ok(_) => match self.is_image(&path) {
                Ok(true) => self.image(path),
                Ok(false) => self.file(&path, &path),
                Err(why) => {
                    self.end_series()?;
                    self.finder.fail(path.display().to_string(), why.why, why.retryable)
                }
            },
            Err(why) if is_absence(&why) && is_glob(operand) && dataset.is_none() => self.glob(operand),
            Err(why) => self.tell_error(&path, &why),
        }?;
        self.finder.tell_claims()
    }

    /// Takes what waits for a neighbour that has not come.
    ///
    /// # Errors
    /// As [`Finder::take`].
    pub fn close(&mut self) -> Result<(), Stop> {
        self.end_series()
    }

    fn glob(&mut self, glob: &Path) -> Result<(), Stop> {
        self.end_series()?;
        match expand(glob) {
            Ok(found) if found.paths.is_empty() && found.unreadable.is_empty() && !self.is_patient => {
                self.tell_failure(glob, "no file or directory of such a name".to_owned())
            }
            Ok(found) => {
                found.unreadable.iter().try_for_each(|(path, why)| self.tell_error(path, why))?;
                found.paths.iter().try_for_each(|path| self.operand(path))
            }
            Err(why) => self.tell_failure(glob, why),
        }
    }

    /// Whether a file is an image: by its name, or else by its content.
    fn is_image(&self, path: &Path) -> Result<bool, KindError> {
        if is_image_name(path) || is_hdf5_name(path) {
            return Ok(is_image_name(path));
        }
        match find::kind(path) {
            Ok(kind) => Ok(kind == FileKind::Image),
            Err(why) if why.unreadable => Err(why),
            Err(_) => Ok(false),
        }
    }

    /// An image waits for the next of its series.
    fn image(&mut self, path: PathBuf) -> Result<(), Stop> {
        let is_next = match (self.series.last().and_then(|last| Numbered::of(last)), Numbered::of(&path)) {
            (Some(last), Some(next)) => last.is_beside(&next),
            _ => false,
        };
        if !is_next {
            self.end_series()?;
        }
        self.series.push(path);
        Ok(())
    }

    fn end_series(&mut self) -> Result<(), Stop> {
        let images = std::mem::take(&mut self.series);
        self.finder.images(&find::series(images), |files| files[0].parent().unwrap_or(Path::new("/")))
    }

    /// A file or dataset, `file` being the file in either case.
    fn file(&mut self, path: &Path, file: &Path) -> Result<(), Stop> {
        self.end_series()?;
        let root = file.parent().unwrap_or(Path::new("/")).to_owned();
        self.note(file);
        let mut empty = None;
        self.finder.visit(path, &|_| true, |finder, found| {
            if let What::Nothing { entries } = found.what {
                empty = Some(entries);
            }
            finder.take(found, &root)
        })?;
        match empty {
            Some(0) => {
                let why = "no scan in this HDF5 file: no NXentry; name a dataset of frames: FILE::/PATH";
                self.tell_failure(file, why.to_owned())
            }
            Some(_) if !self.is_patient => {
                self.finder.warn_once(file.display().to_string(), "no detector with frames".to_owned());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn tree(&mut self, root: &Path) -> Result<(), Stop> {
        self.end_series()?;
        let (hits, without) = (self.finder.hits, self.finder.without);
        let mut tree = Tree { root, seen: HashSet::new(), unreadable: Vec::new() };
        self.directory(root, &mut tree)?;
        if self.finder.hits > hits || self.is_patient {
            return Ok(());
        }
        let there = match self.finder.without - without {
            0 => looked_for(),
            files => format!("HDF5 files: {files}, detectors with frames in them: none"),
        };
        self.tell_failure(root, format!("no scan in this directory or below: {there}"))
    }

    /// Files first, so that masters, which lie above their data, are known before these.
    fn directory(&mut self, directory: &Path, tree: &mut Tree<'_>) -> Result<(), Stop> {
        match directory.metadata() {
            Ok(metadata) if tree.seen.insert(identity(&metadata)) => (),
            Ok(_) => return Ok(()),
            Err(why) => return self.tell_error(directory, &why),
        }
        if self.is_patient {
            self.finder.watch.add(directory);
        }
        let listed = match Directory::read(directory) {
            Ok(listed) => listed,
            Err(why) => return self.tell_error(directory, &why),
        };
        for (path, why) in listed.unreadable {
            self.tell_error(&path, &why)?;
            tree.unreadable.push(path);
        }
        self.hdf5_files(&listed.hdf5, tree)?;
        let mut images = listed.images;
        for image in &images {
            self.note(image);
        }
        images.retain(|image| !self.finder.claims.holds(image));
        let root = tree.root;
        self.finder.images(&find::series(images), |_| root)?;
        listed.below.iter().try_for_each(|below| self.directory(below, tree))
    }

    /// Bliss masters are told at once. Other files wait until all of the directory have been seen:
    /// they may be data files of one that comes later by name. Where the search goes on, they wait for
    /// the next look: they may be of a scan that began after its master was looked at.
    fn hdf5_files(&mut self, files: &[PathBuf], tree: &mut Tree<'_>) -> Result<(), Stop> {
        let root = tree.root;
        let mut waiting: Vec<Found> = Vec::new();
        let is_new = |file: &&PathBuf| !self.settled.contains_key(*file);
        let new: Vec<PathBuf> = files.iter().filter(is_new).cloned().collect();
        let new = new.into_iter().filter(|file| !self.finder.claims.holds(file)).collect::<Vec<_>>();
        frames::prefetch(new.into_iter());
        for file in files {
            let stamp = self.note(file);
            if self.finder.claims.holds(file) || (stamp.is_some() && self.settled.get(file) == stamp.as_ref()) {
                self.finder.hits += 1;
                continue;
            }
            // Masters below this root are walked by, and need not be had from a collection of them.
            let elsewhere = |other: &Path| !(other.starts_with(root) && is_hdf5_name(other));
            let mut is_unreadable = false;
            self.finder.visit(file, &elsewhere, |finder, found| {
                is_unreadable |= has_unreadable(&found);
                if is_bliss(&found) {
                    return finder.take(found, root);
                }
                found.files.iter().filter(|other| *other != file).for_each(|other| finder.claims.add(other));
                waiting.push(found);
                Ok(())
            })?;
            if is_unreadable || self.finder.claims.has_failures() {
                tree.unreadable.push(file.clone());
                self.finder.tell_claims()?;
            }
            self.settle(file, stamp);
        }
        let mut fresh = files.to_vec();
        fresh.retain(|file| self.is_patient && self.met.insert(file.clone()));
        for file in &fresh {
            self.settled.remove(file);
        }
        self.look.is_unfinished |= !fresh.is_empty();
        waiting.retain(|found| !self.finder.claims.holds(&found.file) && !fresh.contains(&found.file));
        self.finder.prefetch_contents(&waiting);
        waiting.into_iter().try_for_each(|found| match tree.doubtful_master(&found.file) {
            Some(master) if !matches!(found.what, What::Refused { .. }) => {
                let why = format!("left out: it may be a data file of {}, which can't be read", master.display());
                self.finder.warn_once(found.file.display().to_string(), why);
                Ok(())
            }
            _ => self.finder.take(found, root),
        })
    }

    /// Remembers that a file needs no second look while it looks as before the first.
    fn settle(&mut self, file: &Path, before: Option<(u64, i64)>) {
        let Some(stamp) = before.filter(|_| self.finder.is_complete) else { return };
        match is_recent(stamp.1) {
            true => self.look.is_unfinished = true,
            false => drop(self.settled.insert(file.to_owned(), stamp)),
        }
    }

    /// Tells an error of the system: of all but a file that is not there nothing is known, and the next time it may be.
    fn tell_error(&mut self, about: &Path, why: &io::Error) -> Result<(), Stop> {
        self.end_series()?;
        match why.kind() {
            io::ErrorKind::NotFound => self.tell_failure(about, "no such file or directory".to_owned()),
            _ => self.finder.fail(about.display().to_string(), why.to_string(), true),
        }
    }

    fn tell_failure(&mut self, about: &Path, why: String) -> Result<(), Stop> {
        self.end_series()?;
        self.finder.fail(about.display().to_string(), why, false)
    }
}

/// Whether the system refused something of what was found, so that it may have files that are not known.
fn has_unreadable(found: &Found) -> bool {
    match &found.what {
        What::Refused { unreadable, .. } => *unreadable,
        What::Scan(scan) => scan.absent.iter().any(|absent| absent.kind == AbsentKind::Unreadable),
        _ => false,
    }
}

/// Whether a system call says that there is no file of this name.
fn is_absence(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn stamp(file: &Path) -> Option<(u64, i64)> {
    use std::os::unix::fs::MetadataExt;
    let metadata = file.metadata().ok()?;
    Some((metadata.len(), metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())))
}

/// Whether this is of an entry as Bliss names them: no data file has such.
fn is_bliss(found: &Found) -> bool {
    let entry = found.dataset.trim_start_matches('/').split('/').next().unwrap_or_default();
    entry.split_once('.').is_some_and(|(scan, part)| {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        number(scan) && number(part)
    })
}
