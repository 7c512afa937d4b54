//! Tests that sigma clipping on an OpenCL device gives the same bytes as on the CPU.
//!
//! They need an OpenCL driver, such as PoCL. Without one they are skipped, and fail in CI.

#[path = "support/opencl.rs"]
mod opencl;
mod support;

use std::sync::Arc;

use kernels::opencl::{Device, DeviceError, DeviceQueues, DeviceSettings};
use kernels::{
    CsrMatrix, EncodedFrame, IntegrationPlan, IntegrationSpec, InvalidValues, Pipeline, PixelType,
    PixelVarianceModel, Scratch, SpreadRole, Statistic, Sums, VarianceModel, integrate_frames,
};
use opencl::device;
use support::{Csc, Frame, Photons, Random};

/// Bitshuffle with LZ4 and elements of the size of a pixel: HDF5 filter and options.
const BSLZ4: (u32, &[u32]) = (32008, &[0, 2]);

const CLIP: Statistic = Statistic::SigmaClip { threshold: 1.5, max_iter: 5 };

/// Returns settings for one frame per work-group, and for four.
fn all_settings() -> [DeviceSettings; 2] {
    [1, 64]
        .map(|group| DeviceSettings { work_group_size: Some(group), ..DeviceSettings::default() })
}

/// All statistics and variance models that a device can compute.
const METHODS: [(Statistic, VarianceModel); 8] = [
    (Statistic::SigmaClip { threshold: 0., max_iter: 0 }, VarianceModel::AZIMUTHAL),
    (CLIP, VarianceModel::POISSON),
    (CLIP, VarianceModel::AZIMUTHAL),
    (CLIP, VarianceModel::HYBRID),
    (CLIP, VarianceModel::GIVEN),
    // No recipe has this pair; the two choices are independent all the same.
    (CLIP, VarianceModel { spread: SpreadRole::Clipping, ..VarianceModel::GIVEN }),
    (Statistic::SigmaClip { threshold: 0., max_iter: 20 }, VarianceModel::AZIMUTHAL),
    (Statistic::SigmaClip { threshold: 2., max_iter: 0 }, VarianceModel::HYBRID),
];

/// Stored frames, and the plan and matrix to integrate them with.
struct Case {
    plan: IntegrationPlan,
    csr: CsrMatrix,
    invalid: InvalidValues,
    pipeline: Pipeline,
    chunks: Vec<(Vec<u8>, u32)>,
}

impl Case {
    fn new(
        csc: &Csc,
        dtype: PixelType,
        (statistic, variance_model): (Statistic, VarianceModel),
        random: &mut Random,
    ) -> Case {
        let pixels = csc.starts.len() - 1;
        let n: Vec<f64> = (0..pixels).map(|_| random.below(20) as f64 / 16.).collect();
        let dark: Option<Vec<f64>> = (random.below(2) == 0)
            .then(|| (0..pixels).map(|_| random.below(100) as f64 / 7.).collect());
        let given: Vec<f64> = (0..pixels).map(|_| random.below(50) as f64 / 3.).collect();
        let plan = match variance_model {
            VarianceModel { pixel: PixelVarianceModel::Given, spread } => {
                IntegrationPlan::with_variance(csc.matrix(), &n, &given, spread, dark.as_deref())
            }
            _ => IntegrationPlan::new(csc.matrix(), &n, variance_model, dark.as_deref()),
        };
        let plan = plan.expect("arrays of the matrix's size");
        let (csr, rule) = (CsrMatrix::new(&plan, statistic), support::gaps(dtype));
        let frame = |random: &mut Random| {
            let photons =
                [Photons::Sparse(50), Photons::Below(6), Photons::Below(70000), Photons::Noise];
            let one_in = [0, 0, 1000, 2][random.below(4) as usize];
            Frame::random(dtype, pixels, photons[random.below(4) as usize], one_in, &rule, random)
                .bytes
        };
        let chunk = |frame: Vec<u8>, random: &mut Random| match random.below(6) {
            0 => (frame, 1),
            _ => (support::bslz4(&frame, dtype.size(), 8192 / dtype.size()), 0),
        };
        let chunks = (0..6).map(|_| chunk(frame(random), random)).collect();
        let pipeline = Pipeline::from_hdf5(&[BSLZ4], dtype, false).expect("known filter");
        Case { plan, csr, invalid: InvalidValues::from_integers(rule), pipeline, chunks }
    }

