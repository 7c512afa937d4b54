//! Weight overrides: the bin weights of frames with invalid pixels that other frames don't have,
//! stored for the bins that differ from the weights of other frames.
//!
//! The HDF5 group is named `exceptions`, as in all earlier versions of the files, and has these
//! lists: `frames`, ascending; `starts`, the index of the first entry of each frame, followed by
//! the total; and one value per entry in each of `bins`, `norm`, `norm_sq` and `count`.

use std::ops::Range;
use std::sync::Arc;

use crate::BinWeights;
use crate::h5::{Dataset, DatasetElement, Group, Hdf5Error, Result};
use crate::row_writer::{RowWriter, read_rows};

/// Name of the group in parts and final files.
const GROUP_NAME: &str = "exceptions";
const FRAMES: &str = "frames";
const STARTS: &str = "starts";
const BINS: &str = "bins";
const NORM: &str = "norm";
const NORM_SQ: &str = "norm_sq";
const COUNT: &str = "count";

/// Weight overrides that are being written.
pub(crate) struct WeightOverridesWriter {
    frames: RowWriter<u64>,
    starts: RowWriter<u64>,
    bins: RowWriter<u32>,
    norm: RowWriter<f64>,
    norm_sq: RowWriter<f64>,
    count: RowWriter<f64>,
    entries: u64,
    /// The weights of the frame before, and the bins in which they differ: consecutive frames mostly
    /// share them.
    last: Option<(Arc<BinWeights>, Vec<u32>)>,
}

impl WeightOverridesWriter {
    /// Creates the group below `parent`, without entries.
    pub fn create(parent: &Group) -> Result<Self> {
        let group = &parent.create_group(GROUP_NAME)?;
        let mut new = Self {
            frames: RowWriter::list(group, FRAMES)?,
            starts: RowWriter::list(group, STARTS)?,
            bins: RowWriter::list(group, BINS)?,
            norm: RowWriter::list(group, NORM)?,
            norm_sq: RowWriter::list(group, NORM_SQ)?,
            count: RowWriter::list(group, COUNT)?,
            entries: 0,
            last: None,
        };
        new.starts.push([0])?;
        Ok(new)
    }

    /// Appends the weights of a frame. Frames are added in ascending order.
    pub fn push(&mut self, frame: u64, own: &Arc<BinWeights>, shared: &BinWeights) -> Result<()> {
        let last = self.last.take().filter(|(last, _)| Arc::ptr_eq(last, own));
        let (_, bins) =
            self.last.insert(last.unwrap_or_else(|| (Arc::clone(own), own.bins_unlike(shared))));
        let of_bins = |weights: &[f64]| -> Vec<f64> {
            bins.iter().map(|&bin| weights[bin as usize]).collect()
        };
        self.norm.push(of_bins(&own.norm))?;
        self.norm_sq.push(of_bins(&own.norm_sq))?;
        self.count.push(of_bins(&own.count))?;
        self.bins.push(bins.iter().copied())?;
        self.entries = self.entries.saturating_add(bins.len() as u64);
        self.frames.push([frame])?;
        self.starts.push([self.entries])
    }

    /// Writes the entries that are still in memory.
    pub fn flush(&mut self) -> Result<()> {
        self.frames.flush()?;
        self.starts.flush()?;
        self.bins.flush()?;
        [&mut self.norm, &mut self.norm_sq, &mut self.count]
            .into_iter()
            .try_for_each(RowWriter::flush)
    }
}

impl BinWeights {
    /// Returns the bins in which the weights are not equal to others to the bit.
    fn bins_unlike(&self, other: &Self) -> Vec<u32> {
        let differ =
            |one: &[f64], other: &[f64], bin: usize| one[bin].to_bits() != other[bin].to_bits();
        let has_other = |bin: &u32| {
            let bin = *bin as usize;
            differ(&self.norm, &other.norm, bin)
                || differ(&self.norm_sq, &other.norm_sq, bin)
                || differ(&self.count, &other.count, bin)
        };
        (0..other.norm.len() as u32).filter(has_other).collect()
    }
}

/// Approximate number of entries that are read at once.
const BLOCK_ENTRIES: u64 = 1 << 16;

/// Returns the position of a range in another one that contains it.
fn within(range: &Range<usize>, all: &Range<usize>) -> Range<usize> {
    range.start.saturating_sub(all.start)..range.end.saturating_sub(all.start)
}

/// Weight overrides of an open file.
pub(crate) struct WeightOverrides {
    frames: Vec<u64>,
    starts: Vec<u64>,
    bins: Dataset,
    weights: [Dataset; 3],
    read: OverrideBlock,
}

/// Entries of consecutive frames that were read last.
#[derive(Default)]
struct OverrideBlock {
    range: Range<usize>,
    bins: Vec<u32>,
    weights: [Vec<f64>; 3],
}

impl WeightOverrides {
    /// Opens the group below `parent`.
    pub fn open(parent: &Group) -> Result<Self> {
        let group = &parent.group(GROUP_NAME)?;
        let (frames, starts): (Vec<u64>, Vec<u64>) =
            (group.read_list(FRAMES)?, group.read_list(STARTS)?);
        if starts.len().checked_sub(1) != Some(frames.len()) {
            let (starts, frames) = (starts.len(), frames.len());
            return Err(format!(
                "{GROUP_NAME}/{STARTS} has {starts} values; expected {} for {frames} frames",
                frames.saturating_add(1)
            )
            .into());
        }
        if starts.windows(2).any(|pair| pair[0] > pair[1])
            || frames.windows(2).any(|pair| pair[0] >= pair[1])
        {
            return Err(
                format!("{GROUP_NAME}/{STARTS} or {FRAMES} is not in ascending order").into()
            );
        }
        let entries = starts.last().copied().unwrap_or_default();
        // A shorter list would be read beyond its end, even in a file whose checksums are right.
        let bins = open_list::<u32>(group, BINS, entries)?;
        let weight = |name| open_list::<f64>(group, name, entries);
        let weights = [weight(NORM)?, weight(NORM_SQ)?, weight(COUNT)?];
        Ok(Self { frames, starts, bins, weights, read: OverrideBlock::default() })
    }

