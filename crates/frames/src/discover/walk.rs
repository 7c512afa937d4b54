//! Walks through the entries of an HDF5 file, and of the files that it links to.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::acquisition::build_acquisition;
use super::dataset_cache::DatasetCache;
use super::detector::{ImageLocation, ScanDetector};
use super::entry::{NexusEntry, is_bliss_name};
use super::error::DiscoverError;
use super::links::ResolvedObject;
use super::unusable::UnusableError;
use super::{
    Discovery, DiscoveryKind, ScanFilter, dectris, detector, image_operation, unfinished_lima,
};
use crate::ffi::{Hdf5Link, LinkTarget, ObjectType};

/// Maximum depth of collections that link to collections.
const MAX_COLLECTION_DEPTH: usize = 4;

/// A walk under way.
pub(super) struct FileWalk<'a, E> {
    file: PathBuf,
    select: &'a dyn ScanFilter,
    each: &'a mut dyn FnMut(Discovery) -> Result<(), E>,
    cache: DatasetCache,
    seen: WalkState,
}

/// State of a walk: what has been visited so far.
#[derive(Default)]
struct WalkState {
    entries: usize,
    bliss_entries: usize,
    found: usize,
    /// Files whose entries have been visited.
    files: HashSet<PathBuf>,
}

impl<'a, E> FileWalk<'a, E> {
    pub(super) fn new(
        file: &Path,
        select: &'a dyn ScanFilter,
        each: &'a mut dyn FnMut(Discovery) -> Result<(), E>,
    ) -> Self {
        Self {
            file: file.to_owned(),
            select,
            each,
            cache: DatasetCache::default(),
            seen: WalkState::default(),
        }
    }

    /// Visits all entries of the file, and reports a file without any.
    pub(super) fn walk_file(mut self) -> Result<(), E> {
        let file = self.file.clone();
        let root = match self.cache.files.root(&file) {
            Ok(root) => root,
            Err(why) => return (self.each)(Discovery::failed(&file, "", &why, None)),
        };
        match is_final_file(&root) {
            Ok(false) => self.walk_links(&root, MAX_COLLECTION_DEPTH)?,
            Ok(true) => return (self.each)(Discovery::new(&file, "", DiscoveryKind::FinalFile)),
            Err(why) => return (self.each)(Discovery::failed(&file, "", &why, None)),
        }
        if self.seen.found > 0 {
            return Ok(());
        }
        (self.each)(Discovery::new(
            &file,
            "",
            DiscoveryKind::NoDetectors {
                entries: self.seen.entries,
                bliss_entries: self.seen.bliss_entries,
            },
        ))
    }

    /// Visits the entries of a file in natural order, including the entries of files that it links
    /// to.
    fn walk_links(&mut self, root: &ResolvedObject, depth: usize) -> Result<(), E> {
        if !self.seen.files.insert(root.file.clone()) {
            return Ok(());
        }
        let mut links = match root.read_links() {
            Ok(links) => links,
            Err(why) => return self.report_failure(&root.file, "", &why),
        };
        links.sort_by_cached_key(|link| natural_sort_key(&link.name));
        for Hdf5Link { name, target } in links {
            match target {
                LinkTarget::Hard => match is_entry(root, &name) {
                    Ok(true) => self.walk_entry(&root.file, &name, &name, root)?,
                    Ok(false) => (),
                    Err(why) => self.report_failure(&root.file, &name, &why)?,
                },
                LinkTarget::Soft(_) | LinkTarget::External(..) => {
                    self.walk_linked(root, &name, depth)?
                }
                LinkTarget::Other => (),
            }
        }
        Ok(())
    }

