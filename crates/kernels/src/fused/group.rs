//! Many frames in one pass over the matrix: tile by tile, each frame's pixels are read into a lane, and all lanes are
//! summed at once.

use std::cell::OnceCell;

use super::column::{Middle, Narrow, Real};
use super::kernel::Selection;
use super::lane::{Lane, Width};
use super::source::{Buffers, Place, Rules, Source};
use super::table::Table;
use crate::backend::Backend;
use crate::bitmap::Bitmap;
use crate::decode::DecodeError;
use crate::order::TILE;
use crate::pixel::Pixel;
use crate::plan::{Plan, Totals};
use crate::sums::Sums;

/// Of a tile's 2048 pixels, so many that are lit in any frame are visited one by one; a visit takes twice as long as a
/// step of the dense kernel.
const FEW_LIT: u32 = 800;

/// The same for pixels of 2 counts or more, where all are added to the signals.
const FEW_BRIGHT: u32 = 400;

/// Memory of a group of `L` frames.
pub(crate) struct Workspace<const L: usize> {
    /// One a plan.
    shares: Vec<Share<L>>,
    lanes: Vec<Lane>,
    buffers: Vec<Buffers>,
    low: Box<[[u8; L]; TILE]>,
    high: Box<[[u8; L]; TILE]>,
    real: Box<[[f64; L]; TILE]>,
}

/// What a group has of one plan.
#[derive(Default)]
struct Share<const L: usize> {
    table: Table<L>,
    /// Of frames whose sums are not yet completed: signals and excesses.
    columns: Vec<[Vec<f64>; 2]>,
    without: Without,
}

/// The sums of a plan without the invalid pixels of the last frame that had some.
#[derive(Default)]
struct Without {
    /// [`Plan::id`]; 0 is none's.
    plan: u64,
    invalid: Vec<u32>,
    totals: Totals,
}

impl<const L: usize> Default for Workspace<L> {
    fn default() -> Workspace<L> {
        Workspace {
            shares: Vec::new(),
            lanes: (0..L).map(|_| Lane::default()).collect(),
            buffers: (0..L).map(|_| Buffers::default()).collect(),
            low: boxed(0),
            high: boxed(0),
            real: boxed(0.),
        }
    }
}

/// An array that is made where it stays: on the heap.
fn boxed<T: Copy, const L: usize>(value: T) -> Box<[[T; L]; TILE]> {
    vec![[value; L]; TILE].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("the length is TILE"))
}

