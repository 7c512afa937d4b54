//! Groups of HDF5 files: their members, links and attributes.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use frames::ScaledDataset;
use frames::file_check::check_virtual_dataset;
use hdf5::types::{OwnedDynValue, VarLenUnicode};
use hdf5::{H5Type, Hyperslab, LinkType, SliceOrIndex};
use ndarray::ArrayViewD;

use super::attributes::{self, Attributes};
use super::dataset::{Dataset, DatasetElement, DatasetStorage};
use super::error::{ErrorLatch, Hdf5Error, Result};

/// A group of an open file.
#[derive(Clone)]
pub(crate) struct Group {
    group: hdf5::Group,
    errors: ErrorLatch,
    /// Path of the file that is read, if azpipe wrote it.
    own_file: Option<Arc<Path>>,
}

/// Number type that a virtual dataset can have.
pub(crate) trait VirtualElement: H5Type + Into<OwnedDynValue> {}
impl<T: H5Type + Into<OwnedDynValue>> VirtualElement for T {}

/// Rows of another file that a virtual dataset shows.
pub(crate) struct VirtualSource<'a> {
    /// Path of the other file, relative to the file with the virtual dataset.
    pub file: &'a str,
    /// Number of rows of the dataset in the other file.
    pub rows_of_file: usize,
    /// Rows of the dataset that are shown.
    pub rows: Range<usize>,
    /// Row of the virtual dataset that shows the first of these rows.
    pub first: usize,
    /// Distance of the rows in the virtual dataset.
    pub step: usize,
}

impl Group {
    pub(super) fn new(
        group: hdf5::Group,
        health: &ErrorLatch,
        own_file: Option<Arc<Path>>,
    ) -> Self {
        Self { group, errors: health.clone(), own_file }
    }

    /// Returns another group of the same file.
    fn sibling(&self, group: hdf5::Group) -> Self {
        Self::new(group, &self.errors, self.own_file.clone())
    }

    pub(super) fn health(&self) -> &ErrorLatch {
        &self.errors
    }

    /// Returns the path of the group in the file.
    pub fn name(&self) -> String {
        self.group.name()
    }

    /// Returns whether the group has a link of this name. The link may be dangling.
    pub fn contains(&self, name: &str) -> Result<bool> {
        self.errors.call(|| frames::link_exists(&self.group, name))
    }

    /// Returns the names of the members.
    pub fn member_names(&self) -> Result<Vec<String>> {
        self.errors.call(|| self.group.member_names())
    }

