//! Copies the scan's counters and motor positions, so that a final file is complete without the raw
//! file.

use std::cmp::Ordering;
use std::path::Path;

use frames::hdf5_array::{self, Hdf5ArrayError};
use records::ScanState;

use super::content::OutputContent;
use super::schema::{create_nexus_group, entry_name, escape_name, name};
use super::{OutputError, OutputFile};
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

/// Values of a counter or motor of an open final file, one per frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FrameNumbers {
    /// Name in the final file.
    pub name: String,
    /// Value at each frame; while the scan runs, only at the first ones.
    pub values: Vec<f64>,
    /// Units, if the raw file has them.
    pub units: Option<String>,
}

impl OutputFile {
    /// Returns the copy of a counter or motor, which has to have a value per frame. Of both, the
    /// counter counts: the position of a motor may be the one from before the scan.
    ///
    /// # Errors
    /// Fails if there is none of this name, or if the file can't be read.
    pub(crate) fn frame_numbers(
        &self,
        name: &str,
    ) -> std::result::Result<FrameNumbers, OutputError> {
        let hdf5 = OutputError::hdf5(&self.path);
        let (mut known, wanted) = (Vec::new(), escape_name(name));
        let is_running = self.task.acquisition.scan_state() == ScanState::Running;
        for copies in [name::COUNTERS, name::POSITIONERS] {
            for copy in read_copies(&self.process, copies).map_err(&hdf5)? {
                let is_per_frame = |count: usize| match count.cmp(&self.status.len()) {
                    Ordering::Less => is_running,
                    order => order == Ordering::Equal,
                };
                let values = copy.list().filter(|values| is_per_frame(values.len()));
                let Some(values) = values else { continue };
                if copy.name == wanted {
                    return Ok(FrameNumbers { name: copy.name, values, units: copy.units });
                }
                known.push(copy.name);
            }
        }
        known.sort_unstable();
        known.dedup();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let why = format!(
            "no counter or motor `{name}` with a value for each of the {} frames; there are: {known}",
            self.status.len()
        );
        Err(OutputError::content(&self.path, why))
    }
}

fn read_raw(raw: &Group, content: &OutputContent) -> Result<ScanNumbers> {
    let scan = &content.target.task().acquisition;
    let counters: Vec<(String, String)> =
        scan.counters.iter().map(|(name, path)| (name.clone(), path.clone())).collect();
    let counters = read_raw_lists(raw, &counters, name::COUNTERS, content)?;
    let entry = format!("/{}/", entry_name(&scan.entry));
    if !scan.dataset.starts_with(&entry) {
        return Ok(ScanNumbers { counters, positioners: Vec::new() });
    }
    let path = format!("{entry}instrument/positioners");
    let names = match ignore_unusable(raw.group(&path))? {
        Some(group) => ignore_unusable(group.member_names())?.unwrap_or_default(),
        None => Vec::new(),
    };
    let mut positioners = Vec::new();
    for name in names {
        let path = format!("{path}/{name}");
        if ignore_unusable(raw.group(&path))?.is_none() {
            positioners.push((name, path));
        }
    }
    let positioners = read_raw_lists(raw, &positioners, name::POSITIONERS, content)?;
    Ok(ScanNumbers { counters, positioners })
}

/// Reads lists of the raw file, each given by its name and path. Those that can't be read are told,
/// and taken from the group `copies` of the existing final file: an earlier run may have been able
/// to read what this one can't.
fn read_raw_lists(
    raw: &Group,
    lists: &[(String, String)],
    copies: &str,
    content: &OutputContent,
) -> Result<Vec<CopiedValues>> {
    let file = &content.target.task().acquisition.file;
    let (mut all, mut unreadable) = (Vec::new(), Vec::new());
    for (name, path) in lists {
        match read_list(raw, path, name, Some(file)) {
            Err(why) if matches!(why, Hdf5Error::Library(_)) || why.is_denied() => {
                content.warn_of_number(copies, name, &why);
                unreadable.push(escape_name(name));
            }
            found => all.extend(ignore_unusable(found)?.flatten()),
        }
    }
    if !unreadable.is_empty() {
        let existing = read_existing_lists(content, copies)?.into_iter();
        all.extend(existing.filter(|copy| unreadable.contains(&copy.name)));
    }
    Ok(all)
}

fn read_existing(content: &OutputContent) -> Result<ScanNumbers> {
    Ok(ScanNumbers {
        counters: read_existing_lists(content, name::COUNTERS)?,
        positioners: read_existing_lists(content, name::POSITIONERS)?,
    })
}

/// Reads the lists of a group of the existing final file.
fn read_existing_lists(content: &OutputContent, copies: &str) -> Result<Vec<CopiedValues>> {
    content.existing.map_or_else(|| Ok(Vec::new()), |there| read_copies(&there.process, copies))
}

/// Reads the lists of a group of a final file, below its NXprocess group.
fn read_copies(process: &Group, copies: &str) -> Result<Vec<CopiedValues>> {
    if !process.contains(copies)? {
        return Ok(Vec::new());
    }
    let group = process.group(copies)?;
    let mut all = Vec::new();
    for name in ignore_unusable(group.member_names())?.unwrap_or_default() {
        all.extend(ignore_unusable(read_list(&group, &name, &name, None))?.flatten());
    }
    Ok(all)
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

/// Reads a list of numbers; `None` if the dataset holds something else. In the raw file, whose path
/// is `raw` and whose root is `group`, it may be a virtual dataset, of which all sources must exist.
fn read_list(
    group: &Group,
    path: &str,
    name: &str,
    raw: Option<&Path>,
) -> Result<Option<CopiedValues>> {
    let dataset = group.dataset(path)?;
    let shape = dataset.shape()?;
    if shape.len() > 1 || dataset.size()? > MAX_COUNTER_VALUES || dataset.kind()?.is_none() {
        return Ok(None);
    }
    if let Some(file) = raw
        && dataset.is_virtual()?
    {
        // The library reads fill values where a source is missing, and reports no error.
        check_sources(file, path)?;
    }
    let Some(numbers) = read_numbers(&dataset)? else { return Ok(None) };
    let units = ignore_unusable(dataset.text_attribute("units"))?;
    Ok(Some(CopiedValues { name: escape_name(name), numbers, shape, units }))
}

/// Checks that the sources of a virtual dataset can be read. `path` is that in the raw file, where
/// it may be a link to another file.
fn check_sources(file: &Path, path: &str) -> Result<()> {
    match hdf5_array::read_numbers(file, path) {
        Ok(_) => Ok(()),
        Err(Hdf5ArrayError::Io { why, .. }) => Err(Hdf5Error::Io(why)),
        Err(Hdf5ArrayError::NoAnswer { why, .. }) => Err(Hdf5Error::Io(std::io::Error::other(why))),
        Err(Hdf5ArrayError::NotHdf5 { why, .. } | Hdf5ArrayError::Dataset { why, .. }) => {
            Err(Hdf5Error::Library(why))
        }
    }
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
