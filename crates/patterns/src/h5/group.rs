//! Groups: what is in them, and how it gets there.

use std::ops::Range;

use hdf5::types::{OwnedDynValue, VarLenUnicode};
use hdf5::{H5Type, Hyperslab, SliceOrIndex};
use ndarray::ArrayViewD;

use super::attributes::{self, Attributes};
use super::dataset::{Dataset, DatasetElement, DatasetStorage};
use super::error::{ErrorLatch, Hdf5Error, Result};

/// A group of an open file.
#[derive(Clone)]
pub(crate) struct Group {
    group: hdf5::Group,
    errors: ErrorLatch,
}

/// A number that virtual datasets show.
pub(crate) trait VirtualElement: H5Type + Into<OwnedDynValue> {}
impl<T: H5Type + Into<OwnedDynValue>> VirtualElement for T {}

/// Rows of another file that a virtual dataset shows.
pub(crate) struct VirtualSource<'a> {
    /// The file, from the one that shows it.
    pub file: &'a str,
    /// How many rows it has in all.
    pub rows_of_file: usize,
    /// Which of them are shown.
    pub rows: Range<usize>,
    /// The first row as which they are shown.
    pub first: usize,
    /// How far these are apart.
    pub step: usize,
}

impl Group {
    pub(super) fn new(group: hdf5::Group, health: &ErrorLatch) -> Self {
        Self { group, errors: health.clone() }
    }

    pub(super) fn health(&self) -> &ErrorLatch {
        &self.errors
    }

    /// Its path in the file.
    pub fn name(&self) -> String {
        self.group.name()
    }

    /// Whether there is an object or link of this name, whatever it leads to.
    pub fn contains(&self, name: &str) -> Result<bool> {
        self.errors.call(|| frames::link_exists(&self.group, name))
    }

    /// Whether a path leads to an object, through whatever links. Where that can't be told it is an error, but for links
    /// that lead nowhere.
    pub fn resolves(&self, path: &str) -> Result<bool> {
        let found = self.errors.watch(|| self.group.loc_info_by_name(path).is_ok());
        self.errors.check::<bool, Hdf5Error>(Ok(found))
    }

    /// The names of what is in it.
    pub fn member_names(&self) -> Result<Vec<String>> {
        self.errors.call(|| self.group.member_names())
    }

    /// Opens a group in it.
    pub fn group(&self, path: &str) -> Result<Self> {
        self.check_path(path)?;
        self.errors.call(|| self.group.group(path)).map(|group| Self::new(group, &self.errors))
    }

    /// Opens a dataset in it.
    pub fn dataset(&self, path: &str) -> Result<Dataset> {
        self.check_path(path)?;
        self.errors.call(|| self.group.dataset(path)).map(|dataset| Dataset::new(dataset, path, &self.errors))
    }

    /// Opens a dataset; `None` where there is none.
    pub fn dataset_if_there(&self, name: &str) -> Result<Option<Dataset>> {
        if self.contains(name)? { self.dataset(name).map(Some) } else { Ok(None) }
    }

    /// Checks one link after the other: of a path whose middle is missing the library says that it can't tell.
    fn check_path(&self, path: &str) -> Result<()> {
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for end in ends.filter(|end| *end > 0) {
            if !self.contains(&path[..end])? {
                return Err(Hdf5Error::NotFound(path.to_owned()));
            }
        }
        Ok(())
    }

    /// Reads a list of numbers.
    pub fn read_list<T: H5Type>(&self, name: &str) -> Result<Vec<T>> {
        self.dataset(name)?.values()
    }

    /// Reads a text dataset.
    pub fn text(&self, name: &str) -> Result<String> {
        self.dataset(name)?.text()
    }

    /// Makes a group in it.
    pub fn create_group(&self, name: &str) -> Result<Self> {
        self.errors.check(self.group.create_group(name)).map(|group| Self::new(group, &self.errors))
    }

    /// Writes a text dataset.
    pub fn write_text(&self, name: &str, text: &str) -> Result<Dataset> {
        let write = || {
            let dataset = self.group.new_dataset::<VarLenUnicode>().obj_track_times(false).create(name)?;
            dataset.write_scalar(&attributes::to_hdf5_text(text))?;
            Ok::<_, hdf5::Error>(dataset)
        };
        self.wrap_dataset(name, write())
    }

    /// Writes a list of texts.
    pub fn write_texts(&self, name: &str, texts: &[String]) -> Result<Dataset> {
        let texts: Vec<VarLenUnicode> = texts.iter().map(|text| attributes::to_hdf5_text(text)).collect();
        self.wrap_dataset(name, self.group.new_dataset_builder().with_data(&texts).obj_track_times(false).create(name))
    }

    /// Writes a list of numbers.
    pub fn write_list<T: H5Type>(&self, name: &str, values: &[T]) -> Result<Dataset> {
        self.wrap_dataset(name, self.group.new_dataset_builder().with_data(values).obj_track_times(false).create(name))
    }

