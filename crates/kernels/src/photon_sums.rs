//! [`PhotonSums`], the sums of a frame by bin that depend on its photons, and [`PhotonQuantities`],
//! which of them a plan needs.

use crate::dead_time::DeadTime;
use crate::static_sums::StaticSums;
use crate::variance_model::{PixelVarianceModel, VarianceModel};

/// The quantities that are summed by bin. Each has a number: its place among the sums of a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum PhotonQuantities {
    /// The signal alone.
    #[default]
    Signal,
    /// The signal, and the Poisson excess.
    SignalAndExcess,
    /// The signal, and the sums from which the spread of the pixels in a bin follows: squares, then
    /// products.
    SignalAndSpread,
}

impl PhotonQuantities {
    /// The greatest number of quantities.
    pub(crate) const MAX: usize = 3;

    /// Returns the quantities that the sums of a variance model need.
    pub(crate) fn from_model(model: VarianceModel) -> PhotonQuantities {
        match model.pixel {
            _ if model.is_spread_in_result() => PhotonQuantities::SignalAndSpread,
            PixelVarianceModel::Counts => PhotonQuantities::SignalAndExcess,
            PixelVarianceModel::None | PixelVarianceModel::Given => PhotonQuantities::Signal,
        }
    }

    /// Returns how many quantities there are.
    pub(crate) fn count(self) -> usize {
        match self {
            PhotonQuantities::Signal => 1,
            PhotonQuantities::SignalAndExcess => 2,
            PhotonQuantities::SignalAndSpread => 3,
        }
    }
}

/// The sums over the valid pixels of a frame, before the plan's static sums are applied: a list by
/// bin for each quantity. With weight w, normalization n and dark d of a pixel, the signal is Σ w
/// raw, the Poisson excess Σ w² (v - 1) with v = max(raw, 1), the squares are Σ w² raw (raw - 2 d), the
/// products Σ w² n raw. Where there is dead time, raw is the corrected count, and v its
/// [variance](DeadTime::poisson_variance).
#[derive(Clone, Debug)]
pub(crate) struct PhotonSums {
    quantities: PhotonQuantities,
    dead_time: DeadTime,
    /// As many lists as there are quantities; the others are empty.
    lists: [Vec<f64>; PhotonQuantities::MAX],
}

/// The share of the sums that a spread is the difference of, below which it counts as zero, in bins of
/// few pixels.
const LEAST_SPREAD: f64 = 1. / (1_u64 << 44) as f64;

impl PhotonSums {
    /// Makes sums of lists in the order of the quantities.
    pub(crate) fn new(
        quantities: PhotonQuantities,
        lists: [Vec<f64>; PhotonQuantities::MAX],
    ) -> PhotonSums {
        PhotonSums { quantities, dead_time: DeadTime::ZERO, lists }
    }

    /// Makes sums of zero, to which counts are added that are corrected for a dead time.
    pub(crate) fn zeros(
        quantities: PhotonQuantities,
        dead_time: DeadTime,
        nbins: usize,
    ) -> PhotonSums {
        let list = |index| vec![0.; if index < quantities.count() { nbins } else { 0 }];
        PhotonSums { quantities, dead_time, lists: std::array::from_fn(list) }
    }

    /// Adds a pixel of value `x` to a bin in which it has this weight, in the terms that
    /// [`crate::summation_order`] defines. `norm` and `dark` are the pixel's n and d.
    #[inline(always)]
    pub(crate) fn add(&mut self, bin: usize, weight: f32, x: f64, norm: f64, dark: f64) {
        let w = f64::from(weight);
        let [signal, second, third] = &mut self.lists;
        signal[bin] += w * x;
        match self.quantities {
            PhotonQuantities::Signal => {}
            PhotonQuantities::SignalAndExcess => {
                second[bin] += w * w * (self.dead_time.poisson_variance(x) - 1.);
            }
            PhotonQuantities::SignalAndSpread => {
                second[bin] += w * w * (x * (x - 2. * dark)).min(f64::MAX);
                third[bin] += w * w * norm * x;
            }
        }
    }

    /// Returns the signal Σ w (raw - d) of each bin, and the variance that follows from the photons,
    /// if the quantities have one. `static_sums` are those of the frame's valid pixels.
    pub(crate) fn complete(mut self, static_sums: &StaticSums) -> (Vec<f64>, Option<Vec<f64>>) {
        self.quantities.complete(0, self.lists.each_mut().map(|list| &mut list[..]), static_sums);
        let [signal, second, _] = self.lists;
        (signal, (self.quantities.count() > 1).then_some(second))
    }
}

impl PhotonQuantities {
    /// Completes the sums of the bins from `first_bin` on: the first list becomes the signal, Σ w (raw
    /// minus d), the second one the variance that follows from the photons, if the quantities have
    /// one. `static_sums` are those of the frame's valid pixels.
    #[inline(always)]
    pub(crate) fn complete(
        self,
        first_bin: usize,
        [signal, second, third]: [&mut [f64]; Self::MAX],
        static_sums: &StaticSums,
    ) {
        // There may be none.
        let from_first = |sums: &'_ [f64]| first_bin.min(sums.len());
        let dark = &static_sums.dark[from_first(&static_sums.dark)..];
        for (signal, dark) in signal.iter_mut().zip(dark) {
            *signal -= dark;
        }
        match self {
            PhotonQuantities::Signal => {}
            PhotonQuantities::SignalAndExcess => {
                let base_variance = &static_sums.base_variance[first_bin..];
                for (excess, base_variance) in second.iter_mut().zip(base_variance) {
                    *excess += base_variance;
                }
            }
            PhotonQuantities::SignalAndSpread => {
                let sums = signal.iter().zip(second.iter_mut().zip(third));
                for (bin, (signal, (squares, products))) in (first_bin..).zip(sums) {
                    *squares = static_sums.spread(bin, *signal, *squares, *products);
                }
            }
        }
    }
}

impl StaticSums {
    /// Returns V = Σ w² (s - m n)² of a bin, the spread of its pixels about their mean m = Σ w s / Σ
    /// w n, with s = raw - d: Σ w² s² - 2 m Σ w² s n + m² Σ w² n².
    ///
    /// The difference of these sums has a rounding error of some 2⁻⁵⁰ of their size, of many pixels
    /// more, which photons exceed by far: their V is that size divided by the mean count of a pixel.
    /// Where V is smaller than the error may be, as that of a single pixel is, it is zero.
    fn spread(&self, bin: usize, signal: f64, squares: f64, products: f64) -> f64 {
        let (norm, norm_sq) = (self.weights.norm[bin], self.weights.norm_sq[bin]);
        if norm == 0. {
            return 0.;
        }
        let of_dark = |sums: &[f64]| sums.get(bin).copied().unwrap_or(0.);
        let (dark_sq, norm_dark) = (of_dark(&self.dark_sq), of_dark(&self.norm_dark));
        let mean = signal / norm;
        let of_mean = mean * mean * norm_sq;
        let size = squares.abs() + 2. * dark_sq + of_mean;
        let spread = (squares + dark_sq) - 2. * mean * (products - norm_dark) + of_mean;
        if size == f64::INFINITY {
            size
        } else if spread < self.least_spread(bin) * size {
            0.
        } else {
            spread
        }
    }

    /// Returns the part of the sums that the spread of a bin may be off by. Each addition rounds by up
    /// to 2⁻⁵³, and all in one direction if all pixels are equal.
    pub(crate) fn least_spread(&self, bin: usize) -> f64 {
        LEAST_SPREAD.max(self.entries[bin] as f64 * f64::EPSILON / 2.)
    }
}
