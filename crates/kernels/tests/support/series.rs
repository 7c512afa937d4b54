//! Series of frames and how they are reduced, together and each frame alone.

use kernels::{
    CsrMatrix, EncodedFrame, IntegrationPlan, IntegrationSpec, InvalidValues, Isa, Pipeline,
    PixelType, PixelVarianceModel, Scratch, Statistic, Sums, VarianceModel, integrate_frames,
};

use super::{Csc, Random};

const BSLZ4: (u32, &[u32]) = (32008, &[0, 4, 0, 0, 2]);

/// A series of frames and how to reduce them.
pub struct Series {
    pub dtype: PixelType,
    pub plan: IntegrationPlan,
    pub statistic: Statistic,
    /// The frames' bytes, by batch.
    pub batches: Vec<Vec<Vec<u8>>>,
}

/// How the mean changes from frame to frame.
const LEVELS: [fn(u64, &mut Random) -> u64; 8] = [
    |_, _| 6,
    |_, _| 0,
    |frame, _| 200 + 3 * frame,
    |frame, _| [2, 3000][frame as usize % 2],
    |_, random| 1 << random.below(12),
    |_, _| 1,
    |frame, _| 12_u64.saturating_sub(frame / 4),
    |frame, _| 3 + frame / 2,
];

/// How the pixels of a bin are reduced.
#[derive(Clone, Copy, PartialEq)]
pub enum Method {
    /// By sigma clipping with Poisson errors and without splitting pixels.
    ClipByTiles,
    /// By sigma clipping, with limits from the spread of the pixels.
    Spread,
    QuantileMean,
}

/// The ranges of quantiles. The median is drawn twice as often as others.
const QUANTILES: [[f64; 2]; 9] = [
    [0.5, 0.5],
    [0.5, 0.5],
    [0.25, 0.75],
    [0., 0.9],
    [0.4, 1.],
    [0.45, 0.55],
    [0.35, 0.6],
    [0.9, 0.9],
    [0., 1.],
];

impl Series {
    /// Returns a series of one bin of pixels, each with a norm, in batches of 8 equal frames.
    pub fn of_one_bin(n: &[f64], [low, high]: [f64; 2], frames: &[Vec<u16>]) -> Series {
        let csc = Csc {
            starts: (0..=n.len() as u64).collect(),
            bins: vec![0; n.len()],
            weights: vec![1.; n.len()],
            nbins: 1,
        };
        let plan = IntegrationPlan::new(csc.matrix(), n, VarianceModel::POISSON, None);
        let batch = |values: &Vec<u16>| {
            let frame: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
            vec![frame; 8]
        };
        Series {
            dtype: PixelType::U16,
            plan: plan.expect("a plan"),
            statistic: Statistic::QuantileMean { low, high },
            batches: frames.iter().map(batch).collect(),
        }
    }

