//! Keeps a file of azpipe's own under another name, so that a new one can take its place.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::ownership::OwnershipRule;

/// Why a file is kept under another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsideReason {
    /// It can't be used.
    Damaged,
    /// It is the result of an earlier measurement, of which there may be nothing else.
    Earlier,
}

impl AsideReason {
    /// Returns what the name of such a file ends in.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Earlier => "earlier",
        }
    }
}

/// Iterates over the names that a file may be kept under, in their order.
pub fn aside_names(path: &Path, reason: AsideReason) -> impl Iterator<Item = PathBuf> {
    let mut first = path.as_os_str().to_owned();
    first.push(".");
    first.push(reason.ending());
    (1_u64..).map(move |number| {
        let mut name = first.clone();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        name.into()
    })
}

/// Renames a file of azpipe's own to the first free name of `NAME.damaged`, `NAME.damaged-2`, and so
/// on, or of `NAME.earlier` likewise, and returns that name. A new file may then take its place. Until
/// then, the file has both names, and is not renamed again.
///
/// # Errors
/// Fails as [`OwnershipRule::check`] does, and if the file can't be linked or renamed.
pub fn rename_aside(path: &Path, reason: AsideReason, rule: &OwnershipRule) -> io::Result<PathBuf> {
    rule.check(path)?;
    for aside in aside_names(path, reason) {
        match std::fs::hard_link(path, &aside) {
            Ok(()) => return Ok(aside),
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                // An earlier run that did not get to write the new file may have renamed this one.
                if identity(path)? == identity(&aside)? {
                    return Ok(aside);
                }
            }
            // The file system has no links. A file that another process creates in between is
            // replaced, and is of no value.
            Err(_)
                if aside
                    .symlink_metadata()
                    .is_err_and(|why| why.kind() == io::ErrorKind::NotFound) =>
            {
                let renamed = std::fs::rename(path, &aside);
                return renamed.map_err(|why| no_other_name(&aside, &why)).map(|()| aside);
            }
            Err(why) => return Err(no_other_name(&aside, &why)),
        }
    }
    unreachable!("numbers do not end")
}

fn no_other_name(aside: &Path, why: &io::Error) -> io::Error {
    let name = aside.file_name().unwrap_or_default().to_string_lossy();
    io::Error::new(
        why.kind(),
        format!("can't be kept as {name}, so that no other file takes its place: {why}"),
    )
}

/// Returns the device and inode numbers of a file, which are those of all its names.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    path.symlink_metadata().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_renamed_once_until_another_takes_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let rule = OwnershipRule::new("a test file", |_| Ok(true));
        let path = directory.path().join("final.h5");
        fs::write(&path, "damaged").unwrap();
        let aside = rename_aside(&path, AsideReason::Damaged, &rule).unwrap();
        assert_eq!(aside, directory.path().join("final.h5.damaged"));
        assert_eq!(
            rename_aside(&path, AsideReason::Damaged, &rule).unwrap(),
            aside,
            "the run that renamed it did not replace it"
        );
        fs::remove_file(&path).unwrap();
        fs::write(&path, "damaged, too").unwrap();
        let second = rename_aside(&path, AsideReason::Damaged, &rule).unwrap();
        assert_eq!(second, directory.path().join("final.h5.damaged-2"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_name_that_is_too_long_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let rule = OwnershipRule::new("a test file", |_| Ok(true));
        let path = directory.path().join("x".repeat(250));
        fs::write(&path, "damaged").unwrap();
        let why = rename_aside(&path, AsideReason::Earlier, &rule).unwrap_err();
        let expected = format!(
            "can't be kept as {}.earlier, so that no other file takes its place: File name too long (os error 36)",
            "x".repeat(250)
        );
        assert_eq!(why.to_string(), expected);
        assert_eq!(fs::read(&path).unwrap(), b"damaged");
    }
}
