//! Edits of HDF5 files through the library: values, types, shapes, texts, attributes and links,
//! while the file stays one that the library reads.

use hdf5::plist::dataset_create::Layout;
use hdf5::types::{FloatSize, IntSize, TypeDescriptor, VarLenUnicode};
use hdf5::{Dataset, File, Group, H5Type, Location};

use crate::input::Input;

/// The contents of an HDF5 file: the paths of its datasets and groups, and attributes with their
/// objects.
pub struct Catalog {
    pub datasets: Vec<String>,
    groups: Vec<String>,
    attributes: Vec<(String, String)>,
}

impl Catalog {
    /// Lists all of a file.
    pub fn new(file: &File) -> Self {
        let mut all = Self { datasets: Vec::new(), groups: Vec::new(), attributes: Vec::new() };
        all.add(&file.group("/").expect("a root"));
        all
    }

    fn add(&mut self, group: &Group) {
        self.add_attributes(group);
        self.groups.push(group.name());
        for dataset in group.datasets().unwrap_or_default() {
            self.add_attributes(&dataset);
            self.datasets.push(dataset.name());
        }
        group.groups().unwrap_or_default().iter().for_each(|group| self.add(group));
    }

    fn add_attributes(&mut self, of: &Location) {
        let names = of.attr_names().unwrap_or_default();
        self.attributes.extend(names.into_iter().map(|name| (of.name(), name)));
    }
}

/// Makes up to eight edits. What the library refuses is left out.
pub fn edit(file: &File, catalog: &Catalog, input: &mut Input) {
    for _ in 0..8 {
        if input.is_empty() {
            return;
        }
        let _ = edit_once(file, catalog, input);
    }
}

fn edit_once(file: &File, catalog: &Catalog, input: &mut Input) -> hdf5::Result<()> {
    let dataset = |input: &mut Input| input.one_of(&catalog.datasets).cloned().unwrap_or_default();
    match input.byte() % 12 {
        0..4 => change_value(&file.dataset(&dataset(input))?, input),
        4 => replace(file, &dataset(input), input),
        5 => change_text(&file.dataset(&dataset(input))?, input),
        6 => file.unlink(&dataset(input)),
        7 => file.unlink(input.one_of(&catalog.groups).map_or("/", String::as_str)),
        8..10 => change_attribute(file, catalog, input),
        10 => {
            let (from, to) = (dataset(input), dataset(input));
            file.unlink(&from)?;
            file.link_hard(&to, &from)
        }
        _ => {
            let (from, mut to) = (dataset(input), dataset(input));
            file.unlink(&from)?;
            match input.byte() % 4 {
                0 => file.create_group(&from).map(drop),
                1 => {
                    file.link_hard(input.one_of(&catalog.groups).map_or("/", String::as_str), &from)
                }
                // A ring of one, or one that leads on.
                2 => file.link_soft(&from, &from),
                _ => {
                    to.push('x');
                    file.link_soft(&to, &from)
                }
            }
        }
    }
}

/// Changes one value of a dataset of numbers.
fn change_value(dataset: &Dataset, input: &mut Input) -> hdf5::Result<()> {
    match dataset.dtype()?.to_descriptor()? {
        TypeDescriptor::Float(FloatSize::U8) => {
            change_number::<f64>(dataset, input, f64::from_bits)
        }
        TypeDescriptor::Float(_) => {
            change_number::<f32>(dataset, input, |bits| f64::from_bits(bits) as f32)
        }
        TypeDescriptor::Unsigned(IntSize::U1) => {
            change_number::<u8>(dataset, input, |bits| bits as u8)
        }
        TypeDescriptor::Unsigned(_) | TypeDescriptor::Integer(_) => {
            change_number::<u64>(dataset, input, |bits| bits)
        }
        _ => change_text(dataset, input),
    }
}

fn change_number<T: H5Type + Clone>(
    dataset: &Dataset,
    input: &mut Input,
    from_bits: impl Fn(u64) -> T,
) -> hdf5::Result<()> {
    let mut values: Vec<T> = read_stored(dataset)?;
    let at = input.below(values.len());
    let value = from_bits(input.odd_number());
    if let Some(old) = values.get_mut(at) {
        *old = value;
    }
    dataset.write_raw(&values)
}

/// Reads the values of a dataset that is not virtual. The library would read a virtual one that
/// shows itself until its stack overflows.
pub fn read_stored<T: H5Type>(dataset: &Dataset) -> hdf5::Result<Vec<T>> {
    match dataset.layout() {
        Layout::Virtual => Err("a virtual dataset".into()),
        _ => dataset.read_raw(),
    }
}

