//! Datasets of frames, traced through links and mappings to the files that hold the bytes. Each
//! dataset is opened once, however many mappings name it.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use records::{AbsentKind, Spans};

use super::error::FindError;
use super::links::Located;
use super::mapped::frames_of;
use super::place::locate;
use super::stored;
use super::traced::Traced;
use super::unchanged;
use crate::coding::Coding;
use crate::ffi::{Flaw, Kind, Layout, Mapping, Object};
use crate::prefetch;
use crate::store::NOT_WRITTEN;

/// How deep virtual datasets may be made of virtual datasets: Bliss over Lima 2's master over its
/// receivers is two.
const DEPTH: usize = 64;

type Shared = Rc<Result<Traced, FindError>>;

/// What has been traced so far.
#[derive(Default)]
pub(crate) struct Catalog {
    traced: HashMap<(PathBuf, String), Shared>,
    /// What is being traced, from the dataset that was asked for to the one that it is made of.
    under_way: Vec<(PathBuf, String)>,
    /// The file that was opened last: often the next dataset is in it.
    last: Option<(PathBuf, Rc<Object>)>,
    /// The first of the files that were opened ahead: it is looked at once more when all have been.
    first: Option<(PathBuf, Rc<Object>)>,
}

impl Catalog {
    /// Opens a file, unless it is the one that was opened last.
    ///
    /// # Errors
    /// It is not there, can't be opened, or is no HDF5 file.
    pub(crate) fn open(&mut self, path: &Path) -> Result<Rc<Object>, FindError> {
        let known = [&self.last, &self.first].into_iter().flatten().find(|(known, _)| known == path);
        if let Some((_, object)) = known {
            return Ok(Rc::clone(object));
        }
        let object = Rc::new(Object::open_file(path).map_err(|flaw| FindError::from_flaw(path, &flaw))?);
        self.last = Some((path.to_owned(), Rc::clone(&object)));
        Ok(object)
    }

    /// Has files opened ahead that will be traced in this order.
    pub(super) fn open_ahead(&mut self, files: impl Iterator<Item = PathBuf>) {
        self.first = None;
        prefetch::open_ahead(files.filter(|file| !unchanged::holds(file)));
    }

    /// Keeps the file that was opened last open, if it is the first since [`Catalog::open_ahead`].
    fn keep_first(&mut self) {
        if self.first.is_none() {
            self.first.clone_from(&self.last);
        }
    }

    /// Opens the root group of a file.
    ///
    /// # Errors
    /// As [`Catalog::open`].
    pub(super) fn root(&mut self, path: &Path) -> Result<Located, FindError> {
        Ok(Located::root(path.to_owned(), self.open(path)?))
    }

    /// Traces a dataset of a file; or says why it can't be read as frames.
    pub(crate) fn trace(&mut self, file: &Path, dataset: &str) -> Shared {
        let key = (file.to_owned(), dataset.to_owned());
        if let Some(traced) = self.traced.get(&key) {
            return Rc::clone(traced);
        }
        if self.under_way.contains(&key) || self.under_way.len() > DEPTH {
            let why = "virtual datasets that are made of each other";
            return Rc::new(Err(FindError::Unusable(why.to_owned())));
        }
        self.under_way.push(key);
        let traced = Rc::new(self.trace_new(file, dataset));
        if let Some(key) = self.under_way.pop() {
            self.traced.insert(key, Rc::clone(&traced));
        }
        traced
    }

    /// As [`Catalog::trace`], of one of the many files of a scan: one that has not changed since it was looked at is not opened.
    pub(super) fn trace_source(&mut self, file: &Path, dataset: &str) -> Shared {
        if let Some(known) = unchanged::dataset(file, dataset) {
            return known;
        }
        let is_open = [&self.last, &self.first].into_iter().flatten().any(|(open, _)| open == file);
        let is_traced = self.traced.contains_key(&(file.to_owned(), dataset.to_owned()));
        let before = file.metadata();
        let traced = self.trace(file, dataset);
        // What was read earlier may not be what the file was when the system was asked.
        if let (Ok(before), false) = (before, is_open || is_traced) {
            unchanged::put_dataset(file, &before, dataset, &traced);
        }
        traced
    }

    /// The files that a dataset names, and those on the way to it, without a look at their frames.
    ///
    /// # Errors
    /// It could not be looked at. One that is not there names nothing.
    pub(crate) fn mentions(&mut self, file: &Path, dataset: &str) -> Result<Vec<PathBuf>, FindError> {
        let root = self.root(file)?;
        let Some(found) = self.find(&root, dataset)? else { return Ok(Vec::new()) };
        if found.object.kind() != Kind::Dataset {
            return Ok(Vec::new());
        }
        let names: Vec<PathBuf> =
            match found.object.layout().map_err(|flaw| FindError::from_flaw(&found.file, &flaw))? {
                Layout::Virtual(mappings) => mappings.into_iter().map(|mapping| mapping.file).collect(),
                Layout::External(segments) => segments.into_iter().map(|segment| segment.file).collect(),
                _ => Vec::new(),
            };
        let distinct: BTreeSet<PathBuf> = names.into_iter().collect();
        let mut files = found.via;
        for name in distinct {
            match locate(&found.file, &name) {
                Ok(file) => files.push(file),
                Err(why) if why.is_absence() => (),
                Err(why) => return Err(why),
            }
        }
        files.push(found.file);
        Ok(files)
    }

