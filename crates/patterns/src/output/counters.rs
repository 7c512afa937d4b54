//! Copies the scan's counters and motor positions, so that a final file is complete without the raw
//! file.

use std::collections::HashSet;
use std::path::Path;

use frames::hdf5_array;
use records::{Acquisition, ScanState, Spans, format_count};
use xxhash_rust::xxh3::Xxh3;

use super::content::OutputContent;
use super::reader::default_process;
use super::schema::{create_nexus_group, entry_name, escape_name, name};
use super::{OutputError, OutputFile};
use crate::h5::{Dataset, Group, Hdf5Error, Hdf5File, NumberClass, Result};

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

    /// Makes the values of these frames NaN, if it is a list. Returns whether it has any of them.
    fn forget(&mut self, frames: &Spans) -> bool {
        let Some(mut values) = self.list() else { return false };
        let known = frames.iter().filter_map(|frame| usize::try_from(frame).ok());
        let known: Vec<usize> = known.filter(|frame| *frame < values.len()).collect();
        if known.is_empty() {
            return false;
        }
        known.iter().for_each(|frame| values[*frame] = f64::NAN);
        self.numbers = NumericValues::Floats(values);
        true
    }

    /// Adds name, values and units to a digest.
    fn add_to(&self, hash: &mut Xxh3) {
        let (kind, bytes): (u8, Vec<u8>) = match &self.numbers {
            NumericValues::Floats(values) => {
                (0, values.iter().flat_map(|value| value.to_bits().to_le_bytes()).collect())
            }
            NumericValues::Integers(values) => {
                (1, values.iter().flat_map(|value| value.to_le_bytes()).collect())
            }
            NumericValues::Unsigned(values) => {
                (2, values.iter().flat_map(|value| value.to_le_bytes()).collect())
            }
        };
        let units = self.units.as_deref().unwrap_or_default();
        for part in
            [self.name.as_bytes(), units.as_bytes(), &[kind, self.shape.len() as u8], &bytes]
        {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
}

/// Two are equal if a copy of the one is a copy of the other: NaN is equal to itself.
impl PartialEq for CopiedValues {
    fn eq(&self, other: &Self) -> bool {
        let numbers = match (&self.numbers, &other.numbers) {
            (NumericValues::Floats(one), NumericValues::Floats(two)) => {
                one.iter().map(|value| value.to_bits()).eq(two.iter().map(|value| value.to_bits()))
            }
            (NumericValues::Integers(one), NumericValues::Integers(two)) => one == two,
            (NumericValues::Unsigned(one), NumericValues::Unsigned(two)) => one == two,
            _ => false,
        };
        numbers
            && (&self.name, &self.shape, &self.units) == (&other.name, &other.shape, &other.units)
    }
}

/// The scan's counters and motor positions.
#[derive(Default)]
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
        let mut unreadable = Vec::new();
        let scan = &content.target.task().acquisition;
        match raw.map(|raw| read_raw(raw, scan, &mut unreadable)) {
            Some(Ok(mut all)) => {
                all.add_unreadable(&unreadable, content)?;
                Ok(all)
            }
            Some(Err(why)) => {
                content.warn_of_raw_file(why)?;
                Self::read_kept(content)
            }
            None => Self::read_kept(content),
        }
    }

    /// Reads the numbers of the existing final file. Of frames whose patterns are of other raw data than its
    /// own, they are NaN, with a warning: nobody knows that they are right.
    fn read_kept(content: &OutputContent) -> Result<Self> {
        let mut kept = read_existing(content.existing)?;
        let frames = content.frames_of_other_data();
        let mut any = false;
        for list in kept.counters.iter_mut().chain(&mut kept.positioners) {
            any |= list.forget(&frames);
        }
        if any {
            content.warn_of_forgotten_numbers(&frames);
        }
        Ok(kept)
    }

    /// Returns whether the raw file has a list that an existing final file has not, or has with other
    /// values. Lists that can't be read, or are in the final file only, are no difference: a new
    /// final file would have those of the existing one.
    ///
    /// # Errors
    /// Fails if a file can't be read.
    pub fn differ_in_raw(raw: &Group, scan: &Acquisition, existing: &OutputFile) -> Result<bool> {
        let now = read_raw(raw, scan, &mut Vec::new())?;
        let there = read_existing(Some(existing))?;
        let has_news = |now: &[CopiedValues], there: &[CopiedValues]| {
            let mut names = HashSet::new();
            // Of equal names, the first is copied.
            now.iter().filter(|values| names.insert(&values.name)).any(|values| {
                there.iter().find(|copy| copy.name == values.name).is_none_or(|copy| copy != values)
            })
        };
        Ok(has_news(&now.counters, &there.counters)
            || has_news(&now.positioners, &there.positioners))
    }

    /// Tells the lists of the raw file that can't be read, and takes them from the existing final
    /// file: an earlier run may have been able to read what this one can't.
    fn add_unreadable(
        &mut self,
        unreadable: &[UnreadableList],
        content: &OutputContent,
    ) -> Result<()> {
        if unreadable.is_empty() {
            return Ok(());
        }
        for UnreadableList { copies, name, why } in unreadable {
            content.warn_of_number(copies, name, why);
        }
        let existing = Self::read_kept(content)?;
        for (all, there, copies) in [
            (&mut self.counters, existing.counters, name::COUNTERS),
            (&mut self.positioners, existing.positioners, name::POSITIONERS),
        ] {
            let is_unreadable = |copy: &CopiedValues| {
                unreadable
                    .iter()
                    .any(|list| list.copies == copies && escape_name(&list.name) == copy.name)
            };
            all.extend(there.into_iter().filter(is_unreadable));
        }
        Ok(())
    }

    /// Returns XXH3-128 of names, values and units, in 32 hexadecimal digits.
    fn digest(&self) -> String {
        let mut hash = Xxh3::new();
        for all in [&self.counters, &self.positioners] {
            hash.update(&(all.len() as u64).to_le_bytes());
            let mut all: Vec<&CopiedValues> = all.iter().collect();
            all.sort_by(|one, other| one.name.cmp(&other.name));
            all.into_iter().for_each(|values| values.add_to(&mut hash));
        }
        format!("{:032x}", hash.digest128())
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
    /// Returns the digest of the counters and motors that the file holds.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub(crate) fn numbers_digest(&self) -> std::result::Result<String, OutputError> {
        let numbers = read_process(&self.process).map_err(OutputError::hdf5(&self.path))?;
        Ok(numbers.digest())
    }

    /// Returns the copy of a counter or motor, which has to have a value per frame; of a scan that is
    /// running or was aborted, some frames may have none, and the last values no frame. Of both, the
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
        let (frames, mut found) = (self.status.len(), None);
        let state = self.task.acquisition.scan_state();
        let has_ended = !matches!(state, ScanState::Running | ScanState::Aborted);
        for copies in [name::COUNTERS, name::POSITIONERS] {
            for copy in read_copies(&self.process, copies).map_err(&hdf5)? {
                let is_wanted = copy.name == wanted;
                match copy.list() {
                    Some(values) if has_ended && values.len() != frames => {
                        found = found.or(is_wanted.then(|| format_count(values.len(), "value")));
                    }
                    None => found = found.or(is_wanted.then(|| "a single number".to_owned())),
                    Some(mut values) if is_wanted => {
                        values.truncate(frames);
                        return Ok(FrameNumbers { name: copy.name, values, units: copy.units });
                    }
                    Some(_) => known.push(copy.name),
                }
            }
        }
        known.sort_unstable();
        known.dedup();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let found = found.map_or(String::new(), |found| format!(", which has {found}"));
        let why = format!(
            "no counter or motor `{name}` with a value for each of the {frames} frames{found}; there are: {known}"
        );
        Err(OutputError::content(&self.path, why))
    }
}

