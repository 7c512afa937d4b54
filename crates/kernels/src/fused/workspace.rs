//! Many frames in one pass over the matrix: tile by tile, each frame's pixels are read into a lane, and all lanes are
//! summed at once.

use std::cell::OnceCell;

use super::accumulate::PixelSelection;
use super::accumulators::Accumulators;
use super::interleaved_tile::{InterleavedF64, InterleavedU8, InterleavedU16};
use super::lane::{Lane, PixelWidth};
use super::pixel_source::{InvalidRules, PixelSource, SourceBuffers, TileContext};
use crate::bitmap::Bitmap;
use crate::codec::DecodeError;
use crate::pixel::Pixel;
use crate::plan::{IntegrationPlan, StaticSums};
use crate::simd::LaneBackend;
use crate::summation_order::TILE;
use crate::sums::Sums;

/// Of a tile's 2048 pixels, so many that are lit in any frame are visited one by one; a visit takes twice as long as a
/// step of the dense kernel.
const MAX_SPARSE_NONZERO: u32 = 800;

/// The same for pixels of 2 counts or more, where all are added to the signals.
const MAX_SPARSE_ABOVE_ONE: u32 = 400;

/// Memory of a group of `L` frames.
pub(crate) struct Workspace<const L: usize> {
    /// One a plan.
    accumulators: Vec<PlanAccumulators<L>>,
    lanes: Vec<Lane>,
    buffers: Vec<SourceBuffers>,
    low: Box<[[u8; L]; TILE]>,
    high: Box<[[u8; L]; TILE]>,
    f64_pixels: Box<[[f64; L]; TILE]>,
}

/// What a group has of one plan.
#[derive(Default)]
struct PlanAccumulators<const L: usize> {
    rows: Accumulators<L>,
    /// Of frames whose sums are not yet completed: signals and excesses.
    columns: Vec<[Vec<f64>; 2]>,
    masked_sums: MaskedSumsCache,
}

/// The sums of a plan without the invalid pixels of the last frame that had some.
#[derive(Default)]
struct MaskedSumsCache {
    /// [`IntegrationPlan::id`]; 0 is none's.
    plan: u64,
    invalid: Vec<u32>,
    totals: StaticSums,
}

impl<const L: usize> Default for Workspace<L> {
    fn default() -> Workspace<L> {
        Workspace {
            accumulators: Vec::new(),
            lanes: (0..L).map(|_| Lane::default()).collect(),
            buffers: (0..L).map(|_| SourceBuffers::default()).collect(),
            low: boxed_tile(0),
            high: boxed_tile(0),
            f64_pixels: boxed_tile(0.),
        }
    }
}

/// An array that is made where it stays: on the heap.
fn boxed_tile<T: Copy, const L: usize>(value: T) -> Box<[[T; L]; TILE]> {
    vec![[value; L]; TILE].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("the length is TILE"))
}

impl<const L: usize> Workspace<L> {
    /// Integrates as many as `L` frames by plans that share the rules: each tile is read once, and summed by all of
    /// them while it is in the cache. Sums come by frame, then by plan. A source that fails leaves its error, and no
    /// trace in the others' sums.
    pub(crate) fn integrate<T: Pixel, B: LaneBackend<L>>(
        &mut self,
        backend: B,
        plans: &[&IntegrationPlan],
        rules: &InvalidRules<T>,
        sources: Vec<Result<PixelSource<'_>, DecodeError>>,
    ) -> Vec<Result<Vec<Sums>, DecodeError>> {
        assert!(sources.len() <= L, "{} frames for {L} lanes", sources.len());
        let (first, others) = plans.split_first().expect("frames are summed by one plan at the least");
        self.accumulators.resize_with(plans.len(), PlanAccumulators::default);
        for (share, plan) in self.accumulators.iter_mut().zip(plans) {
            share.rows.reset(plan.nbins(), plan.has_count_variance());
        }
        let mut sources = sources;
        for lane in &mut self.lanes {
            (lane.width, lane.invalid) = (PixelWidth::Zero, Vec::new());
        }
        for (number, unused) in first.unused.iter().enumerate() {
            let unused = others.iter().fold(*unused, |all, plan| all.zip(&plan.unused[number], |a, b| a & b));
            let mut place = TileContext {
                tile_index: number,
                pixels: first.pixels(),
                unused: &unused,
                is_dense: false,
                used_mask: &OnceCell::new(),
            };
            let lanes = self.lanes.iter_mut().zip(&mut self.buffers).enumerate();
            for (source, (index, (lane, buffers))) in sources.iter_mut().zip(lanes) {
                let Ok(opened) = source else { continue };
                if let Err(error) = opened.read(backend, place, rules, buffers, lane) {
                    lane.width = PixelWidth::Zero;
                    *source = Err(error);
                }
                if index == 0 {
                    place.is_dense = is_dense_tile(lane);
                }
            }
            self.accumulate(backend, plans, number);
        }
        for share in &mut self.accumulators {
            share.columns = share.rows.to_frame_sums(sources.len());
        }
        let sums = |(lane, source): (usize, Result<PixelSource<'_>, DecodeError>)| {
            source.map(|_| self.finish_lane(backend, lane, plans))
        };
        sources.into_iter().enumerate().map(sums).collect()
    }

