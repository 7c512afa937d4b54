//! Frames that no dataset of the Bliss master shows: those of a scan that is being written, since the
//! virtual dataset is made at its end, or that was killed. They are in Lima files beside the master.

use std::path::{Path, PathBuf};

use records::{Span, Spans};

use super::catalog::{Catalog, FILE_MISSING, FILE_UNREADABLE, from_root};
use super::detector::Detector;
use super::entry::Entry;
use super::traced::Traced;
use crate::ffi::Target;

/// The reason of a frame whose file has not been closed: its size and date will still change, and so the
/// record would not hold.
pub(super) const BEING_WRITTEN: &str = "being written";

/// The Lima files of a detector, by number: `scan0012/p3_0003.h5`, or wherever the master says that the
/// images go.
fn numbered(entry: &Entry, detector: &Detector) -> Vec<(u64, PathBuf)> {
    let Some(directory) = entry.file.parent() else { return Vec::new() };
    let parameter = |name: &str| entry.group.find(&format!("{}/acq_parameters/{name}", detector.group))?.text().ok();
    let saved = parameter("saving_directory").map(PathBuf::from);
    let beside = saved.as_ref().and_then(|saved| Some(directory.join(saved.file_name()?)));
    let by_number = entry.scan_number().map(|number| directory.join(format!("scan{number:04}")));
    let prefix = parameter("saving_prefix").unwrap_or_else(|| format!("{}_", detector.name));
    let places = saved.into_iter().chain(beside).chain(by_number);
    places.map(|place| in_directory(&place, &prefix)).find(|files| !files.is_empty()).unwrap_or_default()
}

fn in_directory(directory: &Path, prefix: &str) -> Vec<(u64, PathBuf)> {
    let Ok(listed) = directory.read_dir() else { return Vec::new() };
    let number = |name: &str| name.strip_prefix(prefix)?.strip_suffix(".h5")?.parse().ok();
    let numbered = listed.filter_map(|file| {
        let file = file.ok()?;
        Some((number(file.file_name().to_str()?)?, file.path()))
    });
    let mut numbered: Vec<_> = numbered.collect();
    numbered.sort_unstable();
    numbered
}

/// The Lima files of a detector.
pub(super) fn files(entry: &Entry, detector: &Detector) -> Vec<PathBuf> {
    numbered(entry, detector).into_iter().map(|(_, file)| file).collect()
}

/// Traces the frames of the detector's Lima files; `None` where there is no such file.
///
/// Each file holds as many frames as the first. The scan has as many as were asked for, or, where
/// that is not known, as the files have room for.
pub(super) fn trace(catalog: &mut Catalog, entry: &Entry, detector: &Detector) -> Option<Result<Traced, String>> {
    let files = numbered(entry, detector);
    let from = files.first().map(|(number, _)| (*number).min(1))?;
    let datasets: Vec<_> = files.iter().map(|(_, file)| (file, dataset(catalog, file))).collect();
    let each: Vec<_> = datasets.iter().map(|(file, dataset)| catalog.trace(file, dataset)).collect();
    let Some(first) = each.iter().find_map(|traced| traced.as_ref().as_ref().ok()) else {
        return each.first().map(|traced| Err(traced.as_ref().as_ref().err().cloned().unwrap_or_default()));
    };
    let last = files.last().map_or(0, |(number, _)| number - from + 1);
    let asked = entry.number(&format!("{}/acq_parameters/acq_nb_frames", detector.group)).map(|count| count as u64);
    let total = asked.filter(|&count| count > 0).unwrap_or(last * first.frames);
    let mut fill = || {
        let mut all = Traced::new(&entry.file, vec![total, first.shape[0], first.shape[1]], first.coding.clone())?;
        let mut expected = from;
        for ((number, file), traced) in files.iter().zip(&each) {
            let start = |number: u64| ((number - from) * first.frames).min(total);
            let missing = Span::new(start(expected), start(*number));
            all.lose(&Spans::from(missing), FILE_MISSING)?;
            expected = number + 1;
            let here = Spans::from(Span::new(start(*number), start(expected)));
            match &**traced {
                Ok(_) if !entry.has_ended() && !is_closed(catalog, file) => all.lose(&here, BEING_WRITTEN)?,
                Ok(traced) => all.take(&here, traced, &Spans::all(here.count()))?,
                Err(why) => all.lose(&here, &format!("{FILE_UNREADABLE}: {}: {why}", file.display()))?,
            }
            all.files.push(file.clone());
        }
        Ok(all.finish())
    };
    Some(fill())
}

/// The path of a Lima file's dataset, without the link that Lima keeps to it.
fn dataset(catalog: &mut Catalog, file: &Path) -> String {
    let link = catalog.open(file).ok().and_then(|root| root.find("/entry_0000/measurement")?.link("data"));
    match link {
        Some(Target::Soft(path)) => from_root(&path),
        _ => "/entry_0000/measurement/data".to_owned(),
    }
}

/// Whether a Lima file is complete: `end_time` is written when it is closed.
fn is_closed(catalog: &mut Catalog, file: &Path) -> bool {
    catalog.open(file).is_ok_and(|root| root.find("/entry_0000/end_time").is_some())
}
