//! How a dataset is named on a command line: `file.h5::/path`.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file, or a dataset in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetPath {
    /// The file.
    pub file: PathBuf,
    /// The dataset's path, from `/` on.
    pub dataset: Option<String>,
}

impl DatasetPath {
    /// Reads `file_bytes` or `file_bytes::/path`. A file that exists under the whole name is that file.
    ///
    /// ```
    /// use frames::address::Address;
    /// let address = Address::of("scan.h5::/entry/data/data".as_ref());
    /// assert_eq!(address.file.to_str(), Some("scan.h5"));
    /// assert_eq!(address.dataset.as_deref(), Some("/entry/data/data"));
    /// assert_eq!(Address::of("a::b.tif".as_ref()).dataset, None);
    /// ```
    pub fn parse(operand: &Path) -> Self {
        Self::try_parse(operand).unwrap_or_else(|_| Self { file: operand.to_owned(), dataset: None })
    }

    /// As [`DatasetPath::of`], where it matters whether a file of the whole name could be looked for.
    ///
    /// # Errors
    /// Those of the system.
    pub fn try_parse(operand: &Path) -> io::Result<Self> {
        let bytes = operand.as_os_str().as_bytes();
        let cut = bytes.windows(3).rposition(|window| window == b"::/").filter(|&cut| cut > 0);
        let split = cut.and_then(|cut| Some((cut, std::str::from_utf8(bytes[cut..].strip_prefix(b"::")?).ok()?)));
        let whole = Self { file: operand.to_owned(), dataset: None };
        let Some((cut, dataset)) = split else { return Ok(whole) };
        match operand.symlink_metadata().map_err(|why| (why.kind(), why)) {
            Ok(_) => Ok(whole),
            Err((io::ErrorKind::NotFound | io::ErrorKind::NotADirectory, _)) => {
                Ok(Self { file: OsStr::from_bytes(&bytes[..cut]).into(), dataset: Some(dataset.to_owned()) })
            }
            Err((_, why)) => Err(why),
        }
    }
}
