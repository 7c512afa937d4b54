//! Copies of the scan's counters and motor positions, so that a final says what was measured without the raw file.

use hdf5::types::TypeDescriptor;
use hdf5::{Dataset, Group, Result};

use super::tree::{entry_name, group, name, plain};
use super::{Final, Target};
use crate::h5;

/// Longer lists are no counters of a scan.
const MOST_VALUES: usize = 1 << 22;

/// Copies numbers, with their units, into `counters` and `positioners` of a process: from the raw file, or, where
/// that can't be read any more, from the final that there is. What is no list of numbers is left out.
///
/// # Errors
/// The final can't be written.
pub(super) fn write(process: &Group, target: &Target, existing: Option<&Final>) -> Result<()> {
    let scan = &target.task().acquisition;
    let Ok(raw) = h5::open(&scan.file) else {
        return existing.map_or(Ok(()), |existing| {
            [name::COUNTERS, name::POSITIONERS].into_iter().try_for_each(|name| {
                let there = existing.process.group(name).ok();
                there.map_or(Ok(()), |there| copy_all(process, name, &children(&there)))
            })
        });
    };
    let counters = scan.counters.iter().filter_map(|(name, path)| Some((name.clone(), raw.dataset(path).ok()?)));
    copy_all(process, name::COUNTERS, &counters.collect::<Vec<_>>())?;
    let entry = format!("/{}/", entry_name(&scan.entry));
    if !scan.dataset.starts_with(&entry) {
        return Ok(());
    }
    let positioners = raw.group(&format!("{entry}instrument/positioners"));
    copy_all(process, name::POSITIONERS, &positioners.map(|group| children(&group)).unwrap_or_default())
}

/// The datasets of a group, by name.
fn children(group: &Group) -> Vec<(String, Dataset)> {
    let names = group.member_names().unwrap_or_default();
    names.into_iter().filter_map(|name| group.dataset(&name).ok().map(|dataset| (name, dataset))).collect()
}

fn copy_all(process: &Group, name: &str, datasets: &[(String, Dataset)]) -> Result<()> {
    if datasets.is_empty() {
        return Ok(());
    }
    let copies = group(process, name, "NXcollection")?;
    datasets.iter().try_for_each(|(name, dataset)| copy(dataset, &copies, &plain(name)))
}

fn copy(dataset: &Dataset, into: &Group, name: &str) -> Result<()> {
    if dataset.ndim() > 1 || dataset.size() > MOST_VALUES || into.link_exists(name) {
        return Ok(());
    }
    let copied = match dataset.dtype().and_then(|dtype| dtype.to_descriptor()) {
        Ok(TypeDescriptor::Float(_)) => copy_as::<f64>(dataset, into, name)?,
        Ok(TypeDescriptor::Integer(_)) => copy_as::<i64>(dataset, into, name)?,
        Ok(TypeDescriptor::Unsigned(_)) => copy_as::<u64>(dataset, into, name)?,
        _ => None,
    };
    match (copied, h5::get_text(dataset, "units")) {
        (Some(copied), Ok(units)) => h5::set_text(&copied, "units", &units),
        _ => Ok(()),
    }
}

/// Copies numbers as these; `None` where they can't be read.
fn copy_as<T: hdf5::H5Type>(dataset: &Dataset, into: &Group, name: &str) -> Result<Option<Dataset>> {
    let Ok(values) = dataset.read_dyn::<T>() else { return Ok(None) };
    into.new_dataset_builder().with_data(values.view()).obj_track_times(false).create(name).map(Some)
}
