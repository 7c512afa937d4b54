//! Dectris masters, whose frames are in `data_000001`, `data_000002`, …, and other entries that hold
//! frames in their `data` group.

use records::Spans;

use super::catalog::{Catalog, FILE_MISSING, FILE_UNREADABLE};
use super::detector::{Detector, Images};
use super::entry::Entry;
use super::traced::Traced;
use crate::ffi::{Kind, Link, Target};

/// The detector whose frames are in the entry's `data` group, if there is one.
pub(super) fn of(entry: &Entry) -> Vec<Detector> {
    let Some(data) = entry.own("data").filter(|data| data.kind() == Kind::Group) else { return Vec::new() };
    let whole = data.find("data").filter(|whole| whole.kind() == Kind::Dataset);
    let images = match whole.and_then(|whole| whole.extents().ok()) {
        Some(extents) if extents.len() > 2 => Images::Dataset(format!("/{}/data/data", entry.name)),
        _ => {
            let links = data.links().unwrap_or_default();
            let mut numbered: Vec<(u64, &Link)> =
                links.iter().filter_map(|link| Some((number(&link.name)?, link))).collect();
            numbered.sort_by_key(|(number, _)| *number);
            Images::Stack(numbered.iter().map(|(_, link)| format!("/{}/data/{}", entry.name, link.name)).collect())
        }
    };
    if matches!(&images, Images::Stack(paths) if paths.is_empty()) {
        return Vec::new();
    }
    let named = detector_name(entry);
    let group = named.as_ref().map_or("data".to_owned(), |name| format!("instrument/{name}"));
    vec![Detector::new(entry, group, named.as_deref().unwrap_or("data"), images)]
}

/// The one NXdetector of the entry's instrument.
fn detector_name(entry: &Entry) -> Option<String> {
    let instrument = entry.own("instrument")?;
    let is_detector = |link: &Link| {
        let member = instrument.find(&link.name).filter(|_| link.target == Target::Hard);
        member.and_then(|member| member.text_attribute("NX_class")).is_some_and(|class| class == "NXdetector")
    };
    instrument.links().ok()?.into_iter().find(is_detector).map(|link| link.name)
}

fn number(name: &str) -> Option<u64> {
    name.strip_prefix("data_")?.parse().ok()
}

/// Puts the frames of the datasets one behind the other. All but the last hold equally many; so does
/// one whose file is missing, up to the number of images that the detector was told to take.
pub(super) fn trace(catalog: &mut Catalog, entry: &Entry, paths: &[String]) -> Result<Traced, String> {
    let each: Vec<_> = paths.iter().map(|path| catalog.trace(&entry.file, path)).collect();
    let Some(first) = each.iter().find_map(|traced| traced.as_ref().as_ref().ok()) else {
        return Err(each.first().and_then(|traced| traced.as_ref().as_ref().err()).cloned().unwrap_or_default());
    };
    let planned = planned(entry);
    let mut counts = Vec::new();
    let mut total = 0;
    for traced in &each {
        let count = match &**traced {
            Ok(traced) => traced.frames,
            Err(_) => planned.map_or(first.frames, |planned| first.frames.min(planned.saturating_sub(total))),
        };
        counts.push(count);
        total += count;
    }
    let extents = vec![total, first.shape[0], first.shape[1]];
    let mut all = Traced::new(&entry.file, extents, first.coding.clone())?;
    let mut start = 0;
    for ((traced, count), path) in each.iter().zip(counts).zip(paths) {
        let here: Spans = (start..start + count).collect();
        start += count;
        match &**traced {
            Ok(traced) => {
                all.take(&here, traced, &Spans::all(count))?;
                all.files.extend(traced.files.iter().cloned());
            }
            Err(why) if why.starts_with(FILE_MISSING) => all.lose(&here, why)?,
            Err(why) => all.lose(&here, &format!("{FILE_UNREADABLE}: {path}: {why}"))?,
        }
    }
    Ok(all.finish())
}

/// How many images the detector was told to take.
fn planned(entry: &Entry) -> Option<u64> {
    let number = |name: &str| entry.number(&format!("instrument/detector/detectorSpecific/{name}"));
    let (images, triggers) = (number("nimages")?, number("ntrigger").unwrap_or(1.0));
    Some((images * triggers) as u64).filter(|&planned| planned > 0)
}
