//! Finds the detectors of an entry that have images, or should have.

use super::entry::NexusEntry;
use super::error::DiscoverError;
use super::links::ResolvedObject;
use super::open_files::OpenFiles;
use super::unusable::UnusableError;
use crate::ffi::{Hdf5Link, LinkTarget, ObjectType};

/// Maximum number of dangling soft links that are searched for one that refers to another file.
const MAX_SOFT_LINKS: usize = 16;

/// A detector of an entry.
pub(super) struct ScanDetector {
    /// Name of the detector in the instrument.
    pub name: String,
    /// Path of the detector's group, relative to the entry.
    pub group: String,
    /// Path of the entry in its file.
    entry: String,
    pub images: ImageLocation,
}

/// Location of a detector's images.
pub(super) enum ImageLocation {
    /// A dataset of the master.
    Dataset(String),
    /// Several datasets of the master, to be concatenated.
    Stack(Vec<String>),
    /// Lima files that the master doesn't refer to, or not yet.
    LimaFiles,
    /// Images in a format that can't be read, with the reason.
    Unsupported(UnusableError),
    /// The location could not be read.
    Failed(DiscoverError),
}

impl ScanDetector {
    pub(super) fn new(
        entry: &NexusEntry,
        group: String,
        name: &str,
        images: ImageLocation,
    ) -> Self {
        Self { name: name.to_owned(), group, entry: format!("/{}", entry.name), images }
    }

    /// Returns the path of the dataset in which the master shows the frames, or would show them.
    pub(super) fn dataset_path(&self) -> String {
        match &self.images {
            ImageLocation::Dataset(path) => path.clone(),
            ImageLocation::Stack(paths) => {
                paths.first().map_or_else(String::new, |path| parent(path).to_owned())
            }
            _ => format!("{}/{}/data", self.entry, self.group),
        }
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Finds the detectors of the entry's instruments. Instruments behind external links are ignored:
/// processed files link to the instrument of their raw scan.
pub(super) fn find_detectors(
    files: &mut OpenFiles,
    entry: &NexusEntry,
) -> Result<Vec<ScanDetector>, DiscoverError> {
    let mut found = Vec::new();
    for instrument in instrument_names(entry)? {
        let Some(group) = entry.own_group(files, &instrument)? else { continue };
        for Hdf5Link { name, target } in group.read_links()? {
            if target != LinkTarget::Hard {
                continue;
            }
            let member = files.resolve(&group, &name)?;
            if member.object.object_type() == ObjectType::Group
                && let Some(images) =
                    image_location(files, entry, &member, &format!("{instrument}/{name}"))?
            {
                found.push(ScanDetector::new(entry, format!("{instrument}/{name}"), &name, images));
            }
        }
    }
    Ok(found)
}

/// Returns the names of the entry's instruments: `instrument`, as in NeXus, or else every
/// NXinstrument, because Lima names it after the beamline.
fn instrument_names(entry: &NexusEntry) -> Result<Vec<String>, DiscoverError> {
    let links = entry.group.read_links()?;
    if links.iter().any(|link| link.name == "instrument") {
        return Ok(vec!["instrument".to_owned()]);
    }
    let mut found = Vec::new();
    for Hdf5Link { name, target } in links {
        if target == LinkTarget::Hard && entry.group.is_member_class(&name, "NXinstrument")? {
            found.push(name);
        }
    }
    Ok(found)
}

/// Returns the location of the images of an instrument's member, or `None` if the member is not an
/// area detector.
fn image_location(
    files: &mut OpenFiles,
    entry: &NexusEntry,
    member: &ResolvedObject,
    path: &str,
) -> Result<Option<ImageLocation>, DiscoverError> {
    let to_error = |err| DiscoverError::from_library(&member.file, &err);
    for name in ["data", "image"] {
        let Some(target) = member.object.read_link(name).map_err(to_error)? else { continue };
        let dataset = format!("/{}/{path}/{name}", entry.name);
        let found = match files.resolve(member, name) {
            Ok(found) => found,
            // For a dangling link, `frame_map` reports the file that it refers to.
            Err(why) if why.is_missing() => {
                let dangling =
                    leads_to_other_file(files, member, &target)? || is_lima(files, member)?;
                return Ok(dangling.then_some(ImageLocation::Dataset(dataset)));
            }
            Err(why) => return Ok(Some(ImageLocation::Failed(why))),
        };
        return dataset_images(files, member, &found, dataset);
    }
    Ok(is_lima(files, member)?.then_some(ImageLocation::LimaFiles))
}

/// Returns whether a dangling link refers to another file.
fn leads_to_other_file(
    files: &mut OpenFiles,
    member: &ResolvedObject,
    target: &LinkTarget,
) -> Result<bool, DiscoverError> {
    let mut target = target.clone();
    for _ in 0..MAX_SOFT_LINKS {
        let LinkTarget::Soft(path) = &target else { break };
        let (parent, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or(("", path));
        let parent = if path.starts_with('/') && parent.is_empty() { "/" } else { parent };
        let Some(group) = files
            .try_resolve(member, parent)?
            .filter(|group| group.object.object_type() == ObjectType::Group)
        else {
            break;
        };
        let next = group
            .object
            .read_link(name)
            .map_err(|err| DiscoverError::from_library(&group.file, &err))?;
        let Some(next) = next else { break };
        target = next;
    }
    Ok(matches!(target, LinkTarget::External(..)))
}

/// Returns the location of the images of a dataset, or `None` if it has none.
fn dataset_images(
    files: &mut OpenFiles,
    member: &ResolvedObject,
    found: &ResolvedObject,
    dataset: String,
) -> Result<Option<ImageLocation>, DiscoverError> {
    if found.object.object_type() != ObjectType::Dataset {
        let is_sparse = found.object.object_type() == ObjectType::Group
            && files.try_resolve(found, "frame_ptr")?.is_some();
        return Ok(is_sparse.then_some(ImageLocation::Unsupported(UnusableError::Sparse)));
    }
    let to_error = |err| DiscoverError::from_library(&found.file, &err);
    let rank = found.object.shape().map_err(to_error)?.len();
    let is_image = || {
        found
            .object
            .read_text_attribute("interpretation")
            .map(|what| what.is_some_and(|what| what == "image"))
    };
    if rank > 2 || (rank == 2 && is_image().map_err(to_error)?) {
        return Ok(Some(ImageLocation::Dataset(dataset)));
    }
    if rank == 1 && is_lima(files, member)? && found.object.read_text().map_err(to_error)?.is_some()
    {
        return Ok(Some(ImageLocation::Unsupported(UnusableError::FileNames)));
    }
    Ok(None)
}

/// Returns whether Bliss recorded that Lima or Lima 2 took the images of this detector.
fn is_lima(files: &mut OpenFiles, member: &ResolvedObject) -> Result<bool, DiscoverError> {
    Ok(files.read_text(member, "type")?.is_some_and(|kind| kind.starts_with("lima")))
}