/// Returns the digest of the counters and motors that a final file holds.
///
/// # Errors
/// Fails if the file can't be read.
pub(crate) fn numbers_digest(path: &Path) -> std::result::Result<String, OutputError> {
    let read = || read_process(&default_process(&*Hdf5File::open(path)?)?);
    read().map(|numbers| numbers.digest()).map_err(OutputError::hdf5(path))
}

/// A list of the raw file that can't be read.
struct UnreadableList {
    /// The group of the final file that has a copy.
    copies: &'static str,
    name: String,
    why: Hdf5Error,
}

/// Reads the numbers of the raw file, and adds those that can't be read to `unreadable`.
fn read_raw(
    raw: &Group,
    scan: &Acquisition,
    unreadable: &mut Vec<UnreadableList>,
) -> Result<ScanNumbers> {
    let counters: Vec<(String, String)> =
        scan.counters.iter().map(|(name, path)| (name.clone(), path.clone())).collect();
    let counters = read_raw_lists(raw, &scan.file, &counters, name::COUNTERS, unreadable)?;
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
    let positioners = read_raw_lists(raw, &scan.file, &positioners, name::POSITIONERS, unreadable)?;
    Ok(ScanNumbers { counters, positioners })
}

/// Reads lists of the raw file, each given by its name and path. Those that can't be read are added to
/// `unreadable`.
fn read_raw_lists(
    raw: &Group,
    file: &Path,
    lists: &[(String, String)],
    copies: &'static str,
    unreadable: &mut Vec<UnreadableList>,
) -> Result<Vec<CopiedValues>> {
    let mut all = Vec::new();
    for (name, path) in lists {
        match read_list(raw, path, name, Some(file)) {
            Err(why) if matches!(why, Hdf5Error::Library(_)) || why.is_denied() => {
                unreadable.push(UnreadableList { copies, name: name.clone(), why });
            }
            found => all.extend(ignore_unusable(found)?.flatten()),
        }
    }
    Ok(all)
}

