//! The sparse matrix by bin, and frames put in its order.

use std::any::Any;

use super::work::{Entries, Variance, Work};
use super::{BinSums, Reduction, Statistic};
use crate::backend::Steps;
use crate::decode::{DecodeError, Pipeline};
use crate::invalid::{Invalid, InvalidOf};
use crate::lz4::SLACK;
use crate::pixel::{Pixel, PixelType, with_pixel};
use crate::plan::{ErrorModel, Plan};
use crate::sums::{Exception, Sums};
use crate::{Scratch, Stored};

/// A plan's entries by bin, and what is done to the pixels of each. Some 20 bytes a pixel that is not split, 32 for one
/// in two bins.
pub struct ByBin {
    reduction: Reduction,
    /// Where the entries of each bin begin, and the end of the last.
    starts: Vec<usize>,
    /// For each pixel the places of its first two entries; that behind the last for entries that it lacks.
    pairs: Vec<[u32; 2]>,
    /// Pixels with more entries, and the places of these.
    rest: Vec<(u32, u32)>,
    /// w of each entry.
    weight: Vec<f32>,
    /// n of its pixel.
    norm: Vec<f64>,
    /// The dark counts of its pixel; empty without a dark.
    dark: Vec<f64>,
    /// w² v; empty where variances are not given.
    variance: Vec<f64>,
}

/// Memory of a thread.
#[derive(Default)]
pub(crate) struct Memory {
    frame: Vec<u8>,
    /// A `Vec` of pixels in the order of the entries, of the type that came last.
    raw: Option<Box<dyn Any + Send>>,
    work: Work,
}

impl ByBin {
    /// The plan's entries in the order of bins. The plan's error model is that of the sums.
    pub fn new(plan: &Plan, statistic: Statistic) -> ByBin {
        let (nbins, pixels) = (plan.nbins(), plan.pixels());
        let matrix = plan.matrix.view();
        let mut starts = vec![0; nbins + 1];
        for pixel in 0..pixels {
            matrix.entries(pixel).for_each(|(bin, _)| starts[bin + 1] += 1);
        }
        for bin in 0..nbins {
            starts[bin + 1] += starts[bin];
        }
        let entries = starts[nbins];
        let given = plan.variance();
        let mut by_bin = ByBin {
            reduction: Reduction { statistic, errors: plan.errors() },
            pairs: vec![[entries as u32; 2]; pixels],
            rest: Vec::new(),
            weight: vec![0.; entries],
            norm: vec![0.; entries],
            dark: vec![0.; if plan.dark().is_some() { entries } else { 0 }],
            variance: vec![0.; if given.is_some() { entries } else { 0 }],
            starts,
        };
        let mut next = by_bin.starts.clone();
        for pixel in 0..pixels {
            for (nth, (bin, weight)) in matrix.entries(pixel).enumerate() {
                let (place, w) = (next[bin], f64::from(weight));
                next[bin] += 1;
                match by_bin.pairs[pixel].get_mut(nth) {
                    Some(one) => *one = place as u32,
                    None => by_bin.rest.push((pixel as u32, place as u32)),
                }
                by_bin.weight[place] = weight;
                by_bin.norm[place] = plan.normalization()[pixel];
                if let Some(dark) = plan.dark() {
                    by_bin.dark[place] = dark[pixel];
                }
                if let Some(given) = given {
                    by_bin.variance[place] = w * w * given[pixel];
                }
            }
        }
        by_bin
    }

    /// Bytes of its arrays.
    pub fn bytes(&self) -> usize {
        let of_entries = size_of_val(&*self.weight) + size_of_val(&*self.norm) + size_of_val(&*self.dark);
        let places = size_of_val(&*self.pairs) + size_of_val(&*self.rest) + size_of_val(&*self.starts);
        of_entries + size_of_val(&*self.variance) + places
    }

    /// Decodes a frame and sums its bins; `plan` is the one that this was made of.
    ///
    /// # Errors
    /// The frame does not decode.
    pub fn integrate(
        &self,
        pipeline: &Pipeline,
        plan: &Plan,
        invalid: &Invalid,
        frame: &Stored<'_>,
        scratch: &mut Scratch,
    ) -> Result<Sums, DecodeError> {
        let dtype = pipeline.dtype();
        let len = plan.pixels() * dtype.size();
        let mut pixels = std::mem::take(&mut scratch.by_bin.frame);
        pixels.resize(len + SLACK, 0);
        let decoded = pipeline.decode_over(frame.filter_mask, frame.bytes, &mut pixels, len);
        let sums = decoded.map(|()| self.accumulate(&pixels[..len], dtype, plan, invalid, scratch));
        scratch.by_bin.frame = pixels;
        sums
    }

