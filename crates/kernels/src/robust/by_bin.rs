//! The sparse matrix by bin, and frames put in its order.

use std::any::Any;

use super::work::{Entries, Variance, Work};
use super::{BinSums, Reduction, Statistic};
use crate::backend::Steps;
use crate::decode::{DecodeError, Pipeline};
use crate::invalid::{Invalid, InvalidOf};
use crate::lz4::SLACK;
use crate::pixel::{Pixel, with_pixel};
use crate::plan::{ErrorModel, Plan};
use crate::sums::{Exception, Sums};
use crate::{Scratch, Stored};

/// Frames that are put in the order of the bins before these are summed: what the entries of a bin are is then read
/// once for all of them.
const GROUP: usize = 4;

/// A plan's entries by bin, and what is done to the pixels of each: 12 bytes a pixel that is not split, 32 for one in
/// two bins.
pub struct ByBin {
    pub(crate) reduction: Reduction,
    /// Where the entries of each bin begin, and the end of the last.
    pub(crate) starts: Vec<usize>,
    /// The place of each pixel's first entry; that behind the last for a pixel without.
    pub(crate) first: Vec<u32>,
    /// The same of the second entry; empty where no pixel has two.
    pub(crate) second: Vec<u32>,
    /// Pixels with more entries, and the places of these.
    pub(crate) rest: Vec<(u32, u32)>,
    /// w of each entry; empty where all are 1.
    pub(crate) weight: Vec<f32>,
    /// n of its pixel.
    pub(crate) norm: Vec<f64>,
    /// The dark counts of its pixel; empty without a dark.
    pub(crate) dark: Vec<f64>,
    /// w² v; empty where variances are not given.
    pub(crate) variance: Vec<f64>,
}

/// Memory of a thread.
#[derive(Default)]
pub(crate) struct Memory {
    frame: Vec<u8>,
    /// A `Vec` of `Vec`s of pixels in the order of the entries, of the type that came last.
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
            first: vec![entries as u32; pixels],
            second: vec![entries as u32; pixels],
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
                match nth {
                    0 => by_bin.first[pixel] = place as u32,
                    1 => by_bin.second[pixel] = place as u32,
                    _ => by_bin.rest.push((pixel as u32, place as u32)),
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
        if by_bin.second.iter().all(|&place| place as usize == entries) {
            by_bin.second = Vec::new();
        }
        if by_bin.weight.iter().all(|&weight| weight == 1.) {
            by_bin.weight = Vec::new();
        }
        by_bin
    }

    /// Bytes of its arrays.
    pub fn bytes(&self) -> usize {
        let of_entries = size_of_val(&*self.weight) + size_of_val(&*self.norm) + size_of_val(&*self.dark);
        let of_pixels = size_of_val(&*self.first) + size_of_val(&*self.second) + size_of_val(&*self.rest);
        of_entries + size_of_val(&*self.variance) + of_pixels + size_of_val(&*self.starts)
    }

