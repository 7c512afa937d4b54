//! Compares batches of stored frames with the scalar kernel: the sums of a frame are the same bytes
//! in any batch.

mod support;

use kernels::{
    DeadTime, EncodedFrame, IntegrationPlan, InvalidValues, Isa, Pipeline, PixelType, Scratch,
    SpreadRole, Sums, SumsBlock, SumsConsumer, VarianceModel, accumulate_frame, integrate_batch,
    integrate_batch_by_plans, integrate_blocks_by_plans,
};
use proptest::prelude::*;
use support::{Csc, Frame, Photons, Random};

const BSLZ4: (u32, &[u32]) = (32008, &[0, 4, 0, 0, 2]);

/// Returns the bits of all sums, so that -0 differs from 0 and NaN equals itself.
fn bits(sums: &Sums) -> Vec<Vec<u64>> {
    let mut all = vec![&sums.signal];
    all.extend(&sums.variance);
    all.extend(sums.weight_override.iter().flat_map(|e| [&e.norm, &e.norm_sq, &e.count]));
    all.into_iter().map(|v| v.iter().map(|x| x.to_bits()).collect()).collect()
}

fn scalar(frame: &Frame, plan: &IntegrationPlan, invalid: &InvalidValues) -> Sums {
    let mut sums = Sums::default();
    accumulate_frame(&frame.bytes, frame.dtype, plan, invalid, &mut sums);
    sums
}

/// The variance models that differ in what is summed by pixel.
const MODELS: [VarianceModel; 3] =
    [VarianceModel::NONE, VarianceModel::POISSON, VarianceModel::AZIMUTHAL];

#[derive(Clone, Debug)]
struct Case {
    dtype: PixelType,
    pixels: usize,
    nbins: usize,
    block: usize,
    frames: Vec<(Photons, u64)>,
    errors: VarianceModel,
    dark: bool,
    /// The dead time of a pixel, in parts of the exposure.
    dead_time: f64,
    rule: Rule,
    seed: u64,
}

/// A set of invalid values.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Gaps,
    Nothing,
    /// -4..=-2, or 65533..=65534: values with the same top bits as others that are valid.
    Odd,
    /// All negative values; for unsigned types, those with the top bit set.
    Negative,
    /// Ranges of which one has zero, which has no set bit.
    Zero,
    /// A range from below zero to above it, or from zero on.
    AroundZero,
}

impl Rule {
    fn ranges(self, dtype: PixelType) -> support::Ranges {
        let signed = !dtype.name().starts_with('u');
        match self {
            Rule::Gaps => support::gaps(dtype),
            Rule::Nothing => vec![],
            Rule::Odd if signed => vec![-4..=-2, -9..=-9],
            Rule::Odd => vec![65533..=65534, 200..=203],
            Rule::Negative if signed => vec![i128::MIN..=-1],
            Rule::Negative => vec![1 << (8 * dtype.size() - 1)..=i128::MAX],
            Rule::Zero => vec![0..=0, 3..=7],
            Rule::AroundZero => vec![-3..=5],
        }
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let photons = prop_oneof![
        4 => Just(Photons::Sparse(2000)),
        4 => Just(Photons::Sparse(20)),
        4 => Just(Photons::Below(6)),
        2 => Just(Photons::Below(300)),
        2 => Just(Photons::Below(70000)),
        1 => Just(Photons::Noise),
    ];
    let frames = prop_oneof![
        prop::collection::vec(
            (photons.clone(), prop_oneof![3 => Just(0u64), 1 => Just(2), 1 => Just(1000)]),
            1..20
        ),
        (photons, 1usize..20).prop_map(|(photons, n)| vec![(photons, 0); n]),
    ];
    (
        prop_oneof![4 => Just(PixelType::U32), 2 => Just(PixelType::U16), 2 => Just(PixelType::I32), 1 => prop::sample::select(PixelType::ALL.to_vec())],
        prop_oneof![1usize..40, 2040usize..2060, 4000usize..9000],
        prop_oneof![1usize..4, 50usize..900],
        prop_oneof![
            4 => Just(0usize),
            1 => (1usize..300).prop_map(|b| b * 8),
            1 => prop::sample::select(vec![2048, 4096, 65536])
        ],
        frames,
        (
            prop::sample::select(MODELS.to_vec()),
            any::<bool>(),
            prop_oneof![4 => Just(0.), 1 => Just(1e-9), 1 => Just(1e-6), 1 => Just(0.03)],
        ),
        prop_oneof![
            6 => Just(Rule::Gaps),
            1 => Just(Rule::Nothing),
            2 => Just(Rule::Odd),
            2 => Just(Rule::Negative),
            1 => Just(Rule::Zero),
            1 => Just(Rule::AroundZero)
        ],
        any::<u64>(),
    )
        .prop_map(|(dtype, pixels, nbins, block, frames, (errors, dark, dead_time), rule, seed)| Case {
            dtype,
            pixels,
            nbins,
            block: if block == 0 { 8192 / dtype.size() } else { block },
            frames,
            errors,
            dark,
            dead_time,
            rule,
            seed,
        })
}

impl Case {
    fn plan(&self, random: &mut Random) -> IntegrationPlan {
        let n: Vec<f64> = (0..self.pixels).map(|_| random.below(20) as f64 / 16.).collect();
        let dark: Option<Vec<f64>> =
            self.dark.then(|| (0..self.pixels).map(|_| random.below(9) as f64).collect());
        let matrix = Csc::random(self.pixels, self.nbins, random).matrix();
        IntegrationPlan::new(matrix, &n, self.errors, dark.as_deref())
            .expect("arrays of the matrix's size")
            .with_dead_time(DeadTime::new(self.dead_time, 1.))
    }

