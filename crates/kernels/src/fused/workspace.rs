//! [`Workspace`], which integrates up to `L` frames in one pass over the matrix: for each tile it
//! decodes the frames' pixels into lanes, then applies the tile of the matrix to all lanes at once.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::accumulate::{PixelSelection, TileTerms, accumulate_tile};
use super::accumulators::Accumulators;
use super::interleaved_tile::{InterleavedF64, InterleavedU8, InterleavedU16};
use super::lane::Lane;
use super::pixel_source::{InvalidRules, PixelSource, SourceBuffers};
use super::spread_factors::{ShortTileFactors, SpreadFactors};
use super::tile_context::TileContext;
use crate::bitmap::Bitmap;
use crate::codec::DecodeError;
use crate::invalid_pixels::InvalidPixels;
use crate::pixel::PixelWidth;
use crate::plan::IntegrationPlan;
use crate::simd::Simd;
use crate::static_sums::StaticSums;
use crate::summation_order::TILE;
use crate::sums_block::SumsBlock;
use crate::variance_model::PixelVarianceModel;

/// Tiles with fewer pixels than this (of 2048) that are not zero in any frame are summed pixel by
/// pixel from a bitmap, which takes about twice as long per pixel as the loop over all pixels.
const MAX_SPARSE_NONZERO: u32 = 800;

/// Tiles with fewer pixels than this that are above 1 in any frame add only these to the Poisson
/// excess, and all pixels to the signal.
const MAX_SPARSE_ABOVE_ONE: u32 = 400;

/// The working memory for `L` frames, reused from call to call.
pub(crate) struct Workspace<const L: usize> {
    /// The accumulators of each plan.
    accumulators: Vec<PlanAccumulators<L>>,
    lanes: Vec<Lane>,
    buffers: Vec<SourceBuffers>,
    low: Box<[[u8; L]; TILE]>,
    high: Box<[[u8; L]; TILE]>,
    f64_pixels: Box<[[f64; L]; TILE]>,
    short_tile: Box<ShortTileFactors>,
}

/// The accumulators of one plan, and what is derived from them.
#[derive(Default)]
struct PlanAccumulators<const L: usize> {
    rows: Accumulators<L>,
    masked_sums: MaskedSumsCache,
}

/// The static sums of a plan without the invalid pixels of the last frame that had some.
#[derive(Default)]
struct MaskedSumsCache {
    /// The plan's [`IntegrationPlan::id`]; 0 is no plan's.
    plan: u64,
    invalid: InvalidPixels,
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
            short_tile: Box::default(),
        }
    }
}

/// Allocates a tile on the heap, without a temporary on the stack.
fn boxed_tile<T: Copy, const L: usize>(value: T) -> Box<[[T; L]; TILE]> {
    vec![[value; L]; TILE]
        .into_boxed_slice()
        .try_into()
        .unwrap_or_else(|_| unreachable!("the length is TILE"))
}

