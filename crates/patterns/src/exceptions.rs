//! Weights of frames that invalidate pixels, kept for the bins that differ from the shared ones.
//!
//! A group of lists: `frames`, rising; `starts`, where the bins of each frame begin, and after the last
//! the end; and for each of these entries `bins`, `norm`, `norm_sq` and `count`.

use hdf5::{Dataset, Group, Result};

use crate::table::{Table, read_rows};
use crate::{Weights, h5};

/// The group's name in parts and finals.
const GROUP: &str = "exceptions";
const FRAMES: &str = "frames";
const STARTS: &str = "starts";
const BINS: &str = "bins";
const NORM: &str = "norm";
const NORM_SQ: &str = "norm_sq";
const COUNT: &str = "count";

/// Exceptions being written.
pub(crate) struct ExceptionsWriter {
    frames: Table<u64>,
    starts: Table<u64>,
    bins: Table<u32>,
    norm: Table<f64>,
    norm_sq: Table<f64>,
    count: Table<f64>,
    entries: u64,
}

impl ExceptionsWriter {
    /// Begins with none, in a new group below `parent`.
    pub fn create(parent: &Group) -> Result<Self> {
        let group = &parent.create_group(GROUP)?;
        let mut new = Self {
            frames: Table::list(group, FRAMES)?,
            starts: Table::list(group, STARTS)?,
            bins: Table::list(group, BINS)?,
            norm: Table::list(group, NORM)?,
            norm_sq: Table::list(group, NORM_SQ)?,
            count: Table::list(group, COUNT)?,
            entries: 0,
        };
        new.starts.push([0])?;
        Ok(new)
    }

    /// Adds a frame's own weights.
    pub fn push(&mut self, frame: u64, own: &Weights, shared: &Weights) -> Result<()> {
        let differ = |own: &[f64], shared: &[f64], bin: usize| own[bin].to_bits() != shared[bin].to_bits();
        for bin in 0..shared.norm.len() {
            if differ(&own.norm, &shared.norm, bin)
                || differ(&own.norm_sq, &shared.norm_sq, bin)
                || differ(&own.count, &shared.count, bin)
            {
                self.bins.push([bin as u32])?;
                self.norm.push([own.norm[bin]])?;
                self.norm_sq.push([own.norm_sq[bin]])?;
                self.count.push([own.count[bin]])?;
                self.entries += 1;
            }
        }
        self.frames.push([frame])?;
        self.starts.push([self.entries])
    }

    /// Writes what is not yet written.
    pub fn flush(&mut self) -> Result<()> {
        self.frames.flush()?;
        self.starts.flush()?;
        self.bins.flush()?;
        [&mut self.norm, &mut self.norm_sq, &mut self.count].into_iter().try_for_each(Table::flush)
    }
}

/// Exceptions of an open file.
pub(crate) struct Exceptions {
    frames: Vec<u64>,
    starts: Vec<u64>,
    bins: Dataset,
    weights: [Dataset; 3],
}

impl Exceptions {
    /// Those below `parent`.
    pub fn open(parent: &Group) -> Result<Self> {
        let group = &parent.group(GROUP)?;
        let (frames, starts): (Vec<u64>, Vec<u64>) = (h5::read_list(group, FRAMES)?, h5::read_list(group, STARTS)?);
        if starts.len() != frames.len() + 1 {
            return Err(format!("{} starts of {} exceptions: expected one more", starts.len(), frames.len()).into());
        }
        let weights = [group.dataset(NORM)?, group.dataset(NORM_SQ)?, group.dataset(COUNT)?];
        Ok(Self { frames, starts, bins: group.dataset(BINS)?, weights })
    }

    /// A frame's own weights, if it has any.
    pub fn of(&self, frame: u64, shared: &Weights) -> Result<Option<Weights>> {
        let Ok(index) = self.frames.binary_search(&frame) else { return Ok(None) };
        let entries = self.starts[index] as usize..self.starts[index + 1] as usize;
        let mut own = shared.clone();
        let bins: Vec<u32> = read_rows(&self.bins, entries.clone())?;
        let Weights { norm, norm_sq, count } = &mut own;
        for (target, dataset) in [norm, norm_sq, count].into_iter().zip(&self.weights) {
            let values: Vec<f64> = read_rows(dataset, entries.clone())?;
            for (&bin, value) in bins.iter().zip(values) {
                *target.get_mut(bin as usize).ok_or("an exception in a bin that is not there")? = value;
            }
        }
        Ok(Some(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(norm: [f64; 3]) -> Weights {
        Weights { norm: norm.to_vec(), norm_sq: norm.map(|n| n * n).to_vec(), count: vec![1.0; 3] }
    }

    #[test]
    fn only_the_bins_that_differ_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let file = h5::create(&directory.path().join("a.h5"), 0).unwrap();
        let (shared, own) = (weights([1.0, 2.0, 3.0]), weights([1.0, 0.5, 3.0]));
        let mut writer = ExceptionsWriter::create(&file).unwrap();
        writer.push(4, &own, &shared).unwrap();
        writer.push(7, &shared, &shared).unwrap();
        writer.flush().unwrap();
        assert_eq!(h5::read_list::<u32>(&file.group(GROUP).unwrap(), BINS).unwrap(), [1]);
        let exceptions = Exceptions::open(&file).unwrap();
        assert_eq!(exceptions.of(4, &shared).unwrap(), Some(own));
        assert_eq!(exceptions.of(5, &shared).unwrap(), None);
        assert_eq!(exceptions.of(7, &shared).unwrap(), Some(shared));
    }
}