    fn pipeline(&self) -> Pipeline {
        Pipeline::from_hdf5(&[BSLZ4], self.dtype, false).expect("known filter")
    }

    fn invalid(&self) -> InvalidValues {
        InvalidValues::from_integers(self.rule.ranges(self.dtype)).or(DeadTime::new(
            self.dead_time,
            1.,
        )
        .invalid_values())
    }

    /// Returns more plans for the same frames, with other bins and pixels; the third one has its
    /// own invalid values.
    fn check_together(
        &self,
        scratch: &mut Scratch,
        plan: &IntegrationPlan,
        frames: &[Frame],
        stored: &[EncodedFrame<'_>],
    ) {
        let random = &mut Random::new(self.seed + 1);
        let errors = MODELS[random.below(MODELS.len() as u64) as usize];
        let finer = Case { nbins: 2 * self.nbins + 3, errors, ..self.clone() }.plan(random);
        let weights = Csc::random(self.pixels, self.nbins, random).matrix();
        // A sector, in which most pixels have no entries.
        let norms: Vec<f64> = (0..self.pixels).map(|p| f64::from(p % 4500 < 300)).collect();
        let sector = IntegrationPlan::new(weights, &norms, VarianceModel::POISSON, None)
            .expect("a norm a pixel");
        let (invalid, others) = (self.invalid(), InvalidValues::from_integers([7..=7]));
        let plans = [(plan, &invalid), (&finer, &invalid), (&sector, &others), (&sector, &invalid)];
        let found = integrate_batch_by_plans(&self.pipeline(), &plans, stored, scratch);
        for (i, (frame, found)) in frames.iter().zip(&found).enumerate() {
            let found = found.as_ref().expect("a good chunk");
            assert_eq!(found.len(), plans.len());
            for (which, (found, (plan, invalid))) in found.iter().zip(plans).enumerate() {
                let same = bits(found) == bits(&scalar(frame, plan, invalid));
                assert!(
                    same,
                    "{:?}: frame {i}: not the bytes of plan {which} alone",
                    scratch.isa()
                );
            }
        }
    }

    fn check(&self) {
        let random = &mut Random::new(self.seed);
        let plan = self.plan(random);
        let rule = self.rule.ranges(self.dtype);
        let frames: Vec<Frame> = self
            .frames
            .iter()
            .map(|&(p, i)| Frame::random(self.dtype, self.pixels, p, i, &rule, random))
            .collect();
        let chunks: Vec<(Vec<u8>, u32)> = frames
            .iter()
            .map(|frame| match random.below(8) {
                0 => (frame.bytes.clone(), 1),
                _ => (support::bslz4(&frame.bytes, self.dtype.size(), self.block), 0),
            })
            .collect();
        let stored: Vec<EncodedFrame<'_>> =
            chunks.iter().map(|(bytes, mask)| EncodedFrame { bytes, filter_mask: *mask }).collect();
        // The second pass reuses the scratch of the first one.
        for isa in Isa::available() {
            let mut scratch = Scratch::new(isa);
            self.check_on(&mut scratch, &plan, &frames, &stored);
            self.check_together(&mut scratch, &plan, &frames, &stored);
            self.check_on(&mut scratch, &plan, &frames, &stored);
        }
    }

    fn check_on(
        &self,
        scratch: &mut Scratch,
        plan: &IntegrationPlan,
        frames: &[Frame],
        stored: &[EncodedFrame<'_>],
    ) {
        let (pipeline, invalid) = (self.pipeline(), self.invalid());
        let found = integrate_batch(&pipeline, plan, &invalid, stored, scratch);
        assert_eq!(found.len(), frames.len());
        for (i, (frame, found)) in frames.iter().zip(&found).enumerate() {
            let found = found.as_ref().expect("a good chunk");
            let same = bits(found) == bits(&scalar(frame, plan, &invalid));
            assert!(same, "{:?}: frame {i}: not the scalar kernel's bytes", scratch.isa());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn batches_give_the_bytes_of_the_scalar_kernel(case in cases()) {
        case.check();
    }
}

#[test]
fn a_damaged_frame_fails_alone() {
    let random = &mut Random::new(5);
    let case = Case {
        dtype: PixelType::U32,
        pixels: 9000,
        nbins: 300,
        block: 2048,
        frames: vec![],
        errors: VarianceModel::POISSON,
        dark: false,
        dead_time: 0.,
        rule: Rule::Gaps,
        seed: 0,
    };
    let plan = case.plan(random);
    let pipeline = Pipeline::from_hdf5(&[BSLZ4], PixelType::U32, false).expect("known filter");
    let frame = Frame::random(
        PixelType::U32,
        9000,
        Photons::Below(9),
        500,
        &support::gaps(PixelType::U32),
        random,
    );
    let invalid = case.invalid();
    let good = support::bslz4(&frame.bytes, 4, 2048);
    let expected = bits(&scalar(&frame, &plan, &invalid));
    for _ in 0..200 {
        let mut bad = good.clone();
        match random.below(3) {
            0 => bad.truncate(random.below(good.len() as u64) as usize),
            1 => bad[12..16].fill(0xff),
            _ => {
                let at = random.below(good.len() as u64) as usize;
                bad[at] ^= 1 << random.below(8);
            }
        }
        let at = random.below(12) as usize;
        let stored: Vec<EncodedFrame<'_>> = (0..12)
            .map(|i| EncodedFrame { bytes: if i == at { &bad } else { &good }, filter_mask: 0 })
            .collect();
        let found = integrate_batch(&pipeline, &plan, &invalid, &stored, &mut Scratch::default());
        let mut pixels = vec![0; 9000 * 4];
        let decoded = pipeline.decode(0, &bad, &mut pixels);
        for (i, found) in found.iter().enumerate() {
            match (found, i == at) {
                (Ok(found), false) => {
                    assert!(bits(found) == expected, "another frame's damage was felt")
                }
                (Ok(found), true) => {
                    assert_eq!(decoded, Ok(()));
                    let mut sums = Sums::default();
                    accumulate_frame(&pixels, PixelType::U32, &plan, &invalid, &mut sums);
                    assert!(bits(found) == bits(&sums));
                }
                (Err(error), true) => assert_eq!(decoded.as_ref(), Err(error)),
                (Err(error), false) => panic!("a good frame failed: {error}"),
            }
        }
    }
}

/// Puts blocks together, and checks that each follows the one before.
struct Blocks(Vec<Vec<Sums>>);

impl SumsConsumer for Blocks {
    fn take(&mut self, frame: usize, plan: usize, block: SumsBlock<'_>) {
        let sums = &mut self.0[frame][plan];
        assert_eq!(block.bins.start, sums.signal.len());
        assert_eq!(block.bins.len(), block.signal.len());
        assert!(block.variance.is_none_or(|variance| variance.len() == block.signal.len()));
        sums.signal.extend(block.signal);
        block.variance.iter().for_each(|all| sums.variance.get_or_insert_default().extend(*all));
        sums.weight_override = block.weight_override.cloned();
    }
}

#[test]
fn blocks_of_sums_follow_one_another_to_the_last_bin() {
    let random = &mut Random::new(7);
    let case = |nbins, errors, dark| Case {
        dtype: PixelType::U16,
        pixels: 5000,
        nbins,
        block: 2048,
        frames: vec![],
        errors,
        dark,
        dead_time: 0.,
        rule: Rule::Gaps,
        seed: 0,
    };
    let plans = [
        case(300, VarianceModel::POISSON, true).plan(random),
        case(64, VarianceModel::AZIMUTHAL, false).plan(random),
        case(1, VarianceModel::NONE, false).plan(random),
        case(129, VarianceModel::POISSON, false).plan(random),
        IntegrationPlan::with_variance(
            Csc::random(5000, 200, random).matrix(),
            vec![1.; 5000],
            &[0.5; 5000],
            SpreadRole::Unused,
            None,
        )
        .expect("five thousand norms"),
    ];
    let rule = case(1, VarianceModel::NONE, false).invalid();
    let with_rules: Vec<_> = plans.iter().map(|plan| (plan, &rule)).collect();
    let pipeline = Pipeline::from_hdf5(&[BSLZ4], PixelType::U16, false).expect("known filter");
    let gaps = support::gaps(PixelType::U16);
    for count in [1, 2, 8, 21] {
        let mut frame = |index: usize| {
            let invalid = if index.is_multiple_of(3) { 200 } else { 0 };
            Frame::random(PixelType::U16, 5000, Photons::Below(9), invalid, &gaps, random)
        };
        let frames: Vec<Frame> = (0..count).map(&mut frame).collect();
        let damaged = if count == 1 { count } else { count - 1 };
        let stored: Vec<Vec<u8>> =
            frames.iter().map(|frame| support::bslz4(&frame.bytes, 2, 2048)).collect();
        let stored = stored.iter().enumerate().map(|(index, bytes)| EncodedFrame {
            bytes: if index == damaged { &bytes[..bytes.len() / 2] } else { bytes },
            filter_mask: 0,
        });
        let stored: Vec<EncodedFrame<'_>> = stored.collect();
        let mut blocks = Blocks(vec![vec![Sums::default(); plans.len()]; count]);
        let scratch = &mut Scratch::default();
        let results =
            integrate_blocks_by_plans(&pipeline, &with_rules, &stored, scratch, &mut blocks);
        for (index, (result, found)) in results.iter().zip(&blocks.0).enumerate() {
            assert_eq!(result.is_err(), index == damaged);
            for (plan, found) in plans.iter().zip(found).filter(|_| result.is_ok()) {
                assert!(bits(found) == bits(&scalar(&frames[index], plan, &rule)), "{index}");
            }
        }
    }
}

#[test]
fn a_frame_of_another_size_is_an_error() {
    let random = &mut Random::new(6);
    let matrix = Csc::random(100, 30, random).matrix();
    let plan = IntegrationPlan::new(matrix, vec![1.; 100], VarianceModel::NONE, None)
        .expect("a hundred norms");
    let pipeline = Pipeline::from_hdf5(&[BSLZ4], PixelType::U16, false).expect("known filter");
    let frame = Frame::random(PixelType::U16, 99, Photons::Below(9), 0, &vec![], random);
    let stored = support::bslz4(&frame.bytes, 2, 4096);
    let stored = [EncodedFrame { bytes: &stored, filter_mask: 0 }];
    let found =
        integrate_batch(&pipeline, &plan, &InvalidValues::none(), &stored, &mut Scratch::default());
    let error = found[0].as_ref().expect_err("99 pixels for 100").to_string();
    assert_eq!(error, "bitshuffle: header at byte 0: 198 bytes announced; expected 200");
}
