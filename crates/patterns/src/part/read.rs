//! Reads a part, after its checksum has shown that it is as it was written.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use recipe::Recipe;
use records::{Record, Task};

use super::{PartError, PartMetadata, PartUserBlock, name, row_dataset, user_block};
use crate::h5::{self, Group};
use crate::source_fingerprint::SourceFingerprints;
use crate::{BinWeights, PatternAxes, PatternAxis, SharedBins, Status};

/// A part whose bytes are as they were written.
pub struct Part {
    /// Where it is.
    pub path: PathBuf,
    /// Its checksum.
    pub digest: String,
    /// What it is about.
    pub metadata: PartMetadata,
    /// What its frames share.
    pub shared: Arc<SharedBins>,
    /// Its frames, rising. Row k of the part is that of `frames[k]`.
    pub frames: Vec<u64>,
    /// What became of each.
    pub status: Vec<Status>,
    /// XXH3-64 of each frame's stored bytes.
    pub stored_digest: Vec<u64>,
    /// Each frame's monitor.
    pub monitor: Vec<f64>,
    pub(super) has_variance: bool,
}

/// The first line of a part, which says what it is. Its checksum is not checked.
///
/// # Errors
/// Not a part, or one whose first 512 bytes are damaged.
pub fn read_user_block(path: &Path) -> Result<PartUserBlock, PartError> {
    open_part(path).map(|(head, _)| head)
}

/// The bytes behind the first line of a part, which have not been read.
pub(crate) struct PartPayload {
    path: PathBuf,
    file: File,
    expected: String,
}

impl PartPayload {
    /// Reads them all, and compares them with the checksum in the first line.
    ///
    /// # Errors
    /// They can't be read, or are not as they were written.
    pub fn verify(&mut self) -> Result<(), PartError> {
        let found = user_block::digest_rest(&mut self.file).map_err(PartError::io(&self.path))?;
        match found == self.expected {
            true => Ok(()),
            false => Err(PartError::Damaged { path: self.path.clone(), expected: self.expected.clone(), found }),
        }
    }
}

/// Opens a part, and reads its first line.
///
/// # Errors
/// As [`read_user_block`].
pub(crate) fn open_part(path: &Path) -> Result<(PartUserBlock, PartPayload), PartError> {
    let mut file = File::open(path).map_err(PartError::io(path))?;
    let head = PartUserBlock::read(&mut file).map_err(|why| PartError::Head { path: path.to_path_buf(), why })?;
    let unread = PartPayload { path: path.to_path_buf(), file, expected: head.xxh3.clone() };
    Ok((head, unread))
}

/// Returns the task that a part was made for, as far as it can be read without verifying the part.
pub(crate) fn read_task(path: &Path) -> Result<Task, PartError> {
    let (_, unread) = open_part(path)?;
    let file = h5::Hdf5File::from_open_file(path, unread.file).map_err(PartError::hdf5(path))?;
    Ok(read_head(path, &file)?.task)
}

/// Reads and verifies a part, but for its rows, which are read where they are needed.
///
/// # Errors
/// Not a part; damaged; contents that do not fit together.
pub fn read_part(path: &Path) -> Result<Part, PartError> {
    let (head, mut bytes) = open_part(path)?;
    bytes.verify()?;
    // The same file, whatever has taken its name since.
    let file = h5::Hdf5File::from_open_file(path, bytes.file).map_err(PartError::hdf5(path))?;
    let part = Part {
        path: path.to_path_buf(),
        digest: head.xxh3.clone(),
        metadata: read_head(path, &file)?,
        shared: Arc::new(read_shared(&file).map_err(PartError::hdf5(path))?),
        frames: file.read_list(name::FRAMES).map_err(PartError::hdf5(path))?,
        status: read_status(path, &file)?,
        stored_digest: file.read_list(name::STORED_DIGEST).map_err(PartError::hdf5(path))?,
        monitor: file.read_list(name::MONITOR).map_err(PartError::hdf5(path))?,
        has_variance: file.contains(row_dataset::VARIANCE).map_err(PartError::hdf5(path))?,
    };
    part.check(&head, &file)?;
    Ok(part)
}

