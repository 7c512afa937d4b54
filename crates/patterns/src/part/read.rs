//! Reads a part. The HDF5 library gets the bytes only after their checksum was verified.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use recipe::Recipe;
use records::{Record, Spans, Task};
use system::untrusted_file;

use super::{PartError, PartMetadata, PartUserBlock, name, row_dataset, user_block};
use crate::compress::has_cake_storage;
use crate::h5::{self, Group, Hdf5Error};
use crate::source_fingerprint::SourceFingerprints;
use crate::sparse_pixels::{self, SparseIndex};
use crate::weight_overrides::WeightOverrides;
use crate::{BinWeights, Compression, Normalizer, PatternAxes, PatternAxis, SharedBins, Status};

/// A part whose checksum was verified.
pub struct Part {
    /// Path of the file.
    pub path: PathBuf,
    /// Checksum of the bytes after the user block, in 32 hexadecimal digits.
    pub digest: String,
    /// Task and recipe.
    pub metadata: PartMetadata,
    /// Axes and weights that the frames have in common.
    pub shared: Arc<SharedBins>,
    /// Frames in ascending order; row k holds frame `frames[k]`.
    pub frames: Vec<u64>,
    /// Status of each frame.
    pub status: Vec<Status>,
    /// XXH3-64 of each frame's stored bytes.
    pub stored_digest: Vec<u64>,
    /// Monitor value of each frame.
    pub monitor: Vec<f64>,
    /// Time of the file's last change.
    pub(crate) modified: SystemTime,
    /// True if the part has the sums of its frames.
    pub(crate) has_sums: bool,
    /// Compression of the chunks of cakes; `None` for patterns of one dimension, and in parts of
    /// earlier versions.
    pub(crate) compression: Option<Compression>,
    /// Digest of each cake, if there is a compression.
    pub(super) row_digest: Vec<u64>,
    pub(super) has_variance: bool,
    /// Index of the sparse pixels, if the part has any.
    pub(crate) sparse: Option<SparseIndex>,
}

/// Reads the user block of a part, without verifying the checksum of the other bytes.
///
/// # Errors
/// Fails if the file can't be read or is not a part, or if its first 512 bytes are damaged.
pub fn read_user_block(path: &Path) -> Result<PartUserBlock, PartError> {
    open_part(path).map(|(head, _)| head)
}

/// The bytes after the user block of an open part, not yet read.
pub(crate) struct PartPayload {
    path: PathBuf,
    file: File,
    expected: String,
}

impl PartPayload {
    /// Reads all the bytes, and compares their checksum with that in the user block.
    ///
    /// # Errors
    /// Fails if the bytes can't be read or were changed.
    pub fn verify(&mut self) -> Result<(), PartError> {
        let found = user_block::digest_rest(&mut self.file).map_err(PartError::io(&self.path))?;
        if found == self.expected {
            Ok(())
        } else {
            Err(PartError::Damaged {
                path: self.path.clone(),
                expected: self.expected.clone(),
                found,
            })
        }
    }
}

/// Opens a part and reads its user block.
///
/// # Errors
/// Fails as [`read_user_block`] does.
pub(crate) fn open_part(path: &Path) -> Result<(PartUserBlock, PartPayload), PartError> {
    let mut file = untrusted_file::open(path).map_err(PartError::io(path))?;
    let head = PartUserBlock::read(&mut file)
        .map_err(|why| PartError::Head { path: path.to_path_buf(), why })?;
    let unread = PartPayload { path: path.to_path_buf(), file, expected: head.xxh3.clone() };
    Ok((head, unread))
}

/// Reads the task of a part, without verifying the part's checksum.
pub(crate) fn read_task(path: &Path) -> Result<Task, PartError> {
    let (_, unread) = open_part(path)?;
    let objects = [name::TASK, name::RECIPE];
    let file = h5::Hdf5File::from_unverified_file(path, unread.file, &objects)
        .map_err(PartError::hdf5(path))?;
    Ok(read_head(path, &file)?.task)
}

