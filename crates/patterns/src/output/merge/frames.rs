//! Frames of a merged final file: the sums of the members, added frame by frame.

use std::sync::Arc;

use super::MergePlan;
use crate::output::OutputError;
use crate::output::frame_source::{FrameSource, OutputFrame, ScanFrames};
use crate::rounding::NAN64;
use crate::variance::PhotonVariance;
use crate::{BinWeights, FrameRow, Status};

/// Frames of a merged final file.
pub(super) struct MergedFrames<'a> {
    pub plan: &'a MergePlan<'a>,
    pub members: Vec<ScanFrames<'a>>,
}

impl FrameSource for MergedFrames<'_> {
    fn read_frame(&mut self, frame: usize) -> Result<OutputFrame, OutputError> {
        let MergePlan { factors, normalizer, row_sources, shared, .. } = self.plan;
        let nothing = OutputFrame::without_pattern;
        let status = row_sources.status[frame];
        if status != Status::Ok {
            return Ok(nothing(status));
        }
        let merged = self
            .members
            .iter_mut()
            .map(|member| member.read_frame(frame))
            .collect::<Result<Vec<_>, _>>()?;
        let mut of_members = Vec::new();
        for (merged, member) in merged.into_iter().zip(self.plan.members) {
            let row = match (merged.sums, &merged.pattern) {
                (Some(row), Some(pattern)) => {
                    let shared = &member.shared.weights;
                    let of_all =
                        member.normalizer.sums_among_frames(&row, pattern, merged.scale, shared);
                    of_all.unwrap_or(row)
                }
                (Some(row), None) => row,
                (None, Some(pattern)) => {
                    let own = merged.weight_override.as_ref();
                    let shared = &member.shared.weights;
                    member.normalizer.recompute_row(pattern, merged.scale, own, shared)
                }
                (None, None) => return Ok(nothing(Status::NotIntegrated)),
            };
            of_members.push((row, merged.scale));
        }
        let rows = of_members.iter().zip(&self.members);
        let rows: Vec<(&FrameRow, &BinWeights, f64)> =
            rows.map(|((row, scale), member)| (row, member.weights(row), *scale)).collect();
        let weights = rows
            .iter()
            .zip(factors)
            .map(|((_, weights, scale), factor)| (*weights, scale * factor));
        let own = sum_weights(weights);
        let (variance, counted) = self.variance(&rows);
        let row = FrameRow {
            frame: frame as u64,
            monitor: NAN64,
            signal: sum_lists(rows.iter().map(|(row, ..)| (&row.signal[..], 1.0))),
            variance,
            weight_override: (own != shared.weights).then(|| Arc::new(own)),
            ..FrameRow::default()
        };
        let pattern =
            normalizer.without_variance_rule().normalize(&row, self.shared_weights(), 1.0);
        let sums = Some(row);
        Ok(OutputFrame { pattern, sums, scale: 1.0, counted, ..nothing(status) })
    }

    fn shared_weights(&self) -> &BinWeights {
        &self.plan.shared.weights
    }
}

impl MergedFrames<'_> {
    /// Returns the variance of the summed members with the minimum that the recipe sets, and the
    /// photon variance with the number of members. `None` if a member has no errors.
    fn variance(
        &self,
        rows: &[(&FrameRow, &BinWeights, f64)],
    ) -> (Option<Vec<f64>>, Option<(PhotonVariance, usize)>) {
        let variances: Option<Vec<&[f64]>> =
            rows.iter().map(|(row, ..)| row.variance.as_deref()).collect();
        let Some(variances) = variances else { return (None, None) };
        let mut counted = PhotonVariance::new(self.plan.shared.axes.bins());
        for ((row, own, _), member) in rows.iter().zip(self.plan.members) {
            member.normalizer.variance_rule().add_frame_variance(
                row,
                own,
                &member.shared.weights,
                &mut counted,
            );
        }
        let all_pixels = sum_lists(variances.into_iter().map(|variance| (variance, 1.0)));
        (
            Some(self.plan.normalizer.variance_rule().merged_variance(
                all_pixels,
                &counted,
                rows.len(),
            )),
            Some((counted, rows.len())),
        )
    }
}

/// Returns the sum of weights, each multiplied by a factor.
pub(super) fn sum_weights<'a>(
    of: impl Iterator<Item = (&'a BinWeights, f64)> + Clone,
) -> BinWeights {
    BinWeights {
        norm: sum_lists(of.clone().map(|(weights, factor)| (&weights.norm[..], factor))),
        norm_sq: sum_lists(
            of.clone().map(|(weights, factor)| (&weights.norm_sq[..], factor * factor)),
        ),
        count: sum_lists(of.map(|(weights, _)| (&weights.count[..], 1.0))),
    }
}

/// Returns the sum of lists, each multiplied by a factor.
fn sum_lists<'a>(lists: impl Iterator<Item = (&'a [f64], f64)>) -> Vec<f64> {
    let mut sums = Vec::new();
    for (list, factor) in lists {
        sums.resize(list.len(), 0.0);
        sums.iter_mut().zip(list).for_each(|(sum, value)| *sum += value * factor);
    }
    sums
}
