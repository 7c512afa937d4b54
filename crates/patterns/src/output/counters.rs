//! Copies the scan's counters and motor positions, so that a final file is complete without the raw
//! file.

use std::path::Path;

use frames::hdf5_array::{self, Hdf5ArrayError};

use super::content::OutputContent;
use super::schema::{create_nexus_group, entry_name, escape_name, name};
use crate::h5::{Dataset, Group, Hdf5Error, NumberClass, Result};

/// Maximum length of a list. No counter of a scan has more values.
const MAX_COUNTER_VALUES: usize = 1 << 22;

/// Numbers of a counter or motor, with their name and units.
pub(super) struct CopiedValues {
    pub name: String,
    numbers: NumericValues,
    shape: Vec<usize>,
    pub units: Option<String>,
}

impl CopiedValues {
    /// Returns the values of a list, one per frame; `None` for a single number.
    pub fn list(&self) -> Option<Vec<f64>> {
        let values = match &self.numbers {
            NumericValues::Floats(values) => values.clone(),
            NumericValues::Integers(values) => values.iter().map(|value| *value as f64).collect(),
            NumericValues::Unsigned(values) => values.iter().map(|value| *value as f64).collect(),
        };
        (!self.shape.is_empty()).then_some(values)
    }
}

/// The scan's counters and motor positions.
pub(super) struct ScanNumbers {
    pub counters: Vec<CopiedValues>,
    pub positioners: Vec<CopiedValues>,
}

enum NumericValues {
    Floats(Vec<f64>),
    Integers(Vec<i64>),
    Unsigned(Vec<u64>),
}

impl ScanNumbers {
    /// Reads numbers and their units from the raw file or, if that can't be read any more, from the
    /// existing final file. Datasets that are not lists of numbers are left out.
    ///
    /// # Errors
    /// Fails if the existing final file can't be read.
    pub fn read(raw: Option<&Group>, content: &OutputContent) -> Result<Self> {
        match raw.map(|raw| read_raw(raw, content)) {
            Some(Ok(all)) => Ok(all),
            Some(Err(why)) => {
                content.warn_of_raw_file(why)?;
                read_existing(content)
            }
            None => read_existing(content),
        }
    }

    /// Writes the groups `counters` and `positioners` of a final file.
    pub fn write(&self, process: &Group) -> Result<()> {
        write_all(process, name::COUNTERS, &self.counters)?;
        write_all(process, name::POSITIONERS, &self.positioners)
    }
}

fn read_raw(raw: &Group, content: &OutputContent) -> Result<ScanNumbers> {
    let scan = &content.target.task().acquisition;
    let (mut counters, mut unreadable) = (Vec::new(), Vec::new());
    for (name, path) in &scan.counters {
        match read_list(raw, path, name, Some(&scan.file)) {
            Err(why @ Hdf5Error::Library(_)) => {
                content.warn_of_counter(name, &why);
                unreadable.push(escape_name(name));
            }
            found => counters.extend(ignore_unusable(found)?.flatten()),
        }
    }
    // An earlier run may have been able to read what this one can't.
    if !unreadable.is_empty() {
        counters.extend(
            read_existing(content)?
                .counters
                .into_iter()
                .filter(|copy| unreadable.contains(&copy.name)),
        );
    }
    let entry = format!("/{}/", entry_name(&scan.entry));
    if !scan.dataset.starts_with(&entry) {
        return Ok(ScanNumbers { counters, positioners: Vec::new() });
    }
    let positioners = ignore_unusable(raw.group(&format!("{entry}instrument/positioners")))?;
    let positioners = positioners
        .map_or_else(|| Ok(Vec::new()), |group| read_children(&group, Some(&scan.file)))?;
    Ok(ScanNumbers { counters, positioners })
}

fn read_existing(content: &OutputContent) -> Result<ScanNumbers> {
    let all = |name| match content.existing {
        Some(existing) if existing.process.contains(name)? => {
            read_children(&existing.process.group(name)?, None)
        }
        _ => Ok(Vec::new()),
    };
    Ok(ScanNumbers { counters: all(name::COUNTERS)?, positioners: all(name::POSITIONERS)? })
}

