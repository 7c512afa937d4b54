//! The open files of a task: the first thread that needs a file opens it, and its last frame closes
//! it, so that a task of thousands of files holds few of them open.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::Metadata;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use frames::image::ImageError;
use frames::source::{SourceError, SourceReader};
use integrator::{Decoder, MultiIntegrator, PixelType};
use patterns::Status;
use records::{Acquisition, Source};
use system::untrusted_file::{self, FileVersion};

use crate::batches::Batches;

/// The reason why a frame has no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameLoss {
    /// The frame's status in the output.
    pub status: Status,
    /// The reason in words, for messages.
    pub why: String,
    /// True if another attempt may succeed.
    pub retryable: bool,
}

impl FrameLoss {
    /// Creates the loss of a frame for which its file, unchanged since scan-find recorded it, holds
    /// no data. A later plan may find the data, so the loss is retryable.
    pub fn absent(why: String) -> Self {
        Self { status: Status::Absent, why, retryable: true }
    }

    /// Creates the loss of a frame whose bytes are invalid.
    pub fn corrupt(why: &impl Display) -> Self {
        Self { status: Status::Corrupt, why: why.to_string(), retryable: false }
    }

    /// Creates the loss of a frame that can't be read. An error of the system (a missing file, a
    /// failed read) may go away, so it is retryable. An error without a system code is in the
    /// file's content.
    pub fn from_io_error(reason: &io::Error, why: &impl Display) -> Self {
        let status = match (reason.raw_os_error(), reason.kind()) {
            (_, io::ErrorKind::OutOfMemory) => Status::Unreadable,
            (None, _) => return Self::corrupt(why),
            (_, io::ErrorKind::NotFound) => Status::FileMissing,
            _ => Status::Unreadable,
        };
        Self { status, why: why.to_string(), retryable: true }
    }
}

/// An open file, and the decoder of its chunks.
pub struct OpenSource {
    /// The reader of the stored chunks.
    pub store: SourceReader,
    /// The decoder for the file's coding.
    pub decoder: Decoder,
}

struct SourceSlot {
    remaining_frames: u64,
    source: Option<Result<Arc<OpenSource>, FrameLoss>>,
    /// Set if the file was replaced while it was read, or can't be checked for that, so that none
    /// of its frames can be trusted.
    change_errors: Option<FrameLoss>,
}

/// The sources of a task.
pub struct SourcePool<'a> {
    scan: &'a Acquisition,
    /// Integrators that only make the decoders.
    integrators: MultiIntegrator<'a>,
    slots: Vec<Mutex<SourceSlot>>,
    /// The number of open sources.
    open_count: AtomicUsize,
    /// The number of images without a checksum whose format has one.
    without_checksum: AtomicUsize,
    /// The number of open sources from which on none is opened ahead.
    most_open: usize,
    /// Sources that changed while they were read, or could not be checked, in an earlier attempt;
    /// they are not read again.
    change_errors: &'a BTreeMap<usize, FrameLoss>,
}

impl<'a> SourcePool<'a> {
    /// Creates the pool with all sources closed, and counts the frames that the batches need of
    /// each. About `most_open` sources are opened ahead. Sources listed in `changed_sources` by an
    /// earlier attempt are refused.
    pub fn new(
        scan: &'a Acquisition,
        batches: &Batches,
        most_open: usize,
        changed_sources: &'a BTreeMap<usize, FrameLoss>,
    ) -> Self {
        let shape = scan.shape.map(|length| length as usize);
        let dtype: PixelType = scan.dtype.parse().expect("frames to do are of a known type");
        let mut left = vec![0; scan.sources.len()];
        batches.locations().iter().for_each(|location| left[location.source] += 1);
        let slots = left.into_iter().map(|left| {
            Mutex::new(SourceSlot { remaining_frames: left, source: None, change_errors: None })
        });
        Self {
            scan,
            integrators: MultiIntegrator::without_integrators(shape, dtype),
            slots: slots.collect(),
            open_count: AtomicUsize::default(),
            without_checksum: AtomicUsize::default(),
            most_open,
            change_errors: changed_sources,
        }
    }

    /// Opens a source ahead of need; `None` if it can't be opened, or if too many are open.
    pub fn open_ahead(&self, index: usize) -> Option<Arc<OpenSource>> {
        let may_open = self.open_count.load(Relaxed) < self.most_open;
        let is_open = || self.slot(index).source.is_some();
        if may_open || is_open() { self.open(index).ok() } else { None }
    }

