//! The frames' weights in a final file without sums, from which averages are computed later.
//!
//! `coverage/frame_weights` says of each frame whether its weights are those that the frames have in common, or are among the weight
//! overrides (`exceptions`, as in parts), or were not kept. They are kept if a frame has weights of its own in at most 1 of 8 bins:
//! a few invalid pixels take little space, whereas the overrides of clipped frames would be larger than the patterns.

use super::schema::name;
use crate::BinWeights;
use crate::h5::{Group, Result};
use crate::weight_overrides::{FrameWeights, WeightOverridesWriter, differing_bins};

/// Number of bins per bin in which a frame may have weights of its own that are kept.
const BINS_PER_KEPT: usize = 8;

/// Returns whether the weights of a frame are kept that has weights of its own in `differing` of `bins` bins.
pub(super) fn are_kept(differing: usize, bins: usize) -> bool {
    differing.saturating_mul(BINS_PER_KEPT) <= bins
}

/// Number in `frame_weights`: which weights of a frame a final file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptWeights {
    Shared = 0,
    Own = 1,
    NotKept = 2,
}

impl KeptWeights {
    const ALL: [Self; 3] = [Self::Shared, Self::Own, Self::NotKept];

    /// Returns the value of a number; `None` for an unknown number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Own => "own",
            Self::NotKept => "not_kept",
        }
    }
}

/// Weights of the frames of a new final file without sums.
#[derive(Default)]
pub(super) struct KeptWeightsWriter {
    kept: Vec<u8>,
    /// Created with the first weight override, because most scans have none.
    overrides: Option<WeightOverridesWriter>,
}

impl KeptWeightsWriter {
    /// Appends a frame. `integrated` is the group of the patterns.
    pub fn push(&mut self, integrated: &Group, weights: &FrameWeights, shared: &BinWeights) -> Result<()> {
        let frame = self.kept.len() as u64;
        let kept = match weights {
            FrameWeights::Shared => KeptWeights::Shared,
            FrameWeights::Own(own) if are_kept(differing_bins(own, shared).count(), shared.norm.len()) => {
                let overrides = match &mut self.overrides {
                    Some(overrides) => overrides,
                    None => self.overrides.insert(WeightOverridesWriter::create(integrated)?),
                };
                overrides.push(frame, own, shared)?;
                KeptWeights::Own
            }
            FrameWeights::Own(_) | FrameWeights::NotKept => KeptWeights::NotKept,
        };
        self.kept.push(kept as u8);
        Ok(())
    }

    /// Writes the rest of the weights, and the list of all frames to the group `coverage`.
    pub fn finish(mut self, coverage: &Group) -> Result<()> {
        self.overrides.iter_mut().try_for_each(WeightOverridesWriter::flush)?;
        let dataset = coverage.write_list(name::FRAME_WEIGHTS, &self.kept)?;
        dataset.set_numbers("flag_values", &KeptWeights::ALL.map(|kept| kept as u8))?;
        dataset.set_text("flag_meanings", &KeptWeights::ALL.map(KeptWeights::name).join(" "))
    }
}
