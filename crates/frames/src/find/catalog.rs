//! Datasets of frames, traced through links and mappings to the files that hold the bytes. Each
//! dataset is opened once, however many mappings name it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use records::Spans;

use super::mapped::frames_of;
use super::place::locate;
use super::stored;
use super::traced::Traced;
use crate::coding::Coding;
use crate::ffi::{Flaw, Kind, Layout, Mapping, Object, Target};
use crate::store::NOT_WRITTEN;

/// The reason of a frame whose file is not there; the file's name follows.
pub const FILE_MISSING: &str = "file missing";

/// The reason of a frame whose file can't be read; the file's name and what is wrong with it follow.
pub const FILE_UNREADABLE: &str = "file unreadable";

/// How deep virtual datasets may be made of virtual datasets: Bliss over Lima 2's master over its
/// receivers is two. Ends a ring of them.
const DEPTH: usize = 8;

type Shared = Rc<Result<Traced, String>>;

/// What has been traced so far.
#[derive(Default)]
pub(crate) struct Catalog {
    traced: HashMap<(PathBuf, String), Shared>,
    /// The file that was opened last: often the next dataset is in it.
    last: Option<(PathBuf, Rc<Object>)>,
}

impl Catalog {
    /// Opens a file, unless it is the one that was opened last.
    ///
    /// # Errors
    /// What the library says is wrong with it.
    pub(crate) fn open(&mut self, path: &Path) -> Result<Rc<Object>, String> {
        if let Some((last, object)) = &self.last
            && last == path
        {
            return Ok(Rc::clone(object));
        }
        let object = Rc::new(Object::open_file(path).map_err(|flaw| flaw.why)?);
        self.last = Some((path.to_owned(), Rc::clone(&object)));
        Ok(object)
    }

    /// Traces a dataset of a file; or says why it can't be read as frames.
    pub(crate) fn trace(&mut self, file: &Path, dataset: &str) -> Shared {
        self.trace_below(file, dataset, DEPTH)
    }

    /// The files that a dataset names, and those that they name, without a look at their frames.
    pub(crate) fn mentions(&mut self, file: &Path, dataset: &str) -> Vec<PathBuf> {
        let Ok(object) = self.open(file).and_then(|opened| opened.open(dataset).map_err(|flaw| flaw.why)) else {
            return Vec::new();
        };
        let holder = object.file_name().unwrap_or_else(|_| file.to_owned());
        let names: Vec<PathBuf> = match object.layout() {
            Ok(Layout::Virtual(mappings)) => mappings.into_iter().map(|mapping| mapping.file).collect(),
            Ok(Layout::External(segments)) => segments.into_iter().map(|segment| segment.file).collect(),
            _ => Vec::new(),
        };
        let named = names.iter().filter_map(|name| locate(&holder, name));
        named.chain([holder.clone()]).collect()
    }

    fn trace_below(&mut self, file: &Path, dataset: &str, depth: usize) -> Shared {
        let key = (file.to_owned(), dataset.to_owned());
        if let Some(traced) = self.traced.get(&key) {
            return Rc::clone(traced);
        }
        let traced = Rc::new(self.trace_new(file, dataset, depth));
        self.traced.insert(key, Rc::clone(&traced));
        traced
    }

    fn trace_new(&mut self, file: &Path, dataset: &str, depth: usize) -> Result<Traced, String> {
        if depth == 0 {
            return Err("virtual datasets that are made of each other".to_owned());
        }
        let metadata = file.metadata().map_err(|why| why.to_string())?;
        let opened = self.open(file)?;
        let object = opened.open(dataset).map_err(|_| why_not(file, &opened, dataset))?;
        check_kind(&object)?;
        let said = |flaw: Flaw| flaw.why;
        let real = object.file_name().map_err(said)?;
        if real != file {
            // An external link lay on the way.
            let path = object.path().map_err(said)?;
            drop((object, opened));
            let mut traced = (*self.trace_below(&real, &path, depth - 1)).clone()?;
            traced.files.push(file.to_owned());
            return Ok(traced);
        }
        let coding = Coding::new(object.pixel_type().map_err(said)?, Vec::new())?;
        let mut traced = Traced::new(file, object.extents().map_err(said)?, coding)?;
        match object.layout().map_err(said)? {
            Layout::Virtual(mappings) => self.assemble(&mut traced, file, mappings, depth)?,
            Layout::External(segments) => stored::in_segments(&mut traced, file, &segments)?,
            layout => stored::in_file(&mut traced, &object, layout, dataset, &metadata)?,
        }
        Ok(traced.finish())
    }

    /// Adds what the mappings of a virtual dataset in `holder` lead to.
    fn assemble(
        &mut self,
        traced: &mut Traced,
        holder: &Path,
        mappings: Vec<Mapping>,
        depth: usize,
    ) -> Result<(), String> {
        for group in by_source(mappings) {
            let here = |mapping: &Mapping| frames_of(&mapping.here, &traced.extents);
            let here: Vec<Spans> = group.iter().map(here).collect::<Result<_, _>>()?;
            let Mapping { file: name, dataset, .. } = &group[0];
            let Some(file) = locate(holder, name) else {
                traced.lose(&joined(here), &format!("{FILE_MISSING}: {}", name.display()))?;
                continue;
            };
            match &*self.trace_below(&file, &from_root(dataset), depth - 1) {
                Ok(other) => {
                    let there = |mapping: &Mapping| frames_of(&mapping.there, &other.extents);
                    match group.iter().map(there).collect::<Result<Vec<Spans>, _>>() {
                        Ok(there) => {
                            let (here, there, short) = paired(here, there);
                            traced.take(&here, other, &there)?;
                            traced.lose(&short, NOT_WRITTEN)?;
                        }
                        Err(why) => {
                            let why = traced.unlike(other).unwrap_or(why);
                            traced.lose(&joined(here), &format!("{FILE_UNREADABLE}: {}: {why}", name.display()))?;
                        }
                    }
                    traced.files.extend(other.files.iter().cloned());
                }
                Err(why) if why.starts_with(FILE_MISSING) => traced.lose(&joined(here), why)?,
                Err(why) => {
                    traced.lose(&joined(here), &format!("{FILE_UNREADABLE}: {}: {why}", name.display()))?;
                }
            }
        }
        Ok(())
    }
}

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
        short.push(here.slice(both, mine - both));
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

fn check_kind(object: &Object) -> Result<(), String> {
    match object.kind() {
        Kind::Dataset => Ok(()),
        Kind::Group if object.find("frame_ptr").is_some() => {
            Err("sparse frames (index, intensity, frame_ptr): expected images".to_owned())
        }
        _ => Err("not a dataset".to_owned()),
    }
}

/// Why a path can't be opened: most often a link on the way leads to a file that is not there.
fn why_not(file: &Path, opened: &Object, path: &str) -> String {
    let (mut group, mut rest) = (None::<Object>, path.trim_matches('/'));
    while !rest.is_empty() {
        let (name, behind) = rest.split_once('/').unwrap_or((rest, ""));
        let here = group.as_ref().unwrap_or(opened);
        match (here.link(name), here.find(name)) {
            (_, Some(next)) => group = Some(next),
            (Some(Target::External(name, _)), _) if locate(file, &name).is_none() => {
                return format!("{FILE_MISSING}: {}", name.display());
            }
            (Some(Target::Soft(target)), _) if target != path => return why_not(file, opened, &target),
            _ => break,
        }
        rest = behind.trim_start_matches('/');
    }
    format!("no dataset {path}")
}
