//! Lists the files of a directory that may hold frames, in a fixed order, and follows symbolic
//! links.

use std::fs::{self, DirEntry, FileType, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use frames::discover::NumberedFileName;
use frames::image;
use nix::errno::Errno;

/// Lower-case suffixes of the HDF5 files that a walk reads.
const HDF5_SUFFIXES: [&str; 7] = ["h5", "hdf5", "hdf", "nxs", "nx", "nexus", "cxi"];

/// The contents of a directory. Each list is sorted, with symbolic links last.
#[derive(Debug, Default)]
pub struct DirectoryListing {
    /// Files that are HDF5 by their names.
    pub hdf5: Vec<PathBuf>,
    /// Files that are images by their names, and links of their series that can't be followed.
    pub images: Vec<PathBuf>,
    /// The subdirectories, which are searched as well.
    pub subdirectories: Vec<PathBuf>,
    /// Links with the name of a file that a walk reads, which lead to none.
    pub dangling: Vec<PathBuf>,
    /// Entries that can't be examined, with the errors.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

impl DirectoryListing {
    /// Lists a directory without its hidden files.
    ///
    /// # Errors
    /// Fails if the directory can't be read.
    pub fn read(path: &Path) -> io::Result<Self> {
        let entry =
            |entry: io::Result<DirEntry>| entry.map(|entry| (entry.file_type().ok(), entry.path()));
        let mut listed: Vec<(Option<FileType>, PathBuf)> =
            fs::read_dir(path)?.map(entry).collect::<io::Result<_>>()?;
        // Links come last, so that a file that is reached twice is reported under its own name.
        let is_link = |kind: &Option<FileType>| kind.is_some_and(|kind| kind.is_symlink());
        listed
            .sort_unstable_by(|one, two| (is_link(&one.0), &one.1).cmp(&(is_link(&two.0), &two.1)));
        let (mut out, mut broken_images) = (Self::default(), Vec::new());
        for (kind, path) in listed.into_iter().filter(|(_, path)| !is_hidden(path)) {
            // Most file systems return the type of an entry with the listing, which saves a stat of
            // each.
            match kind.filter(|kind| !kind.is_symlink()) {
                Some(kind) if kind.is_dir() => {
                    out.subdirectories.push(path);
                    continue;
                }
                Some(kind) if kind.is_file() => {
                    out.classify(path);
                    continue;
                }
                _ => (),
            }
            match path.metadata() {
                Ok(metadata) if metadata.is_dir() => out.subdirectories.push(path),
                Ok(metadata) if metadata.is_file() => out.classify(path),
                Ok(_) => (),
                // An entry that has been removed since holds no frames, nor does a link without a target;
                // but the target may be on a file system that is not mounted.
                Err(why) if is_not_there(&why) && !kind.is_some_and(|kind| kind.is_symlink()) => (),
                Err(why) if is_searched_image(&path) => broken_images.push((path, why)),
                Err(why) if is_not_there(&why) => {
                    if is_hdf5_name(&path) {
                        out.dangling.push(path);
                    }
                }
                Err(why) if is_loop(&why) && !is_hdf5_name(&path) => (),
                Err(why) => out.unreadable.push((path, why)),
            }
        }
        out.add_broken_images(broken_images);
        Ok(out)
    }

    /// Adds links with names of images that can't be followed: to the images if they are of a series with others,
    /// where they have a place.
    fn add_broken_images(&mut self, broken: Vec<(PathBuf, io::Error)>) {
        let series: Vec<_> =
            self.images.iter().filter_map(|image| NumberedFileName::parse(image)).collect();
        for (path, why) in broken {
            let name = NumberedFileName::parse(&path);
            let has_place =
                name.is_some_and(|name| series.iter().any(|one| one.is_same_series(&name)));
            match has_place {
                true => self.images.push(path),
                false if is_not_there(&why) => self.dangling.push(path),
                false => self.unreadable.push((path, why)),
            }
        }
    }

    fn classify(&mut self, path: PathBuf) {
        match suffix(&path) {
            Some(ending) if HDF5_SUFFIXES.contains(&ending.as_str()) => self.hdf5.push(path),
            Some(ending) if image::searched_suffixes().any(|suffix| suffix == ending) => {
                self.images.push(path)
            }
            _ => (),
        }
    }
}

/// Returns whether an error says that there is no file of this name, or that it is no directory's.
fn is_not_there(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn is_loop(why: &io::Error) -> bool {
    why.raw_os_error() == Some(Errno::ELOOP as i32)
}

/// Returns whether a walk reads a file of this name as an image.
fn is_searched_image(path: &Path) -> bool {
    suffix(path).is_some_and(|ending| image::searched_suffixes().any(|suffix| suffix == ending))
}

/// Returns the device and inode numbers, which identify a file or directory under any name.
pub fn file_id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Returns whether a walk takes a file for HDF5, by its name.
pub fn is_hdf5_name(path: &Path) -> bool {
    suffix(path).is_some_and(|ending| HDF5_SUFFIXES.contains(&ending.as_str()))
}

/// Returns whether a file is an image, by its name.
pub fn is_image_name(path: &Path) -> bool {
    suffix(path).is_some_and(|ending| image::is_image_suffix(&ending))
}

/// Returns the suffixes that a walk looks for, for the message that nothing was found.
pub fn searched_suffixes() -> String {
    let suffixes: Vec<&str> = HDF5_SUFFIXES.into_iter().chain(image::searched_suffixes()).collect();
    format!("looked for .{} files", suffixes.join(", ."))
}

fn suffix(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"."))
}