    /// Visits the target of a collection's link: an entry of another file, or a whole file.
    fn walk_linked(&mut self, holder: &ResolvedObject, label: &str, depth: usize) -> Result<(), E> {
        let found = match self.cache.files.resolve(holder, label) {
            Ok(found) => found,
            Err(DiscoverError::NoObject(..)) => return Ok(()),
            Err(why) => return self.report_failure(&holder.file, label, &why),
        };
        if found.file == holder.file && found.name_in_root().is_some() {
            // The walk visits it under its own name.
            return Ok(());
        }
        if found.file != holder.file && !self.select.includes_linked_file(&found.file) {
            self.seen.found = self.seen.found.saturating_add(1);
            return Ok(());
        }
        let root = match self.cache.files.root(&found.file) {
            Ok(root) => root,
            Err(why) => return self.report_failure(&found.file, "", &why),
        };
        match is_final_file(&root) {
            Ok(false) => (),
            Ok(true) => return Ok(()),
            Err(why) => return self.report_failure(&found.file, "", &why),
        }
        match found.name_in_root() {
            _ if found.path() == "/" => match depth.checked_sub(1) {
                None => Ok(()),
                Some(depth) => self.walk_links(&root, depth),
            },
            Some(name) => match is_entry(&root, name) {
                Ok(true) => self.walk_entry(&found.file, name, label, &root),
                Ok(false) => Ok(()),
                Err(why) => self.report_failure(&found.file, name, &why),
            },
            // The target is not at the top level of its file, where a walk would find it: report it
            // as an entry of the linking file.
            None => match found.is_class("NXentry") {
                Ok(true) => self.walk_entry(&holder.file, label, label, holder),
                Ok(false) => Ok(()),
                Err(why) => self.report_failure(&holder.file, label, &why),
            },
        }
    }

    /// Reports that an entry, or a whole file, can't be read.
    fn report_failure(&mut self, file: &Path, entry: &str, why: &DiscoverError) -> Result<(), E> {
        self.seen.found = self.seen.found.saturating_add(1);
        let dataset = if entry.is_empty() { String::new() } else { format!("/{entry}") };
        (self.each)(Discovery::failed(file, &dataset, why, None))
    }

    /// Visits the detectors of an entry. `label` is the name of the entry in the collection.
    fn walk_entry(
        &mut self,
        file: &Path,
        name: &str,
        label: &str,
        root: &ResolvedObject,
    ) -> Result<(), E> {
        self.seen.entries = self.seen.entries.saturating_add(1);
        if is_bliss_name(name) {
            self.seen.bliss_entries = self.seen.bliss_entries.saturating_add(1);
        }
        let (entry, detectors) = match self.read_entry_and_detectors(file, name, root) {
            Ok(found) => found,
            Err(why) => return self.report_failure(file, name, &why),
        };
        let wanted = self.select.includes_entry(name)
            || (label != name && self.select.includes_entry(label));
        let wanted = wanted
            && self.select.includes_scan(entry.title.as_deref(), entry.start_time.as_deref());
        for detector in detectors {
            self.seen.found = self.seen.found.saturating_add(1);
            let found = match wanted && self.select.includes_detector(&detector.name) {
                true => self.discover_detector(&entry, &detector)?,
                false => self.excluded(&entry, &detector),
            };
            let failed = |why| {
                Discovery::failed(
                    &entry.file,
                    &detector.dataset_path(),
                    &why,
                    Some(entry.has_ended()),
                )
            };
            (self.each)(found.unwrap_or_else(failed))?;
        }
        Ok(())
    }

    fn read_entry_and_detectors(
        &mut self,
        file: &Path,
        name: &str,
        root: &ResolvedObject,
    ) -> Result<(NexusEntry, Vec<ScanDetector>), DiscoverError> {
        let group = self.cache.files.resolve(root, name)?;
        if group.object.object_type() != ObjectType::Group {
            return Err(UnusableError::NotGroup.into());
        }
        let entry = NexusEntry::read(&mut self.cache.files, file, name, group)?;
        let detectors = detector::find_detectors(&mut self.cache.files, &entry)?;
        let detectors = if detectors.is_empty() {
            dectris::find_detector(&mut self.cache.files, &entry)?
        } else {
            detectors
        };
        Ok((entry, detectors))
    }

