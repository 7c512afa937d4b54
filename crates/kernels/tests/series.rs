//! Reduces series of frames by statistics for which what is found in one batch speeds up the next:
//! sigma clipping tile by tile, and quantile means. Each frame is compared with the same frame alone,
//! for which nothing is known from before.

mod support;

use std::ops::Range;

use kernels::{IntegrationPlan, Isa, PixelType, Scratch, Statistic, VarianceModel};
use support::series::{Method, Series};
use support::{Csc, Random};

/// Checks random series with all instruction sets.
fn check_random_series(method: Method) {
    for seed in 0..200 {
        let series = Series::random(seed, method);
        for (index, isa) in Isa::available().into_iter().enumerate() {
            series.check(isa, (seed + index as u64).is_multiple_of(3), seed);
        }
    }
}

#[test]
fn frames_clipped_by_tiles_have_the_bytes_of_frames_alone() {
    check_random_series(Method::ClipByTiles);
}

#[test]
fn means_and_clipping_by_the_spread_have_the_bytes_of_frames_alone() {
    check_random_series(Method::Spread);
}

#[test]
fn quantile_means_of_frames_in_batches_have_the_bytes_of_frames_alone() {
    check_random_series(Method::QuantileMean);
}

/// Little is left of sums from which a pixel of a large weight is removed, be it invalid or an outlier:
/// they are added up again by the same rule whether frames are clipped together or alone.
#[test]
fn sums_of_which_little_is_left_are_those_of_frames_alone() {
    for seed in 0..3000 {
        let random = &mut Random::new(seed);
        let (few, pixels) = (3 + random.below(6), 512);
        // A few pixels of very different weights or norms in the first bin, all others in the second.
        let uneven = |random: &mut Random| 10_f64.powi(-(random.below(7) as i32));
        let has_weights = random.below(3) != 0;
        let mut csc = Csc { starts: vec![0], nbins: 2, ..Csc::default() };
        let mut n = Vec::new();
        for pixel in 0..pixels {
            let is_among_few = pixel < few;
            csc.bins.push(u32::from(!is_among_few));
            csc.weights.push(if is_among_few && has_weights { uneven(random) as f32 } else { 1. });
            csc.starts.push(pixel + 1);
            let factor = if is_among_few && !has_weights { uneven(random) } else { 1. };
            n.push(factor * (1. + random.below(9) as f64 / 8.));
        }
        let errors = [VarianceModel::AZIMUTHAL, VarianceModel::HYBRID][random.below(2) as usize];
        let plan = IntegrationPlan::new(csc.matrix(), &n, errors, None).expect("a plan");
        let dead: Vec<bool> = (0..few).map(|_| random.below(3) == 0).collect();
        let frame = |random: &mut Random| {
            let mut bytes = Vec::new();
            for pixel in 0..pixels {
                let value = match dead.get(pixel as usize) {
                    Some(true) => u16::MAX,
                    Some(false) => {
                        (random.below(20) * [1, 1, 200][random.below(3) as usize]) as u16
                    }
                    None => 5,
                };
                bytes.extend_from_slice(&value.to_ne_bytes());
            }
            bytes
        };
        let statistic = Statistic::SigmaClip {
            threshold: [0., 0.5, 2.][random.below(3) as usize],
            max_iter: 5,
        };
        let batches = vec![(0..8).map(|_| frame(random)).collect()];
        Series { dtype: PixelType::U16, plan, statistic, batches }.check_fastest(seed);
    }
}

/// Frames of a smaller detector leave room in the memory of a larger one's.
#[test]
fn frames_of_several_sizes_have_the_same_bytes_in_one_memory() {
    let isa = Isa::available()[0];
    for method in [Method::ClipByTiles, Method::Spread, Method::QuantileMean] {
        let scratch = &mut Scratch::new(isa);
        for seed in 0..20 {
            Series::random(seed, method).check_with(scratch, isa, false, seed);
        }
    }
}

/// Sums beyond the integers that are f64 numbers depend on the order of the pixels.
#[test]
fn frames_with_sums_beyond_2_to_53_have_the_bytes_of_frames_alone() {
    let pixels = 9_000_000u32;
    let csc = Csc {
        starts: (0..=u64::from(pixels)).collect(),
        bins: vec![0; pixels as usize],
        weights: vec![1.; pixels as usize],
        nbins: 1,
    };
    let n = vec![1.; pixels as usize];
    let plan = IntegrationPlan::new(csc.matrix(), &n, VarianceModel::POISSON, None);
    // For these last pixels the sum of rounded sums isn't the rounded sum.
    let frame = |phase: u32, last: u32| {
        let values = (0..pixels).map(|pixel| {
            let less = if pixel == pixels - 1 { last } else { 0 };
            u32::MAX - 100 - (pixel % 7 + phase) % 3 - less
        });
        values.flat_map(u32::to_ne_bytes).collect::<Vec<u8>>()
    };
    let series = Series {
        dtype: PixelType::U32,
        plan: plan.expect("a plan"),
        statistic: Statistic::SigmaClip { threshold: 5., max_iter: 3 },
        batches: vec![vec![frame(0, 13), frame(2, 7)]],
    };
    series.check_fastest(0);
}

