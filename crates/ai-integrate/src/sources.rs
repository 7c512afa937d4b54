//! The open files of a task: each opened by the first thread that needs it, and closed after its last
//! frame, so that a task of thousands of files holds a few open.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use frames::image::ImageError;
use frames::store::{Store, StoreError};
use integrator::{Decoder, Together};
use manners::foreign;
use patterns::Status;
use records::{Acquisition, Source};

use crate::work::Windows;

/// Why a frame has no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What the final says of the frame.
    pub status: Status,
    /// What stderr says of it.
    pub why: String,
    /// Whether trying again can help.
    pub retryable: bool,
}

impl Loss {
    /// A chunk that is nowhere.
    pub fn absent(why: String) -> Self {
        Self { status: Status::Absent, why, retryable: true }
    }

    /// Bytes that are not what they should be.
    pub fn corrupt(why: &impl Display) -> Self {
        Self { status: Status::Corrupt, why: why.to_string(), retryable: false }
    }

    /// Bytes that can't be had. Where it was the system that did not give them, it may do so later: the file is not there
    /// any more, or could not be looked at. The rest is of the file.
    pub fn unread(reason: &io::Error, why: &impl Display) -> Self {
        let status = match (reason.raw_os_error(), reason.kind()) {
            (_, io::ErrorKind::OutOfMemory) => Status::Unreadable,
            (None, _) => return Self::corrupt(why),
            (_, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Status::FileMissing,
            _ => Status::Unreadable,
        };
        Self { status, why: why.to_string(), retryable: true }
    }
}

/// An open source.
pub struct Open {
    /// Where the chunks are.
    pub store: Store,
    /// How they are decoded.
    pub decoder: Decoder,
}

struct Slot {
    left: u64,
    open: Option<Result<Arc<Open>, Loss>>,
    /// Why nobody knows which of its frames are whole: it was another file behind its last frame than before its first, or could
    /// not be looked at there.
    unsure: Option<Loss>,
}

/// The sources of a task.
pub struct Sources<'a> {
    scan: &'a Acquisition,
    together: &'a Together<'a>,
    slots: Vec<Mutex<Slot>>,
    /// How many are open.
    open: AtomicUsize,
    /// How many images had no checksum where their format has one.
    unverified: AtomicUsize,
    /// No more are opened ahead of need where so many are open.
    most_open: usize,
    /// Sources of which nobody knows whether they changed while they were read, or that did, and why they are read no more.
    unsure: &'a BTreeMap<usize, Loss>,
}

impl<'a> Sources<'a> {
    /// The sources, none of them open yet, and what each is needed for; about `most_open` of them are opened ahead. Those that
    /// turned out to be `unsure` in an earlier attempt are refused.
    pub fn new(
        scan: &'a Acquisition,
        together: &'a Together<'a>,
        windows: &Windows,
        most_open: usize,
        unsure: &'a BTreeMap<usize, Loss>,
    ) -> Self {
        let mut left = vec![0; scan.sources.len()];
        windows.places().iter().for_each(|place| left[place.source] += 1);
        let slots = left.into_iter().map(|left| Mutex::new(Slot { left, open: None, unsure: None }));
        Self {
            scan,
            together,
            slots: slots.collect(),
            open: AtomicUsize::default(),
            unverified: AtomicUsize::default(),
            most_open,
            unsure,
        }
    }

    /// The source, opened before anybody needs it; `None` where it can't be opened, or too many are open.
    pub fn open_ahead(&self, index: usize) -> Option<Arc<Open>> {
        let may_open = self.open.load(Relaxed) < self.most_open;
        let is_open = || self.slot(index).open.is_some();
        if may_open || is_open() { self.open(index).ok() } else { None }
    }

    /// The source, opened; or why it can't be.
    pub fn open(&self, index: usize) -> Result<Arc<Open>, Loss> {
        let scan = self.scan;
        let open = || {
            self.open.fetch_add(1, Relaxed);
            if let Some(loss) = self.unsure.get(&index) {
                return Err(loss.clone());
            }
            let open = open(&scan.sources[index], scan.shape, self.together)?;
            self.unverified.fetch_add(usize::from(open.store.lacks_checksum()), Relaxed);
            Ok(Arc::new(open))
        };
        self.slot(index).open.get_or_insert_with(open).clone()
    }

    /// How many of the images that were opened had no checksum where their format has one.
    pub fn unverified(&self) -> usize {
        self.unverified.load(Relaxed)
    }

    /// So many frames of the source are dealt with. Behind the last one, a look at the file says whether all of them were of
    /// one file.
    pub fn release(&self, index: usize, frames: u64) {
        let mut slot = self.slot(index);
        slot.left = slot.left.saturating_sub(frames);
        if slot.left == 0 && self.close(index, &mut slot) {
            self.open.fetch_sub(1, Relaxed);
        }
    }

    /// Closes all sources, and returns those that changed while they were read, or can't be looked at any more, so that nobody
    /// knows which of their frames are whole.
    pub fn close_all(&self) -> BTreeMap<usize, Loss> {
        let unsure = |index: usize| {
            let mut slot = self.slot(index);
            self.close(index, &mut slot);
            Some((index, slot.unsure.clone()?))
        };
        (0..self.slots.len()).filter_map(unsure).collect()
    }

    /// Whether it was open, or could not be opened.
    fn close(&self, index: usize, slot: &mut Slot) -> bool {
        let opened = slot.open.take();
        if matches!(opened, Some(Ok(_)))
            && let Err(loss) = check_unchanged(&self.scan.sources[index])
        {
            slot.unsure = Some(loss);
        }
        opened.is_some()
    }

    fn slot(&self, index: usize) -> MutexGuard<'_, Slot> {
        self.slots[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const WHILE_READ: &str = "changed while it was read (another size or time); run scan-find again";

fn changed(why: &str) -> Loss {
    Loss { status: Status::SourceChanged, why: why.to_owned(), retryable: true }
}

/// Checks that the file still is what scan-find saw. It is opened, for a network file system may tell old news of one that is
/// not.
fn check_unchanged(source: &Source) -> Result<(), Loss> {
    match foreign::check(&source.file) {
        Ok(found) if is_as_recorded(source, &found) => Ok(()),
        Err(why) if why.raw_os_error().is_some() && why.kind() != io::ErrorKind::NotFound => {
            Err(Loss::unread(&why, &format!("whether it changed while it was read can't be seen: {why}")))
        }
        Ok(_) | Err(_) => Err(changed(WHILE_READ)),
    }
}

fn is_as_recorded(source: &Source, found: &Metadata) -> bool {
    (found.len(), modified(found)) == (source.size, source.mtime)
}

fn open(source: &Source, shape: [u64; 2], together: &Together<'_>) -> Result<Open, Loss> {
    let found = std::fs::metadata(&source.file).map_err(|why| Loss::unread(&why, &why))?;
    if !is_as_recorded(source, &found) {
        return Err(changed("changed since scan-find saw it (another size or time); run scan-find again"));
    }
    let store = Store::open(source, shape).map_err(|error| match &error {
        StoreError::Io { why, .. } | StoreError::Image(ImageError::Io { why, .. }) => Loss::unread(why, &error),
        StoreError::NoAnswer { retryable: true, .. } => {
            Loss { status: Status::Unreadable, why: error.to_string(), retryable: true }
        }
        _ => Loss::corrupt(&error),
    })?;
    let decoder = together.decoder(store.coding()).map_err(|why| Loss::corrupt(&why))?;
    Ok(Open { store, decoder })
}

/// Nanoseconds since 1970.
fn modified(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}
