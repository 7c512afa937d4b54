//! Displacements of simulated cakes: those that were put in come out, within their errors.

use geometry::{DetectorPlane, Poni};
use recipe::{Recipe, Settings};

use super::displacement::{Displacement, Parameters};
use super::frame_fit::FrameFit;
use super::lines::{LineUse, Lines};
use super::peak::{self, PeakShape, ProfileBin, Start};
use super::sectors::Sectors;
use crate::{BinWeights, PatternAxes, PatternAxis, SharedBins};

const WAVELENGTH: f64 = 5e-11;
const LAB6: [f64; 6] = [4.156826, 2.93932, 2.399945, 2.078413, 1.858989, 1.697017];
const PONI: &str = "Distance: 0.25\nPoni1: 0.1\nPoni2: 0.12\nRot1: 0.05\nRot2: -0.08\nRot3: 0.3\nWavelength: 5e-11\n";

/// Random numbers by splitmix64, from the same seed in each run.
struct Random(u64);

impl Random {
    /// Returns a number between 0 and 1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a count of Poisson's distribution: exact by Knuth's method up to a mean of 60, and
    /// otherwise a rounded normal one.
    fn poisson(&mut self, mean: f64) -> f64 {
        if mean > 60.0 {
            let (one, two) = (self.uniform().max(1e-300), self.uniform());
            let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos();
            return (mean + normal * mean.sqrt()).round();
        }
        let (limit, mut product, mut count) = ((-mean).exp(), self.uniform(), 0.0);
        while product > limit {
            product *= self.uniform();
            count += 1.0;
        }
        count
    }
}

/// Bins of a cake of the PONI file above; with one azimuthal bin, of a pattern.
fn shared(azimuthal: usize, radial: usize) -> (SharedBins, Recipe) {
    let settings = Settings {
        geometry: Some(PONI.to_owned()),
        npt: Some(radial as u64),
        npt_azim: (azimuthal > 1).then_some(azimuthal as u64),
        unit: Some("2th_deg".parse().unwrap()),
        ..Settings::default()
    };
    let recipe = Recipe::resolve(&settings).unwrap();
    let centers = |low: f64, high: f64, count: usize| -> Vec<f64> {
        (0..count).map(|bin| low + (high - low) * (bin as f64 + 0.5) / count as f64).collect()
    };
    let axis =
        |name: &str, centers| PatternAxis { name: name.into(), units: "deg".into(), centers };
    let axes = PatternAxes {
        radial: axis("2th", centers(4.0, 20.0, radial)),
        chi: (azimuthal > 1).then(|| axis("chi", centers(-180.0, 180.0, azimuthal))),
    };
    let ones = vec![1.0; azimuthal * radial];
    let weights = BinWeights { norm: ones.clone(), norm_sq: ones.clone(), count: ones };
    (SharedBins { axes, weights }, recipe)
}

/// Simulated counts of LaB6 with a displaced detector: peaks of this height on a background.
struct Simulation {
    shared: SharedBins,
    expected: Vec<f64>,
}

impl Simulation {
    fn new(shared: SharedBins, displacement: [f64; 3], height: f64) -> Self {
        let plane = DetectorPlane::new(&Poni::parse(PONI).unwrap());
        let azimuths = match &shared.axes.chi {
            Some(chi) => chi.centers.clone(),
            None => (0..72).map(|point| 5.0 * f64::from(point)).collect(),
        };
        let width = 360.0 / azimuths.len() as f64;
        let rings = LAB6.map(|spacing| 2.0 * (WAVELENGTH * 1e10 / (2.0 * spacing)).asin());
        let sigma = 0.05_f64.to_radians();
        let at = |two_theta: f64, azimuth: f64| {
            // Means over the bin, finer than the fit takes them.
            let points =
                (0..9).map(|point| azimuth + width * ((f64::from(point) + 0.5) / 9.0 - 0.5));
            let value = |chi: f64| {
                let found = plane.true_two_theta(two_theta, chi.to_radians(), displacement);
                let (angle, _) = found.unwrap();
                let peak = |ring: f64| height * (-((angle - ring) / sigma).powi(2) / 2.0).exp();
                rings.map(peak).iter().sum::<f64>() + 20.0 * (1.0 - angle)
            };
            points.map(value).sum::<f64>() / 9.0
        };
        let radial = &shared.axes.radial.centers;
        let cake: Vec<Vec<f64>> = azimuths
            .iter()
            .map(|azimuth| radial.iter().map(|angle| at(angle.to_radians(), *azimuth)).collect())
            .collect();
        let expected = match shared.axes.chi {
            Some(_) => cake.concat(),
            None => (0..radial.len())
                .map(|bin| cake.iter().map(|sector| sector[bin]).sum::<f64>() / cake.len() as f64)
                .collect(),
        };
        Self { shared, expected }
    }