impl<const L: usize> Workspace<L> {
    /// Integrates up to `L` frames by plans that share the rules for invalid pixels and the dead time. Calls `take`
    /// with the blocks of sums of each frame by each plan, both given by their indices.
    ///
    /// Each tile is read once, and summed by all plans while it is in the cache. The result of a
    /// frame that can't be decoded is an error; the sums of the other frames are not affected.
    ///
    /// It is compiled for the processor that the compiler targets, never into a kernel: each kernel
    /// that it runs stays a function of its own, which the compiler optimizes better than one that
    /// holds all of them.
    #[inline(never)]
    pub(crate) fn integrate<S: Simd>(
        &mut self,
        simd: S,
        plans: &[&IntegrationPlan],
        rules: &InvalidRules,
        sources: Vec<Result<PixelSource<'_>, DecodeError>>,
        take: &mut dyn FnMut(usize, usize, SumsBlock<'_>),
    ) -> Vec<Result<(), DecodeError>> {
        assert!(sources.len() <= L, "{} frames for {L} lanes", sources.len());
        let (first, others) =
            plans.split_first().expect("frames are summed by one plan at the least");
        self.accumulators.resize_with(plans.len(), PlanAccumulators::default);
        for (accumulators, plan) in self.accumulators.iter_mut().zip(plans) {
            accumulators.rows.reset(plan.nbins(), plan.quantities());
        }
        let mut sources = sources;
        for lane in &mut self.lanes {
            lane.width = PixelWidth::Zero;
            lane.invalid.clear();
        }
        for (tile_index, unused) in first.unused.iter().enumerate() {
            let unused = others
                .iter()
                .fold(*unused, |all, plan| all.zip(&plan.unused[tile_index], |a, b| a & b));
            let mut context = TileContext {
                tile_index,
                pixels: first.pixels(),
                unused: &unused,
                is_dense: false,
                used_mask: &OnceCell::new(),
            };
            let lanes = self.lanes.iter_mut().zip(&mut self.buffers).enumerate();
            for (source, (index, (lane, buffers))) in sources.iter_mut().zip(lanes) {
                let Ok(opened) = source else { continue };
                if let Err(error) = opened.read(simd, context, rules, buffers, lane) {
                    lane.width = PixelWidth::Zero;
                    *source = Err(error);
                }
                if index == 0 {
                    context.is_dense = is_dense_tile(lane);
                }
            }
            self.accumulate(simd, plans, tile_index);
        }
        for (plan_index, (accumulators, plan)) in
            self.accumulators.iter_mut().zip(plans).enumerate()
        {
            // A pixel that one plan uses can be masked in another.
            let invalid = |lane: usize| match &self.lanes[lane].invalid {
                invalid if plans.len() == 1 => Cow::Borrowed(invalid),
                invalid => Cow::Owned(invalid.without(&plan.unused)),
            };
            let sound = (0..sources.len()).filter(|lane| sources[*lane].is_ok());
            let mut left: Vec<(usize, Cow<'_, InvalidPixels>)> =
                sound.map(|lane| (lane, invalid(lane))).collect();
            // Frames with the same invalid pixels at a time, as their static sums are large.
            while !left.is_empty() {
                let (first, invalid) = left.remove(0);
                let mut lanes = vec![first];
                left.retain(|(lane, other)| {
                    let is_same = *other == invalid;
                    lanes.extend(is_same.then_some(*lane));
                    !is_same
                });
                accumulators.take_sums(simd, plan, &lanes, &invalid, |lane, block| {
                    take(lane, plan_index, block);
                });
            }
        }
        sources.into_iter().map(|source| source.map(|_| ())).collect()
    }

    /// Adds the tile in the lanes to the accumulators of all plans.
    fn accumulate<S: Simd>(&mut self, simd: S, plans: &[&IntegrationPlan], tile_index: usize) {
        let dead_time = plans[0].dead_time();
        let width = self.lanes.iter().map(|lane| lane.width).max().unwrap_or_default();
        if width == PixelWidth::Zero {
            return;
        }
        for lane in &mut self.lanes {
            lane.widen_to(width);
        }
        let [nonzero, above_one] = match width {
            PixelWidth::U8 => [
                lane_refs(&self.lanes, |lane| &lane.nonzero),
                // A photon that is corrected for dead time is more than one.
                lane_refs(&self.lanes, |lane| match dead_time.is_zero() {
                    true => &lane.above_one,
                    false => &lane.nonzero,
                }),
            ],
            _ => [[&Bitmap::FULL; L]; 2],
        };
        if width <= PixelWidth::U16 {
            simd.interleave(lane_refs(&self.lanes, |lane| &lane.low_bytes), &mut self.low);
        }
        match width {
            PixelWidth::U16 => {
                simd.interleave(lane_refs(&self.lanes, |lane| &lane.high_bytes), &mut self.high)
            }
            PixelWidth::F64 => {
                simd.interleave_f64(
                    std::array::from_fn(|lane| &self.lanes[lane].f64_pixels),
                    &mut self.f64_pixels,
                );
            }
            PixelWidth::Zero | PixelWidth::U8 => {}
        }
        for (PlanAccumulators { rows: accumulators, .. }, plan) in
            self.accumulators.iter_mut().zip(plans)
        {
            let (tile, unused) = (plan.matrix.tile(tile_index), &plan.unused[tile_index]);
            let (nonzero, nonzero_count) = simd.or_bitmaps(nonzero, unused);
            let (above_one, above_one_count) = simd.or_bitmaps(above_one, unused);
            let selection = match (nonzero_count, above_one_count) {
                (0, _) => continue,
                (..MAX_SPARSE_NONZERO, _) => PixelSelection::NonZero(&nonzero),
                (_, ..MAX_SPARSE_ABOVE_ONE) => PixelSelection::AboveOne(&above_one),
                _ => PixelSelection::All,
            };
            let factors = SpreadFactors::from_tile(plan, tile_index, &mut self.short_tile);
            let terms = TileTerms { selection, factors, dead_time };
            match width {
                PixelWidth::Zero => {}
                PixelWidth::U8 => {
                    let counts = InterleavedU8(&self.low);
                    accumulate_tile(simd, accumulators, tile, counts, terms);
                }
                PixelWidth::U16 => {
                    let counts = InterleavedU16 { low_bytes: &self.low, high_bytes: &self.high };
                    accumulate_tile(simd, accumulators, tile, counts, terms);
                }
                PixelWidth::F64 => {
                    let counts = InterleavedF64(&self.f64_pixels);
                    accumulate_tile(simd, accumulators, tile, counts, terms);
                }
            }
        }
    }
}

impl<const L: usize> PlanAccumulators<L> {
    /// Calls `take` with the blocks of sums of these lanes, whose frames have these invalid pixels.
    fn take_sums<S: Simd>(
        &mut self,
        simd: S,
        plan: &IntegrationPlan,
        lanes: &[usize],
        invalid: &InvalidPixels,
        mut take: impl FnMut(usize, SumsBlock<'_>),
    ) {
        let quantities = self.rows.quantities();
        let is_given = plan.variance_model().pixel == PixelVarianceModel::Given;
        let own = (!invalid.is_empty()).then(|| self.masked_sums.without(simd, plan, invalid));
        let static_sums = own.unwrap_or(plan.static_sums());
        let weight_override = own.map(|own| &own.weights);
        self.rows.for_each_block(simd, lanes, |lane, first, [signal, second, third]| {
            quantities.complete(first, [&mut *signal, &mut *second, third], static_sums);
            let bins = first..first + signal.len();
            let variance = match (&*second, is_given) {
                ([], true) => Some(&static_sums.base_variance[bins.clone()]),
                ([], false) => None,
                (variance, _) => Some(variance),
            };
            take(lane, SumsBlock { bins, signal, variance, weight_override });
        });
    }
}

impl MaskedSumsCache {
    /// Returns the static sums of a plan without these pixels.
    fn without<S: Simd>(
        &mut self,
        simd: S,
        plan: &IntegrationPlan,
        invalid: &InvalidPixels,
    ) -> &StaticSums {
        // Consecutive frames mostly have the same invalid pixels.
        if self.plan != plan.id() || self.invalid != *invalid {
            let totals = simd.run(plan.static_sums_without(invalid));
            *self = Self { plan: plan.id(), invalid: invalid.clone(), totals };
        }
        &self.totals
    }
}

/// Returns whether the lane alone has so many pixels above 1 that all pixels of the tile will be
/// summed.
fn is_dense_tile(lane: &Lane) -> bool {
    lane.width == PixelWidth::U8
        && lane.nonzero.count() >= MAX_SPARSE_NONZERO
        && lane.above_one.count() >= MAX_SPARSE_ABOVE_ONE
}

/// Returns references to one field of each lane.
fn lane_refs<'a, F, const L: usize>(
    lanes: &'a [Lane],
    field: impl Fn(&'a Lane) -> &'a F,
) -> [&'a F; L] {
    std::array::from_fn(|lane| field(&lanes[lane]))
}
