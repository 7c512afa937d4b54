//! Compares the pixels that sigma clipping rejects with their definition, written as plain loops.

mod support;

use std::collections::BTreeMap;

use kernels::{
    CsrMatrix, EncodedFrame, IntegrationPlan, IntegrationSpec, InvalidValues, Isa, Pipeline,
    PixelType, RejectedPixels, Scratch, SpreadRole, Statistic, VarianceModel, integrate_frames,
};
use support::{Csc, Frame, Photons, Random};

/// The share of a pixel in a bin.
#[derive(Clone, Copy)]
struct Share {
    pixel: usize,
    w: f64,
    n: f64,
    s: f64,
    v: f64,
}

/// Clips a bin, and returns the pixels that were rejected: true if above the mean.
fn rejected(
    mut shares: Vec<Share>,
    errors: VarianceModel,
    threshold: f64,
    rounds: u32,
) -> Vec<(usize, bool)> {
    let mut all = Vec::new();
    for _ in 0..rounds {
        let sum = |term: &dyn Fn(&Share) -> f64| shares.iter().map(term).sum::<f64>();
        let mean = sum(&|p| p.w * p.s) / sum(&|p| p.w * p.n);
        let variance = match errors.spread {
            SpreadRole::Unused => sum(&|p| p.w * p.w * p.v),
            _ => sum(&|p| (p.w * p.n * (p.s / p.n - mean)).powi(2)),
        };
        let std = (variance / sum(&|p| (p.w * p.n).powi(2))).sqrt();
        let count = sum(&|p| p.w).max(3.);
        let chauvenet = (2. * (count / (2. * std::f64::consts::PI).sqrt()).ln()).sqrt();
        let limit = threshold.max(chauvenet) * std + 1e-12 * mean.abs();
        shares.retain(|p| {
            let distance = p.s / p.n - mean;
            if distance.abs() > limit {
                all.push((p.pixel, distance > 0.));
            }
            distance.abs() <= limit
        });
    }
    all
}

/// Integrates a frame in every way that the kernels have, and returns what they reject.
fn reject(spec: IntegrationSpec<'_>, frames: [&Frame; 2], dtype: PixelType) -> RejectedPixels {
    let raw = Pipeline::from_hdf5(&[], dtype, false).expect("no filters");
    let [frame, other] = frames.map(|frame| EncodedFrame { bytes: &frame.bytes, filter_mask: 0 });
    let short = EncodedFrame { bytes: &frame.bytes[1..], filter_mask: 0 };
    let mut found = Vec::new();
    for isa in Isa::available() {
        let scratch = &mut Scratch::new(isa);
        for batch in [&[frame][..], &[frame; 2], &[other, short, frame, other], &[frame; 11]] {
            for (sums, stored) in
                integrate_frames(&raw, &[spec], batch, scratch).into_iter().zip(batch)
            {
                if std::ptr::eq(stored.bytes, frame.bytes) {
                    let sums = sums.expect("a sound frame").remove(0);
                    found.push(sums.rejected.expect("they were asked for"));
                }
            }
            let unasked = IntegrationSpec { collects_rejected: false, ..spec };
            for sums in integrate_frames(&raw, &[unasked], batch, scratch).into_iter().flatten() {
                assert_eq!(sums[0].rejected, None);
            }
        }
    }
    assert!(found.iter().all(|one| *one == found[0]), "{dtype}: ways to integrate differ");
    found.swap_remove(0)
}

