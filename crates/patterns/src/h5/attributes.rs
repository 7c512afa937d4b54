//! Attributes of groups and datasets, and checks of texts and sizes.

use hdf5::types::VarLenUnicode;
use hdf5::{H5Type, Location};

use super::MAX_READ_BYTES;
use super::error::{ErrorLatch, Hdf5Error, Result};

/// Attributes of a group or dataset.
pub(super) struct Attributes<'a> {
    pub at: &'a Location,
    pub health: &'a ErrorLatch,
}

impl Attributes<'_> {
    pub fn set_text(&self, name: &str, text: &str) -> Result<()> {
        let set =
            || self.at.new_attr::<VarLenUnicode>().create(name)?.write_scalar(&to_hdf5_text(text));
        self.health.check(set())
    }

    pub fn set_texts(&self, name: &str, texts: &[&str]) -> Result<()> {
        let texts: Vec<VarLenUnicode> = texts.iter().map(|text| to_hdf5_text(text)).collect();
        self.health.check(self.at.new_attr_builder().with_data(&texts).create(name).map(drop))
    }

    pub fn set_number<T: H5Type>(&self, name: &str, number: T) -> Result<()> {
        let set = || self.at.new_attr::<T>().create(name)?.write_scalar(&number);
        self.health.check(set())
    }

    pub fn set_numbers<T: H5Type>(&self, name: &str, numbers: &[T]) -> Result<()> {
        self.health.check(self.at.new_attr_builder().with_data(numbers).create(name).map(drop))
    }

    pub fn text(&self, name: &str) -> Result<String> {
        let attribute = self.attribute(name)?;
        let text: VarLenUnicode = self.health.call(|| attribute.read_scalar())?;
        check_utf8(&text, name)
    }

    pub fn texts(&self, name: &str) -> Result<Vec<String>> {
        let attribute = self.attribute(name)?;
        check_size(attribute.size(), size_of::<VarLenUnicode>(), name)?;
        let texts: Vec<VarLenUnicode> = self.health.call(|| attribute.read_raw())?;
        texts.iter().map(|text| check_utf8(text, name)).collect()
    }

    pub fn number<T: H5Type>(&self, name: &str) -> Result<T> {
        let attribute = self.attribute(name)?;
        self.health.call(|| attribute.read_scalar())
    }

    fn attribute(&self, name: &str) -> Result<hdf5::Attribute> {
        if !self.health.call(|| frames::attribute_exists(self.at, name))? {
            return Err(Hdf5Error::NotFound(format!("@{name}")));
        }
        self.health.call(|| self.at.attr(name))
    }
}

/// Converts a text to an HDF5 text. NUL, which ends HDF5 texts, becomes U+FFFD.
pub(super) fn to_hdf5_text(text: &str) -> VarLenUnicode {
    text.replace('\0', "\u{fffd}").parse().expect("a text without NUL")
}

/// Checks that a text is UTF-8, which the library does not verify.
pub(super) fn check_utf8(text: &VarLenUnicode, name: &str) -> Result<String> {
    let text = std::str::from_utf8(text.as_bytes());
    text.map(str::to_owned)
        .map_err(|why| Hdf5Error::Damaged(format!("{name}: not a text in UTF-8: {why}")))
}

/// Refuses sizes that only a damaged file has, before memory is allocated.
pub(crate) fn check_size(count: usize, bytes: usize, name: &str) -> Result<()> {
    match count.checked_mul(bytes) {
        Some(size) if size <= MAX_READ_BYTES => Ok(()),
        _ => Err(Hdf5Error::Damaged(format!(
            "{name}: {count} values; expected {MAX_READ_BYTES} bytes at most"
        ))),
    }
}