    /// Maps the frames of a selected detector and reports the scan. Files with numbers that no scan
    /// can have are reported, too.
    fn discover_detector(
        &mut self,
        entry: &NexusEntry,
        detector: &ScanDetector,
    ) -> Result<Result<Discovery, DiscoverError>, E> {
        let frame_map = match &detector.images {
            ImageLocation::Dataset(path) => self.cache.frame_map(&entry.file, path),
            ImageLocation::Stack(paths) => {
                Rc::new(dectris::build_frame_map(&mut self.cache, entry, paths))
            }
            ImageLocation::LimaFiles => {
                match unfinished_lima::build_frame_map(&mut self.cache, entry, detector) {
                    Ok(Some(lima)) => {
                        for (file, why) in lima.stray_files {
                            let stray = Discovery::failed(
                                &entry.file,
                                &detector.dataset_path(),
                                &why,
                                Some(true),
                            );
                            (self.each)(Discovery { files: vec![file], ..stray })?;
                        }
                        Rc::new(lima.frame_map)
                    }
                    Ok(None) => {
                        let why = DiscoveryKind::NoFrames(entry.no_frames_reason());
                        return Ok(Ok(Discovery::new(&entry.file, &detector.dataset_path(), why)));
                    }
                    Err(why) => return Ok(Err(why)),
                }
            }
            ImageLocation::Unsupported(why) => Rc::new(Err(why.clone().into())),
            ImageLocation::Failed(why) => Rc::new(Err(why.clone())),
        };
        let frame_map = match &*frame_map {
            Ok(frame_map) => frame_map,
            Err(why) => return Ok(Err(why.clone())),
        };
        let files = frame_map.files.iter().cloned().chain([entry.file.clone()]).collect();
        let scan = build_acquisition(entry, &mut self.cache.files, detector, frame_map).and_then(
            |mut scan| {
                scan.image_operation =
                    image_operation::read_image_operation(&mut self.cache.files, &scan)?;
                Ok(scan)
            },
        );
        Ok(Ok(match scan {
            Ok(scan) => {
                let what = DiscoveryKind::Scan(Box::new(scan));
                Discovery { files, ..Discovery::new(&entry.file, &detector.dataset_path(), what) }
            }
            Err(why) => {
                let failed = Discovery::failed(
                    &entry.file,
                    &detector.dataset_path(),
                    &why,
                    Some(entry.has_ended()),
                );
                Discovery { files, ..failed }
            }
        }))
    }

    fn excluded(
        &mut self,
        entry: &NexusEntry,
        detector: &ScanDetector,
    ) -> Result<Discovery, DiscoverError> {
        let mut files = vec![entry.file.clone()];
        match &detector.images {
            ImageLocation::Dataset(path) => {
                files.extend(self.cache.referenced_files(&entry.file, path)?)
            }
            ImageLocation::Stack(paths) => {
                for path in paths {
                    files.extend(self.cache.referenced_files(&entry.file, path)?);
                }
            }
            ImageLocation::LimaFiles => {
                files.extend(unfinished_lima::file_paths(&mut self.cache.files, entry, detector)?)
            }
            ImageLocation::Failed(why) => return Err(why.clone()),
            ImageLocation::Unsupported(_) => (),
        }
        let what =
            DiscoveryKind::Excluded { entry: entry.name.clone(), detector: detector.name.clone() };
        Ok(Discovery { files, ..Discovery::new(&entry.file, &detector.dataset_path(), what) })
    }
}

/// Returns whether a file is a final file of azpipe, which has an entry, a detector and links to
/// raw files like a master.
fn is_final_file(root: &ResolvedObject) -> Result<bool, DiscoverError> {
    let creator = root.object.read_text_attribute("creator");
    let creator = creator.map_err(|err| DiscoverError::from_library(&root.file, &err))?;
    Ok(creator.is_some_and(|creator| creator == "azpipe"))
}

/// Returns whether a member of the root is an NXentry. Bliss' entries are recognized by name, which
/// saves opening them.
fn is_entry(root: &ResolvedObject, name: &str) -> Result<bool, DiscoverError> {
    if is_bliss_name(name) { Ok(true) } else { root.is_member_class(name, "NXentry") }
}

/// Returns a sort key that puts `2.1` before `10.1`.
fn natural_sort_key(name: &str) -> Vec<(String, u64)> {
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
        names.sort_by_key(|name| natural_sort_key(name));
        assert_eq!(names, ["1.1", "1.2", "2.1", "2.10", "10.1"]);
    }
}