/// Returns whether a part has sparse pixels and frames of `frames` alone, without verifying the
/// part's checksum.
pub(crate) fn has_sparse_pixels(path: &Path, frames: &Spans) -> Result<bool, PartError> {
    let (head, unread) = open_part(path)?;
    let contains = |frame: u64| !frames.intersection(&[frame].into_iter().collect()).is_empty();
    if head.count > frames.count() || !contains(head.first) || !contains(head.last) {
        return Ok(false);
    }
    h5::Hdf5File::from_unverified_file(path, unread.file, &[])
        .and_then(|file| file.contains(sparse_pixels::GROUP_NAME))
        .map_err(PartError::hdf5(path))
}

/// Reads and verifies a part, except for its rows, which [`Part::open`] gives access to.
///
/// # Errors
/// Fails if the file can't be read, is not a part, or is damaged, or if its datasets contradict
/// each other.
pub fn read_part(path: &Path) -> Result<Part, PartError> {
    let (head, mut bytes) = open_part(path)?;
    bytes.verify()?;
    let modified =
        bytes.file.metadata().and_then(|found| found.modified()).map_err(PartError::io(path))?;
    // The open file is passed on, because the path may lead to another part by now.
    let file = h5::Hdf5File::from_verified_file(path, bytes.file).map_err(PartError::hdf5(path))?;
    let contains = |name| file.contains(name).map_err(PartError::hdf5(path));
    let (compression, row_digest) = match contains(name::ROW_DIGEST)? {
        true => read_encoding(&file).map_err(PartError::hdf5(path))?,
        false => (None, Vec::new()),
    };
    let metadata = read_head(path, &file)?;
    let frames: Vec<u64> = file.read_list(name::FRAMES).map_err(PartError::hdf5(path))?;
    let part = Part {
        path: path.to_path_buf(),
        digest: head.xxh3.clone(),
        sparse: SparseIndex::read(
            &file,
            &metadata.task.acquisition,
            &metadata.recipe,
            frames.len(),
        )
        .map_err(PartError::hdf5(path))?,
        metadata,
        shared: Arc::new(read_shared(&file).map_err(PartError::hdf5(path))?),
        has_sums: contains(row_dataset::SIGNAL)?,
        compression,
        row_digest,
        frames,
        status: read_status(path, &file)?,
        stored_digest: file.read_list(name::STORED_DIGEST).map_err(PartError::hdf5(path))?,
        monitor: file.read_list(name::MONITOR).map_err(PartError::hdf5(path))?,
        modified,
        has_variance: contains(row_dataset::VARIANCE)?,
    };
    part.check(&head, &file)?;
    Ok(part)
}

impl Part {
    /// Returns whether the frames have variances.
    pub fn has_variance(&self) -> bool {
        self.has_variance
    }

    /// Returns the digest of the frames, their source fingerprints and, if asked for, their monitors.
    pub(super) fn sources(&self, with_monitors: bool) -> u64 {
        let monitors = with_monitors.then_some(&self.monitor[..]);
        SourceFingerprints::new(&self.metadata.task.acquisition).digest(&self.frames, monitors)
    }

    fn check(&self, head: &PartUserBlock, file: &Group) -> Result<(), PartError> {
        let wrong = |why: String| Err(PartError::content(&self.path, why));
        let frames = self.frames.len();
        let lengths = [self.status.len(), self.stored_digest.len(), self.monitor.len()];
        if lengths != [frames; 3] {
            let [status, stored_digest, monitor] = lengths;
            return wrong(format!(
                "{status} values of status, {stored_digest} of stored_digest and {monitor} of monitor; expected {frames} of each"
            ));
        }
        if self.frames.windows(2).any(|pair| pair[0] >= pair[1]) {
            return wrong("its frames are not in ascending order".to_owned());
        }
        let (task, bins) = (&self.metadata.task, self.shared.axes.bins());
        let sources = |has_monitor| self.sources(has_monitor);
        if !head.describes(&task.scan, &task.recipe_digest, &self.frames, sources) {
            // The checksum of what follows is right.
            let why = user_block::UserBlockError::Damaged;
            return Err(PartError::Head { path: self.path.clone(), why });
        }
        let weights = &self.shared.weights;
        if bins == 0
            || [weights.norm.len(), weights.norm_sq.len(), weights.count.len()] != [bins; 3]
        {
            return wrong(format!("its weights don't fit its {bins} bins"));
        }
        self.check_datasets(file).map_err(PartError::hdf5(&self.path))
    }

