//! Copies of the scan's counters and motor positions, so that a final says what was measured without the raw file.

use super::tree::{entry_name, group, name, plain};
use super::write::Content;
use crate::h5::{Dataset, Error, Group, Kind, Result};

/// Longer lists are no counters of a scan.
const MOST_VALUES: usize = 1 << 22;

/// Numbers that were read, and their name and units.
struct Copied {
    name: String,
    numbers: Numbers,
    shape: Vec<usize>,
    units: Option<String>,
}

enum Numbers {
    Floats(Vec<f64>),
    Integers(Vec<i64>),
    Unsigned(Vec<u64>),
}

/// Copies numbers, with their units, into `counters` and `positioners` of a process: from the raw file, or, where
/// that can't be read any more, from the final that there is. What is no list of numbers is left out.
///
/// # Errors
/// The final can't be written, or the one that there is can't be read.
pub(super) fn write(process: &Group, content: &Content) -> Result<()> {
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

fn read_raw(raw: &Group, content: &Content) -> Result<[Vec<Copied>; 2]> {
    let scan = &content.target.task().acquisition;
    let mut counters = Vec::new();
    for (name, path) in &scan.counters {
        counters.extend(read(raw, path, name)?);
    }
    let entry = format!("/{}/", entry_name(&scan.entry));
    if !scan.dataset.starts_with(&entry) {
        return Ok([counters, Vec::new()]);
    }
    let positioners = raw.group(&format!("{entry}instrument/positioners"));
    Ok([counters, if_usable(positioners)?.map_or_else(|| Ok(Vec::new()), |group| read_children(&group))?])
}

fn read_existing(content: &Content) -> Result<[Vec<Copied>; 2]> {
    let Some(existing) = content.existing else { return Ok([Vec::new(), Vec::new()]) };
    let all = |name| match existing.process.has(name)? {
        true => read_children(&existing.process.group(name)?),
        false => Ok(Vec::new()),
    };
    Ok([all(name::COUNTERS)?, all(name::POSITIONERS)?])
}

/// What can be used; `None` for what is of another kind, or is not there. An error where that can't be told.
fn if_usable<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(why @ (Error::Io(_) | Error::Damaged(_))) => Err(why),
        Err(Error::Absent(_) | Error::Library(_)) => Ok(None),
    }
}

fn read_children(group: &Group) -> Result<Vec<Copied>> {
    let names = if_usable(group.names())?.unwrap_or_default();
    let mut all = Vec::new();
    for name in names {
        all.extend(read(group, &name, &name)?);
    }
    Ok(all)
}

/// Reads a list of numbers; `None` where there is none.
fn read(group: &Group, path: &str, name: &str) -> Result<Option<Copied>> {
    let Some(dataset) = if_usable(group.dataset(path))? else { return Ok(None) };
    let shape = dataset.shape();
    if shape.len() > 1 || dataset.size() > MOST_VALUES {
        return Ok(None);
    }
    let Some(numbers) = if_usable(read_numbers(&dataset))?.flatten() else { return Ok(None) };
    let units = if_usable(dataset.text_attribute("units"))?;
    Ok(Some(Copied { name: plain(name), numbers, shape, units }))
}

fn read_numbers(dataset: &Dataset) -> Result<Option<Numbers>> {
    Ok(match dataset.kind()? {
        Some(Kind::Float) => Some(Numbers::Floats(dataset.values()?)),
        Some(Kind::Integer) => Some(Numbers::Integers(dataset.values()?)),
        Some(Kind::Unsigned) => Some(Numbers::Unsigned(dataset.values()?)),
        None => None,
    })
}

fn write_all(process: &Group, name: &str, all: Vec<Copied>) -> Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    let copies = group(process, name, "NXcollection")?;
    for Copied { name, numbers, shape, units } in all {
        if copies.has(&name)? {
            continue;
        }
        let copied = match numbers {
            Numbers::Floats(values) => copies.write_array(&name, &values, &shape)?,
            Numbers::Integers(values) => copies.write_array(&name, &values, &shape)?,
            Numbers::Unsigned(values) => copies.write_array(&name, &values, &shape)?,
        };
        units.map_or(Ok(()), |units| copied.set_text("units", &units))?;
    }
    Ok(())
}
