//! Compares sigma clipping and quantile means with their definitions, written as plain loops.

mod support;

use kernels::{
    CsrMatrix, DeadTime, EncodedFrame, IntegrationPlan, InvalidValues, Isa, Pipeline, PixelType,
    PixelVarianceModel, Scratch, SpreadRole, Statistic, Sums, VarianceModel,
};
use proptest::prelude::*;
use support::{Csc, Frame, Photons, Random};

/// The part of a valid pixel in a bin.
#[derive(Clone, Copy, Debug)]
struct Share {
    w: f64,
    n: f64,
    s: f64,
    v: f64,
}

/// Sums of a bin: signal, variance, norm, norm², count.
type Five = [f64; 5];

fn sums_of(shares: &[Share]) -> Five {
    let sum = |term: fn(&Share) -> f64| shares.iter().map(term).sum();
    [
        sum(|p| p.w * p.s),
        sum(|p| p.w * p.w * p.v),
        sum(|p| p.w * p.n),
        sum(|p| (p.w * p.n).powi(2)),
        sum(|p| p.w),
    ]
}

fn mean(shares: &[Share]) -> f64 {
    let [signal, _, norm, ..] = sums_of(shares);
    signal / norm
}

fn spread(shares: &[Share]) -> f64 {
    let mean = mean(shares);
    shares.iter().map(|p| (p.w * p.n * (p.s / p.n - mean)).powi(2)).sum()
}

fn clipped(
    mut shares: Vec<Share>,
    errors: VarianceModel,
    threshold: f64,
    rounds: u32,
) -> Vec<Share> {
    for _ in 0..rounds {
        let [_, variance, _, norm_sq, count] = sums_of(&shares);
        let from_spread = errors.spread != SpreadRole::Unused;
        let std = (if from_spread { spread(&shares) } else { variance } / norm_sq).sqrt();
        let chauvenet = (2. * (count.max(3.) / (2. * std::f64::consts::PI).sqrt()).ln()).sqrt();
        let (mean, limit) = (mean(&shares), threshold.max(chauvenet) * std);
        // A distance from the mean that rounding explains makes no outlier.
        shares.retain(|p| (p.s / p.n - mean).abs() <= limit + 1e-12 * mean.abs());
    }
    shares
}

fn between(mut shares: Vec<Share>, low: f64, high: f64) -> Vec<Share> {
    let key = |p: &Share| [p.s / p.n, p.w * p.s, p.w * p.w * p.v, p.w * p.n];
    shares.sort_by(|a, b| key(a).partial_cmp(&key(b)).expect("numbers"));
    let total: f64 = shares.iter().map(|p| p.w * p.n).sum();
    let (mut upper, slack) = (0., 1e-12 * total);
    shares.retain(|p| {
        let lower = upper;
        upper += p.w * p.n;
        upper >= low * total - slack && lower <= high * total + slack
    });
    shares
}

/// Returns the sums of a bin by the definitions, and for each the sum of its terms' absolute values:
/// terms of both signs cancel.
fn expected(shares: Vec<Share>, statistic: Statistic, errors: VarianceModel) -> [Five; 2] {
    let chosen = match statistic {
        Statistic::SigmaClip { threshold, max_iter: rounds } => {
            clipped(shares, errors, threshold, rounds)
        }
        Statistic::QuantileMean { low, high } => between(shares, low, high),
    };
    let mut sums = sums_of(&chosen);
    if errors.spread == SpreadRole::ClippingAndResult && !chosen.is_empty() {
        sums[1] = spread(&chosen);
    }
    let [_, _, norm, norm_sq, count] = sums;
    let size = chosen.iter().map(|p| p.w * p.s.abs()).sum();
    let square = chosen.iter().map(|p| (p.w * p.s).powi(2) + p.w * p.w * p.v).sum();
    [sums, [size, square, norm, norm_sq, count]]
}

#[derive(Clone, Debug)]
struct Case {
    dtype: PixelType,
    pixels: usize,
    nbins: usize,
    photons: Photons,
    invalid: u64,
    dark: bool,
    /// The dead time of a pixel, in parts of the exposure.
    dead_time: f64,
    /// How many different norms pixels have.
    norms: u64,
    statistic: Statistic,
    errors: VarianceModel,
    seed: u64,
}