    /// The sums of the frame in a lane, by each plan.
    fn finish_lane<B: LaneBackend<L>>(&mut self, backend: B, lane: usize, plans: &[&IntegrationPlan]) -> Vec<Sums> {
        let invalid = &mut self.lanes[lane].invalid;
        // Several ranges of invalid values are looked for one after another.
        invalid.sort_unstable();
        let invalid = std::mem::take(invalid);
        if let ([plan], [share]) = (plans, &mut self.accumulators[..]) {
            return vec![share.finish_lane(backend, lane, plan, invalid)];
        }
        // A pixel that one plan has may be masked in another.
        let of_plan =
            |plan: &IntegrationPlan| invalid.iter().copied().filter(|&pixel| plan.uses_pixel(pixel as usize)).collect();
        let shares = self.accumulators.iter_mut().zip(plans);
        shares.map(|(share, plan)| share.finish_lane(backend, lane, plan, of_plan(plan))).collect()
    }

    /// Adds the tile that the lanes hold.
    fn accumulate<B: LaneBackend<L>>(&mut self, backend: B, plans: &[&IntegrationPlan], number: usize) {
        let width = self.lanes.iter().map(|lane| lane.width).max().unwrap_or_default();
        if width == PixelWidth::Zero {
            return;
        }
        for lane in &mut self.lanes {
            lane.widen_to(width);
        }
        let [lit, bright] = match width {
            PixelWidth::U8 => {
                [lane_refs(&self.lanes, |lane| &lane.nonzero), lane_refs(&self.lanes, |lane| &lane.above_one)]
            }
            _ => [[&Bitmap::FULL; L]; 2],
        };
        if width <= PixelWidth::U16 {
            backend.interleave(lane_refs(&self.lanes, |lane| &lane.low_bytes), &mut self.low);
        }
        match width {
            PixelWidth::U16 => backend.interleave(lane_refs(&self.lanes, |lane| &lane.high_bytes), &mut self.high),
            PixelWidth::F64 => {
                backend.interleave_f64(std::array::from_fn(|lane| &self.lanes[lane].f64_pixels), &mut self.f64_pixels);
            }
            PixelWidth::Zero | PixelWidth::U8 => {}
        }
        for (PlanAccumulators { rows: table, .. }, plan) in self.accumulators.iter_mut().zip(plans) {
            let (columns, unused) = (plan.matrix.tile(number), &plan.unused[number]);
            let (lit, bright) = (backend.or_bitmaps(lit, unused), backend.or_bitmaps(bright, unused));
            let selection = match (lit.1, bright.1) {
                (0, _) => continue,
                (..MAX_SPARSE_NONZERO, _) => PixelSelection::NonZero(&lit.0),
                (_, ..MAX_SPARSE_ABOVE_ONE) => PixelSelection::AboveOne(&bright.0),
                _ => PixelSelection::All,
            };
            match width {
                PixelWidth::Zero => {}
                PixelWidth::U8 => backend.accumulate(table, columns, &InterleavedU8(&self.low), selection),
                PixelWidth::U16 => {
                    backend.accumulate(
                        table,
                        columns,
                        &InterleavedU16 { low_bytes: &self.low, high_bytes: &self.high },
                        selection,
                    );
                }
                PixelWidth::F64 => backend.accumulate(table, columns, &InterleavedF64(&self.f64_pixels), selection),
            }
        }
    }
}

impl<const L: usize> PlanAccumulators<L> {
    /// The sums of the frame in a lane, whose invalid pixels these are.
    fn finish_lane<B: LaneBackend<L>>(
        &mut self,
        backend: B,
        lane: usize,
        plan: &IntegrationPlan,
        invalid: Vec<u32>,
    ) -> Sums {
        let [signal, excess] = std::mem::take(&mut self.columns[lane]);
        if invalid.is_empty() {
            return Sums::from_photon_sums(plan, signal, excess, None);
        }
        // Frame after frame it is mostly the same pixels.
        if self.masked_sums.plan != plan.id() || self.masked_sums.invalid != invalid {
            let totals = backend.static_sums_without(plan, &invalid);
            self.masked_sums = MaskedSumsCache { plan: plan.id(), invalid, totals };
        }
        Sums::from_photon_sums(plan, signal, excess, Some(&self.masked_sums.totals))
    }
}

/// Whether this one's pixels alone are enough for all to be summed.
fn is_dense_tile(lane: &Lane) -> bool {
    lane.width == PixelWidth::U8
        && lane.nonzero.count() >= MAX_SPARSE_NONZERO
        && lane.above_one.count() >= MAX_SPARSE_ABOVE_ONE
}

fn lane_refs<'a, F, const L: usize>(lanes: &'a [Lane], field: impl Fn(&'a Lane) -> &'a F) -> [&'a F; L] {
    std::array::from_fn(|lane| field(&lanes[lane]))
}