/// Where the quantiles of one batch are at two intensities, those of the next may be at one of them.
#[test]
fn the_median_of_a_batch_may_be_of_one_pixel_and_that_of_the_batch_before_of_two() {
    // The first two pixels have half the weight of the others.
    let n: Vec<f64> = (0..1000).map(|pixel| if pixel < 2 { 1. } else { 2. }).collect();
    // The pixels in a range have an intensity of 5, the others of 6.
    let frame = |lower: Range<usize>| -> Vec<u16> {
        let intensity = |pixel: usize| if lower.contains(&pixel) { 5 } else { 6 };
        n.iter().enumerate().map(|(pixel, &n)| intensity(pixel) * n as u16).collect()
    };
    // Pixels of half the weight have the lower intensity, and then more than half.
    let series = Series::of_one_bin(&n, [0.5, 0.5], &[frame(1..501), frame(0..600)]);
    for isa in Isa::available() {
        series.check(isa, false, 0);
    }
}

/// Two quantiles may be nearer to each other than f32 tells apart.
#[test]
fn brackets_that_f32_does_not_tell_apart_are_one() {
    let unit = 2_f64.powi(-24);
    // Of 1024 pixels, every fourth is in the sample.
    let mut sampled =
        [(121, (1, 1.)), (30, (1, 1. - 2. * unit)), (105, (2, 1.))].into_iter().flat_map(repeat);
    let mut others = [
        (461, (1, 1.)),
        (304, (2, 1.)),
        (1, (1, 1. - 16.55 * unit)),
        (1, (1, 1. - 16.57 * unit)),
        (1, (3, 3. - 12.47 * 4. * unit)),
    ]
    .into_iter()
    .flat_map(repeat);
    let pixels = (0..1024).map(|pixel| match pixel % 4 {
        2 => sampled.next().expect("256 pixels"),
        _ => others.next().expect("768 pixels"),
    });
    let (values, n): (Vec<u16>, Vec<f64>) = pixels.unzip();
    let series = Series::of_one_bin(&n, [0.35, 0.6], &[values.clone(), values]);
    for isa in Isa::available() {
        series.check(isa, false, 0);
    }
}

/// Rounding can put pixels on either side of where the sample of a bin's pixels expects a median.
#[test]
fn medians_at_the_ends_of_where_they_are_expected_are_found_alike() {
    let unit = 2_f64.powi(-24);
    for seed in 0..400 {
        let random = &mut Random::new(seed);
        // Of 1024 pixels, every fourth is in the sample, 8 units above the one before. Pixels 16 units
        // beyond those of these ranks are taken to be on one side or the other.
        let (rank, beyond) = [(100, -16.), (119, -16.), (137, 16.), (156, 16.)][seed as usize % 4];
        let end = f64::from(rank) * 8. + beyond;
        let mut sample = (0..256).map(|rank| f64::from(rank) * 8.);
        // Half of all pixels are below the end, or a few more or less.
        let others_below = 512 - 90 + random.below(80) as u32 - (end / 8.) as u32;
        let mut others = (0..768).map(|number| match number {
            // Around the end, where the median is.
            0..100 => end + random.below(80) as f64 / 20. - 2.,
            _ if number < 100 + others_below => random.below(400) as f64,
            _ => 1600. + random.below(400) as f64,
        });
        let intensities: Vec<f64> = (0..1024)
            .map(|pixel| match pixel % 4 {
                2 => sample.next().expect("256 pixels"),
                _ => others.next().expect("768 pixels"),
            })
            .collect();
        // Intensities of different counts are rounded differently.
        let counts: Vec<u16> = (0..1024).map(|_| 1 + 2 * random.below(4) as u16).collect();
        let n: Vec<f64> = counts
            .iter()
            .zip(intensities)
            .map(|(&count, units)| f64::from(count) / (1. + units * unit))
            .collect();
        // The median moves a little where a few of the pixels that are not in the sample have another
        // intensity.
        let mut frame = || -> Vec<u16> {
            let (dark, bright) = (random.below(20), 1000 - random.below(20));
            let mut count = |pixel: usize| match (pixel % 4, random.below(1000)) {
                (0 | 1 | 3, number) if number < dark => 0,
                (0 | 1 | 3, number) if number >= bright => 2 * counts[pixel],
                _ => counts[pixel],
            };
            (0..1024).map(&mut count).collect()
        };
        let frames: Vec<Vec<u16>> = (0..8).map(|_| frame()).collect();
        let mut series = Series::of_one_bin(&n, [0.5, 0.5], &frames);
        // One batch of different frames: nothing is known from one before.
        series.batches = vec![series.batches.into_iter().map(|batch| batch[0].clone()).collect()];
        series.check_fastest(seed);
    }
}