    fn trace_new(&mut self, file: &Path, dataset: &str) -> Result<Traced, FindError> {
        let metadata = file.metadata().map_err(|why| FindError::from_io(file, &why))?;
        let root = self.root(file)?;
        let found = self.follow(&root, dataset)?;
        drop(root);
        let path = found.path();
        if found.file != file || path != dataset {
            // A link lay on the way.
            let Located { file, via, .. } = found;
            let mut traced = (*self.trace(&file, &path)).clone()?;
            traced.files.extend(via);
            return Ok(traced);
        }
        let object = &found.object;
        self.check_kind(&found)?;
        let said = |flaw: Flaw| FindError::from_flaw(file, &flaw);
        let coding = Coding::new(object.pixel_type().map_err(said)?, Vec::new()).map_err(FindError::Unusable)?;
        let mut traced = Traced::new(file, object.extents().map_err(said)?, coding)?;
        match object.layout().map_err(said)? {
            Layout::Virtual(mappings) => self.assemble(&mut traced, file, mappings)?,
            Layout::External(segments) => stored::in_segments(&mut traced, file, &segments)?,
            layout => {
                self.keep_first();
                stored::in_file(&mut traced, object, layout, dataset, &metadata)?;
            }
        }
        Ok(traced.finish())
    }

    /// Adds what the mappings of a virtual dataset in `holder` lead to.
    fn assemble(&mut self, traced: &mut Traced, holder: &Path, mappings: Vec<Mapping>) -> Result<(), FindError> {
        let groups = by_source(mappings);
        let beside = holder.parent().unwrap_or(Path::new("/"));
        self.open_ahead(groups.iter().map(|group| beside.join(&group[0].file)));
        for group in groups {
            let here = |mapping: &Mapping| frames_of(&mapping.here, &traced.extents);
            let here: Vec<Spans> = group.iter().map(here).collect::<Result<_, _>>().map_err(FindError::Unusable)?;
            let Mapping { file: name, dataset, .. } = &group[0];
            let found = locate(holder, name).map(|file| (self.trace_source(&file, &from_root(dataset)), file));
            let (other, file) = match &found {
                Ok((traced, file)) => (traced.as_ref().as_ref(), file.as_path()),
                Err(why) => (Err(why), name.as_path()),
            };
            match other {
                Ok(other) => {
                    let there = |mapping: &Mapping| frames_of(&mapping.there, &other.extents);
                    match group.iter().map(there).collect::<Result<Vec<Spans>, _>>() {
                        Ok(there) => {
                            let (here, there, short) = paired(here, there);
                            traced.take(&here, other, &there)?;
                            traced.lose(&short, AbsentKind::NotWritten, NOT_WRITTEN)?;
                        }
                        Err(why) => {
                            let why = FindError::Unusable(traced.unlike(other).unwrap_or(why));
                            traced.lose_by(&joined(here), &why, file, name)?;
                        }
                    }
                    traced.files.extend(other.files.iter().cloned());
                }
                // The library makes such a dataset as long as what it can read.
                Err(why) if why.is_unreadable() && group.iter().any(|mapping| mapping.here.is_unlimited()) => {
                    return Err(why.clone());
                }
                Err(why) => traced.lose_by(&joined(here), why, file, name)?,
            }
        }
        Ok(())
    }

    fn check_kind(&mut self, found: &Located) -> Result<(), FindError> {
        match found.object.kind() {
            Kind::Dataset => Ok(()),
            Kind::Group if self.find(found, "frame_ptr")?.is_some() => Err(FindError::Unusable(SPARSE.to_owned())),
            _ => Err(FindError::Unusable("not a dataset".to_owned())),
        }
    }
}

/// What is said of frames that are lists of photons.
pub(super) const SPARSE: &str = "sparse frames (index, intensity, frame_ptr): expected images";

/// A path as mappings hold it, which may begin with no slash, or with two.
pub(super) fn from_root(path: &str) -> String {
    format!("/{}", path.trim_start_matches('/'))
}

/// The mappings of each source together, sources in the order in which they come.
fn by_source(mappings: Vec<Mapping>) -> Vec<Vec<Mapping>> {
    let mut groups: Vec<Vec<Mapping>> = Vec::new();
    let mut known: HashMap<(PathBuf, String), usize> = HashMap::new();
    for mapping in mappings {
        let next = groups.len();
        match *known.entry((mapping.file.clone(), mapping.dataset.clone())).or_insert(next) {
            group if group == next => groups.push(vec![mapping]),
            group => groups[group].push(mapping),
        }
    }
    groups
}

/// The selections of all mappings of a source, frame for frame; and the frames of those that select
/// more here than there is there.
fn paired(here: Vec<Spans>, there: Vec<Spans>) -> (Spans, Spans, Spans) {
    let counts: Vec<_> = here.iter().zip(&there).map(|(here, there)| (here.count(), there.count())).collect();
    if counts.iter().all(|(here, there)| here == there) {
        return (joined(here), joined(there), Spans::default());
    }
    let (mut ours, mut theirs, mut short) = (Vec::new(), Vec::new(), Vec::new());
    for ((here, there), (mine, their)) in here.iter().zip(&there).zip(counts) {
        let both = mine.min(their);
        ours.push(here.slice(0, both));
        theirs.push(there.slice(0, both));
        short.push(here.slice(both, mine.abs_diff(both)));
    }
    (joined(ours), joined(theirs), joined(short))
}

/// Frame by frame where there are several lists, so that single frames grow into ranges.
fn joined(mut lists: Vec<Spans>) -> Spans {
    match lists.len() {
        1 => lists.swap_remove(0),
        _ => lists.iter().flat_map(Spans::iter).collect(),
    }
}