fn check(case: &Case) {
    let &Case { dtype, pixels, nbins, statistic, errors, .. } = case;
    let random = &mut Random::new(case.seed);
    let csc = Csc::random(pixels, nbins, random);
    let rule = support::gaps(dtype);
    let frame = Frame::random(dtype, pixels, case.photons, case.invalid, &rule, random);
    let other = Frame::random(dtype, pixels, case.photons, case.invalid, &rule, random);
    let norm = |random: &mut Random| random.below(case.norms) as f64 * 1.25 / case.norms as f64;
    let n: Vec<f64> = (0..pixels).map(|_| norm(random)).collect();
    let dark: Option<Vec<f64>> =
        case.dark.then(|| (0..pixels).map(|_| random.below(100) as f64 / 8.).collect());
    let given: Vec<f64> = (0..pixels).map(|_| random.below(50) as f64 / 4.).collect();
    let plan = match errors.pixel {
        PixelVarianceModel::Given => {
            IntegrationPlan::with_variance(csc.matrix(), &n, &given, errors.spread, dark.as_deref())
        }
        _ => IntegrationPlan::new(csc.matrix(), &n, errors, dark.as_deref()),
    };
    let dead_time = DeadTime::new(case.dead_time, 1.);
    let plan = plan.expect("arrays of the matrix's size").with_dead_time(dead_time);
    let matrix = CsrMatrix::new(&plan, statistic);
    let (invalid, raw) = (
        InvalidValues::from_integers(rule).or(dead_time.invalid_values()),
        Pipeline::from_hdf5(&[], dtype, false).expect("no filters"),
    );
    let found: Vec<Sums> = Isa::available()
        .into_iter()
        .flat_map(|isa| {
            let scratch = &mut Scratch::new(isa);
            let stored = EncodedFrame { bytes: &frame.bytes, filter_mask: 0 };
            let other = EncodedFrame { bytes: &other.bytes, filter_mask: 0 };
            let short = EncodedFrame { bytes: &frame.bytes[1..], filter_mask: 0 };
            // The sums of a frame are the same in a group, with frames that can't be decoded, and
            // alone.
            let several = matrix.integrate(
                &raw,
                &plan,
                &invalid,
                &[stored, short, stored, stored, stored, stored],
                scratch,
            );
            assert_eq!(
                several.iter().map(Result::is_ok).collect::<Vec<_>>(),
                [true, false, true, true, true, true]
            );
            let alone = matrix.integrate(&raw, &plan, &invalid, &[stored], scratch);
            // Some pixels are invalid in all frames of a group, and some in this frame only.
            let alike = matrix.integrate(&raw, &plan, &invalid, &[stored; 2], scratch);
            let among = matrix
                .integrate(&raw, &plan, &invalid, &[other, stored, other], scratch)
                .into_iter()
                .nth(1);
            several.into_iter().chain(alone).chain(alike).chain(among).filter_map(Result::ok)
        })
        .collect();
    assert!(found.iter().all(|sums| *sums == found[0]), "instruction sets differ");

    let mut bins = vec![Vec::new(); nbins];
    // Pixels that were dead for more than nine tenths of the exposure are invalid.
    let is_alive = |raw: f64| case.dead_time * raw <= 0.9;
    let is_valid = |p: usize| frame.valid[p] && is_alive(frame.values[p]);
    for pixel in (0..pixels).filter(|&p| n[p] != 0. && is_valid(p)) {
        let raw = frame.values[pixel];
        let factor = 1. / (1. - case.dead_time * raw.max(0.));
        let s = raw * factor - dark.as_ref().map_or(0., |dark| dark[pixel]);
        let n = n[pixel];
        let v = match errors.pixel {
            PixelVarianceModel::None => 0.,
            PixelVarianceModel::Counts => (raw * factor * factor).max(1.),
            PixelVarianceModel::Given => given[pixel],
        };
        csc.entries(pixel).for_each(|(bin, w)| bins[bin].push(Share { w, n, s, v }));
    }
    let sums = &found[0];
    for (bin, shares) in bins.into_iter().enumerate() {
        let (norm, norm_sq, count) = match &sums.weight_override {
            Some(own) => (own.norm[bin], own.norm_sq[bin], own.count[bin]),
            None => (plan.norm()[bin], plan.norm_sq()[bin], plan.count()[bin]),
        };
        let variance = sums.variance.as_ref().map_or(0., |variance| variance[bin]);
        assert_eq!(sums.variance.is_some(), errors != VarianceModel::NONE);
        let [expected, scales] = expected(shares, statistic, errors);
        for ((found, expected), scale) in
            [sums.signal[bin], variance, norm, norm_sq, count].iter().zip(expected).zip(scales)
        {
            assert!(
                (found - expected).abs() <= 1e-11 * scale,
                "bin {bin}: {found:e} for {expected:e}, {sums:?}"
            );
        }
    }
}