    /// Checks that every dataset that rows are read from exists, in its type and with a value for
    /// each frame and bin.
    fn check_datasets(&self, file: &Group) -> h5::Result<()> {
        let rows = [vec![self.frames.len()], self.shared.axes.shape()].concat();
        let finish = Normalizer::new(&self.metadata.recipe);
        let (errors, patterns) = (finish.has_errors(), finish.needs_only_own_frame());
        // Only encoded cakes can do without sums.
        let needs_sums = self.compression.is_none() || !patterns;
        for (name, is_expected) in [
            (row_dataset::VARIANCE, errors && (self.has_sums || needs_sums)),
            (row_dataset::INTENSITY, patterns),
            (row_dataset::ERRORS, errors && patterns),
        ] {
            if file.contains(name)? && !is_expected {
                return Err(Hdf5Error::Damaged(format!(
                    "{name} exists, but not according to its recipe"
                )));
            }
        }
        if self.has_sums || needs_sums {
            file.check_dataset::<f64>(row_dataset::SIGNAL, &rows)?;
            if errors {
                file.check_dataset::<f64>(row_dataset::VARIANCE, &rows)?;
            }
        }
        if self.compression.is_some() && self.row_digest.len() != self.frames.len() {
            let (found, frames) = (self.row_digest.len(), self.frames.len());
            let why = format!("{found} values of {}; expected {frames}", name::ROW_DIGEST);
            return Err(Hdf5Error::Damaged(why));
        }
        // A part without patterns has them made from its sums.
        if !needs_sums || file.contains(row_dataset::INTENSITY)? {
            file.check_dataset::<f32>(row_dataset::INTENSITY, &rows)?;
            if errors {
                file.check_dataset::<f32>(row_dataset::ERRORS, &rows)?;
            }
        }
        if let (Some(compression), &[_, lines, width]) = (self.compression, &rows[..]) {
            for name in [row_dataset::INTENSITY, row_dataset::ERRORS] {
                if let Some(dataset) = file.dataset_if_there(name)?
                    && !has_cake_storage::<f32>(&dataset, [lines, width], compression)?
                {
                    let why = format!("{name} has other chunks than a final file");
                    return Err(Hdf5Error::Damaged(why));
                }
            }
        } else if self.compression.is_some() {
            let why = format!("{} exists, but no cakes", name::ROW_DIGEST);
            return Err(Hdf5Error::Damaged(why));
        }
        WeightOverrides::open(file).map(drop)
    }
}

fn read_head(path: &Path, group: &Group) -> Result<PartMetadata, PartError> {
    let text = |name| group.text(name).map_err(PartError::hdf5(path));
    let Ok(Record::Task(task)) = Record::parse(&text(name::TASK)?) else {
        return Err(PartError::content(
            path,
            "its task is not a task record that this azpipe can read",
        ));
    };
    let recipe: Recipe = toml::from_str(&text(name::RECIPE)?)
        .map_err(|why| PartError::content(path, format!("its recipe: {why}")))?;
    Ok(PartMetadata { task: *task, recipe })
}

/// Reads the compression of the cakes, and their digests.
fn read_encoding(group: &Group) -> h5::Result<(Option<Compression>, Vec<u64>)> {
    let dataset = group.dataset(row_dataset::INTENSITY)?;
    let compression = dataset.compression()?.ok_or_else(|| {
        Hdf5Error::Damaged(format!("{} has another compression", row_dataset::INTENSITY))
    })?;
    Ok((Some(compression), group.read_list(name::ROW_DIGEST)?))
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
    dataset.check_stored_as::<f64>(&[dataset.size()?])?;
    Ok(PatternAxis { name, units, centers: dataset.values()? })
}

fn read_status(path: &Path, group: &Group) -> Result<Vec<Status>, PartError> {
    let numbers: Vec<u8> = group.read_list(name::STATUS).map_err(PartError::hdf5(path))?;
    let unknown = |number| {
        PartError::content(
            path,
            format!(
                "unknown frame status {number}: a newer azpipe may have written it; update azpipe"
            ),
        )
    };
    let known = |number| Status::from_number(number).ok_or_else(|| unknown(number));
    numbers.into_iter().map(known).collect()
}
