//! Opens files that others wrote; all such files except streams of records are opened here.
//!
//! A path may lead to a FIFO or a device, and opening it may wait forever, return endless bytes, or
//! do harm; a file may also be of any size. So this module opens only regular files, and reads a
//! limited number of bytes.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The size limit of texts: recipes, PONI files, configurations, profiles.
pub const MAX_TEXT_BYTES: u64 = 64 << 20;

/// The size limit of a file that is read into memory unchanged.
pub const MAX_FILE_BYTES: u64 = 8 << 30;

/// Identity of a file and version of its content: as long as the value stays the same, the file is
/// unchanged.
///
/// A file that is changed twice within the resolution of the file system's clock (2 s at most)
/// keeps its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileVersion {
    /// Number of the device.
    pub device: u64,
    /// Number of the inode.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of the content, in nanoseconds since 1970.
    pub mtime: i64,
}

impl FileVersion {
    /// Returns the version of the file that has this metadata.
    pub fn new(metadata: &Metadata) -> Self {
        let mtime =
            metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
        Self { device: metadata.dev(), inode: metadata.ino(), size: metadata.len(), mtime }
    }

    /// Returns the size in bytes and the time of the last change, by which records know a source
    /// file. Unlike device and inode, they are the same on every machine.
    pub fn size_and_mtime(&self) -> (u64, i64) {
        (self.size, self.mtime)
    }
}

/// Opens a regular file for reading. Anything else is never opened, and the call does not block
/// even if the path is replaced by something else in the meantime.
///
/// # Errors
/// Fails with the system's error, and for a FIFO, device, socket or directory.
pub fn open(path: &Path) -> io::Result<File> {
    check_regular(&path.metadata()?)?;
    let open =
        |flags| OpenOptions::new().read(true).custom_flags(flags | libc::O_NOCTTY).open(path);
    let file = match open(libc::O_NONBLOCK) {
        // A regular file blocks only while another process has a lease on it (Samba, NFS); the
        // kernel ends it within 45 s.
        Err(why) if why.kind() == io::ErrorKind::WouldBlock => open(0)?,
        opened => opened?,
    };
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Checks that a path may be passed to a library that opens files by name, and returns the file's
/// metadata.
///
/// # Errors
/// Fails as [`open`] does.
pub fn open_for_check(path: &Path) -> io::Result<Metadata> {
    open(path)?.metadata()
}

/// Checks that a path does not lead to anything but a regular file. A path that leads nowhere
/// passes, because the later attempt to open it gives the better error.
///
/// # Errors
/// Fails for a FIFO, device, socket or directory.
pub fn check_not_special(path: &Path) -> io::Result<()> {
    path.metadata().map_or(Ok(()), |metadata| check_regular(&metadata))
}

/// Reads a file of at most `longest` bytes.
///
/// # Errors
/// Fails as [`open`] does, and for a longer file.
pub fn read(path: &Path, longest: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let len = file.metadata()?.len();
    if len > longest {
        return Err(too_long_error(longest));
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(len).map_err(|_| too_long_error(longest))?)?;
    // The file may grow meanwhile.
    file.take(longest.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > longest { Err(too_long_error(longest)) } else { Ok(bytes) }
}

/// Reads a text of at most [`MAX_TEXT_BYTES`] bytes.
///
/// # Errors
/// Fails as [`read`] does, and for bytes that are not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read(path, MAX_TEXT_BYTES)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not text: expected UTF-8"))
}

fn too_long_error(longest: u64) -> io::Error {
    let why = format!("longer than {} MiB: expected a smaller file", longest >> 20);
    io::Error::new(io::ErrorKind::FileTooLarge, why)
}

/// Checks that metadata are those of a regular file.
///
/// # Errors
/// Fails for a FIFO, device, socket or directory.
pub(crate) fn check_regular(metadata: &Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    let found = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("is {found}: expected a regular file")))
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn only_a_regular_file_is_opened_and_nothing_waits() {
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        mkfifo(&path("fifo"), Mode::S_IRWXU).expect("a FIFO");
        std::os::unix::fs::symlink(path("fifo"), path("link")).expect("a link");
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).expect("a socket");
        std::fs::write(path("file"), "text").expect("a file");
        for (name, found) in [("fifo", "a FIFO"), ("link", "a FIFO"), ("socket", "a socket")] {
            let refused = [
                open(&path(name)).map(drop),
                open_for_check(&path(name)).map(drop),
                check_not_special(&path(name)),
                read(&path(name), 10).map(drop),
                read_text(&path(name)).map(drop),
            ];
            for why in refused {
                let why = why.expect_err(name).to_string();
                assert_eq!(why, format!("is {found}: expected a regular file"));
            }
        }
        let device = open(Path::new("/dev/zero")).expect_err("a device").to_string();
        assert_eq!(device, "is a device: expected a regular file");
        assert_eq!(
            open(place.path()).expect_err("a directory").kind(),
            io::ErrorKind::IsADirectory
        );
        assert_eq!(open(&path("none")).expect_err("not there").raw_os_error(), Some(libc::ENOENT));
        assert!(
            check_not_special(&path("none")).is_ok() && check_not_special(&path("file")).is_ok()
        );
        assert_eq!(open_for_check(&path("file")).expect("a file").len(), 4);
        assert_eq!(read(&path("file"), 4).expect("a file"), b"text");
        assert_eq!(read(&path("file"), 3).expect_err("longer").kind(), io::ErrorKind::FileTooLarge);
        let text = File::create(path("text")).expect("a file");
        text.set_len(MAX_TEXT_BYTES).expect("a hole");
        assert_eq!(read_text(&path("text")).expect("the longest").len(), 64 << 20);
        text.set_len(MAX_TEXT_BYTES + 1).expect("a hole");
        assert_eq!(
            read_text(&path("text")).expect_err("longer").kind(),
            io::ErrorKind::FileTooLarge
        );
    }
}
