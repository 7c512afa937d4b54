//! The output of a batch: what a worker thread hands on for the part, the statistics and the
//! messages.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use integrator::opencl::DeviceError;
use integrator::{DecodePathCounts, Scratch, Sums};
use patterns::part::{PartRow, PatternBuilder, RowEncoder};
use patterns::{FrameRow, Status};

use crate::batches::RecipeIndex;
use crate::bins::LastWeights;
use crate::integrated_frame::{CakeOfFrame, IntegratedFrame};
use crate::recipe_group::{GroupMember, RecipeGroup};
use crate::sources::FrameLoss;
use crate::sparse;

/// The output of a batch.
#[derive(Default)]
pub struct BatchOutput {
    /// The number of frames in the batch.
    pub frames: usize,
    /// The rows of frames with their recipes, before they are encoded.
    pub unencoded: Vec<UnencodedRow>,
    /// The rows of parts with their recipes, in ascending order of frames: what
    /// [`encode_rows`](Self::encode_rows) makes.
    pub rows: Vec<(RecipeIndex, PartRow)>,
    /// The error by which rows are missing.
    pub encode_error: Option<io::Error>,
    /// The frames that were lost, each with its source and reason.
    pub losses: Vec<(u64, usize, FrameLoss)>,
    /// Warnings about suspicious frames.
    pub warnings: Vec<String>,
    /// The number of frames whose cakes were made of blocks of sums.
    pub cakes: u64,
    /// How often the kernels took each decode path.
    pub decode_paths: DecodePathCounts,
    /// The frames whose pixels were added to statistics, with the index of these.
    pub in_statistics: Vec<(usize, Vec<u64>)>,
    /// Why statistics are of no use, with the index of these.
    pub statistics_errors: Vec<(usize, String)>,
    /// The number of frames assembled from several chunks.
    pub assembled_frames: u64,
    /// The number of stored bytes read.
    pub read_bytes: u64,
    /// The number of stored bytes that were prefetched, because they were not in the page cache.
    pub prefetched_bytes: u64,
    /// By recipe, the number of frames that the device integrated, and the recipe's share of the
    /// bytes sent.
    pub by_device: Vec<(RecipeIndex, usize, u64)>,
    /// The error that made this thread stop using the device.
    pub device_error: Option<DeviceError>,
    /// The time that prefetching took, in seconds.
    pub prefetch_seconds: f64,
    /// The time that the worker thread spent reading, in seconds.
    pub read_seconds: f64,
    /// The time spent decoding and integrating, and making the rows of parts, in seconds.
    pub integrate_seconds: f64,
}

/// A row before it is encoded.
pub struct UnencodedRow {
    /// The recipe by which the frame was integrated.
    pub recipe: RecipeIndex,
    /// The row. It has no sums if there is a cake, or if the frame was lost.
    pub row: FrameRow,
    /// The cake that was made of the sums.
    pub cake: Option<PatternBuilder>,
}

impl BatchOutput {
    /// Adds a frame's row for each recipe of its group. `weights` are the last ones of each recipe.
    pub fn push(
        &mut self,
        group: &RecipeGroup<'_>,
        frame: u64,
        stored_digest: u64,
        integrated: IntegratedFrame,
        weights: &mut [LastWeights],
    ) {
        self.cakes += u64::from(matches!(integrated, IntegratedFrame::Cakes(_)));
        match integrated {
            IntegratedFrame::Sums(sums) => {
                for (member, sums) in group.members.iter().zip(sums) {
                    let weights = &mut weights[member.recipe.0];
                    let row = frame_row(frame, member, stored_digest, sums, weights);
                    self.push_integrated(member.recipe, row, None);
                }
            }
            IntegratedFrame::Cakes(cakes) => {
                for (member, cake) in group.members.iter().zip(cakes) {
                    let CakeOfFrame { monitor, status, pattern, weight_override } = cake;
                    let last = &mut weights[member.recipe.0];
                    let weight_override =
                        weight_override.map(|own| last.convert(own, |weights| weights));
                    let row = FrameRow::without_sums(frame, status, monitor);
                    let row = FrameRow { stored_digest, weight_override, ..row };
                    self.push_integrated(member.recipe, row, Some(pattern));
                }
            }
        }
        for unknown in &group.without_geometry {
            let monitor = unknown.monitor.value(frame);
            let row = FrameRow::without_sums(frame, unknown.status, monitor);
            self.push_row(unknown.recipe, FrameRow { stored_digest, ..row });
        }
    }

    /// Adds the row of an integrated frame. One without a valid pixel has sums of nothing, and no pattern.
    fn push_integrated(
        &mut self,
        recipe: RecipeIndex,
        row: FrameRow,
        cake: Option<PatternBuilder>,
    ) {
        let own = row.weight_override.as_ref();
        if own.is_some_and(|own| own.count.iter().all(|&count| count == 0.)) {
            let empty = FrameRow::without_sums(row.frame, Status::NoValidPixel, row.monitor);
            self.push_row(recipe, FrameRow { stored_digest: row.stored_digest, ..empty });
        } else {
            self.unencoded.push(UnencodedRow { recipe, row, cake });
        }
    }

    /// Adds a row without sums.
    pub fn push_row(&mut self, recipe: RecipeIndex, row: FrameRow) {
        self.unencoded.push(UnencodedRow { recipe, row, cake: None });
    }

    /// Makes the rows of parts, in ascending order of frames. Sums that parts do not keep become
    /// memory of the kernels, but for those of the first frame of each recipe, which is checked for
    /// what does not suit it.
    ///
    /// Lists of cakes that are encoded go to `spare`.
    pub fn encode_rows(
        &mut self,
        encoders: &mut [Option<RowEncoder>],
        scratch: &mut Scratch,
        spare: &mut Vec<Vec<f32>>,
    ) {
        let began = Instant::now();
        self.unencoded.sort_by_key(|unencoded| unencoded.row.frame);
        let mut has_first = vec![false; encoders.len()];
        for UnencodedRow { recipe, row, cake } in std::mem::take(&mut self.unencoded) {
            let encoder =
                encoders[recipe.0].as_mut().expect("a recipe with frames to do has a part");
            let encoded = match cake {
                Some(cake) => encoder.encode_pattern(row, cake, spare),
                None => encoder.encode(row),
            };
            match encoded {
                Ok(mut row) => {
                    if has_first[recipe.0] {
                        scratch.reuse(row.take_sums());
                    }
                    has_first[recipe.0] |= row.has_sums;
                    self.rows.push((recipe, row));
                }
                Err(why) => self.encode_error = Some(why),
            }
        }
        self.integrate_seconds += began.elapsed().as_secs_f64();
    }
}

fn frame_row(
    frame: u64,
    member: &GroupMember<'_>,
    stored_digest: u64,
    sums: Sums,
    weights: &mut LastWeights,
) -> FrameRow {
    let monitor = member.monitor.value(frame);
    let status = member.monitor.status(monitor);
    let weight_override = match (member.own_weights, sums.weight_override) {
        (None, left) => left.map(|left| weights.convert(left, |weights| weights)),
        (Some(own), None) => Some(Arc::clone(&own.weights)),
        (Some(own), Some(left)) => Some(weights.convert(left, |weights| own.scale(weights))),
    };
    FrameRow {
        frame,
        status,
        stored_digest,
        monitor,
        signal: sums.signal,
        variance: sums.variance,
        weight_override,
        sparse: sums.rejected.map(sparse::sparse_frame),
    }
}
