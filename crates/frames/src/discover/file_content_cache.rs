//! Remembers the contents of files for a repeated search, so that only changed files are opened
//! again.
//!
//! A file counts as unchanged while its device, inode, size and modification time stay the same. A
//! file that was read less than [`MTIME_RESOLUTION`] after its last change is not remembered: it
//! may change again without a new modification time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use records::AbsentKind;
use system::untrusted_file::FileVersion;

use super::error::DiscoverError;
use super::frame_map::FrameMap;
use crate::image::ImageHeader;

/// Maximum number of remembered files, each of about 2 KiB.
const MAX_FILES: usize = 1 << 15;

/// Upper limit of the resolution of modification times. Most file systems update them some hundred
/// times per second, others once per second.
const MTIME_RESOLUTION: Duration = Duration::from_secs(2);

thread_local! {
    static FILES: RefCell<Option<Files>> = const { RefCell::new(None) };
}

/// The files that this thread remembers.
#[derive(Default)]
struct Files {
    known: HashMap<PathBuf, Known>,
    /// Counter that increases with each use of any file.
    uses: u64,
}

/// A remembered file.
struct Known {
    version: FileVersion,
    last_use: u64,
    content: Content,
}

enum Content {
    Image(ImageHeader),
    /// A dataset, and whether its file is known to be closed by the writer.
    Dataset {
        name: String,
        frame_map: Rc<Result<FrameMap, DiscoverError>>,
        is_closed: bool,
    },
}

impl Files {
    /// Returns the contents of an unchanged file.
    fn get(&mut self, file: &Path, version: FileVersion) -> Option<&mut Content> {
        self.uses = self.uses.saturating_add(1);
        let known = self.known.get_mut(file).filter(|known| known.version == version)?;
        known.last_use = self.uses;
        Some(&mut known.content)
    }

    /// Remembers a file. If there are too many, the least recently used half is dropped.
    fn put(&mut self, file: &Path, version: FileVersion, content: Content) {
        if self.known.len() >= MAX_FILES {
            let mut uses: Vec<u64> = self.known.values().map(|known| known.last_use).collect();
            let (_, &mut median, _) = uses.select_nth_unstable(MAX_FILES / 2);
            self.known.retain(|_, known| known.last_use > median);
        }
        self.uses = self.uses.saturating_add(1);
        self.known.insert(file.to_owned(), Known { version, last_use: self.uses, content });
    }
}

/// Starts remembering files in this thread.
pub(super) fn begin() {
    FILES.with_borrow_mut(|files| _ = files.get_or_insert_default());
}

/// Returns whether a file is remembered and unchanged.
pub(super) fn holds(file: &Path) -> bool {
    with_content(file, |_| Some(())).is_some()
}

/// Returns the header of an image file, if the file is unchanged.
pub(super) fn header(file: &Path) -> Option<(ImageHeader, Metadata)> {
    with_content(file, |content| match content {
        Content::Image(header) => Some(*header),
        Content::Dataset { .. } => None,
    })
}

/// Returns the frame map of a dataset, if its file is unchanged.
pub(super) fn dataset(file: &Path, dataset: &str) -> Option<Rc<Result<FrameMap, DiscoverError>>> {
    let frame_map = with_content(file, |content| match content {
        Content::Dataset { name, frame_map, .. } if name == dataset => Some(Rc::clone(frame_map)),
        _ => None,
    });
    frame_map.map(|(frame_map, _)| frame_map)
}

/// Returns whether an unchanged file is known to be closed.
pub(super) fn is_closed(file: &Path) -> bool {
    with_content(file, |content| {
        matches!(content, Content::Dataset { is_closed: true, .. }).then_some(())
    })
    .is_some()
}

/// Remembers that the file is closed, if its dataset is remembered.
pub(super) fn set_closed(file: &Path) {
    with_content(file, |content| {
        if let Content::Dataset { is_closed, .. } = content {
            *is_closed = true;
        }
        Some(())
    });
}