    /// Returns the intensities and errors of a frame.
    fn frame(&self, random: &mut Random) -> (Vec<f64>, Vec<f64>) {
        let counts: Vec<f64> = self.expected.iter().map(|mean| random.poisson(*mean)).collect();
        let errors = counts.iter().map(|count| count.max(1.0).sqrt()).collect();
        (counts, errors)
    }
}

/// Returns the displacements in frames by lines of these spacings, and the lines.
fn measure(
    (simulation, recipe): (&Simulation, &Recipe),
    spacings: &[f64],
    frames: usize,
    seed: u64,
) -> (Vec<Displacement>, Lines) {
    measure_each(&vec![simulation; frames], recipe, spacings, seed)
}

/// Returns the displacements in frames of which each has its simulation, and the lines.
fn measure_each(
    simulations: &[&Simulation],
    recipe: &Recipe,
    spacings: &[f64],
    seed: u64,
) -> (Vec<Displacement>, Lines) {
    let shared = &simulations[0].shared;
    let sectors = Sectors::new(shared, recipe, WAVELENGTH).unwrap();
    let mut random = Random(seed);
    let all: Vec<_> = simulations.iter().map(|one| one.frame(&mut random)).collect();
    let bins = simulations[0].expected.len();
    let count = simulations.len() as f64;
    let mean: Vec<f64> =
        (0..bins).map(|bin| all.iter().map(|frame| frame.0[bin]).sum::<f64>() / count).collect();
    let errors: Vec<f64> = (0..bins)
        .map(|bin| all.iter().map(|frame| frame.1[bin].powi(2)).sum::<f64>().sqrt() / count)
        .collect();
    let lines = Lines::find(spacings, WAVELENGTH, &sectors, &sectors.bins(&mean, &errors));
    let plane = DetectorPlane::new(&Poni::parse(PONI).unwrap());
    let parameters = match shared.axes.chi {
        Some(_) => Parameters::BeamAndDistance,
        None => Parameters::Distance,
    };
    let patterns: Vec<_> =
        all.iter().map(|(intensity, errors)| sectors.bins(intensity, errors)).collect();
    let unknown = Displacement::unknown(0);
    let mut fit =
        FrameFit { plane: &plane, lines: &lines, parameters, average: unknown, width: 1.0 };
    fit.average = fit.measure_average(&sectors.bins(&mean, &errors));
    fit.width = fit.find_width(patterns.iter().take(16));
    (patterns.iter().map(|pattern| fit.measure(pattern)).collect(), lines)
}

/// Checks that deviations over their errors have the mean 0 and the standard deviation 1.
fn check_pulls(found: &[Displacement], truth: [f64; 3], axes: &[usize]) {
    for axis in axes {
        let pulls: Vec<f64> =
            found.iter().map(|one| (one.value[*axis] - truth[*axis]) / one.error[*axis]).collect();
        let count = pulls.len() as f64;
        let mean = pulls.iter().sum::<f64>() / count;
        let deviation =
            (pulls.iter().map(|pull| (pull - mean).powi(2)).sum::<f64>() / count).sqrt();
        assert!(mean.abs() < 4.0 / count.sqrt(), "axis {axis}: mean {mean}");
        let spread = 4.0 / (2.0 * count).sqrt();
        assert!((deviation - 1.0).abs() < spread, "axis {axis}: standard deviation {deviation}");
    }
}

#[test]
fn errors_of_cakes_are_honest() {
    let truth = [2e-4, -3e-4, 4e-4];
    for (height, azimuthal) in [(300.0, 36), (30.0, 12)] {
        let (shared, recipe) = shared(azimuthal, 800);
        let simulation = Simulation::new(shared, truth, height);
        let (found, lines) = measure((&simulation, &recipe), &LAB6, 200, 7);
        assert!(lines.all.iter().all(|line| line.line_use == LineUse::Used), "{:?}", lines.all);
        check_pulls(&found, truth, &[0, 1, 2]);
    }
}

#[test]
fn errors_of_patterns_are_honest_and_the_beam_is_unknown() {
    let truth = [0.0, 0.0, -3e-4];
    let (shared, recipe) = shared(1, 800);
    let simulation = Simulation::new(shared, truth, 300.0);
    let (found, _) = measure((&simulation, &recipe), &LAB6, 200, 11);
    assert!(found[0].value[0].is_nan() && found[0].error[1].is_nan());
    check_pulls(&found, truth, &[2]);
}