/// Returns `None` instead of the error of an object that doesn't exist or can't be used. A failed
/// system call stays an error.
pub(super) fn ignore_unusable<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(why @ (Hdf5Error::Io(_) | Hdf5Error::Damaged(_))) => Err(why),
        Err(Hdf5Error::NotFound(_) | Hdf5Error::Library(_)) => Ok(None),
    }
}

/// Reads the lists of a group; `raw` is the path of the raw file, if it is one of its groups.
fn read_children(group: &Group, raw: Option<&Path>) -> Result<Vec<CopiedValues>> {
    let names = ignore_unusable(group.member_names())?.unwrap_or_default();
    let mut all = Vec::new();
    for name in names {
        all.extend(ignore_unusable(read_list(group, &name, &name, raw))?.flatten());
    }
    Ok(all)
}

/// Reads a list of numbers; `None` if there is no such list. In the raw file, whose path is `raw`,
/// it may be a virtual dataset.
fn read_list(
    group: &Group,
    path: &str,
    name: &str,
    raw: Option<&Path>,
) -> Result<Option<CopiedValues>> {
    let dataset = group.dataset(path)?;
    let shape = dataset.shape();
    if shape.len() > 1 || dataset.size() > MAX_COUNTER_VALUES {
        return Ok(None);
    }
    let numbers = match raw {
        Some(file) if dataset.is_virtual()? => {
            Some(NumericValues::Floats(read_virtual(file, &dataset.path())?))
        }
        _ => read_numbers(&dataset)?,
    };
    let Some(numbers) = numbers else { return Ok(None) };
    let units = ignore_unusable(dataset.text_attribute("units"))?;
    Ok(Some(CopiedValues { name: escape_name(name), numbers, shape, units }))
}

/// Reads a virtual dataset, whose sources must exist.
fn read_virtual(file: &Path, path: &str) -> Result<Vec<f64>> {
    hdf5_array::read_numbers(file, path).map_err(|error| match error {
        Hdf5ArrayError::Io { why, .. } => Hdf5Error::Io(why),
        Hdf5ArrayError::NoAnswer { why, .. } => Hdf5Error::Io(std::io::Error::other(why)),
        Hdf5ArrayError::NotHdf5 { why, .. } | Hdf5ArrayError::Dataset { why, .. } => {
            Hdf5Error::Library(why)
        }
    })
}

fn read_numbers(dataset: &Dataset) -> Result<Option<NumericValues>> {
    Ok(match dataset.kind()? {
        Some(NumberClass::Float) => Some(NumericValues::Floats(dataset.values()?)),
        Some(NumberClass::Integer) => Some(NumericValues::Integers(dataset.values()?)),
        Some(NumberClass::Unsigned) => Some(NumericValues::Unsigned(dataset.values()?)),
        None => None,
    })
}

fn write_all(process: &Group, name: &str, all: &[CopiedValues]) -> Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    let copies = create_nexus_group(process, name, "NXcollection")?;
    for CopiedValues { name, numbers, shape, units } in all {
        if copies.contains(name)? {
            continue;
        }
        let copied = match numbers {
            NumericValues::Floats(values) => copies.write_array(name, values, shape)?,
            NumericValues::Integers(values) => copies.write_array(name, values, shape)?,
            NumericValues::Unsigned(values) => copies.write_array(name, values, shape)?,
        };
        units.as_ref().map_or(Ok(()), |units| copied.set_text("units", units))?;
    }
    Ok(())
}

#[cfg(test)]
impl CopiedValues {
    /// Returns a list for tests.
    pub fn floats(name: &str, values: &[f64]) -> Self {
        let (numbers, shape) = (NumericValues::Floats(values.to_vec()), vec![values.len()]);
        Self { name: name.to_owned(), numbers, shape, units: None }
    }
}