    fn stored(&self) -> Vec<EncodedFrame<'_>> {
        self.chunks.iter().map(|(bytes, mask)| EncodedFrame { bytes, filter_mask: *mask }).collect()
    }

    fn spec(&self) -> IntegrationSpec<'_> {
        IntegrationSpec {
            plan: &self.plan,
            invalid: &self.invalid,
            csr: Some(&self.csr),
            collects_rejected: false,
        }
    }

    /// Returns the CPU's sums.
    fn expected(&self) -> Vec<Sums> {
        let rows = self.csr.integrate(
            &self.pipeline,
            &self.plan,
            &self.invalid,
            &self.stored(),
            &mut Scratch::default(),
        );
        rows.into_iter().map(|sums| sums.expect("a good chunk")).collect()
    }

    fn found(&self, queues: &mut DeviceQueues, frames: &[EncodedFrame<'_>]) -> Vec<Sums> {
        let rows = queues
            .integrate_batch_by_plans(&self.pipeline, &[self.spec()], frames)
            .expect("a device that works");
        rows.into_iter().map(|row| row.expect("a good chunk").remove(0)).collect()
    }

    /// Asserts that the device's sums are the CPU's.
    fn check(&self, device: &Arc<Device>, what: &str) {
        let mut queues = DeviceQueues::new(device.clone(), 2).expect("queues");
        assert_same(&self.found(&mut queues, &self.stored()), &self.expected(), what);
        assert_eq!(queues.disputed(), 0, "{what}");
    }
}

/// Asserts that sums are equal to the bit.
fn assert_same(found: &[Sums], expected: &[Sums], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (frame, (found, expected)) in found.iter().zip(expected).enumerate() {
        let lists = |sums: &Sums| {
            let own = sums.weight_override.clone().unwrap_or_default();
            [
                sums.signal.clone(),
                sums.variance.clone().unwrap_or_default(),
                own.norm.clone(),
                own.norm_sq.clone(),
                own.count.clone(),
            ]
        };
        for (name, (found, expected)) in ["signal", "variance", "norm", "norm²", "count"]
            .iter()
            .zip(lists(found).iter().zip(lists(expected)))
        {
            assert_eq!(found.len(), expected.len(), "{what}: frame {frame}: {name}");
            for (bin, (f, e)) in found.iter().zip(expected).enumerate() {
                assert!(
                    f.to_bits() == e.to_bits(),
                    "{what}: frame {frame}, bin {bin}: {name} {f:e}, expected {e:e}"
                );
            }
        }
    }
}

/// Returns a matrix of pixels that are not split. `bin` gives the bin of a pixel; from `nbins` on,
/// the pixel has no bin.
fn unsplit(pixels: usize, nbins: usize, bin: impl Fn(usize) -> usize) -> Csc {
    let mut csc = Csc { starts: vec![0], nbins, ..Csc::default() };
    for bin in (0..pixels).map(bin) {
        if bin < nbins {
            csc.bins.push(bin as u32);
            csc.weights.push(1.);
        }
        csc.starts.push(csc.bins.len() as u64);
    }
    csc
}

#[test]
fn sums_are_the_processor_s_to_the_bit() {
    let random = &mut Random::new(31);
    for settings in all_settings() {
        let Some(device) = device(settings.clone()) else { return };
        for dtype in PixelType::ALL {
            use PixelType::{F32, I32, U16};
            // Compiling takes most of the time, so only one type of each kind is tested with four
            // frames per work-group.
            if settings.work_group_size != Some(1) && ![U16, I32, F32].contains(&dtype) {
                continue;
            }
            for (number, method) in METHODS.into_iter().enumerate() {
                let pixels = [5, 40, 9003, 2 * 8192, 6001][random.below(5) as usize];
                let nbins = [1, 3, 400][random.below(3) as usize];
                let csc = match number % 2 {
                    0 => Csc::random(pixels, nbins, random),
                    _ => unsplit(pixels, nbins, |pixel| pixel / 3 % (nbins + nbins / 4)),
                };
                let what = format!(
                    "{dtype}, {pixels} pixels, {nbins} bins, {method:?}, {:?}",
                    settings.work_group_size
                );
                Case::new(&csc, dtype, method, random).check(&device, &what);
            }
        }
    }
}

#[test]
fn bins_of_no_pixel_of_one_and_of_a_hundred_thousand() {
    let random = &mut Random::new(32);
    for settings in all_settings() {
        let Some(device) = device(settings) else { return };
        // Every other one of bins 0 to 99 has one pixel. Bins 100 and 101 share all other pixels.
        let csc =
            unsplit(205_003, 103, |pixel| if pixel < 50 { 2 * pixel } else { 100 + pixel % 2 });
        for method in METHODS {
            Case::new(&csc, PixelType::I32, method, random).check(&device, &format!("{method:?}"));
        }
    }
}

