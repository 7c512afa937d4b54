//! A walk through the entries of one HDF5 file, and of the files that it links to.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::catalog::Catalog;
use super::entry::{Entry, links_of};
use super::error::FindError;
use super::links::Located;
use super::{Found, Select, What, dectris, detector, lima, operation};
use crate::ffi::{Kind, Link, Target};
use crate::find::detector::{Detector, Images, is_class};

/// How far collections may link to collections.
const DEPTH: usize = 4;

/// A walk under way.
pub(super) struct Visit<'a, E> {
    file: PathBuf,
    select: &'a dyn Select,
    each: &'a mut dyn FnMut(Found) -> Result<(), E>,
    catalog: Catalog,
    seen: Seen,
}

/// What the walk has come by.
#[derive(Default)]
struct Seen {
    entries: usize,
    found: usize,
    /// Files whose entries have been walked through.
    files: HashSet<PathBuf>,
}

impl<'a, E> Visit<'a, E> {
    pub(super) fn new(file: &Path, select: &'a dyn Select, each: &'a mut dyn FnMut(Found) -> Result<(), E>) -> Self {
        Self { file: file.to_owned(), select, each, catalog: Catalog::default(), seen: Seen::default() }
    }

    /// All entries of the file. A file in which there is nothing to find says so.
    pub(super) fn file(mut self) -> Result<(), E> {
        let file = self.file.clone();
        let root = match self.catalog.root(&file) {
            Ok(root) => root,
            Err(why) => return (self.each)(Found::failed(&file, "", &why, None)),
        };
        self.links(&root, DEPTH)?;
        if self.seen.found > 0 {
            return Ok(());
        }
        (self.each)(Found::new(&file, "", What::Nothing { entries: self.seen.entries }))
    }

    /// The entries of a file: its own, in their natural order, and those that it links to.
    fn links(&mut self, root: &Located, depth: usize) -> Result<(), E> {
        if !self.seen.files.insert(root.file.clone()) {
            return Ok(());
        }
        let mut links = match links_of(root) {
            Ok(links) => links,
            Err(why) => return self.fail(&root.file, "", &why),
        };
        links.sort_by_cached_key(|link| natural(&link.name));
        for Link { name, target } in links {
            match target {
                Target::Hard => match is_entry(root, &name) {
                    Ok(true) => self.entry(&root.file, &name, &name, root)?,
                    Ok(false) => (),
                    Err(why) => self.fail(&root.file, &name, &why)?,
                },
                Target::Soft(_) | Target::External(..) => self.linked(root, &name, depth)?,
                Target::Other => (),
            }
        }
        Ok(())
    }

    /// What a collection links to: an entry of another file, or all that it has.
    fn linked(&mut self, holder: &Located, label: &str, depth: usize) -> Result<(), E> {
        let found = match self.catalog.follow(holder, label) {
            Ok(found) => found,
            Err(FindError::NoObject(..)) => return Ok(()),
            Err(why) => return self.fail(&holder.file, label, &why),
        };
        if found.file == holder.file && found.name_in_root().is_some() {
            // It is met under its own name.
            return Ok(());
        }
        if found.file != holder.file && !self.select.linked(&found.file) {
            self.seen.found = self.seen.found.saturating_add(1);
            return Ok(());
        }
        let root = match self.catalog.root(&found.file) {
            Ok(root) => root,
            Err(why) => return self.fail(&found.file, "", &why),
        };
        match found.name_in_root() {
            _ if found.path() == "/" => match depth.checked_sub(1) {
                None => Ok(()),
                Some(depth) => self.links(&root, depth),
            },
            Some(name) => match is_entry(&root, name) {
                Ok(true) => self.entry(&found.file, name, label, &root),
                Ok(false) => Ok(()),
                Err(why) => self.fail(&found.file, name, &why),
            },
            // Deeper in its file, where a walk does not come by: it is an entry of the file that links to it.
            None => match is_class(&found.file, &found.object, "NXentry") {
                Ok(true) => self.entry(&holder.file, label, label, holder),
                Ok(false) => Ok(()),
                Err(why) => self.fail(&holder.file, label, &why),
            },
        }
    }

    /// Says that an entry, or all of a file, could not be looked at.
    fn fail(&mut self, file: &Path, entry: &str, why: &FindError) -> Result<(), E> {
        self.seen.found = self.seen.found.saturating_add(1);
        let dataset = if entry.is_empty() { String::new() } else { format!("/{entry}") };
        (self.each)(Found::failed(file, &dataset, why, None))
    }

