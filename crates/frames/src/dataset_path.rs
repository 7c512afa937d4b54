//! Parses the names of files and datasets on the command line: `file.h5`, `file.h5::/path`.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A path to a file, or to a dataset in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetPath {
    /// The file, without the dataset.
    pub file: PathBuf,
    /// The dataset's path, which begins with `/`; `None` for the file itself.
    pub dataset: Option<String>,
}

impl DatasetPath {
    /// Parses `FILE` or `FILE::/path`. If a file with the whole name exists, the name means that
    /// file.
    ///
    /// ```
    /// use frames::dataset_path::DatasetPath;
    /// let parsed = DatasetPath::parse("scan.h5::/entry/data/data".as_ref());
    /// assert_eq!(parsed.file.to_str(), Some("scan.h5"));
    /// assert_eq!(parsed.dataset.as_deref(), Some("/entry/data/data"));
    /// assert_eq!(DatasetPath::parse("a::b.tif".as_ref()).dataset, None);
    /// ```
    pub fn parse(operand: &Path) -> Self {
        Self::try_parse(operand)
            .unwrap_or_else(|_| Self { file: operand.to_owned(), dataset: None })
    }

    /// Parses like [`DatasetPath::parse`], but reports when it can't test whether a file with the
    /// whole name exists.
    ///
    /// # Errors
    /// The system's error of that test.
    pub fn try_parse(operand: &Path) -> io::Result<Self> {
        let bytes = operand.as_os_str().as_bytes();
        let cut = bytes.windows(3).rposition(|window| window == b"::/").filter(|&cut| cut > 0);
        let split = cut.and_then(|cut| {
            Some((cut, std::str::from_utf8(bytes[cut..].strip_prefix(b"::")?).ok()?))
        });
        let whole = Self { file: operand.to_owned(), dataset: None };
        let Some((cut, dataset)) = split else { return Ok(whole) };
        match operand.symlink_metadata().map_err(|why| (why.kind(), why)) {
            Ok(_) => Ok(whole),
            Err((io::ErrorKind::NotFound | io::ErrorKind::NotADirectory, _)) => Ok(Self {
                file: OsStr::from_bytes(&bytes[..cut]).into(),
                dataset: Some(dataset.to_owned()),
            }),
            Err((_, why)) => Err(why),
        }
    }
}