    /// Opens a source, or returns the reason why it can't be opened; later calls return the same
    /// answer.
    pub fn open(&self, index: usize) -> Result<Arc<OpenSource>, FrameLoss> {
        let scan = self.scan;
        let open = || {
            self.open_count.fetch_add(1, Relaxed);
            if let Some(loss) = self.change_errors.get(&index) {
                return Err(loss.clone());
            }
            let open = open(&scan.sources[index], scan.shape, &self.integrators)?;
            self.without_checksum.fetch_add(usize::from(open.store.lacks_checksum()), Relaxed);
            Ok(Arc::new(open))
        };
        self.slot(index).source.get_or_insert_with(open).clone()
    }

    /// Returns how many of the opened images had no checksum although their format has one.
    pub fn without_checksum(&self) -> usize {
        self.without_checksum.load(Relaxed)
    }

    /// Counts `frames` of the source as processed. After the last one the file is closed and
    /// checked for changes.
    pub fn release(&self, index: usize, frames: u64) {
        let mut slot = self.slot(index);
        slot.remaining_frames = slot.remaining_frames.saturating_sub(frames);
        if slot.remaining_frames == 0 && self.close(index, &mut slot) {
            self.open_count.fetch_sub(1, Relaxed);
        }
    }

    /// Closes all sources, and returns those that changed while they were read or could not be
    /// checked, so that none of their frames can be trusted.
    pub fn close_all(&self) -> BTreeMap<usize, FrameLoss> {
        let changed = |index: usize| {
            let mut slot = self.slot(index);
            self.close(index, &mut slot);
            Some((index, slot.change_errors.clone()?))
        };
        (0..self.slots.len()).filter_map(changed).collect()
    }

    /// Closes a source and checks that it is unchanged; returns whether an attempt to open it had
    /// been made.
    fn close(&self, index: usize, slot: &mut SourceSlot) -> bool {
        let opened = slot.source.take();
        if matches!(opened, Some(Ok(_)))
            && let Err(loss) = check_unchanged(&self.scan.sources[index])
        {
            slot.change_errors = Some(loss);
        }
        opened.is_some()
    }

    fn slot(&self, index: usize) -> MutexGuard<'_, SourceSlot> {
        self.slots[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const CHANGED_WHILE_READ: &str =
    "changed while it was read (size or time of last change): run scan-find again";

fn source_changed(why: &str) -> FrameLoss {
    FrameLoss { status: Status::SourceChanged, why: why.to_owned(), retryable: true }
}

/// Checks that the file still has the size and time that scan-find recorded. The file is opened for
/// the check, because a network file system may report stale attributes of a file that is not open.
fn check_unchanged(source: &Source) -> Result<(), FrameLoss> {
    match untrusted_file::open_for_check(&source.file) {
        Ok(found) if is_as_recorded(source, &found) => Ok(()),
        Err(why) if why.raw_os_error().is_some() && why.kind() != io::ErrorKind::NotFound => {
            Err(FrameLoss::from_io_error(
                &why,
                &format!("can't check whether it changed while it was read: {why}"),
            ))
        }
        Ok(_) | Err(_) => Err(source_changed(CHANGED_WHILE_READ)),
    }
}

fn is_as_recorded(source: &Source, found: &Metadata) -> bool {
    FileVersion::new(found).size_and_mtime() == (source.size, source.mtime)
}

fn open(
    source: &Source,
    shape: [u64; 2],
    integrators: &MultiIntegrator<'_>,
) -> Result<OpenSource, FrameLoss> {
    let found =
        std::fs::metadata(&source.file).map_err(|why| FrameLoss::from_io_error(&why, &why))?;
    if !is_as_recorded(source, &found) {
        return Err(source_changed(
            "changed since scan-find read it (size or time of last change): run scan-find again",
        ));
    }
    let store = SourceReader::open(source, shape).map_err(|error| match &error {
        SourceError::Io { why, .. } | SourceError::Image(ImageError::Io { why, .. }) => {
            FrameLoss::from_io_error(why, &error)
        }
        SourceError::NoAnswer { retryable: true, .. } => {
            FrameLoss { status: Status::Unreadable, why: error.to_string(), retryable: true }
        }
        _ => FrameLoss::corrupt(&error),
    })?;
    let decoder = integrators.decoder(store.coding()).map_err(|why| FrameLoss::corrupt(&why))?;
    Ok(OpenSource { store, decoder })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_is_not_there_is_missing() {
        for number in 1..133 {
            let why = io::Error::from_raw_os_error(number);
            let loss = FrameLoss::from_io_error(&why, &why);
            let expected = if number == 2 { Status::FileMissing } else { Status::Unreadable };
            assert_eq!((loss.status, loss.retryable), (expected, true), "{why}");
        }
        assert_eq!(
            FrameLoss::from_io_error(&io::Error::other("a codec"), &"a codec").status,
            Status::Corrupt
        );
    }
}
