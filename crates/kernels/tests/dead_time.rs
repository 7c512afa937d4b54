//! Compares counts that are corrected for dead time with frames of real numbers that were corrected
//! before.

mod support;

use kernels::{
    DeadTime, EncodedFrame, IntegrationPlan, InvalidValues, Isa, Pipeline, PixelType, Scratch,
    VarianceModel, integrate_batch_by_plans,
};
use proptest::prelude::*;
use support::{Csc, Frame, Photons, Random};

/// Returns the frame with corrected counts as native bytes of 64-bit reals, and the variance of each
/// pixel. Pixels that were dead for more than nine tenths of the exposure are NaN, as are invalid ones.
fn correct(frame: &Frame, dead_part: f64) -> (Vec<u8>, Vec<f64>) {
    let pixels = frame.values.iter().zip(&frame.valid).map(|(&counts, &valid)| {
        let dead = dead_part * counts.max(0.);
        let variance = (counts / (1. - dead).powi(2)).max(1.);
        (if valid && dead <= 0.9 { counts / (1. - dead) } else { f64::NAN }, variance)
    });
    let (counts, variances): (Vec<f64>, Vec<f64>) = pixels.unzip();
    (counts.iter().flat_map(|counts| counts.to_ne_bytes()).collect(), variances)
}

fn check(dtype: PixelType, photons: Photons, dead_part: f64, with_dark: bool, seed: u64) {
    let random = &mut Random::new(seed);
    let (pixels, nbins) = (7000, 300);
    let csc = Csc::random(pixels, nbins, random);
    let rule = support::gaps(dtype);
    let n: Vec<f64> = (0..pixels).map(|_| 0.5 + random.below(20) as f64 / 16.).collect();
    let dark: Option<Vec<f64>> =
        with_dark.then(|| (0..pixels).map(|_| random.below(9) as f64 / 4.).collect());
    let dead_time = DeadTime::new(dead_part, 1.);
    let plan = |model| {
        IntegrationPlan::new(csc.matrix(), &n, model, dark.as_deref())
            .expect("arrays of the matrix's size")
    };
    let (plain, corrected) =
        (plan(VarianceModel::POISSON), plan(VarianceModel::POISSON).with_dead_time(dead_time));
    let invalid = InvalidValues::from_integers(rule.clone());
    let both = invalid.clone().or(dead_time.invalid_values());
    let frames: Vec<Frame> =
        (0..9).map(|_| Frame::random(dtype, pixels, photons, 700, &rule, random)).collect();
    let chunks: Vec<Vec<u8>> =
        frames.iter().map(|frame| support::bslz4(&frame.bytes, dtype.size(), 8192)).collect();
    let stored: Vec<EncodedFrame<'_>> =
        chunks.iter().map(|bytes| EncodedFrame { bytes, filter_mask: 0 }).collect();
    let pipeline =
        Pipeline::from_hdf5(&[(32008, &[0, 4, 0, 0, 2])], dtype, false).expect("known filter");
    for isa in Isa::available() {
        let scratch = &mut Scratch::new(isa);
        // A plan without dead time beside them keeps its own pixels.
        let plans = [(&corrected, &both), (&plain, &invalid), (&corrected, &both)];
        let found = integrate_batch_by_plans(&pipeline, &plans, &stored, scratch);
        for (frame, found) in frames.iter().zip(found) {
            let found = found.expect("a good chunk");
            let (reals, variances) = correct(frame, dead_part);
            let stored = [EncodedFrame { bytes: &reals, filter_mask: 0 }];
            let native = Pipeline::native(PixelType::F64);
            let none = InvalidValues::none();
            let expected = integrate_batch_by_plans(&native, &[(&plain, &none)], &stored, scratch);
            let expected = expected.into_iter().next().and_then(Result::ok).expect("reals");
            assert!(found[0].signal == expected[0].signal, "not the sums of corrected counts");
            assert!(found[0].weight_override == expected[0].weight_override);
            assert!(found[0] == found[2]);
            let mut variance = vec![0.; nbins];
            for (pixel, bin, w) in csc.in_order() {
                let corrected = *reals[8 * pixel..].first_chunk().expect("8 bytes a pixel");
                if !f64::from_ne_bytes(corrected).is_nan() {
                    variance[bin] += w * w * variances[pixel];
                }
            }
            let found_variance = found[0].variance.as_ref().expect("a Poisson plan has variances");
            let is_close =
                |(found, expected): (&f64, f64)| (found - expected).abs() <= 1e-12 * expected.abs();
            assert!(found_variance.iter().zip(variance).all(is_close), "variances");
            let bytes = [EncodedFrame { bytes: &frame.bytes, filter_mask: 0 }];
            let raw = Pipeline::native(dtype);
            let alone = integrate_batch_by_plans(&raw, &[(&plain, &invalid)], &bytes, scratch);
            assert!(alone[0].as_ref().expect("a native frame")[0] == found[1]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn sums_are_those_of_corrected_frames(
        dtype in prop::sample::select(PixelType::ALL.to_vec()),
        photons in prop_oneof![
            Just(Photons::Sparse(50)),
            Just(Photons::Below(4)),
            Just(Photons::Below(300)),
            Just(Photons::Below(70000)),
        ],
        dead_part in prop_oneof![Just(1e-7), Just(2e-5), Just(1e-2)],
        dark in any::<bool>(),
        seed in any::<u64>(),
    ) {
        check(dtype, photons, dead_part, dark, seed);
    }
}
