//! Watches directories through inotify, so that a following search runs when something changes and
//! sleeps otherwise.
//!
//! The kernel reports only changes made on this machine. On a network file system, other machines
//! make changes, too, so the search repeats at each interval: [`DirectoryWatcher::watches_all`]
//! returns whether the reports suffice.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use nix::sys::statfs::statfs;

/// File systems that only this machine changes, by their statfs(2) numbers: ext2 to ext4, xfs,
/// btrfs, zfs, f2fs, bcachefs, tmpfs, ramfs, and overlayfs, which containers use.
const WATCHABLE_FILE_SYSTEMS: [i64; 9] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x2fc1_2fc1,
    0xf2f5_2010,
    0xca45_1a4e,
    0x0102_1994,
    0x8584_58f6,
    0x794c_7630,
];

/// The directories that are watched.
#[derive(Default)]
pub struct DirectoryWatcher {
    inotify: Option<Inotify>,
    directories: HashMap<WatchDescriptor, PathBuf>,
    watched: HashSet<PathBuf>,
    /// Directories that can't be watched, or that other machines may change.
    unwatchable: HashSet<PathBuf>,
    /// Files that a program has changed and not closed since.
    open_for_writing: HashSet<PathBuf>,
}

impl DirectoryWatcher {
    /// Creates a watcher. If the kernel refuses, no directory is watched.
    pub fn new() -> Self {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok();
        Self { inotify, ..Self::default() }
    }

    /// Watches a directory from now on, and follows links to it. List the directory after this
    /// call, or a change may be missed.
    pub fn watch(&mut self, directory: &Path) {
        if self.watched.contains(directory) || self.unwatchable.contains(directory) {
            return;
        }
        match self.try_watch(directory) {
            Ok(descriptor) => {
                self.directories.insert(descriptor, directory.to_owned());
                self.watched.insert(directory.to_owned());
            }
            // The directory is gone; its parent reports its return.
            Err(Errno::ENOENT | Errno::ENOTDIR) => (),
            Err(_) => drop(self.unwatchable.insert(directory.to_owned())),
        }
    }

    fn try_watch(&self, directory: &Path) -> Result<WatchDescriptor, Errno> {
        let inotify = self.inotify.as_ref().ok_or(Errno::EMFILE)?;
        // Waiting for the close is not enough: some writers keep a file open for days and flush it.
        let changes = AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        let kind = statfs(directory)?.filesystem_type().0;
        if WATCHABLE_FILE_SYSTEMS.contains(&kind) {
            inotify.add_watch(directory, changes)
        } else {
            Err(Errno::EREMOTE)
        }
    }

    /// Returns whether every added directory is watched and all its changes are reported.
    pub fn watches_all(&self) -> bool {
        self.inotify.is_some() && self.unwatchable.is_empty()
    }

    /// Returns whether a program has changed a file and not closed it since. The file's directory
    /// must be named as it was added.
    pub fn is_open_for_writing(&self, file: &Path) -> bool {
        self.open_for_writing.contains(file)
    }

    /// Returns a descriptor that is readable when something has changed.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(|inotify| inotify.as_fd())
    }

    /// Reads the changes that the kernel has reported so far, and returns whether there were any.
    /// Where the reports can't be read, there may have been.
    pub fn take_changes(&mut self) -> bool {
        let mut has_changed = false;
        while let Some(inotify) = &self.inotify {
            let events = match inotify.read_events() {
                Ok(events) => events,
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => continue,
                Err(_) => {
                    // Changes are found by looking from now on.
                    self.inotify = None;
                    self.open_for_writing.clear();
                    return true;
                }
            };
            has_changed |= !events.is_empty();
            if events.iter().any(|event| event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW)) {
                // Files may have been closed without a report.
                self.open_for_writing.clear();
            }
            for event in events {
                // Another directory may take the place of this one, and must be watched in its
                // stead.
                let gone = AddWatchFlags::IN_IGNORED
                    | AddWatchFlags::IN_MOVE_SELF
                    | AddWatchFlags::IN_DELETE_SELF;
                if event.mask.intersects(gone)
                    && let Some(directory) = self.directories.remove(&event.wd)
                {
                    self.watched.remove(&directory);
                }
                let Some(file) =
                    self.directories.get(&event.wd).zip(event.name).map(|(at, name)| at.join(name))
                else {
                    continue;
                };
                if event.mask.intersects(AddWatchFlags::IN_MODIFY) {
                    self.open_for_writing.insert(file);
                } else if event.mask.intersects(
                    AddWatchFlags::IN_CLOSE_WRITE
                        | AddWatchFlags::IN_DELETE
                        | AddWatchFlags::IN_MOVE,
                ) {
                    self.open_for_writing.remove(&file);
                }
            }
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    #[test]
    fn changes_are_told_and_looks_are_not() {
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (place.path().join("one"), place.path().join("two"));
        fs::create_dir(&one).unwrap();
        let mut watch = DirectoryWatcher::new();
        [&one, &two, &one].iter().for_each(|directory| watch.watch(directory));
        assert!(watch.watches_all(), "temporary files are on a local file system");
        assert!(!watch.take_changes());
        fs::read_dir(&one).unwrap().for_each(drop);
        assert!(!watch.take_changes());
        fs::write(one.join("a"), "b").unwrap();
        assert!(watch.take_changes());
        assert_eq!(fs::read(one.join("a")).unwrap(), b"b");
        assert!(!watch.take_changes());
        let mut file = fs::File::create(one.join("c")).unwrap();
        file.write_all(b"d").unwrap();
        assert!(
            watch.take_changes()
                && watch.is_open_for_writing(&one.join("c"))
                && !watch.is_open_for_writing(&one.join("a"))
        );
        drop(file);
        assert!(watch.take_changes() && !watch.is_open_for_writing(&one.join("c")));
        fs::create_dir(&two).unwrap();
        watch.watch(&two);
        fs::write(two.join("a"), "b").unwrap();
        assert!(watch.take_changes());
    }

    #[test]
    fn a_directory_that_is_replaced_can_be_watched_again() {
        let place = tempfile::tempdir().unwrap();
        let one = place.path().join("one");
        let mut watch = DirectoryWatcher::new();
        for _ in 0..2 {
            fs::create_dir(&one).unwrap();
            watch.watch(&one);
            fs::write(one.join("a"), "b").unwrap();
            assert!(watch.take_changes());
            fs::remove_dir_all(&one).unwrap();
            assert!(watch.take_changes());
        }
    }

    #[test]
    fn what_other_machines_may_change_is_not_seen() {
        let mut watch = DirectoryWatcher::new();
        watch.watch(Path::new("/proc/self"));
        assert!(!watch.watches_all());
    }
}