impl<const L: usize> Workspace<L> {
    /// Integrates as many as `L` frames by plans that share the rules: each tile is read once, and summed by all of
    /// them while it is in the cache. Sums come by frame, then by plan. A source that fails leaves its error, and no
    /// trace in the others' sums.
    pub(crate) fn integrate<T: Pixel, B: Backend<L>>(
        &mut self,
        backend: B,
        plans: &[&Plan],
        rules: &Rules<T>,
        sources: Vec<Result<Source<'_>, DecodeError>>,
    ) -> Vec<Result<Vec<Sums>, DecodeError>> {
        assert!(sources.len() <= L, "{} frames for {L} lanes", sources.len());
        let (first, others) = plans.split_first().expect("frames are summed by one plan at the least");
        self.shares.resize_with(plans.len(), Share::default);
        for (share, plan) in self.shares.iter_mut().zip(plans) {
            share.table.reset(plan.nbins(), plan.counts_variance());
        }
        let mut sources = sources;
        for lane in &mut self.lanes {
            (lane.width, lane.invalid) = (Width::Zero, Vec::new());
        }
        for (number, unused) in first.unused.iter().enumerate() {
            let unused = others.iter().fold(*unused, |all, plan| all.zip(&plan.unused[number], |a, b| a & b));
            let mut place =
                Place { number, pixels: first.pixels(), unused: &unused, dense: false, used: &OnceCell::new() };
            let lanes = self.lanes.iter_mut().zip(&mut self.buffers).enumerate();
            for (source, (index, (lane, buffers))) in sources.iter_mut().zip(lanes) {
                let Ok(opened) = source else { continue };
                if let Err(error) = opened.read(backend, place, rules, buffers, lane) {
                    lane.width = Width::Zero;
                    *source = Err(error);
                }
                if index == 0 {
                    place.dense = is_dense(lane);
                }
            }
            self.accumulate(backend, plans, number);
        }
        for share in &mut self.shares {
            share.columns = share.table.columns(sources.len());
        }
        let sums =
            |(lane, source): (usize, Result<Source<'_>, DecodeError>)| source.map(|_| self.sums(backend, lane, plans));
        sources.into_iter().enumerate().map(sums).collect()
    }

    /// The sums of the frame in a lane, by each plan.
    fn sums<B: Backend<L>>(&mut self, backend: B, lane: usize, plans: &[&Plan]) -> Vec<Sums> {
        let invalid = &mut self.lanes[lane].invalid;
        // Several ranges of invalid values are looked for one after another.
        invalid.sort_unstable();
        let invalid = std::mem::take(invalid);
        if let ([plan], [share]) = (plans, &mut self.shares[..]) {
            return vec![share.sums(backend, lane, plan, invalid)];
        }
        // A pixel that one plan has may be masked in another.
        let of_plan = |plan: &Plan| invalid.iter().copied().filter(|&pixel| plan.uses(pixel as usize)).collect();
        let shares = self.shares.iter_mut().zip(plans);
        shares.map(|(share, plan)| share.sums(backend, lane, plan, of_plan(plan))).collect()
    }

    /// Adds the tile that the lanes hold.
    fn accumulate<B: Backend<L>>(&mut self, backend: B, plans: &[&Plan], number: usize) {
        let width = self.lanes.iter().map(|lane| lane.width).max().unwrap_or_default();
        if width == Width::Zero {
            return;
        }
        for lane in &mut self.lanes {
            lane.widen(width);
        }
        let [lit, bright] = match width {
            Width::Narrow => [each(&self.lanes, |lane| &lane.lit), each(&self.lanes, |lane| &lane.bright)],
            _ => [[&Bitmap::FULL; L]; 2],
        };
        if width <= Width::Middle {
            backend.interleave(each(&self.lanes, |lane| &lane.low), &mut self.low);
        }
        match width {
            Width::Middle => backend.interleave(each(&self.lanes, |lane| &lane.high), &mut self.high),
            Width::Real => {
                backend.interleave_reals(std::array::from_fn(|lane| &self.lanes[lane].real), &mut self.real);
            }
            Width::Zero | Width::Narrow => {}
        }
        for (Share { table, .. }, plan) in self.shares.iter_mut().zip(plans) {
            let (columns, unused) = (plan.matrix.tile(number), &plan.unused[number]);
            let (lit, bright) = (backend.any(lit, unused), backend.any(bright, unused));
            let selection = match (lit.1, bright.1) {
                (0, _) => continue,
                (..FEW_LIT, _) => Selection::Lit(&lit.0),
                (_, ..FEW_BRIGHT) => Selection::Bright(&bright.0),
                _ => Selection::All,
            };
            match width {
                Width::Zero => {}
                Width::Narrow => backend.accumulate(table, columns, &Narrow(&self.low), selection),
                Width::Middle => {
                    backend.accumulate(table, columns, &Middle { low: &self.low, high: &self.high }, selection);
                }
                Width::Real => backend.accumulate(table, columns, &Real(&self.real), selection),
            }
        }
    }
}

impl<const L: usize> Share<L> {
    /// The sums of the frame in a lane, whose invalid pixels these are.
    fn sums<B: Backend<L>>(&mut self, backend: B, lane: usize, plan: &Plan, invalid: Vec<u32>) -> Sums {
        let [signal, excess] = std::mem::take(&mut self.columns[lane]);
        if invalid.is_empty() {
            return Sums::complete(plan, signal, excess, None);
        }
        // Frame after frame it is mostly the same pixels.
        if self.without.plan != plan.id() || self.without.invalid != invalid {
            let totals = backend.totals_without(plan, &invalid);
            self.without = Without { plan: plan.id(), invalid, totals };
        }
        Sums::complete(plan, signal, excess, Some(&self.without.totals))
    }
}

/// Whether this one's pixels alone are enough for all to be summed.
fn is_dense(lane: &Lane) -> bool {
    lane.width == Width::Narrow && lane.lit.count() >= FEW_LIT && lane.bright.count() >= FEW_BRIGHT
}

fn each<'a, F, const L: usize>(lanes: &'a [Lane], field: impl Fn(&'a Lane) -> &'a F) -> [&'a F; L] {
    std::array::from_fn(|lane| field(&lanes[lane]))
}