    /// Sums the bins of a frame of native-endian pixels, row-major; `plan` is the one that this was made of.
    ///
    /// # Panics
    /// If the frame is not exactly as long as the plan's pixels of this type.
    pub fn accumulate(
        &self,
        frame: &[u8],
        dtype: PixelType,
        plan: &Plan,
        invalid: &Invalid,
        scratch: &mut Scratch,
    ) -> Sums {
        assert_eq!(frame.len(), plan.pixels() * dtype.size(), "bytes of a frame of {} {dtype}", plan.pixels());
        with_pixel!(dtype, accumulate(self, frame, plan, invalid, scratch))
    }

    /// Puts the frame's pixels to the places of their entries.
    fn scatter<T: Pixel>(&self, frame: &[u8], raw: &mut [T]) {
        for (bytes, &[first, second]) in frame.chunks_exact(T::SIZE).zip(&self.pairs) {
            let pixel = T::read(bytes);
            raw[first as usize] = pixel;
            raw[second as usize] = pixel;
        }
        for &(pixel, place) in &self.rest {
            raw[place as usize] = T::read(&frame[pixel as usize * T::SIZE..]);
        }
    }

    fn entries<'a, T>(&'a self, bin: usize, raw: &'a [T]) -> Entries<'a, T> {
        let range = self.starts[bin]..self.starts[bin + 1];
        Entries {
            raw: &raw[range.clone()],
            weight: &self.weight[range.clone()],
            norm: &self.norm[range.clone()],
            dark: (!self.dark.is_empty()).then(|| &self.dark[range.clone()]),
            variance: match self.reduction.errors {
                ErrorModel::No | ErrorModel::Azimuthal => Variance::No,
                ErrorModel::Poisson | ErrorModel::Hybrid => Variance::Counts,
                ErrorModel::Given => Variance::Given(&self.variance[range]),
            },
            sorts: matches!(self.reduction.statistic, Statistic::Between { .. }),
        }
    }

    /// The sums of all bins, of raw pixels in the order of the entries.
    fn reduce<T: Pixel, S: Steps>(
        &self,
        steps: S,
        raw: &[T],
        rule: &InvalidOf<T>,
        plan: &Plan,
        work: &mut Work,
    ) -> Sums {
        let mut sums = Totals::of(plan);
        for bin in 0..plan.nbins() {
            let whole = BinSums {
                signal: 0.,
                variance: 0.,
                norm: plan.norm()[bin],
                norm_sq: plan.norm_sq()[bin],
                count: plan.count()[bin],
            };
            let is_whole = steps.load_bin(self.entries(bin, raw), rule, work);
            sums.set(bin, steps.reduce_bin(&self.reduction, work, is_whole.then_some(whole)));
        }
        sums.finish(plan, self.reduction.errors != ErrorModel::No)
    }
}

/// The sums of all bins.
struct Totals {
    signal: Vec<f64>,
    variance: Vec<f64>,
    weights: Exception,
}

impl Totals {
    fn of(plan: &Plan) -> Totals {
        let zeros = || vec![0.; plan.nbins()];
        let weights = Exception { norm: zeros(), norm_sq: zeros(), count: zeros() };
        Totals { signal: zeros(), variance: zeros(), weights }
    }

    fn set(&mut self, bin: usize, sums: BinSums) {
        self.signal[bin] = sums.signal;
        self.variance[bin] = sums.variance;
        self.weights.norm[bin] = sums.norm;
        self.weights.norm_sq[bin] = sums.norm_sq;
        self.weights.count[bin] = sums.count;
    }

    fn finish(self, plan: &Plan, has_variance: bool) -> Sums {
        let weights = &self.weights;
        let is_plan = weights.norm == plan.norm() && weights.norm_sq == plan.norm_sq() && weights.count == plan.count();
        Sums {
            signal: self.signal,
            variance: has_variance.then_some(self.variance),
            exception: (!is_plan).then_some(self.weights),
        }
    }
}

fn accumulate<T: Pixel>(by_bin: &ByBin, frame: &[u8], plan: &Plan, invalid: &Invalid, scratch: &mut Scratch) -> Sums {
    let memory = &mut scratch.by_bin;
    let places = by_bin.weight.len() + 1;
    let kept = memory.raw.take().and_then(|raw| raw.downcast::<Vec<T>>().ok());
    let mut raw = kept.unwrap_or_default();
    raw.resize(places, T::read(&[0; 8]));
    by_bin.scatter(frame, &mut raw);
    let mut work = std::mem::take(&mut memory.work);
    let sums = crate::backend::with_isa!(scratch.isa(), |steps| {
        by_bin.reduce(steps, &raw, &invalid.of::<T>(), plan, &mut work)
    });
    scratch.by_bin.work = work;
    scratch.by_bin.raw = Some(raw);
    sums
}