/// Remembers the header of an image file. `before` is the file's metadata from before it was
/// opened.
pub(super) fn put_header(file: &Path, before: &Metadata, header: ImageHeader) {
    put(file, before, || Content::Image(header));
}

/// Remembers the frame map of a dataset, unless it involves other files. `before` is the file's
/// metadata from before it was opened.
pub(super) fn put_dataset(
    file: &Path,
    before: &Metadata,
    dataset: &str,
    shared: &Rc<Result<FrameMap, DiscoverError>>,
) {
    let Ok(frame_map) = &**shared else { return };
    let needs_others = |kind| matches!(kind, AbsentKind::Missing | AbsentKind::Unreadable);
    let is_alone = frame_map.files.iter().all(|other| other == file)
        && !frame_map.absent.iter().any(|absent| needs_others(absent.kind));
    if is_alone {
        put(file, before, || Content::Dataset {
            name: dataset.to_owned(),
            frame_map: Rc::clone(shared),
            is_closed: false,
        });
    }
}

fn put(file: &Path, before: &Metadata, content: impl FnOnce() -> Content) {
    let is_settled = || {
        before.modified().is_ok_and(|changed| {
            SystemTime::now().duration_since(changed).is_ok_and(|age| age >= MTIME_RESOLUTION)
        })
    };
    FILES.with_borrow_mut(|files| {
        if let Some(files) = files.as_mut().filter(|_| is_settled()) {
            files.put(file, FileVersion::new(before), content());
        }
    });
}

fn with_content<T>(
    file: &Path,
    take: impl FnOnce(&mut Content) -> Option<T>,
) -> Option<(T, Metadata)> {
    FILES.with_borrow_mut(|files| {
        let files = files.as_mut().filter(|files| files.known.contains_key(file))?;
        let metadata = file.metadata().ok()?;
        Some((take(files.get(file, FileVersion::new(&metadata))?)?, metadata))
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;
    use crate::coding::Dtype;

    const ANY: ImageHeader = ImageHeader {
        format: "npy",
        shape: [3, 4],
        kind: Dtype::U16,
        frames: 1,
        is_unverified: false,
    };

    #[test]
    fn as_many_files_are_remembered_as_there_is_room_for() {
        let (dir, mut files) = (tempfile::tempdir().unwrap(), Files::default());
        let version = FileVersion::new(&dir.path().metadata().unwrap());
        let (path, header) = (|number: usize| PathBuf::from(number.to_string()), ANY);
        for number in 0..MAX_FILES + 1 {
            assert!(number == 0 || files.get(Path::new("0"), version).is_some(), "it is in use");
            files.put(&path(number), version, Content::Image(header));
        }
        assert!(files.known.len() <= MAX_FILES / 2 + 1 && files.get(&path(0), version).is_some());
        assert!(
            files.get(&path(MAX_FILES), version).is_some()
                && files.get(&path(1), version).is_none()
        );
    }

    #[test]
    fn a_file_is_remembered_until_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (path, header) = (dir.path().join("a"), ANY);
        let write = |age: u64| {
            fs::write(&path, "a").unwrap();
            let changed = SystemTime::now() - Duration::from_secs(age);
            File::options().write(true).open(&path).unwrap().set_modified(changed).unwrap();
            path.metadata().unwrap()
        };
        let before = write(60);
        put_header(&path, &before, header);
        assert!(!holds(&path), "nobody has asked for it");
        begin();
        put_header(&path, &before, header);
        assert!(holds(&path) && super::header(&path).is_some() && dataset(&path, "/a").is_none());
        let before = write(50);
        assert!(!holds(&path), "another time");
        put_header(&path, &before, header);
        fs::remove_file(&path).unwrap();
        assert!(!holds(&path));
        put_header(&path, &write(0), header);
        assert!(!holds(&path), "it may change again without another time");
    }
}
