//! Copies the scan's counters and motor positions, so that a final file is complete without the raw file.

use super::content::OutputContent;
use super::schema::{create_nexus_group, entry_name, escape_name, name};
use crate::h5::{Dataset, Group, Hdf5Error, NumberClass, Result};

/// Maximum length of a list. No counter of a scan has more values.
const MAX_COUNTER_VALUES: usize = 1 << 22;

/// Numbers of a counter or motor, with their name and units.
struct CopiedValues {
    name: String,
    numbers: NumericValues,
    shape: Vec<usize>,
    units: Option<String>,
}

enum NumericValues {
    Floats(Vec<f64>),
    Integers(Vec<i64>),
    Unsigned(Vec<u64>),
}

/// Copies numbers and their units to the groups `counters` and `positioners` of a final file: from the raw file or, if that can't
/// be read any more, from the existing final file. Datasets that are not lists of numbers are left out.
///
/// # Errors
/// Fails if the new final file can't be written, or the existing one can't be read.
pub(super) fn write_counters_and_positioners(process: &Group, content: &OutputContent) -> Result<()> {
    let [counters, positioners] = match content.raw_file().map(|raw| read_raw(&raw, content)) {
        Some(Ok(all)) => all,
        Some(Err(why)) => {
            content.warn_of_raw_file(&why);
            read_existing(content)?
        }
        None => read_existing(content)?,
    };
    write_all(process, name::COUNTERS, counters)?;
    write_all(process, name::POSITIONERS, positioners)
}

fn read_raw(raw: &Group, content: &OutputContent) -> Result<[Vec<CopiedValues>; 2]> {
    let scan = &content.target.task().acquisition;
    let mut counters = Vec::new();
    for (name, path) in &scan.counters {
        counters.extend(read_list(raw, path, name)?);
    }
    let entry = format!("/{}/", entry_name(&scan.entry));
    if !scan.dataset.starts_with(&entry) {
        return Ok([counters, Vec::new()]);
    }
    let positioners = raw.group(&format!("{entry}instrument/positioners"));
    Ok([counters, ignore_unusable(positioners)?.map_or_else(|| Ok(Vec::new()), |group| read_children(&group))?])
}

fn read_existing(content: &OutputContent) -> Result<[Vec<CopiedValues>; 2]> {
    let Some(existing) = content.existing else { return Ok([Vec::new(), Vec::new()]) };
    let all = |name| {
        if existing.process.contains(name)? { read_children(&existing.process.group(name)?) } else { Ok(Vec::new()) }
    };
    Ok([all(name::COUNTERS)?, all(name::POSITIONERS)?])
}

/// Returns `None` instead of the error of an object that doesn't exist or can't be used. A failed system call stays an error.
fn ignore_unusable<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(why @ (Hdf5Error::Io(_) | Hdf5Error::Damaged(_))) => Err(why),
        Err(Hdf5Error::NotFound(_) | Hdf5Error::Library(_)) => Ok(None),
    }
}

fn read_children(group: &Group) -> Result<Vec<CopiedValues>> {
    let names = ignore_unusable(group.member_names())?.unwrap_or_default();
    let mut all = Vec::new();
    for name in names {
        all.extend(read_list(group, &name, &name)?);
    }
    Ok(all)
}

/// Reads a list of numbers; `None` if there is no such list.
fn read_list(group: &Group, path: &str, name: &str) -> Result<Option<CopiedValues>> {
    let Some(dataset) = ignore_unusable(group.dataset(path))? else { return Ok(None) };
    let shape = dataset.shape();
    if shape.len() > 1 || dataset.size() > MAX_COUNTER_VALUES {
        return Ok(None);
    }
    let Some(numbers) = ignore_unusable(read_numbers(&dataset))?.flatten() else { return Ok(None) };
    let units = ignore_unusable(dataset.text_attribute("units"))?;
    Ok(Some(CopiedValues { name: escape_name(name), numbers, shape, units }))
}

fn read_numbers(dataset: &Dataset) -> Result<Option<NumericValues>> {
    Ok(match dataset.kind()? {
        Some(NumberClass::Float) => Some(NumericValues::Floats(dataset.values()?)),
        Some(NumberClass::Integer) => Some(NumericValues::Integers(dataset.values()?)),
        Some(NumberClass::Unsigned) => Some(NumericValues::Unsigned(dataset.values()?)),
        None => None,
    })
}

fn write_all(process: &Group, name: &str, all: Vec<CopiedValues>) -> Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    let copies = create_nexus_group(process, name, "NXcollection")?;
    for CopiedValues { name, numbers, shape, units } in all {
        if copies.contains(&name)? {
            continue;
        }
        let copied = match numbers {
            NumericValues::Floats(values) => copies.write_array(&name, &values, &shape)?,
            NumericValues::Integers(values) => copies.write_array(&name, &values, &shape)?,
            NumericValues::Unsigned(values) => copies.write_array(&name, &values, &shape)?,
        };
        units.map_or(Ok(()), |units| copied.set_text("units", &units))?;
    }
    Ok(())
}
