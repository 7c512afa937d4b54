//! The difference between the files of a run and those of a run without faults.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

use hdf5::types::{TypeDescriptor, VarLenAscii, VarLenUnicode};
use hdf5::{Container, Group, Location};

use super::state::Tree;
use crate::support::{create_hdf5, nexus_group, write_text};

/// Returns a message about the first file that differs from the goal; `None` if there is none.
///
/// Text files have to be the same to the byte, but for the line of a report that says when it was
/// written, and that of its digest. HDF5 files hold that time, too, so their datasets and attributes
/// are compared. Matrices are a cache, which may be missing. Digests of exports include those of the
/// contents before.
pub fn find_difference(goal: &Tree, found: &Tree) -> Option<String> {
    let extension =
        |name: &Path| name.extension().unwrap_or_default().to_string_lossy().into_owned();
    let files =
        goal.0.iter().filter(|(name, content)| content.is_some() && extension(name) != "matrix");
    files.into_iter().find_map(|(name, content)| match (found.0.get(name), &*extension(name)) {
        (None, _) => Some(format!("{} is missing", name.display())),
        (Some(Some(there)), "h5" | "nxs") if Some(there) != content.as_ref() => {
            let difference = compare_hdf5(content.as_deref().unwrap_or_default(), there);
            difference.map(|why| format!("{}: {why}", name.display()))
        }
        (Some(_), "json") if name.starts_with("out/.azpipe/exports") => None,
        (Some(there), "html") if without_time(there).eq(without_time(content)) => None,
        (Some(there), _) => (there != content).then(|| {
            let pair = without_time(there)
                .zip(without_time(content))
                .find(|(found, expected)| found != expected);
            let (found, expected) = pair.unwrap_or_default();
            format!(
                "{} is another: {:?} in place of {:?}",
                name.display(),
                cut(found),
                cut(expected)
            )
        }),
    })
}

/// Returns the beginning of a line as text.
fn cut(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(300)]).into_owned()
}

/// Returns the lines of a file but those with the time and the digest of a report.
fn without_time(content: &Option<Vec<u8>>) -> impl Iterator<Item = &[u8]> {
    let lines = content.as_deref().unwrap_or_default().split(|byte| *byte == b'\n');
    let has = |line: &[u8], words: &[u8]| line.windows(words.len()).any(|part| part == words);
    lines.filter(move |line| {
        !has(line, b"<br>azpipe ") && !has(line, b"<meta name=\"generator\" content=\"azpipe ")
    })
}

/// Returns a message that names files which the goal does not have; `None` if there are none.
pub fn find_leftover_files(goal: &Tree, found: &Tree) -> Option<String> {
    let known = goal.files();
    let more: Vec<String> = found
        .files()
        .into_iter()
        .filter(|name| !known.contains(name))
        .map(|name| name.display().to_string())
        .collect();
    (!more.is_empty()).then(|| format!("there is {}", more.join(", ")))
}

/// Datasets and attributes that differ from run to run, by the end of their paths: when a file was
/// written, the digests of parts, which hold that, too, and a digest of both.
const VOLATILE: [&str; 3] = ["/date", "/coverage/parts", "@coverage_digest"];

/// Returns a message about the first dataset or attribute in which two HDF5 files differ.
fn compare_hdf5(expected: &[u8], found: &[u8]) -> Option<String> {
    let [expected, found] = [expected, found].map(hdf5_content);
    let names: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    names.into_iter().find(|name| expected.get(*name) != found.get(*name)).map(|name| {
        let text = |content: &BTreeMap<String, String>| match content.get(name) {
            Some(value) => value.chars().take(200).collect(),
            None => "nothing".to_owned(),
        };
        format!("{name} is {} in place of {}", text(&found), text(&expected))
    })
}

