//! [`MeanPattern`]: the mean of some frames of a final file.

use super::ExportError;
use crate::normalize::{Normalizer, Pattern};
use crate::output::{AverageMethod, FrameSumAccumulator, OutputFile, OutputRows};
use crate::rounding::NAN64;
use crate::{FrameRow, Status};

/// The mean of patterns of a final file, as `gather --average mean` makes it.
///
/// Sums of frames are added: with the ratio g of a frame's monitor to its reference, the mean is
/// Σ S / Σ W g, with the error √(Σ V) / Σ W g, where V has at least one photon per bin in all frames
/// together, and not in each ([`crate::variance`]). Where the file has no sums, they are computed
/// from the patterns, to the rounding of f32; if it has an average of the same frames, that is taken.
/// The mean is thus the same whatever the file holds.
pub(super) struct MeanPattern<'a> {
    output: &'a OutputFile,
    normalizer: Normalizer,
    sums: FrameSumAccumulator,
    /// True if sums were computed from patterns with the weights of all frames.
    has_unknown_weights: bool,
    /// Number of frames.
    pub frames: usize,
}

impl<'a> MeanPattern<'a> {
    /// Creates the mean of no frame of a final file.
    pub fn new(output: &'a OutputFile) -> Self {
        let normalizer = Normalizer::new(&output.recipe);
        let normalizer =
            if output.is_merged() { normalizer.for_merged_frames() } else { normalizer };
        let sums = FrameSumAccumulator::new(output.shared.axes.bins(), &normalizer);
        Self { output, normalizer, sums, has_unknown_weights: false, frames: 0 }
    }

    /// Adds a frame with its pattern, and returns its weight. `rows` are those of the final file.
    ///
    /// # Errors
    /// Fails if the sums of the frame can't be read.
    pub fn add(
        &mut self,
        frame: usize,
        pattern: &Pattern,
        rows: &mut OutputRows,
    ) -> Result<f64, ExportError> {
        let monitor = self.output.monitor.get(frame).copied().unwrap_or(NAN64);
        let ratio = self.normalizer.scale(monitor, self.output.reference).unwrap_or(1.0);
        let shared = &self.output.shared.weights;
        let row = match rows.sums(frame)?.filter(FrameRow::has_sums) {
            Some(row) => match self.normalizer.sums_among_frames(&row, pattern, ratio, shared) {
                Some(of_all) => FrameRow { status: Status::Ok, ..of_all },
                None => row,
            },
            None => {
                self.has_unknown_weights = true;
                let row = self.normalizer.recompute_row(pattern, ratio, None, shared);
                FrameRow { status: Status::Ok, ..row }
            }
        };
        self.sums.add(&row, ratio, None, shared, &self.normalizer);
        self.frames = self.frames.saturating_add(1);
        Ok(ratio)
    }

    /// Returns the mean and its error; no errors without an error model.
    ///
    /// # Errors
    /// Fails if the file's own average can't be read, or if there are neither sums nor an average of
    /// several frames that have weights of their own, by which patterns are averaged: those of a detector
    /// that moves, and merged ones that are divided by monitors.
    pub fn finish(mut self) -> Result<(Vec<f64>, Vec<f64>), ExportError> {
        if let Some(averaged) = &self.output.averaged
            && averaged.average.method == AverageMethod::Mean
            && averaged.frames[..] == [self.frames as u64]
            && !self.output.counts_picked_pixels
        {
            let path = || self.output.path.clone();
            let read = averaged.pattern(0);
            if let Some(pattern) = read.map_err(|why| ExportError::Hdf5 { path: path(), why })? {
                return Ok((pattern.intensity, pattern.errors.unwrap_or_default()));
            }
        }
        if self.frames > 1 && self.has_unknown_weights {
            self.check_equal_weights()?;
        }
        let pattern = self.sums.take(AverageMethod::Mean, &self.normalizer);
        Ok((pattern.intensity, pattern.errors.unwrap_or_default()))
    }

    /// Checks that the frames have the weights of the bins and of their monitors alone, which the file has.
    fn check_equal_weights(&self) -> Result<(), ExportError> {
        let (why, remedy) = if self.output.recipe.has_moving_geometry() {
            let remedy = "run ai-integrate --force and gather --average mean for it first";
            ("has frames of several geometries", remedy)
        } else if self.output.is_merged() && !self.output.recipe_of_frames()?.monitor.is_empty() {
            let remedy = "merge it with gather --average mean first";
            ("is merged of patterns that are divided by monitors", remedy)
        } else {
            return Ok(());
        };
        Err(ExportError::Reduction {
            path: self.output.path.clone(),
            why: format!(
                "{why}, so that the mean needs the weights of each frame, and has neither sums nor an \
                 average of the same {} frames; {remedy}",
                self.frames
            ),
        })
    }
}