    /// The detectors of an entry. `label` is the name that a collection has for it.
    fn entry(&mut self, file: &Path, name: &str, label: &str, root: &Located) -> Result<(), E> {
        self.seen.entries = self.seen.entries.saturating_add(1);
        let (entry, detectors) = match self.detectors(file, name, root) {
            Ok(found) => found,
            Err(why) => return self.fail(file, name, &why),
        };
        let wanted = self.select.entry(name) || (label != name && self.select.entry(label));
        let wanted = wanted && self.select.scan(entry.title.as_deref(), entry.start_time.as_deref());
        for detector in detectors {
            self.seen.found = self.seen.found.saturating_add(1);
            let found = match wanted && self.select.detector(&detector.name) {
                true => self.detector(&entry, &detector)?,
                false => self.unwanted(&entry, &detector),
            };
            let failed = |why| Found::failed(&entry.file, &detector.dataset(), &why, Some(entry.has_ended()));
            (self.each)(found.unwrap_or_else(failed))?;
        }
        Ok(())
    }

    fn detectors(&mut self, file: &Path, name: &str, root: &Located) -> Result<(Entry, Vec<Detector>), FindError> {
        let group = self.catalog.follow(root, name)?;
        if group.object.kind() != Kind::Group {
            return Err(FindError::Unusable("not a group: expected an NXentry".to_owned()));
        }
        let entry = Entry::read(&mut self.catalog, file, name, group)?;
        let detectors = detector::find(&mut self.catalog, &entry)?;
        let detectors = if detectors.is_empty() { dectris::find(&mut self.catalog, &entry)? } else { detectors };
        Ok((entry, detectors))
    }

    /// Traces a wanted detector. Files beside its own that no scan can have are told on the way.
    fn detector(&mut self, entry: &Entry, detector: &Detector) -> Result<Result<Found, FindError>, E> {
        let traced = match &detector.images {
            Images::Dataset(path) => self.catalog.trace(&entry.file, path),
            Images::Stack(paths) => Rc::new(dectris::trace(&mut self.catalog, entry, paths)),
            Images::Unlinked => match lima::trace(&mut self.catalog, entry, detector) {
                Ok(Some(lima)) => {
                    for (file, why) in lima.strays {
                        let stray = Found::failed(&entry.file, &detector.dataset(), &why, Some(true));
                        (self.each)(Found { files: vec![file], ..stray })?;
                    }
                    Rc::new(lima.traced)
                }
                Ok(None) => {
                    let why = What::NoFrames(entry.why_no_frames());
                    return Ok(Ok(Found::new(&entry.file, &detector.dataset(), why)));
                }
                Err(why) => return Ok(Err(why)),
            },
            Images::Refused(why) => Rc::new(Err(FindError::Unusable(why.clone()))),
            Images::Failed(why) => Rc::new(Err(why.clone())),
        };
        let traced = match &*traced {
            Ok(traced) => traced,
            Err(why) => return Ok(Err(why.clone())),
        };
        let files = traced.files.iter().cloned().chain([entry.file.clone()]).collect();
        let scan = entry.acquisition(&mut self.catalog, detector, traced).and_then(|mut scan| {
            scan.image_operation = operation::read(&mut self.catalog, &scan)?;
            Ok(scan)
        });
        Ok(Ok(match scan {
            Ok(scan) => {
                let what = What::Scan(Box::new(scan));
                Found { files, ..Found::new(&entry.file, &detector.dataset(), what) }
            }
            Err(why) => {
                let failed = Found::failed(&entry.file, &detector.dataset(), &why, Some(entry.has_ended()));
                Found { files, ..failed }
            }
        }))
    }

    fn unwanted(&mut self, entry: &Entry, detector: &Detector) -> Result<Found, FindError> {
        let mut files = vec![entry.file.clone()];
        match &detector.images {
            Images::Dataset(path) => files.extend(self.catalog.mentions(&entry.file, path)?),
            Images::Stack(paths) => {
                for path in paths {
                    files.extend(self.catalog.mentions(&entry.file, path)?);
                }
            }
            Images::Unlinked => files.extend(lima::files(&mut self.catalog, entry, detector)?),
            Images::Failed(why) => return Err(why.clone()),
            Images::Refused(_) => (),
        }
        let what = What::Unwanted { entry: entry.name.clone(), detector: detector.name.clone() };
        Ok(Found { files, ..Found::new(&entry.file, &detector.dataset(), what) })
    }
}

/// Whether a member of the root is an NXentry. Bliss' entries are known by their names, which spares
/// a look at each.
fn is_entry(root: &Located, name: &str) -> Result<bool, FindError> {
    if is_bliss(name) { Ok(true) } else { is_class(&root.file, &root.member(name)?, "NXentry") }
}

/// Whether a name is `N.M`, as Bliss names scans and sub-scans.
pub(super) fn is_bliss(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('.').is_some_and(|(scan, part)| number(scan) && number(part))
}

/// A key that sorts `2.1` before `10.1`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, behind) = rest.split_at(digits);
        let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
        key.push((text.to_owned(), behind[..end].parse().unwrap_or(u64::MAX)));
        rest = &behind[end..];
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_go_by_their_numbers() {
        let mut names = vec!["10.1", "2.1", "1.2", "1.1", "2.10"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["1.1", "1.2", "2.1", "2.10", "10.1"]);
        assert!(is_bliss("12.1") && !is_bliss("entry_0000") && !is_bliss("1.") && !is_bliss("1.1.1"));
    }
}
