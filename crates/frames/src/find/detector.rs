//! The detectors of an entry that have images, or should have.

use super::entry::Entry;
use crate::ffi::{Kind, Link, Object, Target};

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

/// The detectors of the entry's instruments. An instrument that an external link leads to is another
/// file's: results link to the instrument of their raw scan.
pub(super) fn of(entry: &Entry) -> Vec<Detector> {
    let mut found = Vec::new();
    for instrument in instruments(entry) {
        let Some(group) = entry.own(&instrument) else { continue };
        for Link { name, target } in group.links().unwrap_or_default() {
            if target == Target::Hard
                && let Some(member) = group.find(&name).filter(|member| member.kind() == Kind::Group)
                && let Some(images) = images(entry, &member, &format!("{instrument}/{name}"))
            {
                found.push(Detector::new(entry, format!("{instrument}/{name}"), &name, images));
            }
        }
    }
    found
}

/// `instrument`, as NeXus has it, or else whatever is an NXinstrument: Lima names it as the beamline.
fn instruments(entry: &Entry) -> Vec<String> {
    let links = entry.group.links().unwrap_or_default();
    if links.iter().any(|link| link.name == "instrument") {
        return vec!["instrument".to_owned()];
    }
    let is_instrument = |link: &Link| {
        let group = entry.group.find(&link.name).filter(|_| link.target == Target::Hard);
        group.and_then(|group| group.text_attribute("NX_class")).is_some_and(|class| class == "NXinstrument")
    };
    links.iter().filter(|link| is_instrument(link)).map(|link| link.name.clone()).collect()
}

/// Where the images of a member of an instrument are; `None` where it is no area detector.
fn images(entry: &Entry, member: &Object, path: &str) -> Option<Images> {
    for name in ["data", "image"] {
        let Some(target) = member.link(name) else { continue };
        let dataset = format!("/{}/{path}/{name}", entry.name);
        let Some(object) = member.find(name) else {
            // It leads nowhere: tracing it says where it should lead.
            let dangling = matches!(target, Target::External(..)) || is_lima(member);
            return dangling.then_some(Images::Dataset(dataset));
        };
        if object.kind() == Kind::Group {
            let sparse = object.find("frame_ptr").is_some();
            return sparse
                .then(|| Images::Refused("sparse frames (index, intensity, frame_ptr): expected images".to_owned()));
        }
        let rank = object.extents().map_or(0, |extents| extents.len());
        let is_image = rank == 2 && object.text_attribute("interpretation").is_some_and(|what| what == "image");
        if rank > 2 || is_image {
            return Some(Images::Dataset(dataset));
        }
        if rank == 1 && is_lima(member) && object.text().is_ok() {
            let why = "frames are a list of file names: give scan-find those files";
            return Some(Images::Refused(why.to_owned()));
        }
        return None;
    }
    is_lima(member).then_some(Images::Unlinked)
}

/// Whether Bliss says that Lima or Lima 2 took the images of this detector.
fn is_lima(member: &Object) -> bool {
    member.find("type").and_then(|kind| kind.text().ok()).is_some_and(|kind| kind.starts_with("lima"))
}