/// Puts another dataset in the place of one: of another shape, and maybe of another type.
fn replace(file: &File, name: &str, input: &mut Input) -> hdf5::Result<()> {
    let old = file.dataset(name)?;
    let (mut shape, same) = (old.shape(), old.dtype()?.to_descriptor()?);
    let attributes: Vec<(String, VarLenUnicode)> = old
        .attr_names()?
        .into_iter()
        .filter_map(|attribute| {
            Some((attribute.clone(), old.attr(&attribute).ok()?.read_scalar().ok()?))
        })
        .collect();
    match input.byte() % 6 {
        0 => shape.push(input.below(4)),
        1 => drop(shape.pop()),
        2 => shape.insert(0, input.below(9)),
        3 => {
            let at = input.below(shape.len());
            if let Some(extent) = shape.get_mut(at) {
                *extent = input.below(40);
            }
        }
        4 => shape.iter_mut().for_each(|extent| *extent = 0),
        _ => (),
    }
    drop(old);
    file.unlink(name)?;
    let types = [
        same,
        TypeDescriptor::Float(FloatSize::U8),
        TypeDescriptor::Float(FloatSize::U4),
        TypeDescriptor::Unsigned(IntSize::U1),
        TypeDescriptor::Unsigned(IntSize::U8),
        TypeDescriptor::Integer(IntSize::U4),
        TypeDescriptor::VarLenUnicode,
        TypeDescriptor::FixedAscii(5),
        TypeDescriptor::VarLenArray(Box::new(TypeDescriptor::Float(FloatSize::U8))),
        TypeDescriptor::Boolean,
    ];
    let kind = input.one_of(&types).expect("there are some").clone();
    let new = file.new_dataset_builder().empty_as(kind).shape(shape).create(name)?;
    for (attribute, text) in attributes {
        new.new_attr::<VarLenUnicode>().create(attribute.as_str())?.write_scalar(&text)?;
    }
    Ok(())
}

fn change_text(dataset: &Dataset, input: &mut Input) -> hdf5::Result<()> {
    let text: VarLenUnicode = dataset.read_scalar()?;
    dataset.write_scalar(&other_text(text.as_str(), input))
}

/// A text with a few characters taken out, and others put in their place.
fn other_text(text: &str, input: &mut Input) -> VarLenUnicode {
    let mut chars: Vec<char> = text.chars().collect();
    let from = input.below(chars.len() + 1);
    let to = (from + input.below(8)).min(chars.len());
    let number = input.odd_number().to_string();
    let put = match input.byte() % 4 {
        0 => String::from_utf8_lossy(input.bytes(16)).into_owned(),
        1 => number,
        2 => ["null", "NaN", "../", "/", "\\u0000", "[]", "-1", "\n"][input.below(8)].to_owned(),
        _ => String::new(),
    };
    drop(chars.splice(from..to, put.chars()));
    // HDF5 ends a text at its first NUL.
    let text: String = chars.into_iter().filter(|letter| *letter != '\0').collect();
    text.parse().expect("a text without NUL")
}

fn change_attribute(file: &File, catalog: &Catalog, input: &mut Input) -> hdf5::Result<()> {
    let Some((object, name)) = input.one_of(&catalog.attributes) else { return Ok(()) };
    match file.group(object) {
        Ok(group) => change_attribute_of(&group, name, input),
        Err(_) => {
            let dataset = file.dataset(object)?;
            change_attribute_of(&dataset, name, input)
        }
    }
}

fn change_attribute_of(object: &Location, name: &str, input: &mut Input) -> hdf5::Result<()> {
    let attribute = object.attr(name)?;
    let kind = input.byte() % 4;
    if kind == 0 {
        return object.delete_attr(name);
    }
    if let Ok(text) = attribute.read_scalar::<VarLenUnicode>() {
        let text = other_text(text.as_str(), input);
        if kind == 1 {
            object.delete_attr(name)?;
            let texts = vec![text; input.below(4)];
            return object.new_attr_builder().with_data(&texts).create(name).map(drop);
        }
        return attribute.write_scalar(&text);
    }
    let number = f64::from_bits(input.odd_number());
    if attribute.write_scalar(&number).is_err() {
        object.delete_attr(name)?;
        object.new_attr::<f64>().create(name)?.write_scalar(&number)?;
    }
    Ok(())
}