fn read_existing(existing: Option<&OutputFile>) -> Result<ScanNumbers> {
    existing.map_or_else(|| Ok(ScanNumbers::default()), |there| read_process(&there.process))
}

/// Reads the numbers that a final file holds below its NXprocess group.
fn read_process(process: &Group) -> Result<ScanNumbers> {
    let lists = |copies| read_copies(process, copies);
    Ok(ScanNumbers { counters: lists(name::COUNTERS)?, positioners: lists(name::POSITIONERS)? })
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
    let mut shape = dataset.shape()?;
    // A column of a table is a list, too.
    let is_list = shape.iter().skip(1).all(|extent| *extent == 1);
    if !is_list || dataset.size()? > MAX_COUNTER_VALUES {
        return Ok(None);
    }
    shape.truncate(1);
    let class = ignore_unusable(dataset.kind())?.flatten();
    let numbers = match (class, raw) {
        (Some(class), raw) => {
            if let Some(file) = raw
                && dataset.is_virtual()?
            {
                // The library reads fill values where a source is missing, and reports no error.
                read_by_worker(file, path)?;
            }
            read_numbers(&dataset, class)?
        }
        // Half-precision floats and booleans are numbers to the worker.
        (None, Some(file)) => match ignore_unusable(read_by_worker(file, path))? {
            Some(values) => NumericValues::Floats(values),
            None => return Ok(None),
        },
        (None, None) => return Ok(None),
    };
    let units = ignore_unusable(dataset.text_attribute("units"))?;
    Ok(Some(CopiedValues { name: escape_name(name), numbers, shape, units }))
}

/// Reads numbers of the raw file in the HDF5 worker, which fails if a source of a virtual dataset is
/// missing. `path` is that in the raw file, where it may be a link to another file.
fn read_by_worker(file: &Path, path: &str) -> Result<Vec<f64>> {
    hdf5_array::read_numbers(file, path).map_err(Hdf5Error::from)
}

fn read_numbers(dataset: &Dataset, class: NumberClass) -> Result<NumericValues> {
    Ok(match class {
        NumberClass::Float => NumericValues::Floats(dataset.values()?),
        NumberClass::Integer => NumericValues::Integers(dataset.values()?),
        NumberClass::Unsigned => NumericValues::Unsigned(dataset.values()?),
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