#[test]
fn the_last_place_of_a_limit_decides_as_on_the_processor() {
    // Bins of 3 to 300 pixels of variance 1, all 0 except for x and -x. Their mean is 0, and x is
    // an outlier if it is beyond Chauvenet's criterion for the number of pixels.
    let sizes = 3..=300;
    let bins: Vec<usize> = sizes.clone().flat_map(|size| vec![size - 3; size]).collect();
    let csc = unsplit(bins.len(), sizes.clone().count(), |pixel| bins[pixel]);
    let ones = vec![1.; bins.len()];
    let plan = IntegrationPlan::with_variance(csc.matrix(), &ones, &ones, SpreadRole::Unused, None)
        .expect("arrays of the matrix's size");
    let csr = CsrMatrix::new(&plan, Statistic::SigmaClip { threshold: 0., max_iter: 1 });
    let chauvenet = |size: usize| (2. * (size as f64 / std::f64::consts::TAU.sqrt()).ln()).sqrt();
    let frame = |places: i64| -> Vec<u8> {
        let values = sizes.clone().flat_map(|size| {
            let x = f64::from_bits((chauvenet(size).to_bits() as i64 + places) as u64);
            [x, -x].into_iter().chain(vec![0.; size - 2])
        });
        values.flat_map(f64::to_ne_bytes).collect()
    };
    let chunks = (-8..=8).map(|places| (support::bslz4(&frame(places), 8, 1024), 0)).collect();
    let pipeline = Pipeline::from_hdf5(&[BSLZ4], PixelType::F64, false).expect("known filter");
    let case = Case { plan, csr, invalid: InvalidValues::none(), pipeline, chunks };
    let counts: Vec<f64> = case
        .expected()
        .iter()
        .map(|sums| sums.weight_override.clone().unwrap_or_default().count.iter().sum())
        .collect();
    assert!(counts[0] == 0. && counts.is_sorted_by(|a, b| *a == 0. || a >= b), "{counts:?}");
    for settings in all_settings() {
        let Some(device) = device(settings.clone()) else { return };
        case.check(&device, &format!("{:?}", settings.work_group_size));
    }
}

#[test]
fn neither_batch_nor_queues_nor_memory_nor_other_recipes_change_a_byte() {
    let random = &mut Random::new(33);
    let csc = Csc::random(1679 * 49, 300, random);
    let case = Case::new(&csc, PixelType::U32, (CLIP, VarianceModel::AZIMUTHAL), random);
    let expected = case.expected();
    for settings in all_settings() {
        let Some(device) = device(settings.clone()) else { return };
        let mut queues = DeviceQueues::new(device.clone(), 3).expect("queues");
        assert_same(&case.found(&mut queues, &case.stored()), &expected, "three queues");
        let one_by_one: Vec<Sums> =
            case.stored().iter().flat_map(|one| case.found(&mut queues, &[*one])).collect();
        assert_same(&one_by_one, &expected, "one by one");
        let plan =
            IntegrationPlan::new(csc.matrix(), vec![1.; 1679 * 49], VarianceModel::POISSON, None)
                .expect("norms");
        let none = InvalidValues::none();
        let specs = [
            IntegrationSpec { plan: &plan, invalid: &none, csr: None, collects_rejected: false },
            case.spec(),
        ];
        let rows = queues
            .integrate_batch_by_plans(&case.pipeline, &specs, &case.stored())
            .expect("a device that works");
        let rows: Vec<Vec<Sums>> = rows.into_iter().map(|row| row.expect("a good chunk")).collect();
        let summed = queues
            .integrate(&case.pipeline, &plan, &none, &case.stored())
            .expect("a device that works");
        for (row, alone) in rows.iter().zip(summed) {
            assert_eq!(row[0], alone.expect("a good chunk"), "beside another recipe");
        }
        let found: Vec<Sums> = rows.into_iter().map(|mut row| row.remove(1)).collect();
        assert_same(&found, &expected, "beside another recipe");
        let Some(device) = self::device(DeviceSettings { queue_memory: 3 << 20, ..settings })
        else {
            return;
        };
        let mut queues = DeviceQueues::new(device, 1).expect("queues");
        assert_same(&case.found(&mut queues, &case.stored()), &expected, "little memory");
        assert!(queues.frames_per_launch() < 6, "{} frames a launch", queues.frames_per_launch());
    }
}