    pub fn random(seed: u64, method: Method) -> Series {
        let random = &mut Random::new(seed);
        let dtype = [PixelType::U16, PixelType::U32, PixelType::I32, PixelType::U64, PixelType::U8]
            [random.below(5) as usize];
        let (pixels, nbins) = (5000 + random.below(3000), 1 + random.below(30));
        // Neighbours are in one bin or not; some pixels have none, and some bins have few pixels.
        let run = 1 + random.below(3) * 20;
        // No pixel is split where frames are clipped by tiles.
        let is_splitting = method != Method::ClipByTiles && random.below(2) == 0;
        let mut csc = Csc { starts: vec![0], nbins: nbins as usize + 2, ..Csc::default() };
        for pixel in 0..pixels {
            let bin = match random.below(400) {
                0 => Some(nbins),
                1..20 => None,
                _ => Some((pixel / run * 7 + random.below(2)) % nbins),
            };
            let is_split = is_splitting && random.below(2) == 0;
            let parts = if is_split { &[0.3, 0.7][..] } else { &[1.] };
            for (bin, weight) in bin.into_iter().flat_map(|bin| (bin..).zip(parts)) {
                csc.bins.push(bin as u32);
                csc.weights.push(*weight);
            }
            csc.starts.push(csc.bins.len() as u64);
        }
        // All norms are equal, differ by less than f64 or f32 resolves, by up to 2 %, or by a factor of up to
        // three.
        let steps = [0., 2_f64.powi(-53), 2_f64.powi(-26), 1e-5, 1e-3];
        let step = steps[random.below(5) as usize];
        // Some are negative, as those of a flat-field image may be.
        let negative = match method {
            Method::ClipByTiles => 0,
            _ => [0, 0, 1000, 20][random.below(4) as usize],
        };
        let norm = |_| {
            let sign = if negative > 0 && random.below(negative) == 0 { -1. } else { 1. };
            // With the smallest step, some of one count have equal intensities.
            sign * (0.9 + random.below(1000) as f64 * step)
        };
        let n: Vec<f64> = (0..pixels).map(norm).collect();
        let errors = match method {
            Method::Spread => {
                [VarianceModel::AZIMUTHAL, VarianceModel::HYBRID][random.below(2) as usize]
            }
            Method::ClipByTiles => VarianceModel::POISSON,
            Method::QuantileMean => {
                [VarianceModel::POISSON, VarianceModel::GIVEN][random.below(2) as usize]
            }
        };
        let dark: Option<Vec<f64>> = (method == Method::Spread && random.below(4) == 0)
            .then(|| (0..pixels).map(|_| random.below(30) as f64 / 8.).collect());
        let plan = match errors.pixel {
            PixelVarianceModel::Given => {
                let given = (0..pixels).map(|_| random.below(4) as f64).collect::<Vec<f64>>();
                IntegrationPlan::with_variance(csc.matrix(), &n, &given, errors.spread, None)
            }
            _ => IntegrationPlan::new(csc.matrix(), &n, errors, dark.as_deref()),
        };
        let level = LEVELS[random.below(8) as usize];
        let spots = [0, 3000, 500, 30][random.below(4) as usize];
        let invalid = [0, 0, 2000, 300, 100][random.below(5) as usize];
        // Some are invalid in all frames.
        let dead = [0, 0, 400][random.below(3) as usize];
        let is_dead: Vec<bool> = n.iter().map(|_| dead > 0 && random.below(dead) == 0).collect();
        let mut number = 0;
        let mut frame = |random: &mut Random| {
            number += 1;
            let level = level(number, random);
            let mut bytes = Vec::new();
            for (n, &is_dead) in n.iter().map(|n| n.abs()).zip(&is_dead) {
                // A sum of uniform numbers, about as wide as Poisson's distribution.
                let width = 1 + ((12. * level as f64 / 4.).sqrt() as u64);
                let noise: u64 = (0..4).map(|_| random.below(width)).sum();
                let mut value = (((level + noise) as f64 - 2. * width as f64).max(0.) * n) as u64;
                if spots > 0 && random.below(spots) == 0 {
                    // 255 marks pixels that do not fit into 8 bits.
                    value = [value + (1 << random.below(20)), 255][random.below(2) as usize];
                }
                if is_dead || invalid > 0 && random.below(invalid) == 0 {
                    value = u64::MAX;
                }
                bytes.extend_from_slice(&value.to_ne_bytes()[..dtype.size()]);
            }
            bytes
        };
        let batches = (0..4).map(|_| (0..2 + random.below(10)).map(|_| frame(random)).collect());
        let batches = batches.collect();
        let statistic = match method {
            Method::ClipByTiles | Method::Spread => Statistic::SigmaClip {
                threshold: [0., 2., 3., 5.][random.below(4) as usize],
                max_iter: random.below(6) as u32,
            },
            Method::QuantileMean => {
                let [low, high] = QUANTILES[random.below(QUANTILES.len() as u64) as usize];
                Statistic::QuantileMean { low, high }
            }
        };
        Series { dtype, plan: plan.expect("a plan"), statistic, batches }
    }

    /// Integrates the frames of the series together, and each alone.
    pub fn check(&self, isa: Isa, is_compressed: bool, seed: u64) {
        self.check_with(&mut Scratch::new(isa), isa, is_compressed, seed);
    }

    /// Checks with the fastest instruction set.
    pub fn check_fastest(&self, seed: u64) {
        self.check(Isa::available()[0], false, seed);
    }

    /// Checks as [`Series::check`] does, with the working memory of other series.
    pub fn check_with(&self, scratch: &mut Scratch, isa: Isa, is_compressed: bool, seed: u64) {
        let Series { dtype, plan, statistic, batches } = self;
        let open = |filters| Pipeline::from_hdf5(filters, *dtype, false).expect("known filters");
        let plain = open(&[]);
        let pipeline = &open(if is_compressed { &[BSLZ4] } else { &[] });
        let csr = CsrMatrix::new(plan, *statistic);
        let invalid = InvalidValues::from_integers(super::gaps(*dtype));
        let spec =
            IntegrationSpec { plan, invalid: &invalid, csr: Some(&csr), collects_rejected: true };
        for (number, batch) in batches.iter().enumerate() {
            let encode = |bytes: &Vec<u8>| match is_compressed {
                true => super::bslz4(bytes, dtype.size(), 8192 / dtype.size()),
                false => bytes.clone(),
            };
            let stored: Vec<Vec<u8>> = batch.iter().map(encode).collect();
            let mut frames: Vec<EncodedFrame<'_>> =
                stored.iter().map(|bytes| EncodedFrame { bytes, filter_mask: 0 }).collect();
            let damaged = number == 1;
            if damaged {
                frames[1].bytes = &stored[1][..stored[1].len() / 2];
            }
            let together = integrate_frames(pipeline, &[spec], &frames, scratch);
            for (index, (sums, bytes)) in together.into_iter().zip(batch).enumerate() {
                if damaged && index == 1 {
                    sums.expect_err("half a frame");
                    continue;
                }
                let alone = [EncodedFrame { bytes, filter_mask: 0 }];
                let alone = integrate_frames(&plain, &[spec], &alone, &mut Scratch::new(isa));
                let alone = alone.into_iter().next().expect("a frame").expect("sound");
                let place = format!("seed {seed}, {isa:?}, batch {number}, frame {index}");
                assert_eq!(bits(&sums.expect("sound")[0]), bits(&alone[0]), "{place}");
            }
        }
    }
}

/// Returns all that sums hold, with the bits of numbers.
fn bits(sums: &Sums) -> String {
    format!("{sums:?}")
}
