use super::*;

/// Draws a uniform number between 0 and 1.
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Draws from a normal distribution of variance 1 (Box and Muller's transformation).
fn normal(state: &mut u64) -> f64 {
    (-2.0 * uniform(state).ln()).sqrt() * (std::f64::consts::TAU * uniform(state)).cos()
}

/// Draws from a Poisson distribution of a small mean.
fn photons(mean: f64, state: &mut u64) -> f64 {
    let (mut count, mut product, limit) = (0.0, uniform(state), (-mean).exp());
    while product > limit {
        count += 1.0;
        product *= uniform(state);
    }
    count
}

/// Draws a frame of one bin, and its weights. The bin has `pixels` pixels with fractions from
/// `least` to 1.
fn frame(mean: f64, pixels: u32, least: f64, state: &mut u64) -> (FrameRow, BinWeights) {
    let (mut row, mut weights) = (
        FrameRow { signal: vec![0.0], variance: Some(vec![0.0]), ..FrameRow::default() },
        BinWeights { norm: vec![0.0], norm_sq: vec![0.0], count: vec![0.0] },
    );
    for pixel in 0..pixels {
        let share = least + (1.0 - least) * f64::from(pixel) / f64::from(pixels);
        let counts = photons(mean, state);
        row.signal[0] += share * counts;
        row.variance.iter_mut().for_each(|variance| variance[0] += share * share * counts.max(1.0));
        weights.norm[0] += share * 0.9;
        weights.norm_sq[0] += share * share * 0.81;
        weights.count[0] += share;
    }
    (row, weights)
}

/// Returns the ratio of the stated error (root of the mean variance) to the observed scatter of
/// the signal.
fn stated_over_observed(
    mean: f64,
    least: f64,
    variance: impl Fn(&FrameRow, &BinWeights) -> f64,
) -> f64 {
    let (mut state, draws) = (7, 4000);
    let (mut stated, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for _ in 0..draws {
        let (row, weights) = frame(mean, 400, least, &mut state);
        stated += variance(&row, &weights);
        sum += row.signal[0];
        squares += row.signal[0].powi(2);
    }
    let draws = f64::from(draws);
    (stated / draws / (squares / draws - (sum / draws).powi(2))).sqrt()
}

/// An unweighted mean over 400 pixels, of which a flat field has a third to three times as many
/// counts as the rest: errors are those of the scatter, however few photons there are.
#[test]
fn errors_of_unweighted_means_match_the_scatter_where_the_flat_field_is_uneven() {
    let flat = |pixel: u32| [1.0, 0.33, 1.7, 3.0][pixel as usize % 4];
    // Counts of most pixels, and of one that is bright.
    for (mean, spot) in
        [(0.003, 0.003), (0.05, 0.05), (0.5, 0.5), (4.0, 4.0), (0.05, 3000.0), (0.003, 200.0)]
    {
        let (mut state, draws) = (5, 4000);
        let (mut stated, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for _ in 0..draws {
            let (mut signal, mut variance, mut count) = (0.0, 0.0, 0.0);
            for pixel in 0..400 {
                let expected = if pixel == 8 { spot } else { mean };
                let counts = photons(expected * flat(pixel), &mut state);
                signal += counts / flat(pixel);
                variance += counts.max(1.0) / flat(pixel).powi(2);
                count += 1.0 / flat(pixel);
            }
            let row = FrameRow {
                signal: vec![signal],
                variance: Some(vec![variance]),
                ..FrameRow::default()
            };
            let own = BinWeights { norm: vec![400.0], norm_sq: vec![400.0], count: vec![count] };
            let rule = VarianceRule { is_unweighted: true, ..rule(ErrorFloor::No) };
            stated += rule.frame_variance(&row, &own, &own).unwrap()[0];
            sum += signal;
            squares += signal.powi(2);
        }
        let draws = f64::from(draws);
        let ratio = (stated / draws / (squares / draws - (sum / draws).powi(2))).sqrt();
        // A single bright pixel has another weight than the mean of all.
        let expected = if spot == mean { 0.93..1.07 } else { 0.9..1.15 };
        assert!(expected.contains(&ratio), "mean {mean}, spot {spot}: {ratio}");
    }
}

fn rule(floor: ErrorFloor) -> VarianceRule {
    VarianceRule { counts_photons: true, floor, ..VarianceRule::default() }
}

#[test]
fn errors_with_a_floor_per_bin_match_the_scatter_of_sums_of_photons() {
    for mean in [0.001, 0.05, 0.3, 1.0, 5.0, 15.0, 40.0] {
        for least in [1.0, 0.3, 0.0] {
            let of = |floor| {
                stated_over_observed(mean, least, |row, own| {
                    rule(floor).frame_variance(row, own, own).unwrap()[0]
                })
            };
            let (pixel, bin, none) =
                (of(ErrorFloor::Pixel), of(ErrorFloor::Bin), of(ErrorFloor::No));
            assert!((0.93..1.07).contains(&none), "mean {mean}, shares from {least}: {none}");
            // With less than one photon per bin, the minimum of one photon exceeds the observed
            // scatter.
            let most = if mean < 0.01 { 2.5 } else { 1.07 };
            assert!((0.93..most).contains(&bin), "mean {mean}, shares from {least}: {bin}");
            if mean < 0.1 {
                assert!(pixel > 4.0, "{pixel}");
            }
        }
    }
}

#[test]
fn counts_that_are_corrected_for_dead_time_have_its_variance() {
    let signal = 300.0;
    let row =
        FrameRow { signal: vec![signal], variance: Some(vec![1000.0]), ..FrameRow::default() };
    let weights = vec![1000.0];
    let own = BinWeights { norm: weights.clone(), norm_sq: weights.clone(), count: weights };
    let variance = |dead_part| {
        let rule = VarianceRule { dead_part, ..rule(ErrorFloor::No) };
        rule.frame_variance(&row, &own, &own).unwrap()[0]
    };
    assert_eq!(variance(0.0), signal);
    // 0.3 counts per pixel.
    assert_eq!(variance(0.1), signal * 1.03);
}

#[test]
fn averages_floor_the_sum_of_their_frames() {
    let rule = rule(ErrorFloor::Pixel);
    let (mut state, mut ratio) = (3, Vec::new());
    for _ in 0..300 {
        let (mut sums, mut signal) = (PhotonVariance::new(1), 0.0);
        for _ in 0..50 {
            let (row, own) = frame(0.001, 400, 1.0, &mut state);
            signal += row.signal[0];
            rule.add_frame_variance(&row, &own, &own, &mut sums);
        }
        ratio.push(rule.with_floor(&sums, 50)[0] / signal.max(1.0));
    }
    assert!(ratio.iter().all(|ratio| (ratio - 1.0).abs() < 1e-9), "{ratio:?}");
}

#[test]
fn bright_sums_keep_the_variance_of_their_pixels_to_the_bit() {
    let (row, own) = frame(40.0, 100, 0.2, &mut 5);
    let variance = row.variance.clone().unwrap();
    for floor in [ErrorFloor::Pixel, ErrorFloor::Bin, ErrorFloor::No] {
        assert_eq!(rule(floor).frame_variance(&row, &own, &own).as_deref(), Some(&variance[..]));
    }
    let azimuthal = VarianceRule { counts_photons: false, ..rule(ErrorFloor::Pixel) };
    let (row, own) = frame(0.01, 100, 0.2, &mut 5);
    assert_eq!(azimuthal.frame_variance(&row, &own, &own).as_deref(), row.variance.as_deref());
}

#[test]
fn the_scatter_of_means_between_quantiles_is_that_of_draws() {
    let mut state = 11;
    for (low, high) in
        [(50.0, 50.0), (25.0, 75.0), (0.0, 100.0), (10.0, 40.0), (0.0, 50.0), (90.0, 90.0)]
    {
        let (values, draws) = (201_usize, 4000);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..draws {
            let mut all: Vec<f64> = (0..values).map(|_| normal(&mut state)).collect();
            all.sort_unstable_by(f64::total_cmp);
            let place = |percent: f64| (percent / 100.0 * (values - 1) as f64).round() as usize;
            let some = &all[place(low)..=place(high)];
            let mean = some.iter().sum::<f64>() / some.len() as f64;
            sum += mean;
            squares += mean * mean;
        }
        let draws = f64::from(draws);
        let seen = (squares / draws - (sum / draws).powi(2)) * values as f64;
        let stated = quantile_scatter(Quantiles { low, high });
        assert!((stated / seen - 1.0).abs() < 0.12, "{low} to {high}: {stated}, seen {seen}");
    }
    let median = quantile_scatter(Quantiles { low: 50.0, high: 50.0 });
    assert!((median - std::f64::consts::FRAC_PI_2).abs() < 2e-3, "{median}");
    assert!((quantile_scatter(Quantiles { low: 0.0, high: 100.0 }) - 1.0).abs() < 1e-3);
}

/// A photon in 1000 pixels, whose variance was rounded upwards with its error.
#[test]
fn rounded_errors_of_sparse_frames_have_the_photons_variance() {
    let weights = BinWeights { norm: vec![1e3], norm_sq: vec![1e3], count: vec![1e3] };
    for bits in [4, 9, 22] {
        let half_a_step = 0.5_f64.powi(bits + 1);
        let variance = Some(vec![1e3 * (1.0 + half_a_step).powi(2)]);
        let row = FrameRow { signal: vec![1.0], variance, ..FrameRow::default() };
        let of =
            |tolerance| VarianceRule { counts_photons: true, tolerance, ..VarianceRule::default() };
        let counted = |tolerance| {
            let mut sums = PhotonVariance::new(1);
            of(tolerance).add_frame_variance(&row, &weights, &weights, &mut sums);
            sums.variance[0]
        };
        assert_eq!(counted(0.5_f64.powi(bits)).max(1.0), 1.0, "{bits} bits");
        assert!(bits > 9 || counted(0.0) > 1.9, "{bits} bits");
    }
}
