//! Says whose a directory is in which this user may not write: members of a group that share an output
//! directory need it to be writable for the group.

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Adds the owner of the directory in which a file could not be made to the error of a refused
/// permission, if that is another user. Other errors are returned as they are.
pub(crate) fn explain(why: io::Error, file: &Path) -> io::Error {
    if why.kind() != ErrorKind::PermissionDenied {
        return why;
    }
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    match directory.unwrap_or(Path::new(".")).metadata() {
        Ok(of_directory) if of_directory.uid() != nix::unistd::geteuid().as_raw() => {
            io::Error::new(why.kind(), describe(&why, &of_directory))
        }
        // Its own parents may be closed.
        _ => why,
    }
}

fn describe(why: &io::Error, directory: &Metadata) -> String {
    format!(
        "{why}; its directory is that of user {} and group {}, with permissions {:o}: for a group of users, it must be \
         writable for the group (chmod -R g+w, and umask 002 from the first run on)",
        directory.uid(),
        directory.gid(),
        directory.mode() & 0o7777
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_owner_of_a_directory_is_told_with_what_a_group_needs() {
        let directory = tempfile::tempdir().unwrap();
        let mode = std::fs::Permissions::from_mode(0o750);
        std::fs::set_permissions(directory.path(), mode).unwrap();
        let found = directory.path().metadata().unwrap();
        let why = io::Error::from_raw_os_error(libc::EACCES);
        let told = describe(&why, &found);
        let expected = format!(
            "Permission denied (os error 13); its directory is that of user {} and group {}, with permissions 750: for a group of \
             users, it must be writable for the group (chmod -R g+w, and umask 002 from the first run on)",
            found.uid(),
            found.gid()
        );
        assert_eq!(told, expected);
    }

    #[test]
    fn errors_of_other_kinds_and_in_own_directories_stay() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("f");
        for number in [libc::ENOSPC, libc::EACCES] {
            let why = explain(io::Error::from_raw_os_error(number), &file);
            assert_eq!(why.raw_os_error(), Some(number));
        }
    }
}