fn statistics() -> impl Strategy<Value = Statistic> {
    let clip = (prop_oneof![Just(0.), 0.5..6.], 0u32..8);
    let quantiles = prop_oneof![
        Just((0.5, 0.5)),
        Just((0., 1.)),
        Just((0., 0.3)),
        Just((0.7, 1.)),
        (0.0..0.5, 0.5..1.0)
    ];
    prop_oneof![
        clip.prop_map(|(threshold, rounds)| Statistic::SigmaClip { threshold, max_iter: rounds }),
        quantiles.prop_map(|(low, high)| Statistic::QuantileMean { low, high }),
    ]
}

fn error_models(statistic: Statistic) -> impl Strategy<Value = (Statistic, VarianceModel)> {
    const NONE: VarianceModel = VarianceModel::NONE;
    const POISSON: VarianceModel = VarianceModel::POISSON;
    const AZIMUTHAL: VarianceModel = VarianceModel::AZIMUTHAL;
    const HYBRID: VarianceModel = VarianceModel::HYBRID;
    const GIVEN: VarianceModel = VarianceModel::GIVEN;
    // No recipe has this pair; the two choices are independent all the same.
    const GIVEN_HYBRID: VarianceModel = VarianceModel { spread: SpreadRole::Clipping, ..GIVEN };
    let models = match statistic {
        Statistic::SigmaClip { .. } => vec![POISSON, AZIMUTHAL, HYBRID, GIVEN, GIVEN_HYBRID],
        Statistic::QuantileMean { .. } => vec![NONE, POISSON, GIVEN],
    };
    prop::sample::select(models).prop_map(move |errors| (statistic, errors))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn sums_are_those_of_the_definitions(
        dtype in prop::sample::select(PixelType::ALL.to_vec()),
        pixels in prop_oneof![1usize..70, 2000usize..6500],
        nbins in prop_oneof![1usize..4, 50usize..900],
        photons in prop_oneof![
            Just(Photons::Sparse(50)),
            Just(Photons::Below(4)),
            // Few pixels that overflow 16 bits, and many.
            Just(Photons::Below(65600)),
            Just(Photons::Below(70000)),
        ],
        invalid in prop_oneof![Just(0u64), Just(1), Just(2), Just(300)],
        dark in any::<bool>(),
        dead_time in prop_oneof![4 => Just(0.), 1 => Just(1e-6), 1 => Just(2e-5)],
        norms in prop_oneof![Just(20u64), Just(1 << 20)],
        (statistic, errors) in statistics().prop_flat_map(error_models),
        seed in any::<u64>(),
    ) {
        check(&Case {
            dtype, pixels, nbins, photons, invalid, dark, dead_time, norms, statistic, errors, seed,
        });
    }
}

/// Returns a bin of pixels of weight and norm 1.
fn one_bin(values: &[u32], statistic: Statistic, errors: VarianceModel) -> Sums {
    let pixels = values.len();
    let csc = Csc {
        starts: (0..=pixels as u64).collect(),
        bins: vec![0; pixels],
        weights: vec![1.; pixels],
        nbins: 1,
    };
    let plan = IntegrationPlan::new(csc.matrix(), vec![1.; pixels], errors, None)
        .expect("as many norms as pixels");
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let raw = Pipeline::from_hdf5(&[], PixelType::U32, false).expect("no filters");
    let stored = EncodedFrame { bytes: &bytes, filter_mask: 0 };
    let sums = CsrMatrix::new(&plan, statistic).integrate(
        &raw,
        &plan,
        &InvalidValues::none(),
        &[stored],
        &mut Scratch::default(),
    );
    sums.into_iter().next().and_then(Result::ok).expect("sums of one frame")
}

