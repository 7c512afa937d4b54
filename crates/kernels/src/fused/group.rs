//! Many frames in one pass over the matrix: tile by tile, each frame's pixels are read into a lane, and all lanes are
//! summed at once.

use super::column::{Middle, Narrow, Real};
use super::kernel::Selection;
use super::lane::{Lane, Width};
use super::source::{Buffers, Place, Rules, Source};
use super::table::Table;
use crate::backend::Backend;
use crate::bitmap::Bitmap;
use crate::decode::DecodeError;
use crate::matrix::Tile;
use crate::order::TILE;
use crate::pixel::Pixel;
use crate::plan::{Plan, Statics};
use crate::sums::Sums;

/// Of a tile's 2048 pixels, so many that are lit in any frame are visited one by one; a visit takes twice as long as a
/// step of the dense kernel.
const FEW_LIT: u32 = 800;

/// The same for pixels of 2 counts or more, where all are added to the signals.
const FEW_BRIGHT: u32 = 400;

/// Memory of a group of `L` frames.
pub(crate) struct Workspace<const L: usize> {
    table: Table<L>,
    lanes: Vec<Lane>,
    buffers: Vec<Buffers>,
    low: Box<[[u8; L]; TILE]>,
    high: Box<[[u8; L]; TILE]>,
    real: Box<[[f64; L]; TILE]>,
    without: Without,
}

/// The sums of a plan without the invalid pixels of the last frame that had some.
#[derive(Default)]
struct Without {
    /// [`Plan::id`]; 0 is none's.
    plan: u64,
    invalid: Vec<u32>,
    statics: Vec<Statics>,
}

impl<const L: usize> Default for Workspace<L> {
    fn default() -> Workspace<L> {
        Workspace {
            table: Table::default(),
            lanes: (0..L).map(|_| Lane::default()).collect(),
            buffers: (0..L).map(|_| Buffers::default()).collect(),
            low: boxed(0),
            high: boxed(0),
            real: boxed(0.),
            without: Without::default(),
        }
    }
}

/// An array that is made where it stays: on the heap.
fn boxed<T: Copy, const L: usize>(value: T) -> Box<[[T; L]; TILE]> {
    vec![[value; L]; TILE].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("the length is TILE"))
}

impl<const L: usize> Workspace<L> {
    /// Integrates as many as `L` frames. A source that fails leaves its error, and no trace in the others' sums.
    pub(crate) fn integrate<T: Pixel, B: Backend<L>>(
        &mut self,
        backend: B,
        plan: &Plan,
        rules: &Rules<T>,
        sources: Vec<Result<Source<'_>, DecodeError>>,
    ) -> Vec<Result<Sums, DecodeError>> {
        assert!(sources.len() <= L, "{} frames for {L} lanes", sources.len());
        self.table.reset(plan.nbins(), plan.counts_variance());
        let mut sources = sources;
        for lane in &mut self.lanes {
            (lane.width, lane.invalid) = (Width::Zero, Vec::new());
        }
        for (number, unused) in plan.unused.iter().enumerate() {
            let columns = plan.matrix.tile(number);
            let used = Bitmap::FULL.without(unused).bytes();
            let place = Place { number, pixels: plan.pixels(), unused, used: &used };
            for (source, (lane, buffers)) in sources.iter_mut().zip(self.lanes.iter_mut().zip(&mut self.buffers)) {
                let Ok(opened) = source else { continue };
                if let Err(error) = opened.read(backend, place, rules, buffers, lane) {
                    lane.width = Width::Zero;
                    *source = Err(error);
                }
            }
            self.accumulate(backend, columns);
        }
        sources.into_iter().enumerate().map(|(lane, source)| source.map(|_| self.sums(backend, lane, plan))).collect()
    }

    /// The pixels that are set in any lane.
    fn any(&self, of: impl Fn(&Lane) -> &Bitmap) -> Bitmap {
        self.lanes.iter().fold(Bitmap::EMPTY, |all, lane| all.zip(of(lane), |a, b| a | b))
    }

    fn sums<B: Backend<L>>(&mut self, backend: B, lane: usize, plan: &Plan) -> Sums {
        let (signal, excess) = (self.table.signal(lane), self.table.excess(lane));
        let invalid = &mut self.lanes[lane].invalid;
        if invalid.is_empty() {
            return Sums::complete(plan, signal, excess, None);
        }
        // Several ranges of invalid values are looked for one after another.
        invalid.sort_unstable();
        // Frame after frame it is mostly the same pixels.
        if self.without.plan != plan.id() || self.without.invalid != *invalid {
            let statics = backend.statics_without(plan, invalid);
            self.without = Without { plan: plan.id(), invalid: std::mem::take(invalid), statics };
        }
        Sums::complete(plan, signal, excess, Some(&self.without.statics))
    }

    /// Adds the tile that the lanes hold.
    fn accumulate<B: Backend<L>>(&mut self, backend: B, columns: Tile<'_>) {
        let width = self.lanes.iter().map(|lane| lane.width).max().unwrap_or_default();
        if width == Width::Zero {
            return;
        }
        for lane in &mut self.lanes {
            lane.widen(width);
        }
        match width {
            Width::Zero => {}
            Width::Narrow => {
                let (lit, bright) = (self.any(|lane| &lane.lit), self.any(|lane| &lane.bright));
                let selection = match (lit.count(), bright.count()) {
                    (..FEW_LIT, _) => Selection::Lit(&lit),
                    (_, ..FEW_BRIGHT) => Selection::Bright(&bright),
                    _ => Selection::All,
                };
                backend.interleave(each(&self.lanes, |lane| &lane.low), &mut self.low);
                backend.accumulate(&mut self.table, columns, &Narrow(&self.low), selection);
            }
            Width::Middle => {
                backend.interleave(each(&self.lanes, |lane| &lane.low), &mut self.low);
                backend.interleave(each(&self.lanes, |lane| &lane.high), &mut self.high);
                let column = Middle { low: &self.low, high: &self.high };
                backend.accumulate(&mut self.table, columns, &column, Selection::All);
            }
            Width::Real => {
                backend.interleave_reals(std::array::from_fn(|lane| &self.lanes[lane].real), &mut self.real);
                backend.accumulate(&mut self.table, columns, &Real(&self.real), Selection::All);
            }
        }
    }
}

fn each<'a, const L: usize>(lanes: &'a [Lane], field: impl Fn(&'a Lane) -> &'a [u8; TILE]) -> [&'a [u8; TILE]; L] {
    std::array::from_fn(|lane| field(&lanes[lane]))
}
