//! Compares integration on an OpenCL device with the scalar kernel.
//!
//! The tests need an OpenCL driver, such as PoCL. Without one they are skipped, and fail in CI.

#[path = "support/opencl_case.rs"]
mod case;
#[path = "support/opencl.rs"]
mod opencl;
mod support;

use case::{BSLZ4, Case, plan};
use kernels::opencl::{DeviceError, DeviceQueues, DeviceSettings};
use kernels::{
    EncodedFrame, IntegrationPlan, IntegrationSpec, InvalidValues, Pipeline, PixelType, Sums,
    VarianceModel, accumulate_frame,
};
use opencl::device;
use support::{Csc, Frame, Photons, Random};

/// Returns settings for work-groups of one lane, as on CPUs, and of many, as on GPUs, with sums in
/// doubles and in pairs of floats.
fn all_settings() -> [DeviceSettings; 3] {
    let settings = |group, force_float_pairs| DeviceSettings {
        work_group_size: Some(group),
        force_float_pairs,
        ..DeviceSettings::default()
    };
    [settings(1, false), settings(64, false), settings(32, true)]
}

fn bits(sums: &[Sums]) -> Vec<u64> {
    let all = |sums: &Sums| {
        sums.signal
            .iter()
            .chain(sums.variance.iter().flatten())
            .map(|v| v.to_bits())
            .collect::<Vec<_>>()
    };
    sums.iter().flat_map(all).collect()
}

#[test]
fn sums_are_those_of_the_scalar_kernel() {
    let random = &mut Random::new(11);
    for settings in all_settings() {
        let Some(device) = device(settings.clone()) else { return };
        for dtype in PixelType::ALL {
            use PixelType::{F32, I32, U16, U32, U64};
            // Compiling takes most of the time, so only one type of each kind is tested with all
            // settings.
            let is_plain = settings.work_group_size == Some(1);
            if !is_plain && ![U16, U32, I32, U64, F32].contains(&dtype) {
                continue;
            }
            let default = 8192 / dtype.size();
            // Less than a column, one short block, blocks that end with the frame, odd lengths, and
            // another block size.
            let mut shapes =
                vec![(5, default), (40, default), (2 * default, default), (9003, default)];
            // The smallest and the largest blocks are out of the range that the device decodes.
            shapes.extend(
                [256, 64, 4096]
                    .into_iter()
                    .filter(|_| is_plain && dtype == U32)
                    .map(|block| (9003, block)),
            );
            for (pixels, block) in shapes {
                let nbins = [1, 3, 400][random.below(3) as usize];
                let case = Case::random(dtype, pixels, nbins, block, 4, random);
                let mut queues = DeviceQueues::new(device.clone(), 2).expect("queues");
                let what =
                    format!("{dtype}, {pixels} pixels in {block}, {nbins} bins, {settings:?}");
                case.check(&case.sums(&mut queues), &what);
                assert_eq!(queues.disputed(), 0, "{what}");
            }
        }
    }
}

#[test]
fn azimuthal_errors_are_those_of_the_scalar_kernel() {
    use PixelType::{F64, I32, U16};
    let random = &mut Random::new(23);
    for settings in all_settings() {
        let Some(device) = device(settings.clone()) else { return };
        for (dtype, pixels) in [(U16, 9003), (I32, 2 * 2048), (F64, 40)] {
            let nbins = [1, 3, 400][random.below(3) as usize];
            let block = 8192 / dtype.size();
            let errors = VarianceModel::AZIMUTHAL;
            let case = Case::with_errors(errors, dtype, pixels, nbins, block, 4, random);
            let mut queues = DeviceQueues::new(device.clone(), 2).expect("queues");
            assert_ne!(device.supports_sums(&case.plan), settings.force_float_pairs);
            if settings.force_float_pairs {
                let invalid = &case.invalid;
                let refused = queues.integrate(&case.pipeline, &case.plan, invalid, &case.stored());
                assert!(matches!(refused, Err(DeviceError::Unsupported(_))), "{dtype}");
                continue;
            }
            let what = format!("{dtype}, {pixels} pixels, {nbins} bins, {settings:?}");
            case.check(&case.sums(&mut queues), &what);
            assert_eq!(queues.disputed(), 0, "{what}");
        }
    }
}

