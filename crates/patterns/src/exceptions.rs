//! Weights of frames that invalidate pixels, kept for the bins that differ.

use hdf5::{Group, Result};

use super::name;
use crate::{Weights, h5};

/// The weights of some frames, bin by bin where they differ from the shared ones.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Exceptions {
    pub frames: Vec<u64>,
    /// Where each frame's bins start, and the end of the last.
    pub starts: Vec<u64>,
    pub bins: Vec<u32>,
    pub norm: Vec<f64>,
    pub norm_sq: Vec<f64>,
    pub count: Vec<f64>,
}

impl Default for Exceptions {
    fn default() -> Self {
        let (frames, bins) = (Vec::new(), Vec::new());
        Self { frames, starts: vec![0], bins, norm: Vec::new(), norm_sq: Vec::new(), count: Vec::new() }
    }
}

impl Exceptions {
    /// Adds a frame's own weights.
    pub fn push(&mut self, frame: u64, own: &Weights, shared: &Weights) {
        let differs = |bin: usize| {
            own.norm[bin].to_bits() != shared.norm[bin].to_bits()
                || own.norm_sq[bin].to_bits() != shared.norm_sq[bin].to_bits()
                || own.count[bin].to_bits() != shared.count[bin].to_bits()
        };
        for bin in (0..own.norm.len()).filter(|bin| differs(*bin)) {
            self.bins.push(bin as u32);
            self.norm.push(own.norm[bin]);
            self.norm_sq.push(own.norm_sq[bin]);
            self.count.push(own.count[bin]);
        }
        self.frames.push(frame);
        self.starts.push(self.bins.len() as u64);
    }

    /// A frame's own weights, if it has any.
    pub fn of(&self, frame: u64, shared: &Weights) -> Option<Weights> {
        let index = self.frames.binary_search(&frame).ok()?;
        let mut own = shared.clone();
        for entry in self.starts[index] as usize..self.starts[index + 1] as usize {
            let bin = self.bins[entry] as usize;
            (own.norm[bin], own.norm_sq[bin], own.count[bin]) =
                (self.norm[entry], self.norm_sq[entry], self.count[entry]);
        }
        Some(own)
    }

    /// Writes them below the root of a part.
    pub fn write(&self, root: &Group) -> Result<()> {
        let group = root.create_group(name::EXCEPTIONS)?;
        h5::write_list(&group, name::FRAMES, &self.frames)?;
        h5::write_list(&group, name::STARTS, &self.starts)?;
        h5::write_list(&group, name::BINS, &self.bins)?;
        h5::write_list(&group, name::NORM, &self.norm)?;
        h5::write_list(&group, name::NORM_SQ, &self.norm_sq)?;
        h5::write_list(&group, name::COUNT, &self.count)?;
        Ok(())
    }

    /// Reads those of a part.
    pub fn read(root: &Group) -> Result<Self> {
        let group = root.group(name::EXCEPTIONS)?;
        Ok(Self {
            frames: h5::read_list(&group, name::FRAMES)?,
            starts: h5::read_list(&group, name::STARTS)?,
            bins: h5::read_list(&group, name::BINS)?,
            norm: h5::read_list(&group, name::NORM)?,
            norm_sq: h5::read_list(&group, name::NORM_SQ)?,
            count: h5::read_list(&group, name::COUNT)?,
        })
    }

    /// What does not fit together, if anything.
    pub fn check(&self, nbins: usize) -> Result<(), String> {
        let entries = self.bins.len();
        let rising = self.starts.windows(2).all(|pair| pair[0] <= pair[1]);
        let ends = (self.starts.first(), self.starts.last()) == (Some(&0), Some(&(entries as u64)));
        let lengths = [self.norm.len(), self.norm_sq.len(), self.count.len()].iter().all(|length| *length == entries);
        let bins = self.bins.iter().all(|bin| (*bin as usize) < nbins);
        match rising && ends && lengths && bins && self.starts.len() == self.frames.len() + 1 {
            true => Ok(()),
            false => Err("exceptions that do not fit together".to_owned()),
        }
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
        let (shared, own) = (weights([1.0, 2.0, 3.0]), weights([1.0, 0.5, 3.0]));
        let mut exceptions = Exceptions::default();
        exceptions.push(4, &own, &shared);
        exceptions.push(7, &shared, &shared);
        assert_eq!((exceptions.bins.as_slice(), exceptions.starts.as_slice()), ([1].as_slice(), [0, 1, 1].as_slice()));
        assert_eq!(exceptions.of(4, &shared), Some(own));
        assert_eq!(exceptions.of(5, &shared), None);
        assert_eq!(exceptions.of(7, &shared), Some(shared));
        assert!(exceptions.check(3).is_ok() && exceptions.check(1).is_err());
    }
}