/// Returns a pixel, its counts and its norm, so many times.
fn repeat((count, pixel): (usize, (u16, f64))) -> impl Iterator<Item = (u16, f64)> {
    std::iter::repeat_n(pixel, count)
}

/// Sums that are rounded may reach a quantile, or not, by the order in which they are added.
#[test]
fn sums_that_rounding_decides_on_reach_quantiles_alike() {
    let pixels = 1000_u16;
    let n = vec![0.7; pixels.into()];
    // All intensities differ. Those of neighbours are far apart.
    let values: Vec<u16> = (0..pixels).map(|pixel| pixel * 7 % pixels).collect();
    // The sum over so many pixels reaches the limit of a quantile by rounding, or does not.
    for below in [305., 308.] {
        let slack = 1e-12 * f64::from(pixels);
        let limits = [below + slack, below - slack].map(|limit| limit / f64::from(pixels));
        for step in -64..64 {
            let [low, high] = limits
                .map(|quantile| f64::from_bits(quantile.to_bits().saturating_add_signed(step)));
            for quantiles in [[low, 1.], [0., high], [high, high]] {
                Series::of_one_bin(&n, quantiles, &[values.clone(), values.clone()])
                    .check_fastest(step.unsigned_abs());
            }
        }
    }
}

/// Medians that fall on pixels of few photons are found by sums, too.
#[test]
fn sums_that_rounding_decides_on_reach_medians_of_few_photons_alike() {
    let pixels = 1000_u16;
    let n: Vec<f64> = (0..pixels).map(|pixel| 0.7 + f64::from(pixel % 13) / 8192.).collect();
    let values: Vec<u16> = (0..pixels).map(|pixel| pixel * 7 % pixels / 25).collect();
    // In the frames before, rounding decides nothing: some pixels have changed sides.
    let mut frames = [values.clone(), values.clone()];
    frames[0][..10].iter_mut().for_each(|value| *value = 39 - *value);
    let mut order: Vec<usize> = (0..n.len()).collect();
    let intensity = |pixel: usize| f64::from(values[pixel]) / n[pixel];
    order.sort_by(|&a, &b| intensity(a).total_cmp(&intensity(b)));
    let norm = Series::of_one_bin(&n, [0.5; 2], &[]).plan.norm()[0];
    for below in [305, 311, 320] {
        let up_to: f64 = order[..below].iter().map(|&pixel| n[pixel]).sum();
        for limit in [up_to + 1e-12 * norm, up_to - 1e-12 * norm] {
            for step in -200..200 {
                let quantile = limit / norm;
                let quantile = f64::from_bits(quantile.to_bits().saturating_add_signed(step));
                let series = Series::of_one_bin(&n, [quantile; 2], &frames);
                series.check_fastest(step.unsigned_abs());
            }
        }
    }
}

/// Equal pixels are added up one by one, and the rounding of their sum goes in one direction.
#[test]
fn medians_among_many_equal_pixels_are_found_alike() {
    let (equal, norm) = (50_000, 0.680_761_387_457_037_5);
    let n = [vec![norm; equal], vec![0.5; 2]].concat();
    // In the frames before, the quantile is in the middle of a pixel.
    let mut frames = [3; 2].map(|bright| [vec![1; equal], vec![bright; 2]].concat());
    frames[0][equal] = 0;
    for pixels in [49_500, 47_500] {
        // The sum of so many pixels does not reach the quantile after rounding; without, it would.
        let limit = (0..pixels).fold(0., |sum, _| sum + norm) + 3e-9;
        let quantile = limit / (norm * equal as f64 + 1.) - 1e-12;
        Series::of_one_bin(&n, [quantile; 2], &frames).check_fastest(0);
    }
}

/// Pixels without a photon are added up one by one, also where the sample of pixels has none.
#[test]
fn pixels_without_a_photon_are_added_up_alike_where_a_sample_has_none() {
    // The median is between two of the pixels with a norm of 0.2, after so many with 0.1 that the
    // rounding of their sum decides whether the first one reaches it.
    let (tenths, above) = (164_400, 10);
    let pixels = tenths + 256 + 82_072 + 2 * above;
    let (mut n, mut sparse) = (vec![0.; pixels], vec![0; pixels]);
    for number in 0..256 {
        let sampled = (2 * number + 1) * pixels / 512;
        (n[sampled], sparse[sampled]) = (0.1, 5);
    }
    for (index, n) in n.iter_mut().filter(|n| **n == 0.).enumerate() {
        *n = if index < tenths { 0.1 } else { 0.2 };
    }
    Series::of_one_bin(&n, [0.5, 0.5], &[sparse]).check_fastest(0);
}