    /// Returns the names of the members that are links of some types.
    pub fn members(&self, is_wanted: impl Fn(LinkType) -> bool) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut add = |name: &str, link: hdf5::LinkInfo| {
            if is_wanted(link.link_type) {
                names.push(name.to_owned());
            }
            Ok(())
        };
        self.errors.call(|| self.group.iter_visit_default(&mut add))?;
        Ok(names)
    }

    /// Opens a group below this one.
    pub fn group(&self, path: &str) -> Result<Self> {
        self.check_path(path)?;
        self.errors.call(|| self.group.group(path)).map(|group| self.sibling(group))
    }

    /// Opens a dataset below this group. In a file of azpipe, a virtual dataset must show stored
    /// datasets: the library would read one that shows itself until its stack overflows.
    pub fn dataset(&self, path: &str) -> Result<Dataset> {
        self.check_path(path)?;
        let dataset = self
            .errors
            .call(|| self.group.dataset(path))
            .map(|dataset| Dataset::new(dataset, path, &self.errors))?;
        if let Some(file) = &self.own_file
            && dataset.is_virtual()?
        {
            check_virtual_dataset(file, &format!("{}/{path}", self.name()))?;
        }
        Ok(dataset)
    }

    /// Opens a dataset; `None` if there is none of this name.
    pub fn dataset_if_there(&self, name: &str) -> Result<Option<Dataset>> {
        if self.contains(name)? { self.dataset(name).map(Some) } else { Ok(None) }
    }

    /// Checks each link of a path. If an intermediate link is missing, the library does not report
    /// that the object is missing.
    fn check_path(&self, path: &str) -> Result<()> {
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for end in ends.filter(|end| *end > 0) {
            if !self.contains(&path[..end])? {
                return Err(Hdf5Error::NotFound(path.to_owned()));
            }
        }
        Ok(())
    }

    /// Reads all values of a dataset of numbers that are stored as `T`.
    pub fn read_list<T: H5Type>(&self, name: &str) -> Result<Vec<T>> {
        let dataset = self.dataset(name)?;
        dataset.check_type::<T>()?;
        dataset.values()
    }

    /// Reads numbers that are stored as `T` in this shape, row-major.
    pub fn read_array<T: H5Type>(&self, name: &str, shape: &[usize]) -> Result<Vec<T>> {
        let dataset = self.dataset(name)?;
        dataset.check_stored_as::<T>(shape)?;
        dataset.values()
    }

    /// Checks that there is a dataset of numbers that are stored as `T` in this shape.
    pub fn check_dataset<T: H5Type>(&self, name: &str, shape: &[usize]) -> Result<()> {
        self.dataset(name)?.check_stored_as::<T>(shape)
    }

    /// Reads a dataset that holds one text.
    pub fn text(&self, name: &str) -> Result<String> {
        self.dataset(name)?.text()
    }

    /// Creates a group below this one.
    pub fn create_group(&self, name: &str) -> Result<Self> {
        self.errors.check(self.group.create_group(name)).map(|group| self.sibling(group))
    }

    /// Creates a dataset with one text.
    pub fn write_text(&self, name: &str, text: &str) -> Result<Dataset> {
        let write = || {
            let dataset =
                self.group.new_dataset::<VarLenUnicode>().obj_track_times(false).create(name)?;
            dataset.write_scalar(&attributes::to_hdf5_text(text))?;
            Ok::<_, hdf5::Error>(dataset)
        };
        self.wrap_dataset(name, write())
    }

    /// Creates a dataset with a list of texts.
    pub fn write_texts(&self, name: &str, texts: &[String]) -> Result<Dataset> {
        let texts: Vec<VarLenUnicode> =
            texts.iter().map(|text| attributes::to_hdf5_text(text)).collect();
        self.wrap_dataset(
            name,
            self.group.new_dataset_builder().with_data(&texts).obj_track_times(false).create(name),
        )
    }

    /// Creates a dataset with a list of numbers.
    pub fn write_list<T: H5Type>(&self, name: &str, values: &[T]) -> Result<Dataset> {
        self.wrap_dataset(
            name,
            self.group.new_dataset_builder().with_data(values).obj_track_times(false).create(name),
        )
    }

    /// Creates a dataset with numbers in this shape.
    pub fn write_array<T: H5Type>(
        &self,
        name: &str,
        values: &[T],
        shape: &[usize],
    ) -> Result<Dataset> {
        let values = ArrayViewD::from_shape(shape, values).map_err(|why| why.to_string())?;
        self.wrap_dataset(
            name,
            self.group.new_dataset_builder().with_data(values).obj_track_times(false).create(name),
        )
    }

    /// Creates a dataset with one number.
    pub fn write_scalar<T: H5Type>(&self, name: &str, value: T) -> Result<Dataset> {
        let write = || {
            let dataset = self.group.new_dataset::<T>().obj_track_times(false).create(name)?;
            dataset.write_scalar(&value)?;
            Ok::<_, hdf5::Error>(dataset)
        };
        self.wrap_dataset(name, write())
    }

    /// Creates an empty dataset.
    pub fn create_dataset<T: DatasetElement>(
        &self,
        name: &str,
        shape: &[usize],
        form: &DatasetStorage,
    ) -> Result<Dataset> {
        self.wrap_dataset(name, form.create::<T>(&self.group, name, shape))
    }

    /// Creates a virtual dataset that shows rows of the dataset `dataset` in other files. All other
    /// rows are `nothing`.
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
        let select = |rows: SliceOrIndex| {
            Hyperslab::from(std::iter::once(rows).chain(whole()).collect::<Vec<_>>())
        };
        let mut builder =
            self.group.new_dataset::<T>().shape(shape).fill_value(nothing).obj_track_times(false);
        for VirtualSource { file, rows_of_file, rows, first, step } in mappings {
            let shown = SliceOrIndex::SliceCount {
                start: *first,
                step: *step,
                count: rows.len(),
                block: 1,
            };
            let of_file: Vec<usize> =
                std::iter::once(*rows_of_file).chain(row.iter().copied()).collect();
            builder = builder.virtual_map(
                escape_percent(file),
                escape_percent(dataset),
                of_file,
                select(rows.clone().into()),
                shape,
                select(shown),
            );
        }
        self.wrap_dataset(name, builder.create(name))
    }

    /// Creates a virtual dataset that shows another dataset in the same file: all of it, or one
    /// entry along a dimension, given as `(dimension, entry)`.
    pub fn create_view(
        &self,
        name: &str,
        source: &Dataset,
        path: &str,
        slice: Option<(usize, usize)>,
    ) -> Result<Dataset> {
        let extents = source.shape()?;
        let select = |axis| match slice {
            Some((dimension, entry)) if axis == dimension => {
                SliceOrIndex::from(entry..entry.saturating_add(1))
            }
            _ => SliceOrIndex::from(..),
        };
        let selection = Hyperslab::from((0..extents.len()).map(select).collect::<Vec<_>>());
        let mut shape = extents.clone();
        if let Some((dimension, _)) = slice {
            shape.remove(dimension);
        }
        let create = || {
            let builder = self
                .group
                .new_dataset_builder()
                .empty_as(&source.descriptor()?)
                .obj_track_times(false);
            builder
                .shape(shape.clone())
                .virtual_map(".", escape_percent(path), extents, selection, shape, ..)
                .create(name)
        };
        self.wrap_dataset(name, create())
    }

    /// Makes datasets of this group the dimension scales of others.
    pub fn attach_scales(&self, datasets: &[ScaledDataset]) -> Result<()> {
        self.errors.check(frames::attach_dimension_scales(&self.group, datasets))
    }

    /// Creates a hard link: a further name of an object.
    pub fn link_hard(&self, path: &str, name: &str) -> Result<()> {
        self.errors.check(self.group.link_hard(path, name))
    }

    /// Creates an external link to a path in another file.
    pub fn link_external(&self, file: &str, path: &str, name: &str) -> Result<()> {
        self.errors.check(self.group.link_external(file, path, name))
    }

    fn wrap_dataset(
        &self,
        name: &str,
        made: std::result::Result<hdf5::Dataset, hdf5::Error>,
    ) -> Result<Dataset> {
        self.errors.check(made).map(|dataset| Dataset::new(dataset, name, &self.errors))
    }

    fn attributes(&self) -> Attributes<'_> {
        Attributes { at: &self.group, health: &self.errors }
    }

    /// Creates a text attribute.
    pub fn set_text(&self, name: &str, text: &str) -> Result<()> {
        self.attributes().set_text(name, text)
    }

    /// Creates an attribute with a list of texts.
    pub fn set_texts(&self, name: &str, texts: &[&str]) -> Result<()> {
        self.attributes().set_texts(name, texts)
    }

    /// Creates a numeric attribute.
    pub fn set_number<T: H5Type>(&self, name: &str, number: T) -> Result<()> {
        self.attributes().set_number(name, number)
    }

    /// Returns whether the group has an attribute of this name.
    pub fn has_attribute(&self, name: &str) -> Result<bool> {
        self.errors.call(|| frames::attribute_exists(&self.group, name))
    }

    /// Reads a text attribute.
    pub fn text_attribute(&self, name: &str) -> Result<String> {
        self.attributes().text(name)
    }

    /// Reads an attribute with a list of texts.
    pub fn texts_attribute(&self, name: &str) -> Result<Vec<String>> {
        self.attributes().texts(name)
    }

    /// Reads a numeric attribute.
    pub fn number_attribute<T: H5Type>(&self, name: &str) -> Result<T> {
        self.attributes().number(name)
    }
}

/// Escapes the name of a source of a virtual dataset: HDF5 takes `%b` for the number of a block, and
/// `%%` for a percent sign (H5Pset_virtual).
fn escape_percent(name: &str) -> String {
    name.replace('%', "%%")
}