    /// Returns the weights of a frame; `None` if it has those in `shared`. The entries of the
    /// following frames are read at the same time.
    pub fn for_frame(&mut self, frame: u64, shared: &BinWeights) -> Result<Option<BinWeights>> {
        let Ok(index) = self.frames.binary_search(&frame) else { return Ok(None) };
        let [start, end, ..] = self.starts[index..] else {
            return Err(format!("{GROUP_NAME}/{STARTS} is too short").into());
        };
        let wanted = start as usize..end as usize;
        if wanted.start < self.read.range.start || wanted.end > self.read.range.end {
            // Starts ascend: include the following frames until there are enough entries.
            let most = start.saturating_add(BLOCK_ENTRIES);
            let behind = self.starts[..self.starts.partition_point(|&start| start <= most)].last();
            let end = behind.map_or(end, |&behind| end.max(behind));
            self.read = self.read_block(wanted.start..end as usize)?;
        }
        let values = within(&wanted, &self.read.range);
        let mut own = shared.clone();
        let BinWeights { norm, norm_sq, count } = &mut own;
        for (target, weights) in [norm, norm_sq, count].into_iter().zip(&self.read.weights) {
            for (&bin, value) in self.read.bins[values.clone()].iter().zip(&weights[values.clone()])
            {
                *target
                    .get_mut(bin as usize)
                    .ok_or_else(|| format!("{GROUP_NAME}/{BINS}: bin {bin} doesn't exist"))? =
                    *value;
            }
        }
        Ok(Some(own))
    }

    fn read_block(&self, range: Range<usize>) -> Result<OverrideBlock> {
        let [norm, norm_sq, count] = &self.weights;
        let weights = |dataset| read_rows(dataset, range.clone());
        Ok(OverrideBlock {
            bins: read_rows(&self.bins, range.clone())?,
            weights: [weights(norm)?, weights(norm_sq)?, weights(count)?],
            range,
        })
    }
}

/// Opens a list that has an entry for each bin that differs.
fn open_list<T: DatasetElement>(group: &Group, name: &str, entries: u64) -> Result<Dataset> {
    let dataset = group.dataset(name)?;
    match dataset.check_stored_as::<T>(&[entries as usize]) {
        Err(Hdf5Error::Damaged(why)) => {
            Err(Hdf5Error::Damaged(format!("{GROUP_NAME}/{why} according to {STARTS}")))
        }
        checked => checked.map(|()| dataset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h5;

    fn weights(norm: [f64; 3]) -> BinWeights {
        BinWeights {
            norm: norm.to_vec(),
            norm_sq: norm.map(|n| n * n).to_vec(),
            count: vec![1.0; 3],
        }
    }

    #[test]
    fn only_the_bins_that_differ_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.h5");
        let file = h5::NewHdf5File::create_in(std::fs::File::create_new(&path).unwrap(), &path, 0)
            .unwrap();
        let (shared, own) = (weights([1.0, 2.0, 3.0]), weights([1.0, 0.5, 3.0]));
        let mut writer = WeightOverridesWriter::create(&file).unwrap();
        let own = Arc::new(own);
        writer.push(4, &own, &shared).unwrap();
        writer.push(7, &Arc::new(shared.clone()), &shared).unwrap();
        writer.push(8, &own, &shared).unwrap();
        writer.push(9, &own, &shared).unwrap();
        writer.flush().unwrap();
        assert_eq!(file.group(GROUP_NAME).unwrap().read_list::<u32>(BINS).unwrap(), [1; 3]);
        let mut weight_overrides = WeightOverrides::open(&file).unwrap();
        for frame in [4, 8, 9] {
            let found = weight_overrides.for_frame(frame, &shared).unwrap();
            assert_eq!(found.as_ref(), Some(&*own));
        }
        assert_eq!(weight_overrides.for_frame(5, &shared).unwrap(), None);
        assert_eq!(weight_overrides.for_frame(7, &shared).unwrap(), Some(shared));
    }

    #[test]
    fn entries_are_read_many_at_a_time_in_any_order_of_the_frames() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.h5");
        let file = h5::NewHdf5File::create_in(std::fs::File::create_new(&path).unwrap(), &path, 0)
            .unwrap();
        let bins = 1 << 14;
        let shared =
            BinWeights { norm: vec![1.0; bins], norm_sq: vec![1.0; bins], count: vec![1.0; bins] };
        // More than one read holds, of all lengths: the frame's number in its first bins.
        let own = |frame: u64| {
            let mut own = shared.clone();
            own.norm[..frame as usize * 1000].fill(frame as f64 + 1.0);
            own
        };
        let mut writer = WeightOverridesWriter::create(&file).unwrap();
        (0..17).for_each(|frame| writer.push(frame, &Arc::new(own(frame)), &shared).unwrap());
        writer.flush().unwrap();
        let mut weight_overrides = WeightOverrides::open(&file).unwrap();
        for frame in (0..17).chain([3, 16, 0, 15, 1]) {
            assert!(
                weight_overrides.for_frame(frame, &shared).unwrap() == Some(own(frame)),
                "{frame}"
            );
        }
    }
}