#[test]
fn a_pilatus_2m_whose_chunks_end_in_odd_pixels_is_integrated_whole() {
    let random = &mut Random::new(18);
    let Some(device) = device(DeviceSettings::default()) else { return };
    let mut case = Case::random(PixelType::I32, 1679 * 1475, 500, 2048, 1, random);
    // A block size of 0 is the default one.
    let mut chunk = support::bslz4(&case.frames[0].bytes, 4, 2048);
    chunk[8..12].fill(0);
    case.chunks = vec![(chunk, 0)];
    let mut queues = DeviceQueues::new(device, 1).expect("a queue");
    case.check(&case.sums(&mut queues), "Pilatus 2M");
    assert_eq!(queues.disputed(), 0);
    let sent = queues.sent_bytes() as f64 / case.chunks[0].0.len() as f64;
    assert!(sent < 1.1, "{sent}: not decoded by the device");
}

/// A small case for [`kernels_are_sound_to_a_simulator`]: work-groups of many lanes, valid and
/// damaged blocks, two plans.
#[test]
fn few_frames_that_a_simulator_has_time_for() {
    let random = &mut Random::new(19);
    let (dtype, pixels) = (PixelType::U32, 4213);
    let mut case = Case::random(dtype, pixels, 40, 2048, 3, random);
    for (frame, photons) in
        [Photons::Below(6), Photons::Sparse(40), Photons::Noise].into_iter().enumerate()
    {
        case.frames[frame] = Frame::random(dtype, pixels, photons, 50, &vec![], random);
        case.chunks[frame] = (support::bslz4(&case.frames[frame].bytes, 4, 2048), 0);
    }
    // The first sequence of the first block.
    case.chunks[0].0[16..56].fill(0xff);
    let invalid = InvalidValues::from_integers(support::gaps(dtype));
    for settings in &all_settings()[1..] {
        let errors = match settings.force_float_pairs {
            true => VarianceModel::NONE,
            false => VarianceModel::AZIMUTHAL,
        };
        let other = plan(pixels, 9, errors, random);
        let Some(device) = device(settings.clone()) else { return };
        let mut queues = DeviceQueues::new(device, 2).expect("queues");
        let plans = [(&case.plan, &case.invalid), (&other, &invalid)];
        let specs = plans.map(spec);
        let found = queues
            .integrate_batch_by_plans(&case.pipeline, &specs, &case.stored())
            .expect("it works");
        assert_eq!((found[0].is_ok(), queues.disputed()), (false, 0));
        for (frame, row) in found.iter().enumerate().skip(1) {
            let row = row.as_ref().expect("a good chunk");
            for ((plan, invalid), found) in plans.iter().zip(row) {
                let mut expected = Sums::default();
                accumulate_frame(&case.frames[frame].bytes, dtype, plan, invalid, &mut expected);
                let close = |(f, e): (&f64, &f64)| (f - e).abs() <= 1e-9 * e.abs() + 1e-3;
                assert!(found.signal.iter().zip(&expected.signal).all(close), "frame {frame}");
                assert_eq!(found.weight_override, expected.weight_override, "frame {frame}");
            }
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

#[test]
fn neither_batch_nor_queues_nor_memory_change_a_byte() {
    let random = &mut Random::new(12);
    let case = Case::random(PixelType::U32, 1679 * 49, 300, 2048, 11, random);
    for settings in all_settings() {
        let Some(device) = device(settings.clone()) else { return };
        let expected =
            bits(&case.sums(&mut DeviceQueues::new(device.clone(), 1).expect("a queue")));
        let mut queues = DeviceQueues::new(device.clone(), 3).expect("queues");
        assert!(bits(&case.sums(&mut queues)) == expected, "another number of queues");
        assert!(bits(&case.sums(&mut queues)) == expected, "another time");
        let one_by_one = case
            .stored()
            .iter()
            .flat_map(|one| case.some_sums(&mut queues, &[*one]))
            .collect::<Vec<_>>();
        assert!(bits(&one_by_one) == expected, "one by one");
        let little = DeviceSettings { queue_memory: 1 << 20, ..settings };
        let Some(device) = self::device(little) else { return };
        let mut queues = DeviceQueues::new(device, 2).expect("queues");
        assert!(bits(&case.sums(&mut queues)) == expected, "little memory");
        assert!(queues.frames_per_launch() < 6, "{} frames a launch", queues.frames_per_launch());
    }
}

#[test]
fn plans_together_give_the_bytes_of_each_alone() {
    let random = &mut Random::new(17);
    let (dtype, pixels) = (PixelType::U32, 9003);
    let mut case = Case::random(dtype, pixels, 30, 2048, 9, random);
    // Dead pixels that no plan masks, and a chunk that can't be decoded.
    case.frames[1] = Frame::random(dtype, pixels, Photons::Below(6), 300, &vec![], random);
    case.chunks[1] = (support::bslz4(&case.frames[1].bytes, 4, 2048), 0);
    case.chunks[5] = (vec![0; 30], 0);
    // More plans than the number of idle matrices that a device keeps, with and without errors, and
    // with different invalid values.
    let rules = [vec![], vec![0..=0, 3..=7], support::gaps(dtype)];
    let plans: Vec<(IntegrationPlan, InvalidValues)> = [1, 300, 40, 700, 9, 90]
        .into_iter()
        .enumerate()
        .map(|(at, nbins)| {
            let errors = if at % 2 == 0 { VarianceModel::POISSON } else { VarianceModel::NONE };
            (
                plan(pixels, nbins, errors, random),
                InvalidValues::from_integers(rules[at % 3].clone()),
            )
        })
        .collect();
    let mut all: Vec<(&IntegrationPlan, &InvalidValues)> =
        plans.iter().map(|(plan, invalid)| (plan, invalid)).collect();
    for settings in [all_settings()[0].clone(), all_settings()[1].clone()] {
        let Some(device) = device(settings.clone()) else { return };
        let alone = |(plan, invalid): &(&IntegrationPlan, &InvalidValues)| {
            let mut queues = DeviceQueues::new(device.clone(), 1).expect("a queue");
            queues.integrate(&case.pipeline, plan, invalid, &case.stored()).expect("it works")
        };
        let little = DeviceSettings { queue_memory: 2 << 20, ..settings };
        for device in [Some(device.clone()), self::device(little)].into_iter().flatten() {
            all.reverse();
            let expected: Vec<_> = all.iter().map(alone).collect();
            let mut queues = DeviceQueues::new(device, 2).expect("queues");
            for _ in 0..2 {
                let before = queues.sent_bytes();
                let found = queues
                    .integrate_batch_by_plans(&case.pipeline, &specs(&all), &case.stored())
                    .expect("it works");
                assert_eq!(found.len(), case.frames.len());
                for (frame, row) in found.iter().enumerate() {
                    let expected: Result<Vec<Sums>, _> =
                        expected.iter().map(|sums| sums[frame].clone()).collect();
                    assert!(*row == expected, "frame {frame}");
                }
                let stored: usize = case.chunks.iter().map(|(bytes, _)| bytes.len()).sum();
                let sent = (queues.sent_bytes() - before) as f64;
                assert!(sent < 1.1 * stored as f64, "{sent} bytes of {stored}: once for all plans");
            }
            let exceptions = found_exceptions(&mut queues, &case, &all);
            assert!(exceptions.contains(&true) && exceptions.contains(&false), "{exceptions:?}");
        }
    }
}

fn specs<'a>(plans: &[(&'a IntegrationPlan, &'a InvalidValues)]) -> Vec<IntegrationSpec<'a>> {
    plans.iter().copied().map(spec).collect()
}

/// Returns for each plan whether frame 1 has weights that differ from the plan's.
fn found_exceptions(
    queues: &mut DeviceQueues,
    case: &Case,
    plans: &[(&IntegrationPlan, &InvalidValues)],
) -> Vec<bool> {
    let rows = queues
        .integrate_batch_by_plans(&case.pipeline, &specs(plans), &case.stored()[1..2])
        .expect("it works");
    rows[0]
        .as_ref()
        .expect("a good chunk")
        .iter()
        .map(|sums| sums.weight_override.is_some())
        .collect()
}

#[test]
fn a_device_without_memory_for_one_frame_says_so_and_is_kept() {
    let random = &mut Random::new(13);
    let case = Case::random(PixelType::U16, 9000, 30, 4096, 3, random);
    let Some(device) = device(DeviceSettings { queue_memory: 1000, ..DeviceSettings::default() })
    else {
        return;
    };
    let mut queues = DeviceQueues::new(device.clone(), 2).expect("queues");
    let why = queues
        .integrate(&case.pipeline, &case.plan, &case.invalid, &case.stored())
        .expect_err("too little memory");
    assert!(matches!(why, DeviceError::OutOfMemory(_)), "{why}");
    assert_eq!(device.failure(), None);
}

#[test]
fn a_device_that_does_not_answer_is_disabled() {
    let random = &mut Random::new(16);
    let case = Case::random(PixelType::U16, 300_000, 30, 4096, 3, random);
    let timeout = std::time::Duration::ZERO;
    let Some(device) = device(DeviceSettings { timeout, ..DeviceSettings::default() }) else {
        return;
    };
    let mut queues = DeviceQueues::new(device.clone(), 2).expect("queues");
    let integrate = |queues: &mut DeviceQueues| {
        queues.integrate(&case.pipeline, &case.plan, &case.invalid, &case.stored())
    };
    let why = integrate(&mut queues).expect_err("no time to answer");
    assert!(why.to_string().contains("did not answer"), "{why}");
    assert_eq!((integrate(&mut queues).err(), device.failure()), (Some(why.clone()), Some(&why)));
    assert_eq!(DeviceQueues::new(device.clone(), 1).err(), Some(why));
}

#[test]
fn damaged_frames_are_what_the_processor_says_they_are() {
    let random = &mut Random::new(14);
    let (dtype, pixels) = (PixelType::U32, 6003);
    let mut case = Case::random(dtype, pixels, 200, 2048, 24, random);
    case.chunks =
        case.frames.iter().map(|frame| (support::bslz4(&frame.bytes, 4, 2048), 0)).collect();
    for settings in all_settings() {
        let Some(device) = device(settings) else { return };
        let mut queues = DeviceQueues::new(device, 2).expect("queues");
        for _ in 0..25 {
            let mut chunks = case.chunks.clone();
            for (i, (chunk, _)) in chunks.iter_mut().enumerate().filter(|(i, _)| i % 3 != 0) {
                match random.below(6) {
                    0 => chunk.truncate(random.below(chunk.len() as u64) as usize),
                    // Noise where the blocks are.
                    1 => (16..chunk.len().min(400)).for_each(|at| chunk[at] = random.next() as u8),
                    _ => {
                        let at = 12 + random.below(chunk.len() as u64 - 12) as usize;
                        chunk[at] ^= [0xff, 1 << random.below(8)][i % 2];
                    }
                }
            }
            let stored: Vec<EncodedFrame<'_>> = chunks
                .iter()
                .map(|(bytes, mask)| EncodedFrame { bytes, filter_mask: *mask })
                .collect();
            let found = queues
                .integrate(&case.pipeline, &case.plan, &case.invalid, &stored)
                .expect("it goes on");
            for (i, (found, stored)) in found.into_iter().zip(&stored).enumerate() {
                let mut pixels = vec![0; 4 * pixels];
                match case.pipeline.decode(0, stored.bytes, &mut pixels) {
                    Err(why) => assert_eq!(found.err(), Some(why), "frame {i}"),
                    Ok(()) => {
                        let mut expected = Sums::default();
                        accumulate_frame(&pixels, dtype, &case.plan, &case.invalid, &mut expected);
                        let found = found.unwrap_or_else(|why| panic!("frame {i}: {why}"));
                        assert_eq!(found.weight_override, expected.weight_override, "frame {i}");
                        let close = |(f, e): (&f64, &f64)| (f - e).abs() <= 1e-9 * e.abs() + 1e-3;
                        assert!(found.signal.iter().zip(&expected.signal).all(close), "frame {i}");
                    }
                }
            }
        }
        assert_eq!(queues.disputed(), 0, "the device decodes what the processor does");
    }
}

#[test]
fn little_more_than_the_chunks_is_sent() {
    let random = &mut Random::new(15);
    let Some(device) = device(DeviceSettings::default()) else { return };
    for photons in [Photons::Below(2), Photons::Below(40), Photons::Sparse(100_000)] {
        let pixels = 1 << 20;
        let matrix = Csc::random(pixels, 1000, random).matrix();
        let plan = IntegrationPlan::new(matrix, vec![1.; pixels], VarianceModel::POISSON, None)
            .expect("norms");
        let frame = Frame::random(PixelType::U32, pixels, photons, 0, &vec![], random);
        let pipeline = Pipeline::from_hdf5(&[BSLZ4], PixelType::U32, false).expect("known filter");
        let bytes = support::bslz4(&frame.bytes, 4, 2048);
        let mut queues = DeviceQueues::new(device.clone(), 1).expect("a queue");
        let stored = [EncodedFrame { bytes: &bytes, filter_mask: 0 }; 3];
        let found =
            queues.integrate(&pipeline, &plan, &InvalidValues::none(), &stored).expect("it works");
        assert!(found.iter().all(Result::is_ok));
        let ratio = queues.sent_bytes() as f64 / (3 * bytes.len()) as f64;
        assert!((1.0..1.1).contains(&ratio), "{photons:?}: {ratio}");
    }
}

fn spec<'a>((plan, invalid): (&'a IntegrationPlan, &'a InvalidValues)) -> IntegrationSpec<'a> {
    IntegrationSpec { plan, invalid, csr: None, collects_rejected: false }
}