    /// Writes numbers of a shape.
    pub fn write_array<T: H5Type>(&self, name: &str, values: &[T], shape: &[usize]) -> Result<Dataset> {
        let values = ArrayViewD::from_shape(shape, values).map_err(|why| why.to_string())?;
        self.wrap_dataset(name, self.group.new_dataset_builder().with_data(values).obj_track_times(false).create(name))
    }

    /// Writes a dataset of one number.
    pub fn write_scalar<T: H5Type>(&self, name: &str, value: T) -> Result<Dataset> {
        let write = || {
            let dataset = self.group.new_dataset::<T>().obj_track_times(false).create(name)?;
            dataset.write_scalar(&value)?;
            Ok::<_, hdf5::Error>(dataset)
        };
        self.wrap_dataset(name, write())
    }

    /// Makes an empty dataset.
    pub fn create_dataset<T: DatasetElement>(
        &self,
        name: &str,
        shape: &[usize],
        form: &DatasetStorage,
    ) -> Result<Dataset> {
        self.wrap_dataset(name, form.create::<T>(&self.group, name, shape))
    }

    /// Makes a dataset that shows rows of `dataset` in other files, and `nothing` elsewhere.
    pub fn create_virtual<T: VirtualElement>(
        &self,
        name: &str,
        shape: &[usize],
        nothing: T,
        dataset: &str,
        mappings: &[VirtualSource],
    ) -> Result<Dataset> {
        let row = &shape[1..];
        let whole = || row.iter().map(|_| SliceOrIndex::from(..));
        let select = |rows: SliceOrIndex| Hyperslab::from(std::iter::once(rows).chain(whole()).collect::<Vec<_>>());
        let mut builder = self.group.new_dataset::<T>().shape(shape).fill_value(nothing).obj_track_times(false);
        for VirtualSource { file, rows_of_file, rows, first, step } in mappings {
            let shown = SliceOrIndex::SliceCount { start: *first, step: *step, count: rows.len(), block: 1 };
            let of_file: Vec<usize> = std::iter::once(*rows_of_file).chain(row.iter().copied()).collect();
            builder = builder.virtual_map(file, dataset, of_file, select(rows.clone().into()), shape, select(shown));
        }
        self.wrap_dataset(name, builder.create(name))
    }

    /// Makes a dataset that shows one entry of a dimension of another dataset in the same file.
    pub fn create_view(
        &self,
        name: &str,
        source: &Dataset,
        path: &str,
        dimension: usize,
        entry: usize,
    ) -> Result<Dataset> {
        let extents = source.shape();
        let select = |axis| {
            if axis == dimension { SliceOrIndex::from(entry..entry.saturating_add(1)) } else { SliceOrIndex::from(..) }
        };
        let selection = Hyperslab::from((0..extents.len()).map(select).collect::<Vec<_>>());
        let mut shape = extents.clone();
        shape.remove(dimension);
        let create = || {
            let builder = self.group.new_dataset_builder().empty_as(&source.descriptor()?).obj_track_times(false);
            builder.shape(shape.clone()).virtual_map(".", path, extents, selection, shape, ..).create(name)
        };
        self.wrap_dataset(name, create())
    }

    /// Makes a link to a path in the same file.
    pub fn link_soft(&self, path: &str, name: &str) -> Result<()> {
        self.errors.check(self.group.link_soft(path, name))
    }

    /// Gives an object a further name.
    pub fn link_hard(&self, path: &str, name: &str) -> Result<()> {
        self.errors.check(self.group.link_hard(path, name))
    }

    /// Makes a link to a path in another file.
    pub fn link_external(&self, file: &str, path: &str, name: &str) -> Result<()> {
        self.errors.check(self.group.link_external(file, path, name))
    }

    fn wrap_dataset(&self, name: &str, made: std::result::Result<hdf5::Dataset, hdf5::Error>) -> Result<Dataset> {
        self.errors.check(made).map(|dataset| Dataset::new(dataset, name, &self.errors))
    }

    fn attributes(&self) -> Attributes<'_> {
        Attributes { at: &self.group, health: &self.errors }
    }

    /// Writes a text attribute.
    pub fn set_text(&self, name: &str, text: &str) -> Result<()> {
        self.attributes().set_text(name, text)
    }

    /// Writes an attribute that is a list of texts.
    pub fn set_texts(&self, name: &str, texts: &[&str]) -> Result<()> {
        self.attributes().set_texts(name, texts)
    }

    /// Writes an attribute that is a number.
    pub fn set_number<T: H5Type>(&self, name: &str, number: T) -> Result<()> {
        self.attributes().set_number(name, number)
    }

    /// Whether it has an attribute of this name.
    pub fn has_attribute(&self, name: &str) -> Result<bool> {
        self.errors.call(|| frames::attribute_exists(&self.group, name))
    }

    /// Reads a text attribute.
    pub fn text_attribute(&self, name: &str) -> Result<String> {
        self.attributes().text(name)
    }

    /// Reads an attribute that is a list of texts.
    pub fn texts_attribute(&self, name: &str) -> Result<Vec<String>> {
        self.attributes().texts(name)
    }

    /// Reads an attribute that is a number.
    pub fn number_attribute<T: H5Type>(&self, name: &str) -> Result<T> {
        self.attributes().number(name)
    }
}