/// Returns the values of all datasets and attributes of a file, without those of files that it links
/// to.
fn hdf5_content(bytes: &[u8]) -> BTreeMap<String, String> {
    let mut copy = tempfile::NamedTempFile::new().expect("a file");
    copy.write_all(bytes).expect("a file");
    let mut content = BTreeMap::new();
    match hdf5::File::open(copy.path()) {
        Err(why) => drop(content.insert("the file".to_owned(), why.to_string())),
        Ok(file) => add_group(&file, &file.filename(), &mut content),
    }
    content.retain(|name, _| !VOLATILE.iter().any(|volatile| name.ends_with(volatile)));
    content
}

fn add_group(group: &Group, file: &str, content: &mut BTreeMap<String, String>) {
    add_attributes(group, content);
    for name in group.member_names().expect("names") {
        let path = format!("{}/{name}", group.name().trim_end_matches('/'));
        if let Ok(dataset) = group.dataset(&name) {
            if dataset.filename() == file {
                add_attributes(&dataset, content);
                content.insert(path, format!("{:?} {}", dataset.shape(), values(&dataset)));
            }
        } else if let Ok(inner) = group.group(&name)
            && inner.filename() == file
        {
            // A soft link shows what is listed at its own place, too.
            if inner.name() == path {
                add_group(&inner, file, content);
            }
        } else {
            content.insert(path, "a link".to_owned());
        }
    }
}

fn add_attributes(location: &Location, content: &mut BTreeMap<String, String>) {
    for name in location.attr_names().expect("names") {
        let value = location.attr(&name).map_or_else(|why| why.to_string(), |attr| values(&attr));
        content.insert(format!("{}@{name}", location.name()), value);
    }
}

/// Returns the values of a dataset or attribute as text.
fn values(container: &Container) -> String {
    use TypeDescriptor as Type;
    let of = |result: hdf5::Result<String>| result.unwrap_or_else(|why| why.to_string());
    match container.dtype().and_then(|dtype| dtype.to_descriptor()) {
        Err(why) => why.to_string(),
        Ok(Type::Unsigned(_)) => of(container.read_raw::<u64>().map(|all| format!("{all:?}"))),
        Ok(Type::Integer(_) | Type::Boolean) => {
            of(container.read_raw::<i64>().map(|all| format!("{all:?}")))
        }
        Ok(Type::Float(_)) => of(container.read_raw::<f64>().map(|all| format!("{all:?}"))),
        Ok(Type::VarLenUnicode) => of(container
            .read_raw::<VarLenUnicode>()
            .map(|all| format!("{:?}", all.iter().map(VarLenUnicode::as_str).collect::<Vec<_>>()))),
        Ok(Type::VarLenAscii) => of(container
            .read_raw::<VarLenAscii>()
            .map(|all| format!("{:?}", all.iter().map(VarLenAscii::as_str).collect::<Vec<_>>()))),
        Ok(other) => format!("{other:?}"),
    }
}

#[test]
fn a_value_an_attribute_or_a_name_that_differs_is_found() {
    let file = |value: f64, unit: &str, name: &str| {
        let place = tempfile::NamedTempFile::new().unwrap();
        let file = create_hdf5(place.path());
        let dataset = file.new_dataset_builder().with_data(&[1.0, value]).create("q").unwrap();
        let unit: VarLenUnicode = unit.parse().unwrap();
        dataset.new_attr::<VarLenUnicode>().create("units").unwrap().write_scalar(&unit).unwrap();
        write_text(&nexus_group(&file, "entry", "NXentry"), name, "LaB6");
        write_text(&file, "date", &format!("{value} {unit}"));
        // An open object would keep the file open.
        drop(dataset);
        file.close().unwrap();
        std::fs::read(place.path()).unwrap()
    };
    let expected = file(2.0, "A", "title");
    assert_eq!(compare_hdf5(&expected, &file(2.0, "A", "title")), None);
    for (other, what) in [
        (file(2.5, "A", "title"), "/q is [2] [1.0, 2.5] in place of [2] [1.0, 2.0]"),
        (file(2.0, "nm", "title"), "/q@units is [\"nm\"] in place of [\"A\"]"),
        (file(2.0, "A", "name"), "/entry/name is [] [\"LaB6\"] in place of nothing"),
    ] {
        assert_eq!(compare_hdf5(&expected, &other).as_deref(), Some(what));
    }
}
