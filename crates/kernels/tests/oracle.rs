//! Compares the scalar kernel with loops written straight from the definitions.

mod support;

use kernels::{IntegrationPlan, InvalidValues, PixelType, Sums, VarianceModel, accumulate_frame};
use proptest::prelude::*;
use support::{Csc, Frame, Photons, Random};

fn gaps(dtype: PixelType) -> InvalidValues {
    InvalidValues::from_integers(support::gaps(dtype))
}

/// Returns Σ w x in the order of summation.
fn ordered(
    order: &[(usize, usize, f64)],
    nbins: usize,
    x: impl Fn(usize) -> f64,
    square: bool,
) -> Vec<f64> {
    let mut sums = vec![0.; nbins];
    for &(pixel, bin, w) in order {
        sums[bin] += if square { w * w } else { w } * x(pixel);
    }
    sums
}

fn close(found: &[f64], expected: &[f64]) -> bool {
    found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(f, e)| (f - e).abs() <= 1e-13 * e.abs() && (*e != 0. || *f == 0.))
}

/// Compares V of each bin with Σ w² (s - m n)², computed with the mean known. `pixel` gives the value,
/// normalization and dark of a pixel.
fn check_spreads(
    found: &[f64],
    photons: &[(usize, usize, f64)],
    nbins: usize,
    pixel: impl Fn(usize) -> (f64, f64, f64),
) {
    let mut shares = vec![Vec::new(); nbins];
    for &(p, bin, w) in photons {
        shares[bin].push((w, pixel(p)));
    }
    for (bin, (found, shares)) in found.iter().zip(shares).enumerate() {
        let sum = |term: &dyn Fn(f64, f64, f64, f64) -> f64| -> f64 {
            shares.iter().map(|&(w, (x, n, d))| term(w, x, n, d)).sum()
        };
        let mean = sum(&|w, x, _, d| w * (x - d)) / sum(&|w, _, n, _| w * n);
        let spread = sum(&|w, x, n, d| (w * (x - d - mean * n)).powi(2));
        // Of the sums that V is the difference of.
        let size = sum(&|w, x, n, d| {
            w * w * (x * x + 2. * (x * d).abs() + d * d + 2. * (mean * n).powi(2))
        });
        if shares.is_empty() {
            assert_eq!(*found, 0., "bin {bin}");
        } else if size.is_finite() {
            let close = (found - spread).abs() <= 1e-13 * size + 1e-11 * spread;
            assert!(close && *found >= 0., "bin {bin}: {found:e}, expected {spread:e} of {size:e}");
        } else {
            assert!(*found > 0., "bin {bin}: {found:e}");
        }
        if shares.len() == 1 && size.is_finite() {
            assert_eq!(*found, 0., "bin {bin}: a pixel has no spread");
        }
    }
}

