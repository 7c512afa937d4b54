//! Walks over operands: files, directories, datasets, globs, and lists of them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

use filter::Stop;
use frames::dataset_path::DatasetPath;
use frames::discover::{self, Discovery, DiscoveryKind, FileKind, FileKindError, NumberedFileName};
use records::format_count;
use system::untrusted_file::FileVersion;

use crate::directory::{DirectoryListing, file_id, is_hdf5_name, is_image_name, searched_suffixes};
use crate::finder::{FINAL_FILE, Finder};
use crate::found::{has_unreadable, is_bliss_entry};
use crate::glob::{expand_glob, is_glob};

/// Searches operands one after the other.
pub struct OperandWalker<'a> {
    pub(crate) finder: Finder<'a>,
    /// The images of a series, collected while each operand follows the last.
    series: Vec<PathBuf>,
    /// Files that need not be read again.
    unchanged: HashMap<PathBuf, UnchangedFile>,
    /// Data files that a following walk has seen.
    seen_before: HashSet<PathBuf>,
    /// True if the search repeats until files appear.
    follows: bool,
    look: LookState,
}

/// The state of a following walk during one look at all operands.
#[derive(Default)]
struct LookState {
    /// The hash of the visited files and their stamps.
    files: DefaultHasher,
    /// The hash of the previous look, and the number of records at its end.
    before: Option<(u64, u64)>,
    /// True if something was left for the next look.
    is_unfinished: bool,
    was_unfinished: bool,
}

/// A file that need not be read again as long as it and the files of its scans have the same stamps.
struct UnchangedFile {
    stamp: (u64, i64),
    /// The other files that its scans read, with their stamps.
    others: Vec<(PathBuf, (u64, i64))>,
}

impl UnchangedFile {
    /// Returns whether the file, which has this stamp, and all others are as they were.
    fn is_current(&self, stamp: (u64, i64)) -> bool {
        let is_same = |(file, stamp): &(PathBuf, _)| size_and_mtime(file) == Some(*stamp);
        self.stamp == stamp && self.others.iter().all(is_same)
    }
}

/// Changes since the look before.
#[derive(Clone, Copy, Debug)]
pub struct LookChanges {
    /// True if files were changed, have appeared or have vanished.
    pub files: bool,
    /// True if records were written.
    pub records: bool,
}

/// The walk of one directory tree.
struct TreeWalk<'a> {
    root: &'a Path,
    /// Directories that have been visited, by identity, because links may lead back to them.
    seen: HashSet<(u64, u64)>,
    /// HDF5 files that could not be read; files below or beside them may belong to them.
    unreadable: Vec<UnreadableMaster>,
}

/// An HDF5 file that could not be read.
struct UnreadableMaster {
    file: PathBuf,
    /// True if it may be being written.
    is_withheld: bool,
}

impl TreeWalk<'_> {
    /// Returns the unreadable file to which this file may belong.
    fn unreadable_master_of(&self, file: &Path) -> Option<&UnreadableMaster> {
        let stem =
            |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_master = |master: &&UnreadableMaster| {
            let master = &master.file;
            let Some(below) =
                master.parent().and_then(|directory| file.strip_prefix(directory).ok())
            else {
                return false;
            };
            let of_name = stem(file).starts_with(stem(master).trim_end_matches("_master"));
            master != file && (below.components().count() > 1 || of_name)
        };
        self.unreadable.iter().find(is_master)
    }
}

impl<'a> OperandWalker<'a> {
    /// Creates a walk that reports to `finder`. A patient walk accepts operands that do not exist
    /// yet.
    pub fn new(finder: Finder<'a>, is_patient: bool) -> Self {
        Self {
            finder,
            series: Vec::new(),
            unchanged: HashMap::new(),
            seen_before: HashSet::new(),
            follows: is_patient,
            look: LookState::default(),
        }
    }

    /// Returns whether the last look left something for the next one.
    pub fn was_unfinished(&self) -> bool {
        self.look.was_unfinished
    }

    /// Looks at all operands once more.
    ///
    /// # Errors
    /// Fails as [`Finder::report`] does.
    pub fn search_all(&mut self, operands: &[PathBuf]) -> Result<LookChanges, Stop> {
        operands.iter().try_for_each(|operand| self.search(operand))?;
        self.finish_series()?;
        Ok(self.finish_look())
    }

