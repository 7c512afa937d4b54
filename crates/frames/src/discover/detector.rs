//! The detectors of an entry that have images, or should have.

use std::path::Path;

use super::dataset_cache::{DatasetCache, SPARSE};
use super::entry::{NexusEntry, read_links};
use super::error::DiscoverError;
use super::links::ResolvedObject;
use crate::ffi::{Hdf5Link, Hdf5Object, LinkTarget, ObjectType};

/// How many soft links that lead nowhere are looked through for one that names another file.
const MAX_SOFT_LINKS: usize = 16;

/// A detector of an entry.
pub(super) struct ScanDetector {
    /// Its name in the instrument.
    pub name: String,
    /// Its group's path below the entry.
    pub group: String,
    /// The entry's path in its file.
    entry: String,
    pub images: ImageLocation,
}

/// Where a detector's images are to be looked for.
pub(super) enum ImageLocation {
    /// In this dataset of the master.
    Dataset(String),
    /// In these datasets, one after the other.
    Stack(Vec<String>),
    /// In files that the master does not name, or not yet.
    LimaFiles,
    /// In a form that can't be read.
    Unsupported(String),
    /// In something that could not be looked at.
    Failed(DiscoverError),
}

impl ScanDetector {
    pub(super) fn new(entry: &NexusEntry, group: String, name: &str, images: ImageLocation) -> Self {
        Self { name: name.to_owned(), group, entry: format!("/{}", entry.name), images }
    }

    /// The dataset that the master shows the frames under, or would show.
    pub(super) fn dataset_path(&self) -> String {
        match &self.images {
            ImageLocation::Dataset(path) => path.clone(),
            ImageLocation::Stack(paths) => paths.first().map_or_else(String::new, |path| parent(path).to_owned()),
            _ => format!("{}/{}/data", self.entry, self.group),
        }
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Finds the detectors of the entry's instruments. An instrument that an external link leads to is another
/// file's: results link to the instrument of their raw scan.
pub(super) fn find_detectors(
    catalog: &mut DatasetCache,
    entry: &NexusEntry,
) -> Result<Vec<ScanDetector>, DiscoverError> {
    let mut found = Vec::new();
    for instrument in instrument_names(entry)? {
        let Some(group) = entry.own_group(catalog, &instrument)? else { continue };
        for Hdf5Link { name, target } in read_links(&group)? {
            if target != LinkTarget::Hard {
                continue;
            }
            let member = catalog.resolve(&group, &name)?;
            if member.object.object_type() == ObjectType::Group
                && let Some(images) = image_location(catalog, entry, &member, &format!("{instrument}/{name}"))?
            {
                found.push(ScanDetector::new(entry, format!("{instrument}/{name}"), &name, images));
            }
        }
    }
    Ok(found)
}

/// `instrument`, as NeXus has it, or else whatever is an NXinstrument: Lima names it as the beamline.
fn instrument_names(entry: &NexusEntry) -> Result<Vec<String>, DiscoverError> {
    let links = read_links(&entry.group)?;
    if links.iter().any(|link| link.name == "instrument") {
        return Ok(vec!["instrument".to_owned()]);
    }
    let mut found = Vec::new();
    for Hdf5Link { name, target } in links {
        if target == LinkTarget::Hard && is_class(&entry.group.file, &entry.group.member(&name)?, "NXinstrument")? {
            found.push(name);
        }
    }
    Ok(found)
}

/// Whether an object of a file says that it is of this NeXus class.
pub(super) fn is_class(file: &Path, object: &Hdf5Object, class: &str) -> Result<bool, DiscoverError> {
    let said = object.read_text_attribute("NX_class").map_err(|flaw| DiscoverError::from_library(file, &flaw))?;
    Ok(said.is_some_and(|said| said == class))
}

/// Where the images of a member of an instrument are; `None` where it is no area detector.
fn image_location(
    catalog: &mut DatasetCache,
    entry: &NexusEntry,
    member: &ResolvedObject,
    path: &str,
) -> Result<Option<ImageLocation>, DiscoverError> {
    let said = |flaw| DiscoverError::from_library(&member.file, &flaw);
    for name in ["data", "image"] {
        let Some(target) = member.object.read_link(name).map_err(said)? else { continue };
        let dataset = format!("/{}/{path}/{name}", entry.name);
        let found = match catalog.resolve(member, name) {
            Ok(found) => found,
            // It leads nowhere: tracing it says where it should lead.
            Err(why) if why.is_missing() => {
                let dangling = leads_to_other_file(catalog, member, &target)? || is_lima(catalog, member)?;
                return Ok(dangling.then_some(ImageLocation::Dataset(dataset)));
            }
            Err(why) => return Ok(Some(ImageLocation::Failed(why))),
        };
        return dataset_images(catalog, member, &found, dataset);
    }
    Ok(is_lima(catalog, member)?.then_some(ImageLocation::LimaFiles))
}

/// Whether a link that leads nowhere would lead to another file.
fn leads_to_other_file(
    catalog: &mut DatasetCache,
    member: &ResolvedObject,
    target: &LinkTarget,
) -> Result<bool, DiscoverError> {
    let mut target = target.clone();
    for _ in 0..MAX_SOFT_LINKS {
        let LinkTarget::Soft(path) = &target else { break };
        let (parent, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or(("", path));
        let parent = if path.starts_with('/') && parent.is_empty() { "/" } else { parent };
        let Some(group) =
            catalog.try_resolve(member, parent)?.filter(|group| group.object.object_type() == ObjectType::Group)
        else {
            break;
        };
        let next = group.object.read_link(name).map_err(|flaw| DiscoverError::from_library(&group.file, &flaw))?;
        let Some(next) = next else { break };
        target = next;
    }
    Ok(matches!(target, LinkTarget::External(..)))
}

/// Where the images are that a dataset holds, or shows; `None` where it holds none.
fn dataset_images(
    catalog: &mut DatasetCache,
    member: &ResolvedObject,
    found: &ResolvedObject,
    dataset: String,
) -> Result<Option<ImageLocation>, DiscoverError> {
    if found.object.object_type() != ObjectType::Dataset {
        let is_sparse =
            found.object.object_type() == ObjectType::Group && catalog.try_resolve(found, "frame_ptr")?.is_some();
        return Ok(is_sparse.then(|| ImageLocation::Unsupported(SPARSE.to_owned())));
    }
    let said = |flaw| DiscoverError::from_library(&found.file, &flaw);
    let rank = found.object.shape().map_err(said)?.len();
    let is_image =
        || found.object.read_text_attribute("interpretation").map(|what| what.is_some_and(|what| what == "image"));
    if rank > 2 || (rank == 2 && is_image().map_err(said)?) {
        return Ok(Some(ImageLocation::Dataset(dataset)));
    }
    if rank == 1 && is_lima(catalog, member)? && found.object.read_text().map_err(said)?.is_some() {
        let why = "frames are a list of file names: give scan-find those files";
        return Ok(Some(ImageLocation::Unsupported(why.to_owned())));
    }
    Ok(None)
}

/// Whether Bliss says that Lima or Lima 2 took the images of this detector.
fn is_lima(catalog: &mut DatasetCache, member: &ResolvedObject) -> Result<bool, DiscoverError> {
    Ok(catalog.read_text(member, "type")?.is_some_and(|kind| kind.starts_with("lima")))
}
