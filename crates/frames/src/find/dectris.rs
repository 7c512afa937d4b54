//! Dectris masters, whose frames are in `data_000001`, `data_000002`, …, and other entries that hold
//! frames in their `data` group.

use std::path::Path;

use records::Spans;

use super::catalog::Catalog;
use super::detector::{Detector, Images, is_class};
use super::entry::{Entry, links_of};
use super::error::FindError;
use super::traced::Traced;
use crate::ffi::{Kind, Target};

/// Finds the detector whose frames are in the entry's `data` group, if there is one.
pub(super) fn find(catalog: &mut Catalog, entry: &Entry) -> Result<Vec<Detector>, FindError> {
    let Some(data) = entry.own(catalog, "data")? else { return Ok(Vec::new()) };
    let whole = catalog.find(&data, "data")?.filter(|whole| whole.object.kind() == Kind::Dataset);
    let rank = match &whole {
        Some(whole) => whole.object.extents().map_err(|flaw| FindError::from_flaw(&whole.file, &flaw))?.len(),
        None => 0,
    };
    let images = match rank {
        3.. => Images::Dataset(format!("/{}/data/data", entry.name)),
        _ => {
            let links = links_of(&data)?;
            let mut numbered: Vec<(u64, &str)> =
                links.iter().filter_map(|link| Some((number(&link.name)?, link.name.as_str()))).collect();
            numbered.sort_by_key(|(number, _)| *number);
            Images::Stack(numbered.iter().map(|(_, name)| format!("/{}/data/{name}", entry.name)).collect())
        }
    };
    if matches!(&images, Images::Stack(paths) if paths.is_empty()) {
        return Ok(Vec::new());
    }
    let named = detector_name(catalog, entry)?;
    let group = named.as_ref().map_or("data".to_owned(), |name| format!("instrument/{name}"));
    Ok(vec![Detector::new(entry, group, named.as_deref().unwrap_or("data"), images)])
}

/// The one NXdetector of the entry's instrument.
fn detector_name(catalog: &mut Catalog, entry: &Entry) -> Result<Option<String>, FindError> {
    let Some(instrument) = entry.own(catalog, "instrument")? else { return Ok(None) };
    for link in links_of(&instrument)?.into_iter().filter(|link| link.target == Target::Hard) {
        if is_class(&instrument.file, &instrument.member(&link.name)?, "NXdetector")? {
            return Ok(Some(link.name));
        }
    }
    Ok(None)
}

fn number(name: &str) -> Option<u64> {
    name.strip_prefix("data_")?.parse().ok()
}

/// Puts the frames of the datasets one behind the other. All but the last hold equally many; so does
/// one whose file is missing, up to the number of images that the detector was told to take.
pub(super) fn trace(catalog: &mut Catalog, entry: &Entry, paths: &[String]) -> Result<Traced, FindError> {
    let each: Vec<_> = paths.iter().map(|path| catalog.trace(&entry.file, path)).collect();
    let Some(first) = each.iter().find_map(|traced| traced.as_ref().as_ref().ok()) else {
        let none = || FindError::Unusable("no datasets data_000001, data_000002, …".to_owned());
        return Err(each.first().and_then(|traced| traced.as_ref().as_ref().err()).cloned().unwrap_or_else(none));
    };
    let planned = planned(catalog, entry)?;
    let mut counts = Vec::new();
    let mut total: u64 = 0;
    for traced in &each {
        let count = match &**traced {
            Ok(traced) => traced.frames,
            Err(_) => planned.map_or(first.frames, |planned| first.frames.min(planned.saturating_sub(total))),
        };
        counts.push(count);
        total = total.saturating_add(count);
    }
    let extents = vec![total, first.shape[0], first.shape[1]];
    let mut all = Traced::new(&entry.file, extents, first.coding.clone())?;
    let mut start: u64 = 0;
    for ((traced, count), path) in each.iter().zip(counts).zip(paths) {
        let end = start.saturating_add(count);
        let here: Spans = (start..end).collect();
        start = end;
        match &**traced {
            Ok(traced) => {
                all.take(&here, traced, &Spans::all(count))?;
                all.files.extend(traced.files.iter().cloned());
            }
            Err(why) => all.lose_by(&here, why, &entry.file, Path::new(path))?,
        }
    }
    Ok(all.finish())
}

/// How many images the detector was told to take.
fn planned(catalog: &mut Catalog, entry: &Entry) -> Result<Option<u64>, FindError> {
    let mut number = |name: &str| entry.number(catalog, &format!("instrument/detector/detectorSpecific/{name}"));
    let (images, triggers) = (number("nimages")?, number("ntrigger")?.unwrap_or(1.0));
    Ok(images.map(|images| (images * triggers) as u64).filter(|&planned| planned > 0))
}