    /// Ends a look at all operands.
    pub fn finish_look(&mut self) -> LookChanges {
        let LookState { files, before, is_unfinished, .. } = std::mem::take(&mut self.look);
        let now = (files.finish(), self.finder.emitted);
        self.look =
            LookState { before: Some(now), was_unfinished: is_unfinished, ..LookState::default() };
        self.finder.patience.finish_look();
        // Files of a scan may be in directories that the walk does not visit.
        self.finder.watch_directories();
        LookChanges {
            files: before.is_none_or(|before| before.0 != now.0),
            records: before.is_none_or(|before| before.1 != now.1),
        }
    }

    /// Records the stamp of a file and returns it.
    fn record_stamp(&mut self, file: &Path) -> Option<(u64, i64)> {
        let stamp = if self.follows { size_and_mtime(file) } else { None };
        (file, stamp).hash(&mut self.look.files);
        stamp
    }

    /// Searches one operand.
    ///
    /// # Errors
    /// Fails as [`Finder::report`] does.
    pub fn search(&mut self, operand: &Path) -> Result<(), Stop> {
        let path = std::path::absolute(operand).unwrap_or_else(|_| operand.to_owned());
        let DatasetPath { file, dataset } = match DatasetPath::try_parse(&path) {
            Ok(address) => address,
            Err(why) => return self.report_io_error(&path, &why),
        };
        match file.metadata() {
            Ok(metadata) if metadata.is_dir() && dataset.is_none() => self.search_tree(&path),
            Ok(_) if dataset.is_some() => self.search_file(&path, &file),
            Ok(_) => match self.is_image(&path) {
                Ok(true) => self.push_image(path),
                Ok(false) => self.search_file(&path, &path),
                Err(why) => {
                    self.flush_series()?;
                    self.finder.fail(path.display().to_string(), why.why, why.retryable)
                }
            },
            Err(why) if is_not_found(&why) && is_glob(operand) && dataset.is_none() => {
                self.search_glob(operand)
            }
            Err(why) => self.report_io_error(&path, &why),
        }?;
        self.finder.report_unresolved()
    }

    /// Reports the images that wait for the next image of their series.
    ///
    /// # Errors
    /// Fails as [`Finder::report`] does.
    pub fn finish_series(&mut self) -> Result<(), Stop> {
        self.flush_series()
    }

    fn search_glob(&mut self, glob: &Path) -> Result<(), Stop> {
        self.flush_series()?;
        match expand_glob(glob) {
            Ok(found) if found.paths.is_empty() && found.unreadable.is_empty() && !self.follows => {
                self.report_failure(glob, "no file or directory matches this glob".to_owned())
            }
            Ok(found) => {
                found
                    .unreadable
                    .iter()
                    .try_for_each(|(path, why)| self.report_io_error(path, why))?;
                found.paths.iter().try_for_each(|path| self.search(path))
            }
            Err(why) => self.report_failure(glob, why.to_string()),
        }
    }

    /// Returns whether a file is an image, by its name or else by its content.
    fn is_image(&self, path: &Path) -> Result<bool, FileKindError> {
        if is_image_name(path) || is_hdf5_name(path) {
            return Ok(is_image_name(path));
        }
        match discover::detect_file_kind(path) {
            Ok(kind) => Ok(kind == FileKind::Image),
            Err(why) if why.unreadable => Err(why),
            Err(_) => Ok(false),
        }
    }

    /// Adds an image to the current series, or starts a new series.
    fn push_image(&mut self, path: PathBuf) -> Result<(), Stop> {
        let is_next = match (
            self.series.last().and_then(|last| NumberedFileName::parse(last)),
            NumberedFileName::parse(&path),
        ) {
            (Some(last), Some(next)) => last.is_same_series(&next),
            _ => false,
        };
        if !is_next {
            self.flush_series()?;
        }
        self.series.push(path);
        Ok(())
    }

    fn flush_series(&mut self) -> Result<(), Stop> {
        let images = std::mem::take(&mut self.series);
        self.finder.report_image_series(&discover::group_series(images), |files| {
            files[0].parent().unwrap_or(Path::new("/"))
        })
    }

