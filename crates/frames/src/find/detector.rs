//! The detectors of an entry that have images, or should have.

use std::path::Path;

use super::catalog::{Catalog, SPARSE};
use super::entry::{Entry, links_of};
use super::error::FindError;
use super::links::Located;
use crate::ffi::{Kind, Link, Object, Target};

/// How many soft links that lead nowhere are looked through for one that names another file.
const SOFT_LINKS: usize = 16;

/// A detector of an entry.
pub(super) struct Detector {
    /// Its name in the instrument.
    pub name: String,
    /// Its group's path below the entry.
    pub group: String,
    /// The entry's path in its file.
    entry: String,
    pub images: Images,
}

/// Where a detector's images are to be looked for.
pub(super) enum Images {
    /// In this dataset of the master.
    Dataset(String),
    /// In these datasets, one after the other.
    Stack(Vec<String>),
    /// In files that the master does not name, or not yet.
    Unlinked,
    /// In a form that can't be read.
    Refused(String),
    /// In something that could not be looked at.
    Failed(FindError),
}

impl Detector {
    pub(super) fn new(entry: &Entry, group: String, name: &str, images: Images) -> Self {
        Self { name: name.to_owned(), group, entry: format!("/{}", entry.name), images }
    }

    /// The dataset that the master shows the frames under, or would show.
    pub(super) fn dataset(&self) -> String {
        match &self.images {
            Images::Dataset(path) => path.clone(),
            Images::Stack(paths) => paths.first().map_or_else(String::new, |path| parent(path).to_owned()),
            _ => format!("{}/{}/data", self.entry, self.group),
        }
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Finds the detectors of the entry's instruments. An instrument that an external link leads to is another
/// file's: results link to the instrument of their raw scan.
pub(super) fn find(catalog: &mut Catalog, entry: &Entry) -> Result<Vec<Detector>, FindError> {
    let mut found = Vec::new();
    for instrument in instruments(entry)? {
        let Some(group) = entry.own(catalog, &instrument)? else { continue };
        for Link { name, target } in links_of(&group)? {
            if target != Target::Hard {
                continue;
            }
            let member = catalog.follow(&group, &name)?;
            if member.object.kind() == Kind::Group
                && let Some(images) = images(catalog, entry, &member, &format!("{instrument}/{name}"))?
            {
                found.push(Detector::new(entry, format!("{instrument}/{name}"), &name, images));
            }
        }
    }
    Ok(found)
}

/// `instrument`, as NeXus has it, or else whatever is an NXinstrument: Lima names it as the beamline.
fn instruments(entry: &Entry) -> Result<Vec<String>, FindError> {
    let links = links_of(&entry.group)?;
    if links.iter().any(|link| link.name == "instrument") {
        return Ok(vec!["instrument".to_owned()]);
    }
    let mut found = Vec::new();
    for Link { name, target } in links {
        if target == Target::Hard && is_class(&entry.group.file, &entry.group.member(&name)?, "NXinstrument")? {
            found.push(name);
        }
    }
    Ok(found)
}

/// Whether an object of a file says that it is of this NeXus class.
pub(super) fn is_class(file: &Path, object: &Object, class: &str) -> Result<bool, FindError> {
    let said = object.text_attribute("NX_class").map_err(|flaw| FindError::from_flaw(file, &flaw))?;
    Ok(said.is_some_and(|said| said == class))
}

/// Where the images of a member of an instrument are; `None` where it is no area detector.
fn images(catalog: &mut Catalog, entry: &Entry, member: &Located, path: &str) -> Result<Option<Images>, FindError> {
    let said = |flaw| FindError::from_flaw(&member.file, &flaw);
    for name in ["data", "image"] {
        let Some(target) = member.object.link(name).map_err(said)? else { continue };
        let dataset = format!("/{}/{path}/{name}", entry.name);
        let found = match catalog.follow(member, name) {
            Ok(found) => found,
            // It leads nowhere: tracing it says where it should lead.
            Err(why) if why.is_absence() => {
                let dangling = leads_out(catalog, member, &target)? || is_lima(catalog, member)?;
                return Ok(dangling.then_some(Images::Dataset(dataset)));
            }
            Err(why) => return Ok(Some(Images::Failed(why))),
        };
        return dataset_images(catalog, member, &found, dataset);
    }
    Ok(is_lima(catalog, member)?.then_some(Images::Unlinked))
}

/// Whether a link that leads nowhere would lead to another file.
fn leads_out(catalog: &mut Catalog, member: &Located, target: &Target) -> Result<bool, FindError> {
    let mut target = target.clone();
    for _ in 0..SOFT_LINKS {
        let Target::Soft(path) = &target else { break };
        let (parent, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or(("", path));
        let parent = if path.starts_with('/') && parent.is_empty() { "/" } else { parent };
        let Some(group) = catalog.find(member, parent)?.filter(|group| group.object.kind() == Kind::Group) else {
            break;
        };
        let next = group.object.link(name).map_err(|flaw| FindError::from_flaw(&group.file, &flaw))?;
        let Some(next) = next else { break };
        target = next;
    }
    Ok(matches!(target, Target::External(..)))
}

/// Where the images are that a dataset holds, or shows; `None` where it holds none.
fn dataset_images(
    catalog: &mut Catalog,
    member: &Located,
    found: &Located,
    dataset: String,
) -> Result<Option<Images>, FindError> {
    if found.object.kind() != Kind::Dataset {
        let is_sparse = found.object.kind() == Kind::Group && catalog.find(found, "frame_ptr")?.is_some();
        return Ok(is_sparse.then(|| Images::Refused(SPARSE.to_owned())));
    }
    let said = |flaw| FindError::from_flaw(&found.file, &flaw);
    let rank = found.object.extents().map_err(said)?.len();
    let is_image =
        || found.object.text_attribute("interpretation").map(|what| what.is_some_and(|what| what == "image"));
    if rank > 2 || (rank == 2 && is_image().map_err(said)?) {
        return Ok(Some(Images::Dataset(dataset)));
    }
    if rank == 1 && is_lima(catalog, member)? && found.object.text().map_err(said)?.is_some() {
        let why = "frames are a list of file names: give scan-find those files";
        return Ok(Some(Images::Refused(why.to_owned())));
    }
    Ok(None)
}

/// Whether Bliss says that Lima or Lima 2 took the images of this detector.
fn is_lima(catalog: &mut Catalog, member: &Located) -> Result<bool, FindError> {
    Ok(catalog.text(member, "type")?.is_some_and(|kind| kind.starts_with("lima")))
}
