//! Frames that are decoded whole, bin by bin: any codec and pixel type.

use super::by_bin::{ByBin, Totals};
use super::work::Work;
use crate::backend::Steps;
use crate::invalid::InvalidOf;
use crate::pixel::Pixel;
use crate::plan::Plan;

/// Frames decoded whole, and what is done to them.
pub(crate) struct Alone<'a, T> {
    pub(super) by_bin: &'a ByBin,
    pub(super) plan: &'a Plan,
    pub(super) rule: &'a InvalidOf<T>,
    /// Native pixels.
    pub(super) frames: &'a [&'a [u8]],
    pub(super) work: &'a mut Work,
    pub(super) totals: &'a mut [Totals],
}

impl<T: Pixel> Alone<'_, T> {
    /// The sums of all bins of each frame.
    #[inline(always)]
    pub(crate) fn reduce<S: Steps>(self, steps: S) {
        let reduction = self.by_bin.reduction;
        let mut raw = Vec::new();
        for nth in 0..self.plan.nbins() {
            let bin = self.by_bin.bin(nth, self.plan);
            for (frame, totals) in self.frames.iter().zip(&mut *self.totals) {
                raw.clear();
                for &pixel in bin.pixel {
                    raw.push(T::read(&frame[pixel as usize * T::SIZE..]));
                }
                totals.set(nth, reduction.reduce_raw(steps, &bin, &raw, self.rule, self.work));
            }
        }
    }
}