fn check(dtype: PixelType, split: bool, dark: bool, errors: VarianceModel, seed: u64) -> usize {
    let random = &mut Random::new(seed);
    let (pixels, nbins) = (3000, 40);
    let csc = if split {
        Csc::random(pixels, nbins, random)
    } else {
        Csc {
            starts: (0..=pixels as u64).collect(),
            bins: (0..pixels).map(|_| random.below(nbins as u64) as u32).collect(),
            weights: vec![1.; pixels],
            nbins,
        }
    };
    let rule = support::gaps(dtype);
    // Overflowing and bright pixels among few photons.
    let photons =
        [Photons::Sparse(30), Photons::Below(8), Photons::Below(66000)][seed as usize % 3];
    let frame = Frame::random(dtype, pixels, photons, 50, &rule, random);
    let other = Frame::random(dtype, pixels, photons, 50, &rule, random);
    let n: Vec<f64> = (0..pixels).map(|_| random.below(20) as f64 / 16.).collect();
    let dark: Option<Vec<f64>> =
        dark.then(|| (0..pixels).map(|_| random.below(10) as f64 / 8.).collect());
    let plan = IntegrationPlan::new(csc.matrix(), &n, errors, dark.as_deref()).expect("a plan");
    let (threshold, rounds) = (1.5 + seed as f64 % 3., 1 + (seed % 4) as u32);
    let statistic = Statistic::SigmaClip { threshold, max_iter: rounds };
    let (matrix, invalid) = (CsrMatrix::new(&plan, statistic), InvalidValues::from_integers(rule));
    let spec = IntegrationSpec {
        plan: &plan,
        invalid: &invalid,
        csr: Some(&matrix),
        collects_rejected: true,
    };
    let mut bins = vec![Vec::new(); nbins];
    let mut entries = vec![0; pixels];
    for pixel in (0..pixels).filter(|&p| n[p] != 0.) {
        let s = frame.values[pixel] - dark.as_ref().map_or(0., |dark| dark[pixel]);
        let v = frame.values[pixel].max(1.);
        for (bin, w) in csc.entries(pixel) {
            entries[pixel] += 1;
            if frame.valid[pixel] {
                bins[bin].push(Share { pixel, w, n: n[pixel], s, v });
            }
        }
    }
    let mut above = BTreeMap::<usize, usize>::new();
    let mut all = 0;
    for shares in bins {
        for (pixel, is_above) in rejected(shares, errors, threshold, rounds) {
            all += 1;
            *above.entry(pixel).or_default() += usize::from(is_above);
        }
    }
    above.retain(|pixel, shares| *shares == entries[*pixel]);
    let written: usize = above.values().sum();
    let expected = RejectedPixels::Few {
        pixels: above.keys().map(|&pixel| pixel as u32).collect(),
        values: above.keys().map(|&pixel| frame.values[pixel]).collect(),
        other_shares: (all - written) as u64,
    };
    assert_eq!(reject(spec, [&frame, &other], dtype), expected, "{dtype} {split} {seed}");
    above.len()
}

#[test]
fn rejected_pixels_are_those_that_each_bin_drops_above_its_mean() {
    let mut found = 0;
    for dtype in PixelType::ALL {
        for errors in [VarianceModel::POISSON, VarianceModel::AZIMUTHAL, VarianceModel::HYBRID] {
            for seed in 0..12 {
                found += check(dtype, seed % 2 == 0, seed % 5 == 0, errors, seed);
            }
        }
    }
    assert!(found > 10_000, "{found}");
}

#[test]
fn a_frame_with_too_many_rejected_pixels_has_none() {
    let pixels = 100_000;
    let csc = Csc {
        starts: (0..=pixels as u64).collect(),
        bins: vec![0; pixels],
        weights: vec![1.; pixels],
        nbins: 1,
    };
    let n = vec![1.; pixels];
    let plan =
        IntegrationPlan::new(csc.matrix(), &n, VarianceModel::POISSON, None).expect("a plan");
    // Chauvenet's criterion of so many pixels is 4.6 standard deviations.
    let matrix = CsrMatrix::new(&plan, Statistic::SigmaClip { threshold: 0., max_iter: 1 });
    let invalid = InvalidValues::none();
    let spec = IntegrationSpec {
        plan: &plan,
        invalid: &invalid,
        csr: Some(&matrix),
        collects_rejected: true,
    };
    let limit = matrix.max_rejected();
    assert_eq!(limit, pixels / 16);
    for bright in [limit, limit + 1] {
        let values =
            (0..pixels).map(|pixel| if pixel % 15 == 3 && pixel / 15 < bright { 9000 } else { 10 });
        let frame = Frame {
            dtype: PixelType::U16,
            values: Vec::new(),
            valid: Vec::new(),
            bytes: values.flat_map(|value: u16| value.to_ne_bytes()).collect(),
        };
        match reject(spec, [&frame; 2], PixelType::U16) {
            RejectedPixels::Few { pixels, values, other_shares } => {
                assert_eq!((bright, pixels.len()), (limit, limit));
                assert!(values.iter().all(|value| *value == 9000.) && pixels[1] == 18);
                // The mean lies between, far from all pixels.
                assert_eq!(other_shares, (100_000 - limit) as u64);
            }
            RejectedPixels::TooMany { shares } => {
                assert_eq!((bright, shares), (limit + 1, 100_000));
            }
        }
    }
}