#[test]
fn damaged_frames_are_what_the_processor_says_they_are() {
    let random = &mut Random::new(34);
    let csc = Csc::random(6003, 200, random);
    let mut case = Case::new(&csc, PixelType::U32, (CLIP, VarianceModel::POISSON), random);
    case.chunks.retain(|(_, mask)| *mask == 0);
    for settings in all_settings() {
        let Some(device) = device(settings) else { return };
        let mut queues = DeviceQueues::new(device, 2).expect("queues");
        for _ in 0..25 {
            let mut chunks = case.chunks.clone();
            for (i, (chunk, _)) in chunks.iter_mut().enumerate().filter(|(i, _)| i % 3 != 0) {
                let at = 12 + random.below(chunk.len() as u64 - 12) as usize;
                match random.below(3) {
                    0 => chunk.truncate(at),
                    _ => chunk[at] ^= [0xff, 1 << random.below(8)][i % 2],
                }
            }
            let stored: Vec<_> = chunks
                .iter()
                .map(|(bytes, mask)| EncodedFrame { bytes, filter_mask: *mask })
                .collect();
            let specs = [case.spec()];
            let found = queues
                .integrate_batch_by_plans(&case.pipeline, &specs, &stored)
                .expect("it goes on");
            let expected =
                integrate_frames(&case.pipeline, &specs, &stored, &mut Scratch::default());
            for (frame, (found, expected)) in found.into_iter().zip(expected).enumerate() {
                match (found, expected) {
                    (Ok(found), Ok(expected)) => {
                        assert_same(&found, &expected, &format!("frame {frame}"))
                    }
                    (found, expected) => assert_eq!(found, expected, "frame {frame}"),
                }
            }
        }
        assert_eq!(queues.disputed(), 0, "the device decodes what the processor does");
    }
}

#[test]
fn a_device_without_doubles_or_memory_says_so_and_is_kept() {
    let random = &mut Random::new(35);
    let csc = Csc::random(9000, 30, random);
    let case = Case::new(&csc, PixelType::U16, (CLIP, VarianceModel::AZIMUTHAL), random);
    let fail_with = |settings| -> Option<(DeviceError, Option<DeviceError>)> {
        let device = device(settings)?;
        let mut queues = DeviceQueues::new(device.clone(), 1).expect("a queue");
        let why = queues.integrate_batch_by_plans(&case.pipeline, &[case.spec()], &case.stored());
        Some((why.expect_err("it can't"), device.failure().cloned()))
    };
    let Some((why, failure)) =
        fail_with(DeviceSettings { force_float_pairs: true, ..DeviceSettings::default() })
    else {
        return;
    };
    assert!(
        matches!(why, DeviceError::Unsupported(_)) && why.to_string().contains("doubles"),
        "{why}"
    );
    assert_eq!(failure, None);
    let Some((why, failure)) =
        fail_with(DeviceSettings { queue_memory: 1000, ..DeviceSettings::default() })
    else {
        return;
    };
    assert!(matches!(why, DeviceError::OutOfMemory(_)), "{why}");
    assert_eq!(failure, None);
}

#[test]
fn plans_and_matrices_that_do_not_belong_together_are_refused() {
    let random = &mut Random::new(36);
    let case = Case::new(
        &Csc::random(9000, 30, random),
        PixelType::U16,
        (CLIP, VarianceModel::AZIMUTHAL),
        random,
    );
    let larger = Case::new(
        &Csc::random(9008, 30, random),
        PixelType::U16,
        (CLIP, VarianceModel::AZIMUTHAL),
        random,
    );
    let Some(device) = device(DeviceSettings::default()) else { return };
    let mut queues = DeviceQueues::new(device.clone(), 1).expect("a queue");
    let why = queues.integrate_batch_by_plans(
        &case.pipeline,
        &[case.spec(), larger.spec()],
        &case.stored(),
    );
    let expected = "expected plans for frames of the same size".to_owned();
    assert_eq!(why, Err(DeviceError::Unsupported(expected)));
    let mixed = IntegrationSpec { csr: Some(&larger.csr), ..case.spec() };
    let why = queues.integrate_batch_by_plans(&case.pipeline, &[mixed], &case.stored());
    let expected = "expected the CSR matrix that was made from the plan".to_owned();
    assert_eq!(why, Err(DeviceError::Unsupported(expected)));
    assert_eq!(device.failure(), None);
}

/// A small case for [`kernels_are_sound_to_a_simulator`].
#[test]
fn few_frames_that_a_simulator_has_time_for() {
    let random = &mut Random::new(31);
    let csc = Csc::random(2100, 12, random);
    for settings in all_settings() {
        let Some(device) = device(settings) else { return };
        for method in [METHODS[0], METHODS[2]] {
            Case::new(&csc, PixelType::U32, method, random).check(&device, &format!("{method:?}"));
        }
    }
}

#[test]
fn intel_s_driver_passes_these_tests() {
    opencl::run_with_intel_driver("intel_s_driver_passes_these_tests");
}

#[test]
fn kernels_are_sound_to_a_simulator() {
    opencl::simulate("few_frames_that_a_simulator_has_time_for");
}
