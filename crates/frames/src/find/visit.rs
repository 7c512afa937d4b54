//! A walk through the entries of one HDF5 file, and of the files that it links to.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::catalog::{Catalog, FILE_MISSING};
use super::entry::Entry;
use super::place::locate;
use super::{Found, Select, What, dectris, detector, lima, operation};
use crate::ffi::{Link, Object, Target};
use crate::find::detector::{Detector, Images};

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
}

impl<'a, E> Visit<'a, E> {
    pub(super) fn new(file: &Path, select: &'a dyn Select, each: &'a mut dyn FnMut(Found) -> Result<(), E>) -> Self {
        Self { file: file.to_owned(), select, each, catalog: Catalog::default(), seen: Seen::default() }
    }

    /// All entries of the file. A file in which there is nothing to find says so.
    pub(super) fn file(mut self) -> Result<(), E> {
        let file = self.file.clone();
        let root = match self.catalog.open(&file) {
            Ok(root) => root,
            Err(why) => return (self.each)(Found::unreadable(&file, &why)),
        };
        self.links(&file, &root, DEPTH)?;
        if self.seen.found > 0 {
            return Ok(());
        }
        (self.each)(Found::new(&file, "", What::Nothing { entries: self.seen.entries }))
    }

    /// The entries of a file: its own, in their natural order, and those that it links to.
    fn links(&mut self, file: &Path, root: &Rc<Object>, depth: usize) -> Result<(), E> {
        let mut links = match root.links() {
            Ok(links) => links,
            Err(flaw) => return (self.each)(Found::unreadable(file, &flaw.why)),
        };
        links.sort_by_cached_key(|link| natural(&link.name));
        for Link { name, target } in links {
            match target {
                Target::Hard if is_entry(root, &name) => self.entry(file, &name, &name, root)?,
                Target::External(other, path) => self.linked(file, &name, &other, &path, depth)?,
                _ => (),
            }
        }
        Ok(())
    }

    /// What a collection links to: an entry of another file, or all that it has.
    fn linked(&mut self, holder: &Path, label: &str, other: &Path, path: &str, depth: usize) -> Result<(), E> {
        let path = path.trim_matches('/');
        let Some(file) = locate(holder, other) else {
            self.seen.found += 1;
            let why = format!("{FILE_MISSING}: {}", other.display());
            return (self.each)(Found::refused(holder, &format!("/{label}"), why));
        };
        if !self.select.linked(&file) {
            self.seen.found += 1;
            return Ok(());
        }
        let root = match self.catalog.open(&file) {
            Ok(root) => root,
            Err(why) => return (self.each)(Found::unreadable(&file, &why)),
        };
        match path {
            "" if depth > 0 => self.links(&file, &root, depth - 1),
            name if !name.contains('/') && is_entry(&root, name) => self.entry(&file, name, label, &root),
            _ => Ok(()),
        }
    }

    /// The detectors of an entry. `label` is the name that a collection has for it.
    fn entry(&mut self, file: &Path, name: &str, label: &str, root: &Rc<Object>) -> Result<(), E> {
        self.seen.entries += 1;
        let Some(group) = root.find(name) else { return Ok(()) };
        let entry = Entry::new(file, name, root, group);
        let wanted = self.select.entry(name) || (label != name && self.select.entry(label));
        let wanted = wanted && self.select.scan(entry.title.as_deref(), entry.start_time.as_deref());
        let detectors = detector::of(&entry);
        let detectors = if detectors.is_empty() { dectris::of(&entry) } else { detectors };
        for detector in detectors {
            self.seen.found += 1;
            let found = match wanted && self.select.detector(&detector.name) {
                true => self.detector(&entry, &detector),
                false => self.unwanted(&entry, &detector),
            };
            (self.each)(found)?;
        }
        Ok(())
    }

    fn detector(&mut self, entry: &Entry, detector: &Detector) -> Found {
        let dataset = detector.dataset();
        let traced = match &detector.images {
            Images::Dataset(path) => self.catalog.trace(&entry.file, path),
            Images::Stack(paths) => Rc::new(dectris::trace(&mut self.catalog, entry, paths)),
            Images::Unlinked => match lima::trace(&mut self.catalog, entry, detector) {
                Some(traced) => Rc::new(traced),
                None => return Found::new(&entry.file, &dataset, What::NoFrames(entry.why_no_frames())),
            },
            Images::Refused(why) => return Found::refused(&entry.file, &dataset, why.clone()),
        };
        match &*traced {
            Ok(traced) => {
                let files = traced.files.iter().cloned().chain([entry.file.clone()]).collect();
                let mut scan = entry.acquisition(detector, traced);
                scan.image_operation = operation::of(&mut self.catalog, &scan);
                let scan = What::Scan(Box::new(scan));
                Found { files, ..Found::new(&entry.file, &dataset, scan) }
            }
            Err(why) => Found::refused(&entry.file, &dataset, why.clone()),
        }
    }

    fn unwanted(&mut self, entry: &Entry, detector: &Detector) -> Found {
        let mut files = vec![entry.file.clone()];
        match &detector.images {
            Images::Dataset(path) => files.extend(self.catalog.mentions(&entry.file, path)),
            Images::Stack(paths) => {
                paths.iter().for_each(|path| files.extend(self.catalog.mentions(&entry.file, path)));
            }
            Images::Unlinked => files.extend(lima::files(entry, detector)),
            Images::Refused(_) => (),
        }
        let what = What::Unwanted { entry: entry.name.clone(), detector: detector.name.clone() };
        Found { files, ..Found::new(&entry.file, &detector.dataset(), what) }
    }
}

/// Whether a member of the root is an NXentry. Bliss' entries are known by their names, which spares
/// a look at each.
fn is_entry(root: &Object, name: &str) -> bool {
    is_bliss(name)
        || root.find(name).and_then(|group| group.text_attribute("NX_class")).is_some_and(|class| class == "NXentry")
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