/// Creates a case from its seed.
fn check(
    dtype: PixelType,
    pixels: usize,
    nbins: usize,
    photons: Photons,
    invalid: u64,
    dark: bool,
    seed: u64,
) {
    let random = &mut Random::new(seed);
    let csc = Csc::random(pixels, nbins, random);
    let rule = support::gaps(dtype);
    let frame = Frame::random(dtype, pixels, photons, invalid, &rule, random);
    let n: Vec<f64> = (0..pixels).map(|_| random.below(20) as f64 / 16.).collect();
    let dark: Option<Vec<f64>> =
        dark.then(|| (0..pixels).map(|_| random.below(100) as f64 / 8.).collect());
    let plan = IntegrationPlan::new(csc.matrix(), &n, VarianceModel::POISSON, dark.as_deref())
        .expect("arrays of the matrix's size");
    let mut sums = Sums::default();
    accumulate_frame(
        &frame.bytes,
        dtype,
        &plan,
        &InvalidValues::from_integers(rule.clone()),
        &mut sums,
    );

    // A pixel of norm zero adds as little as an invalid one.
    let usable = |p: usize| n[p] != 0.;
    let counts = |p: usize| usable(p) && frame.valid[p];
    let order = csc.in_order();
    let photons: Vec<_> = order.iter().copied().filter(|(p, ..)| counts(*p)).collect();
    let raw = ordered(&photons, nbins, |p| frame.values[p], false);
    let excess = ordered(&photons, nbins, |p| frame.values[p].max(1.) - 1., true);
    let floor = ordered(&photons, nbins, |_| 1., true);
    let variance = sums.variance.as_ref().expect("a Poisson plan has variances");
    match &dark {
        None => assert_eq!(sums.signal, raw),
        Some(dark) => {
            let d = ordered(&photons, nbins, |p| dark[p], false);
            let difference: Vec<f64> = raw.iter().zip(d).map(|(r, d)| r - d).collect();
            assert!(
                sums.signal
                    .iter()
                    .zip(&difference)
                    .zip(&raw)
                    .all(|((s, d), r)| (s - d).abs() <= 1e-12 * (1. + r.abs()))
            );
        }
    }
    assert!(
        variance
            .iter()
            .zip(&excess)
            .zip(&floor)
            .all(|((v, e), f)| (v - (e + f)).abs() <= 1e-13 * (e + f))
    );

    let (exception, signal) = (sums.weight_override, sums.signal);
    let spread_plan =
        IntegrationPlan::new(csc.matrix(), &n, VarianceModel::AZIMUTHAL, dark.as_deref())
            .expect("arrays of the matrix's size");
    let mut sums = Sums::default();
    accumulate_frame(
        &frame.bytes,
        dtype,
        &spread_plan,
        &InvalidValues::from_integers(rule),
        &mut sums,
    );
    assert_eq!((&sums.signal, &sums.weight_override), (&signal, &exception));
    let dark_of = |p: usize| dark.as_ref().map_or(0., |dark| dark[p]);
    let spreads = sums.variance.as_ref().expect("azimuthal errors");
    check_spreads(spreads, &photons, nbins, |p| (frame.values[p], n[p], dark_of(p)));

    let all: Vec<_> = order.iter().copied().filter(|(p, ..)| usable(*p)).collect();
    let norms = |of: &[(usize, usize, f64)]| {
        [
            ordered(of, nbins, |p| n[p], false),
            ordered(of, nbins, |p| n[p] * n[p], true),
            ordered(of, nbins, |_| 1., false),
        ]
    };
    let [norm, norm_sq, count] = norms(&all);
    assert!(
        close(plan.norm(), &norm) && close(plan.norm_sq(), &norm_sq) && close(plan.count(), &count)
    );
    let entries: Vec<u32> =
        (0..nbins).map(|b| all.iter().filter(|e| e.1 == b).count() as u32).collect();
    assert_eq!(plan.entry_counts().collect::<Vec<_>>(), entries);
    assert_eq!(exception.is_some(), photons.len() < all.len());
    if let Some(exception) = &exception {
        let [norm, norm_sq, count] = norms(&photons);
        assert!(
            close(&exception.norm, &norm)
                && close(&exception.norm_sq, &norm_sq)
                && close(&exception.count, &count)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn sums_are_those_of_the_plain_loops(
        dtype in prop::sample::select(PixelType::ALL.to_vec()),
        pixels in prop_oneof![1usize..70, 500usize..530, 2000usize..6500],
        nbins in prop_oneof![1usize..4, 50usize..900],
        photons in prop_oneof![Just(Photons::Sparse(50)), Just(Photons::Below(4)), Just(Photons::Below(70000)), Just(Photons::Noise)],
        invalid in prop_oneof![Just(0u64), Just(1), Just(2), Just(300)],
        dark in any::<bool>(),
        seed in any::<u64>(),
    ) {
        check(dtype, pixels, nbins, photons, invalid, dark, seed);
    }
}

/// Returns V of a bin of pixels that are not split, and of the bin before, in which they have none.
fn spread_of(values: &[f64]) -> [f64; 2] {
    spread_of_with(values, |pixel| 1. - 1e-6 * pixel as f64)
}

/// Returns the same, of pixels with these normalizations.
fn spread_of_with(values: &[f64], norm: impl Fn(usize) -> f64) -> [f64; 2] {
    let pixels = values.len();
    let csc = Csc {
        starts: (0..=pixels as u64).collect(),
        bins: vec![1; pixels],
        weights: vec![1.; pixels],
        nbins: 3,
    };
    let n: Vec<f64> = (0..pixels).map(norm).collect();
    let plan = IntegrationPlan::new(csc.matrix(), &n, VarianceModel::AZIMUTHAL, None)
        .expect("a norm a pixel");
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let mut sums = Sums::default();
    accumulate_frame(&bytes, PixelType::F64, &plan, &InvalidValues::none(), &mut sums);
    let variance = sums.variance.expect("azimuthal errors");
    assert_eq!(variance[2], 0.);
    [variance[1], variance[0]]
}

#[test]
fn the_spread_of_photons_is_exact_however_bright_and_that_of_equal_pixels_is_zero() {
    let random = &mut Random::new(4);
    for mean in [1e-2, 1., 1e3, 1e6, 1e9_f64] {
        // As wide as Poisson's distribution.
        let width = (12. * mean).sqrt();
        let values: Vec<f64> = (0..3000)
            .map(|p| mean * (1. - 1e-6 * f64::from(p)))
            .map(|level| level + width * (random.below(1 << 30) as f64 / f64::from(1 << 30) - 0.5))
            .collect();
        let terms = || values.iter().zip(0..).map(|(s, p)| (s, 1. - 1e-6 * f64::from(p)));
        let m = values.iter().sum::<f64>() / terms().map(|(_, n)| n).sum::<f64>();
        let expected: f64 = terms().map(|(s, n)| (s - m * n).powi(2)).sum();
        let [found, elsewhere] = spread_of(&values);
        assert!(
            (found / expected - 1.).abs() < 5e-15 * mean.max(1e3),
            "{mean}: {found:e} {expected:e}"
        );
        assert_eq!(elsewhere, 0.);
        let flat: Vec<f64> = terms().map(|(_, n)| mean * n).collect();
        assert_eq!(spread_of(&flat), [0., 0.], "{mean}");
    }
    // Sums of many equal pixels are all rounded in one direction.
    for level in [0.1_f32, 7.3, 1234.567, 3.3e7] {
        let level = f64::from(level);
        let one_norm = vec![level; 200_000];
        let [found, _] = spread_of_with(&one_norm, |_| 1.);
        assert_eq!(found, 0., "{level}");
    }
    // The square of a pixel exceeds the range of doubles.
    assert_eq!(spread_of(&[1., 1e200, 3.]), [f64::INFINITY, 0.]);
}

#[test]
fn a_bin_whose_pixels_are_all_invalid_has_exactly_nothing() {
    let csc = Csc {
        starts: vec![0, 2, 3, 4],
        bins: vec![0, 1, 1, 2],
        weights: vec![0.1, 0.9, 0.3, 1.],
        nbins: 3,
    };
    let plan = IntegrationPlan::new(
        csc.matrix(),
        &[0.7, 1.3, 0.9],
        VarianceModel::POISSON,
        Some(&[5., 5., 5.]),
    )
    .expect("three pixels");
    let frame: Vec<u8> =
        [u32::MAX, u32::MAX - 1, 7].into_iter().flat_map(u32::to_ne_bytes).collect();
    let mut sums = Sums::default();
    accumulate_frame(&frame, PixelType::U32, &plan, &gaps(PixelType::U32), &mut sums);
    let exception = sums.weight_override.expect("two pixels are invalid");
    assert_eq!(sums.signal, [0., 0., 2.]);
    assert_eq!(sums.variance, Some(vec![0., 0., 7.]));
    assert_eq!(exception.norm, [0., 0., 0.9]);
    assert_eq!(exception.count, [0., 0., 1.]);
}

#[test]
fn invalid_pixels_that_the_matrix_leaves_out_are_no_exception() {
    let csc = Csc { starts: vec![0, 0, 1], bins: vec![0], weights: vec![1.], nbins: 1 };
    let plan = IntegrationPlan::new(csc.matrix(), &[1., 1.], VarianceModel::NONE, None)
        .expect("two pixels");
    let mut sums = Sums::default();
    accumulate_frame(&[255, 3], PixelType::U8, &plan, &gaps(PixelType::U8), &mut sums);
    assert_eq!(
        sums,
        Sums { signal: vec![3.], variance: None, weight_override: None, rejected: None }
    );
}

#[test]
fn a_wrong_matrix_is_refused_with_its_place() {
    let refused = |starts: &[u64], bins: &[u32], weights: &[f32]| {
        kernels::TiledCsc::new(starts, bins, weights, 4).expect_err("refused").to_string()
    };
    let repeated = "matrix: pixel 0 has an entry in bin 1; expected rising bins below 4";
    assert_eq!(refused(&[0, 2], &[1, 1], &[1., 1.]), repeated);
    let beyond = "matrix: pixel 1 has an entry in bin 4; expected rising bins below 4";
    assert_eq!(refused(&[0, 0, 1], &[4], &[1.]), beyond);
    assert!(refused(&[0, 1], &[0], &[f32::NAN]).contains("pixel 0 has the weight NaN"));
    assert!(refused(&[0, 2, 1], &[0], &[1.]).contains("3 column starts, 1 bin indices"));
    assert!(refused(&[], &[], &[]).contains("0 column starts"));
    let matrix = kernels::TiledCsc::new(&[0, 1], &[0], &[1.], 1).expect("one pixel");
    let error = IntegrationPlan::new(matrix, vec![1., 1.], VarianceModel::NONE, None)
        .expect_err("two norms for one pixel");
    assert_eq!(error.to_string(), "normalization has 2 pixels; expected 1, as many as the matrix");
}