#[test]
fn a_hot_pixel_is_clipped_and_what_was_hidden_by_it_in_the_next_round() {
    let mut values = vec![10; 100];
    values.extend([12, 8, 1000, 4_000_000_000]);
    let clipped = |rounds| {
        one_bin(
            &values,
            Statistic::SigmaClip { threshold: 5., max_iter: rounds },
            VarianceModel::AZIMUTHAL,
        )
        .weight_override
        .expect("one is out")
        .count
        .clone()
    };
    assert_eq!((clipped(1), clipped(2)), (vec![103.], vec![102.]));
    let all = one_bin(
        &values,
        Statistic::SigmaClip { threshold: 1e9, max_iter: 5 },
        VarianceModel::AZIMUTHAL,
    );
    assert_eq!((all.signal, all.weight_override), (vec![4_000_002_020.], None));
}

#[test]
fn outliers_that_cancel_leave_the_sums_of_the_others() {
    let bytes = |values: [f64; 100]| -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    };
    let mut values = [1.; 100];
    (values[17], values[50]) = (1e20, -1e20);
    let csc =
        Csc { starts: (0..=100).collect(), bins: vec![0; 100], weights: vec![1.; 100], nbins: 1 };
    for errors in [VarianceModel::POISSON, VarianceModel::AZIMUTHAL, VarianceModel::HYBRID] {
        let plan = IntegrationPlan::new(csc.matrix(), vec![1.; 100], errors, None);
        let plan = plan.expect("as many norms as pixels");
        let clip = Statistic::SigmaClip { threshold: 3., max_iter: 5 };
        let raw = Pipeline::from_hdf5(&[], PixelType::F64, false).expect("no filters");
        let bytes = bytes(values);
        let stored = EncodedFrame { bytes: &bytes, filter_mask: 0 };
        let scratch = &mut Scratch::default();
        let invalid = InvalidValues::none();
        let sums = CsrMatrix::new(&plan, clip).integrate(&raw, &plan, &invalid, &[stored], scratch);
        let sums = sums.into_iter().next().and_then(Result::ok).expect("sums of one frame");
        let own_variance = if errors == VarianceModel::AZIMUTHAL { 0. } else { 98. };
        assert_eq!((sums.signal, sums.variance), (vec![98.], Some(vec![own_variance])));
        assert_eq!(sums.weight_override.expect("two are out").count, [98.]);
    }
}

#[test]
fn hybrid_clips_as_azimuthal_and_errs_as_poisson() {
    let values = [3, 5, 4, 6, 5, 4, 90];
    let clip = Statistic::SigmaClip { threshold: 2., max_iter: 5 };
    let [azimuthal, hybrid] = [VarianceModel::AZIMUTHAL, VarianceModel::HYBRID]
        .map(|errors| one_bin(&values, clip, errors));
    assert_eq!(azimuthal.signal, hybrid.signal);
    assert_eq!((azimuthal.variance, hybrid.variance), (Some(vec![5.5]), Some(vec![27.])));
}

#[test]
fn the_median_is_of_one_pixel_or_of_the_middle_two() {
    let median = |values: &[u32]| {
        let sums = one_bin(
            values,
            Statistic::QuantileMean { low: 0.5, high: 0.5 },
            VarianceModel::POISSON,
        );
        let norm = sums.weight_override.map_or(values.len() as f64, |own| own.norm[0]);
        (sums.signal[0] / norm, norm)
    };
    assert_eq!(median(&[9]), (9., 1.));
    assert_eq!(median(&[7, 1, 1000]), (7., 1.));
    assert_eq!(median(&[7, 1, 1000, 9]), (8., 2.));
    let many: Vec<u32> = (0..10_001).map(|i| i * 7919 % 10_001).collect();
    assert_eq!(median(&many), (5000., 1.));
    assert_eq!(median(&many[..10_000]).1, 2.);
}

#[test]
fn equal_pixels_are_no_outliers_of_each_other() {
    // Σ x / 3 of three equal numbers may round to another number. Then the distance of all from the
    // mean is the standard deviation.
    let clip = Statistic::SigmaClip { threshold: 0., max_iter: 5 };
    for value in [0, 1, 49, 123_457] {
        for errors in [VarianceModel::AZIMUTHAL, VarianceModel::POISSON] {
            assert_eq!(one_bin(&[value; 3], clip, errors).weight_override, None);
        }
    }
}