    /// Decodes frames and sums their bins; `plan` is the one that this was made of. A frame that does not decode is
    /// an error of its own.
    pub fn integrate(
        &self,
        pipeline: &Pipeline,
        plan: &Plan,
        invalid: &Invalid,
        frames: &[Stored<'_>],
        scratch: &mut Scratch,
    ) -> Vec<Result<Sums, DecodeError>> {
        let mut sums = Vec::with_capacity(frames.len());
        for group in frames.chunks(GROUP) {
            with_pixel!(pipeline.dtype(), integrate(self, pipeline, plan, invalid, group, scratch, &mut sums));
        }
        scratch.ways.by_bin += frames.len() as u64;
        sums
    }

    /// Whether it needs no order of the pixels' intensities: devices have sums alone.
    pub fn is_sums(&self) -> bool {
        !matches!(self.reduction.statistic, Statistic::Between { .. })
    }

    /// The pixel of each entry.
    pub(crate) fn pixels(&self) -> Vec<u32> {
        let entries = self.norm.len();
        // One more, where pixels without entries go.
        let mut pixels = vec![0; entries + 1];
        for list in [&self.first, &self.second] {
            (0..).zip(list).for_each(|(pixel, &place)| pixels[place as usize] = pixel);
        }
        self.rest.iter().for_each(|&(pixel, place)| pixels[place as usize] = pixel);
        pixels.truncate(entries);
        pixels
    }

    /// A frame's sums, of numbers by bin: signals, then variances, norms, squares of norms, counts.
    pub(crate) fn sums(&self, plan: &Plan, numbers: &[f64]) -> Sums {
        let mut lists = numbers.chunks_exact(plan.nbins().max(1)).map(<[f64]>::to_vec);
        let mut next = || lists.next().unwrap_or_default();
        let (signal, variance) = (next(), next());
        let weights = Exception { norm: next(), norm_sq: next(), count: next() };
        Totals { signal, variance, weights }.finish(plan, self.reduction.errors != ErrorModel::No)
    }

    /// Puts the frame's pixels to the places of their entries.
    fn scatter<T: Pixel>(&self, frame: &[u8], raw: &mut [T]) {
        for (bytes, &place) in frame.chunks_exact(T::SIZE).zip(&self.first) {
            raw[place as usize] = T::read(bytes);
        }
        for (bytes, &place) in frame.chunks_exact(T::SIZE).zip(&self.second) {
            raw[place as usize] = T::read(bytes);
        }
        for &(pixel, place) in &self.rest {
            raw[place as usize] = T::read(&frame[pixel as usize * T::SIZE..]);
        }
    }

    fn entries<'a, T>(&'a self, bin: usize, raw: &'a [T]) -> Entries<'a, T> {
        let range = self.starts[bin]..self.starts[bin + 1];
        Entries {
            raw: &raw[range.clone()],
            weight: (!self.weight.is_empty()).then(|| &self.weight[range.clone()]),
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

    /// The sums of all bins, of the raw pixels of some frames in the order of the entries.
    fn reduce<T: Pixel, S: Steps>(
        &self,
        steps: S,
        frames: &[&[T]],
        rule: &InvalidOf<T>,
        plan: &Plan,
        work: &mut Work,
    ) -> Vec<Sums> {
        let mut totals: Vec<Totals> = frames.iter().map(|_| Totals::of(plan)).collect();
        for bin in 0..plan.nbins() {
            let whole = BinSums {
                signal: 0.,
                variance: 0.,
                norm: plan.norm()[bin],
                norm_sq: plan.norm_sq()[bin],
                count: plan.count()[bin],
            };
            for (raw, totals) in frames.iter().zip(&mut totals) {
                let is_whole = steps.load_bin(self.entries(bin, raw), rule, work);
                totals.set(bin, steps.reduce_bin(&self.reduction, work, is_whole.then_some(whole)));
            }
        }
        let has_variance = self.reduction.errors != ErrorModel::No;
        totals.into_iter().map(|totals| totals.finish(plan, has_variance)).collect()
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

/// Integrates as many as [`GROUP`] frames.
fn integrate<T: Pixel>(
    by_bin: &ByBin,
    pipeline: &Pipeline,
    plan: &Plan,
    invalid: &Invalid,
    frames: &[Stored<'_>],
    scratch: &mut Scratch,
    results: &mut Vec<Result<Sums, DecodeError>>,
) {
    let isa = scratch.isa();
    let Memory { frame: pixels, raw: kept, work } = &mut scratch.by_bin;
    let raw = kept.take().and_then(|raw| raw.downcast::<Vec<Vec<T>>>().ok());
    let mut raw = raw.unwrap_or_default();
    raw.resize_with(raw.len().max(frames.len()), Vec::new);
    let len = plan.pixels() * T::SIZE;
    pixels.resize(len + SLACK, 0);
    let mut decoded = Vec::with_capacity(frames.len());
    for (frame, raw) in frames.iter().zip(raw.iter_mut()) {
        let result = pipeline.decode_over(frame.filter_mask, frame.bytes, pixels, len);
        if result.is_ok() {
            raw.resize(by_bin.norm.len() + 1, T::read(&[0; 8]));
            by_bin.scatter(&pixels[..len], raw);
        }
        decoded.push(result);
    }
    let good: Vec<&[T]> =
        raw.iter().zip(&decoded).filter(|(_, result)| result.is_ok()).map(|(raw, _)| &raw[..]).collect();
    let rule = invalid.of::<T>();
    let sums = crate::backend::with_isa!(isa, |steps| by_bin.reduce(steps, &good, &rule, plan, work));
    let mut sums = sums.into_iter();
    results.extend(decoded.into_iter().map(|result| result.map(|()| sums.next().expect("sums of each good frame"))));
    *kept = Some(raw);
}
