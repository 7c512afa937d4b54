//! Methods that look at all pixels of a bin, on a device; see `by_bin.cl`.

use ocl::core::{self, CommandQueue, Context, Event, Kernel};

use super::error::DeviceError;
use super::launch::Argument::{Double, Mem, Word};
use super::launch::{Memory, arguments};
use super::memory::{Buffer, NO_WAIT};
use super::queue::Aim;
use crate::plan::{ErrorModel, Plan};
use crate::robust::{ByBin, Reduction, Statistic};

/// Lanes that sum one bin of one frame.
pub(super) const TEAM: usize = 16;

/// Sums by bin: signal, variance, norm, its square, count.
pub(super) const QUANTITIES: usize = 5;

/// A plan's matrix by bin in a device's memory.
pub(super) struct Bins {
    entries: usize,
    has_weights: bool,
    has_darks: bool,
    starts: Buffer,
    pixels: Buffer,
    weights: Buffer,
    norms: Buffer,
    darks: Buffer,
    variances: Buffer,
    /// By bin, norm, its square and count where all pixels are valid.
    whole: [Buffer; 3],
}

impl Bins {
    /// Entries are numbered in 32 bits.
    pub(super) fn new(context: &Context, plan: &Plan, by_bin: &ByBin) -> Result<Bins, DeviceError> {
        let starts: Vec<u32> = by_bin.starts.iter().map(|&start| start as u32).collect();
        Ok(Bins {
            entries: by_bin.norm.len(),
            has_weights: !by_bin.weight.is_empty(),
            has_darks: !by_bin.dark.is_empty(),
            starts: Buffer::of(context, &starts)?,
            pixels: Buffer::of(context, &by_bin.pixel)?,
            weights: Buffer::of(context, &by_bin.weight)?,
            norms: Buffer::of(context, &by_bin.norm)?,
            darks: Buffer::of(context, &by_bin.dark)?,
            variances: Buffer::of(context, &by_bin.variance)?,
            whole: [
                Buffer::of(context, plan.norm())?,
                Buffer::of(context, plan.norm_sq())?,
                Buffer::of(context, plan.count())?,
            ],
        })
    }

    /// Bytes of a frame's room: its pixels, and the numbers of the entries that are left.
    pub(super) fn room(&self, frame_bytes: usize) -> usize {
        frame_bytes.next_multiple_of(8) + (4 * self.entries).next_multiple_of(8)
    }

    /// Queues both kernels, `decode` and `choose`, for `count` frames and the launch's plan of this `number`.
    pub(super) fn start(
        &self,
        [decode, choose]: [&Kernel; 2],
        queue: &CommandQueue,
        aim: &Aim<'_>,
        count: u32,
        (memory, number): (&Memory, usize),
        [decoded, chosen]: [&mut Event; 2],
    ) -> Result<(), DeviceError> {
        let (pixels, bins, entries) = (aim.plan.pixels() as u32, aim.plan.nbins() as u32, self.entries as u32);
        let results = &memory.results[number];
        arguments(
            decode,
            &[
                Mem(&memory.input),
                Word(count),
                Word(aim.matrix.tiles),
                Word(aim.matrix.whole),
                Word(pixels),
                Word(entries),
                Mem(&memory.partial),
                Mem(&results.status),
            ],
        )?;
        let Some(Reduction { statistic, errors }) = aim.by_bin.map(|by_bin| by_bin.reduction) else {
            unreachable!("a matrix by bin is of such a method")
        };
        let (threshold, rounds) = match statistic {
            Statistic::Clipped { threshold, rounds } => (threshold, rounds),
            Statistic::Mean | Statistic::Between { .. } => (0., 0),
        };
        let [norm, norm_sq, sum] = &self.whole;
        arguments(
            choose,
            &[
                Mem(&memory.partial),
                Word(count),
                Word(pixels),
                Word(bins),
                Word(entries),
                Mem(&self.starts),
                Mem(&self.pixels),
                Word(self.has_weights.into()),
                Mem(&self.weights),
                Mem(&self.norms),
                Word(self.has_darks.into()),
                Mem(&self.darks),
                Word(code(errors)),
                Mem(&self.variances),
                Mem(norm),
                Mem(norm_sq),
                Mem(sum),
                Mem(&aim.ranges),
                Word(aim.range_count),
                Double(threshold),
                Word(rounds),
                Mem(&results.status),
                Mem(&results.sums),
            ],
        )?;
        let (group, lanes) = (aim.variant.group, TEAM * aim.variant.teams());
        let tiles = [aim.matrix.tiles as usize * count as usize * group, 1, 1];
        let teams = [bins as usize * lanes, (count as usize).div_ceil(aim.variant.teams()), 1];
        // SAFETY: the arguments are those of the kernels, which keep within them whatever the frames hold; see the sources.
        unsafe {
            core::enqueue_kernel(queue, decode, 1, None, &tiles, Some([group, 1, 1]), NO_WAIT, Some(decoded))?;
            core::enqueue_kernel(queue, choose, 2, None, &teams, Some([lanes, 1, 1]), NO_WAIT, Some(chosen))?;
        }
        Ok(())
    }
}

/// An error model as `choose` takes it.
fn code(errors: ErrorModel) -> u32 {
    match errors {
        ErrorModel::No => 0,
        ErrorModel::Poisson => 1,
        ErrorModel::Azimuthal => 2,
        ErrorModel::Hybrid => 3,
        ErrorModel::Given => 4,
    }
}