#[test]
fn narrow_azimuthal_bins_are_joined_and_the_mean_over_a_wide_one_is_corrected() {
    let truth = [5e-4, 5e-4, 0.0];
    // Over 60 degrees, a displacement by a width of the line also changes its shape.
    for (azimuthal, tolerance) in [(6, 1e-5), (12, 2e-6), (180, 2e-6)] {
        let (shared, recipe) = shared(azimuthal, 800);
        let simulation = Simulation::new(shared, truth, 1e6);
        let (found, _) = measure((&simulation, &recipe), &LAB6, 1, 3);
        for (value, truth) in found[0].value.iter().zip(truth) {
            assert!((value - truth).abs() < tolerance, "{azimuthal}: {:?}", found[0]);
        }
    }
}

/// Lines are 0.5 mm wide on the detector. The beam moves by less than that, and by six times as much.
#[test]
fn a_beam_that_moves_during_the_scan_is_measured_in_each_frame() {
    for (azimuthal, reach, height) in
        [(36, 3e-4, 100.0), (36, 1e-3, 1e4), (36, 3e-3, 1e4), (1, 3e-3, 1e4)]
    {
        let direction = if azimuthal == 1 { [0.0, 0.0, 1.0] } else { [0.4, -0.8, 0.3] };
        let truths: Vec<[f64; 3]> = (0..8)
            .map(|frame| direction.map(|part| part * reach * f64::from(frame) / 7.0))
            .collect();
        let (shared, recipe) = shared(azimuthal, 800);
        let simulations: Vec<Simulation> =
            truths.iter().map(|truth| Simulation::new(shared.clone(), *truth, height)).collect();
        let simulations: Vec<&Simulation> = simulations.iter().collect();
        let (found, _) = measure_each(&simulations, &recipe, &LAB6, 13);
        for axis in if azimuthal == 1 { 2..3 } else { 0..3 } {
            for (one, truth) in found.iter().zip(&truths) {
                let pull = (one.value[axis] - truth[axis]) / one.error[axis];
                assert!(
                    pull.abs() < 4.0,
                    "{azimuthal}, {reach}, {height}: {one:?}, true {truth:?}"
                );
                assert!(one.error[axis] < 0.02 * reach, "{azimuthal}, {reach}, {height}: {one:?}");
            }
        }
    }
}

#[test]
fn lines_are_left_out_with_a_reason() {
    let uses = |spacings: &[f64], height, radial| -> Vec<LineUse> {
        let (shared, recipe) = shared(12, radial);
        let simulation = Simulation::new(shared, [0.0; 3], height);
        let (found, lines) = measure((&simulation, &recipe), spacings, 1, 5);
        let used = lines.all.iter().filter(|line| line.line_use == LineUse::Used).count();
        assert_eq!(found[0].is_known(), used > 0);
        lines.all.iter().map(|line| line.line_use).collect()
    };
    use LineUse::{OutOfRange, Overlapping, TooNarrow, TooWeak, Used};
    let spacings = [60.0, 4.156826, 3.4, 2.93932, 2.92, 0.02];
    let expected = [OutOfRange, Used, TooWeak, Overlapping, Overlapping, OutOfRange];
    assert_eq!(uses(&spacings, 300.0, 800), expected);
    assert_eq!(uses(&LAB6, 1.0, 800), [TooWeak; 6]);
    assert!(uses(&LAB6, 300.0, 150).contains(&TooNarrow));
    assert_ne!(uses(&[2.0, 2.0], 300.0, 800), [Used], "one line, which LaB6 has not");
}

#[test]
fn a_peak_is_found_with_its_shape() {
    let shape = PeakShape { fwhm: 0.01, lorentzian: 0.4 };
    let value = |x: f64| {
        let u = (x - 0.203) / shape.fwhm;
        let profile =
            0.4 / (1.0 + 4.0 * u * u) + 0.6 * (-4.0 * std::f64::consts::LN_2 * u * u).exp();
        50.0 * profile + 3.0 + 20.0 * x
    };
    let bins: Vec<ProfileBin> = (0..60)
        .map(|bin| 0.17 + 0.001 * f64::from(bin))
        .map(|x| ProfileBin { x, y: value(x), error: 1.0 })
        .collect();
    let start =
        Start { center: 0.2, shape: PeakShape { fwhm: 0.006, lorentzian: 0.1 }, fits_shape: true };
    let peak = peak::fit(&bins, start).unwrap();
    assert!((peak.center - 0.203).abs() < 1e-7, "{peak:?}");
    assert!((peak.shape.fwhm - 0.01).abs() < 1e-6, "{peak:?}");
    assert!((peak.shape.lorentzian - 0.4).abs() < 1e-4, "{peak:?}");
    assert!(peak::fit(&bins[..6], start).is_none(), "fewer bins than a peak needs");
}