    /// Searches a file or a dataset; `file` is the file in either case.
    fn search_file(&mut self, path: &Path, file: &Path) -> Result<(), Stop> {
        self.flush_series()?;
        let root = file.parent().unwrap_or(Path::new("/")).to_owned();
        self.record_stamp(file);
        let (mut empty, mut is_final_file) = (None, false);
        self.finder.visit(path, &|_| true, |finder, found| {
            match found.kind {
                DiscoveryKind::NoDetectors { entries, bliss_entries } => {
                    empty = Some((entries, bliss_entries))
                }
                DiscoveryKind::FinalFile => is_final_file = true,
                _ => (),
            }
            finder.report(found, &root)
        })?;
        if is_final_file {
            let why = format!("{FINAL_FILE}: name the raw file that it was made from");
            return self.report_failure(file, why);
        }
        match empty {
            Some((0, _)) => {
                let why = "no scan in this HDF5 file: it has no NXentry; if it has a dataset of frames, name it: FILE::/PATH";
                self.report_failure(file, why.to_owned())
            }
            Some((_, bliss_entries)) if !self.follows => {
                let why = "no detector with frames in this HDF5 file; if a dataset of it has frames, name it: FILE::/PATH";
                match bliss_entries {
                    0 => self.report_failure(file, why.to_owned())?,
                    // Scans without images, such as those of a diode.
                    _ => self.finder.warn_once(file.display().to_string(), why.to_owned()),
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn search_tree(&mut self, root: &Path) -> Result<(), Stop> {
        self.flush_series()?;
        let (hits, without) = (self.finder.found_count, self.finder.files_without_detector);
        let mut tree = TreeWalk { root, seen: HashSet::new(), unreadable: Vec::new() };
        self.search_directory(root, &mut tree)?;
        if self.finder.found_count > hits || self.follows {
            return Ok(());
        }
        let there = match self.finder.files_without_detector - without {
            0 => searched_suffixes(),
            files => format!("no detector with frames in {}", format_count(files, "HDF5 file")),
        };
        self.report_failure(root, format!("no scan in this directory or below: {there}"))
    }

    /// Searches a directory: files before subdirectories, so that masters, which are above their
    /// data, are found first.
    fn search_directory(&mut self, directory: &Path, tree: &mut TreeWalk<'_>) -> Result<(), Stop> {
        match directory.metadata() {
            Ok(metadata) if tree.seen.insert(file_id(&metadata)) => (),
            Ok(_) => return Ok(()),
            Err(why) => return self.report_io_error(directory, &why),
        }
        if self.follows {
            self.finder.watcher.watch(directory);
        }
        let listed = match DirectoryListing::read(directory) {
            Ok(listed) => listed,
            Err(why) => return self.report_io_error(directory, &why),
        };
        for path in listed.dangling {
            let why = "passed over: a symbolic link to a file that does not exist".to_owned();
            self.finder.warn_once(path.display().to_string(), why);
        }
        for (path, why) in listed.unreadable {
            self.report_io_error(&path, &why)?;
            tree.unreadable.push(UnreadableMaster { file: path, is_withheld: false });
        }
        self.search_hdf5_files(&listed.hdf5, tree)?;
        let mut images = listed.images;
        for image in &images {
            self.record_stamp(image);
        }
        images.retain(|image| !self.finder.claims.contains(image));
        let root = tree.root;
        self.finder.report_image_series(&discover::group_series(images), |_| root)?;
        listed.subdirectories.iter().try_for_each(|below| self.search_directory(below, tree))
    }

    /// Searches HDF5 files. Bliss masters are reported at once. Other files wait until all files of
    /// the directory have been read, because they may be data files of a master that comes later by
    /// name. A following search keeps them for the next look, because they may belong to a scan
    /// that began after its master was read.
    fn search_hdf5_files(
        &mut self,
        files: &[PathBuf],
        tree: &mut TreeWalk<'_>,
    ) -> Result<(), Stop> {
        let root = tree.root;
        let mut waiting: Vec<(&PathBuf, Discovery)> = Vec::new();
        let is_new = |file: &&PathBuf| !self.unchanged.contains_key(*file);
        let new: Vec<PathBuf> = files.iter().filter(is_new).cloned().collect();
        let new =
            new.into_iter().filter(|file| !self.finder.claims.contains(file)).collect::<Vec<_>>();
        frames::open_ahead(new.into_iter());
        for file in files {
            let stamp = self.record_stamp(file);
            let is_unchanged = || {
                let known = self.unchanged.get(file).zip(stamp);
                known.is_some_and(|(known, stamp)| known.is_current(stamp))
            };
            if self.finder.claims.contains(file) || is_unchanged() {
                self.finder.found_count += 1;
                continue;
            }
            // The walk itself visits the masters below this root, so entries that link to them are
            // skipped.
            let elsewhere = |other: &Path| !(other.starts_with(root) && is_hdf5_name(other));
            let (mut is_unreadable, mut is_withheld) = (false, false);
            let mut others = BTreeSet::new();
            self.finder.visit(file, &elsewhere, |finder, found| {
                is_unreadable |= has_unreadable(&found);
                is_withheld |= finder.withholds(&found);
                others.extend(found.files.iter().filter(|other| *other != file).cloned());
                if is_bliss_entry(&found) {
                    return finder.report(found, root);
                }
                found
                    .files
                    .iter()
                    .filter(|other| *other != file && **other != found.file)
                    .for_each(|other| finder.claims.insert(other));
                waiting.push((file, found));
                Ok(())
            })?;
            is_unreadable |= self.finder.claims.has_unresolved();
            if is_unreadable || is_withheld {
                let file = file.clone();
                tree.unreadable.push(UnreadableMaster { file, is_withheld: !is_unreadable });
                self.finder.report_unresolved()?;
            }
            self.remember_unchanged(file, stamp, others);
        }
        let mut fresh = files.to_vec();
        fresh.retain(|file| self.follows && self.seen_before.insert(file.clone()));
        for file in &fresh {
            self.unchanged.remove(file);
        }
        self.look.is_unfinished |= !fresh.is_empty();
        waiting.retain(|(_, found)| {
            !self.finder.claims.contains(&found.file) && !fresh.contains(&found.file)
        });
        self.finder.prefetch_contents(waiting.iter().map(|(_, found)| found));
        for (visited, found) in waiting {
            let is_failure = matches!(found.kind, DiscoveryKind::Failed { .. });
            let master = tree.unreadable_master_of(&found.file).filter(|_| !is_failure);
            self.finder.is_complete = true;
            let is_left_out = master.is_some_and(|master| {
                self.finder.leaves_out(&found.file, &master.file, master.is_withheld)
            });
            if !is_left_out {
                self.finder.report(found, root)?;
            }
            if !self.finder.is_complete {
                self.unchanged.remove(visited);
            }
        }
        Ok(())
    }

    /// Remembers that a file need not be read again while its stamp is the one from before it was
    /// read, and while the other files of its scans don't change.
    fn remember_unchanged(
        &mut self,
        file: &Path,
        before: Option<(u64, i64)>,
        others: BTreeSet<PathBuf>,
    ) {
        let Some(stamp) = before.filter(|_| self.finder.is_complete) else { return };
        // A file that has changed since it was read has not settled yet.
        let with_stamp = |other: PathBuf| size_and_mtime(&other).map(|stamp| (other, stamp));
        let Some(others) = others.into_iter().map(with_stamp).collect::<Option<Vec<_>>>() else {
            return;
        };
        let stability = &mut self.finder.stability;
        let are_settled = others.iter().all(|(other, stamp)| stability.is_settled(other, *stamp));
        match are_settled && stability.is_settled(file, stamp) {
            true => drop(self.unchanged.insert(file.to_owned(), UnchangedFile { stamp, others })),
            false => self.look.is_unfinished = true,
        }
    }

    /// Reports an error of the system. Unless the file does not exist, another attempt may succeed.
    fn report_io_error(&mut self, about: &Path, why: &io::Error) -> Result<(), Stop> {
        self.flush_series()?;
        match why.kind() {
            io::ErrorKind::NotFound => {
                self.report_failure(about, "no such file or directory".to_owned())
            }
            _ => self.finder.fail(about.display().to_string(), why.to_string(), true),
        }
    }

    /// Reports each operand if there was no scan until the end of `--follow`: a directory that is not
    /// mounted is empty, too.
    pub fn report_if_nothing_found(&mut self, operands: &[PathBuf]) -> Result<(), Stop> {
        if self.finder.has_found_any() {
            return Ok(());
        }
        operands.iter().try_for_each(|operand| {
            let why = format!("no scan until the end of --follow: {}", searched_suffixes());
            self.finder.report_failure(operand.display().to_string(), why, false)
        })
    }

    fn report_failure(&mut self, about: &Path, why: String) -> Result<(), Stop> {
        self.flush_series()?;
        self.finder.fail(about.display().to_string(), why, false)
    }
}

/// Returns whether a system call reports that the file does not exist.
fn is_not_found(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn size_and_mtime(file: &Path) -> Option<(u64, i64)> {
    file.metadata().ok().map(|metadata| FileVersion::new(&metadata).size_and_mtime())
}