impl Part {
    /// Whether its frames have variances.
    pub fn has_variance(&self) -> bool {
        self.has_variance
    }

    fn check(&self, head: &PartUserBlock, file: &Group) -> Result<(), PartError> {
        let wrong = |why: String| Err(PartError::content(&self.path, why));
        let frames = self.frames.len();
        let lengths = [self.status.len(), self.stored_digest.len(), self.monitor.len()];
        if lengths != [frames; 3] {
            return wrong(format!("{lengths:?} values of status, stored_digest, monitor: expected {frames} each"));
        }
        if self.frames.windows(2).any(|pair| pair[0] >= pair[1]) {
            return wrong("frames that do not rise".to_owned());
        }
        let (task, bins) = (&self.metadata.task, self.shared.axes.bins());
        let sources = || SourceFingerprints::new(&task.acquisition).digest(&self.frames);
        let (digest, sources) = (self.digest.clone(), head.sources.is_some().then(sources));
        if PartUserBlock::new(&task.scan, &task.recipe_digest, &self.frames, digest, sources) != *head {
            return wrong("its first line and its content do not agree".to_owned());
        }
        let weights = &self.shared.weights;
        if bins == 0 || [weights.norm.len(), weights.norm_sq.len(), weights.count.len()] != [bins; 3] {
            return wrong(format!("weights that do not fit its {bins} bins"));
        }
        let expected = [vec![frames], self.shared.axes.shape()].concat();
        for name in [row_dataset::SIGNAL, row_dataset::VARIANCE, row_dataset::INTENSITY, row_dataset::ERRORS] {
            let dataset = match name {
                row_dataset::SIGNAL => file.dataset(name).map(Some),
                _ => file.dataset_if_there(name),
            };
            let shape = dataset.map_err(PartError::hdf5(&self.path))?.map(|dataset| dataset.shape());
            if let Some(shape) = shape.filter(|shape| *shape != expected) {
                return wrong(format!("{name} of shape {shape:?}: expected {expected:?}"));
            }
        }
        Ok(())
    }
}

fn read_head(path: &Path, group: &Group) -> Result<PartMetadata, PartError> {
    let text = |name| group.text(name).map_err(PartError::hdf5(path));
    let Ok(Record::Task(task)) = Record::parse(&text(name::TASK)?) else {
        return Err(PartError::content(path, "its task is not a task record"));
    };
    let recipe: Recipe =
        toml::from_str(&text(name::RECIPE)?).map_err(|why| PartError::content(path, format!("its recipe: {why}")))?;
    Ok(PartMetadata { task: *task, recipe })
}

fn read_shared(group: &Group) -> h5::Result<SharedBins> {
    let chi = if group.contains(name::CHI)? { Some(read_axis(group, name::CHI)?) } else { None };
    let axes = PatternAxes { radial: read_axis(group, name::RADIAL)?, chi };
    let weights = BinWeights {
        norm: group.read_list(name::NORM)?,
        norm_sq: group.read_list(name::NORM_SQ)?,
        count: group.read_list(name::COUNT)?,
    };
    Ok(SharedBins { axes, weights })
}

fn read_axis(group: &Group, name: &str) -> h5::Result<PatternAxis> {
    let dataset = group.dataset(name)?;
    let (name, units) = (dataset.text_attribute("name")?, dataset.text_attribute("units")?);
    Ok(PatternAxis { name, units, centers: dataset.values()? })
}

fn read_status(path: &Path, group: &Group) -> Result<Vec<Status>, PartError> {
    let numbers: Vec<u8> = group.read_list(name::STATUS).map_err(PartError::hdf5(path))?;
    let unknown = |number| PartError::content(path, format!("unknown status {number}"));
    let known = |number| Status::from_number(number).ok_or_else(|| unknown(number));
    numbers.into_iter().map(known).collect()
}
