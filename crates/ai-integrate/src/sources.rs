//! The open files of a task: each opened by the first thread that needs it, and closed after its last
//! frame, so that a task of thousands of files holds a few open.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};

use frames::store::Store;
use integrator::{Decoder, Integrator};
use patterns::Status;
use records::Source;

use crate::work::Windows;

/// Why a frame has no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What the final says of the frame.
    pub status: Status,
    /// What stderr says of it.
    pub why: String,
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
}

/// The sources of a task.
pub struct Sources<'a> {
    sources: &'a [Source],
    shape: [u64; 2],
    integrator: &'a Integrator,
    slots: Vec<Mutex<Slot>>,
}

impl<'a> Sources<'a> {
    /// The sources, none of them open yet, and what each is needed for.
    pub fn new(sources: &'a [Source], shape: [u64; 2], integrator: &'a Integrator, windows: &Windows) -> Self {
        let mut left = vec![0; sources.len()];
        let places = (0..windows.count()).flat_map(|index| windows.window(index));
        places.for_each(|place| left[place.source] += 1);
        let slots = left.into_iter().map(|left| Mutex::new(Slot { left, open: None })).collect();
        Self { sources, shape, integrator, slots }
    }

    /// The source, opened; or why it can't be.
    pub fn open(&self, index: usize) -> Result<Arc<Open>, Loss> {
        let mut slot = self.slots[index].lock().unwrap_or_else(PoisonError::into_inner);
        slot.open.get_or_insert_with(|| open(&self.sources[index], self.shape, self.integrator).map(Arc::new)).clone()
    }

    /// So many frames of the source are dealt with.
    pub fn release(&self, index: usize, frames: u64) {
        let mut slot = self.slots[index].lock().unwrap_or_else(PoisonError::into_inner);
        slot.left = slot.left.saturating_sub(frames);
        if slot.left == 0 {
            slot.open = None;
        }
    }
}

fn open(source: &Source, shape: [u64; 2], integrator: &Integrator) -> Result<Open, Loss> {
    let loss = |status, why: String| Loss { status, why };
    let found = std::fs::metadata(&source.file).map_err(|why| loss(Status::FileMissing, why.to_string()))?;
    if (found.len(), modified(&found)) != (source.size, source.mtime) {
        let why = "changed since scan-find saw it (another size or time); run scan-find again".to_owned();
        return Err(loss(Status::SourceChanged, why));
    }
    let store = Store::open(source, shape).map_err(|why| loss(Status::Corrupt, why.to_string()))?;
    let decoder = integrator.decoder(store.coding()).map_err(|why| loss(Status::Corrupt, why.to_string()))?;
    Ok(Open { store, decoder })
}

/// Nanoseconds since 1970.
fn modified(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}
