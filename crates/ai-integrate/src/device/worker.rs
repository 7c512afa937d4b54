//! Integrates batches on an OpenCL device, and verifies the device's sums against the processor's.

use std::collections::BTreeSet;
use std::sync::Arc;

use integrator::opencl::{Device, DeviceError};
use integrator::{DecodeError, Decoder, EncodedFrame, MultiIntegrator, Scratch, Sums};
use xxhash_rust::xxh3::xxh3_64;

use super::queue_pool::QueuePool;

/// The largest relative difference between a device's sums and the processor's.
const VERIFY_TOLERANCE: f64 = 1e-6;

/// The OpenCL device that a task's worker threads share, and how each of them uses it.
pub struct SharedDevice {
    /// The command queues of the device.
    pub queues: Arc<QueuePool>,
    /// The device's name in results and warnings.
    pub label: String,
    /// The frames that the processor integrates as well, to verify the device's sums.
    pub verified_frames: BTreeSet<u64>,
}

impl SharedDevice {
    /// Returns the OpenCL device that all worker threads of a task share.
    pub fn device(&self) -> &Device {
        self.queues.device()
    }

    /// Selects `count` of the `frames` by their hashes: spread over the scan, and the same on every
    /// run.
    pub fn sample_frames(frames: impl Iterator<Item = u64>, count: usize) -> BTreeSet<u64> {
        let mut frames: Vec<u64> = frames.collect();
        frames.sort_unstable_by_key(|frame| xxh3_64(&frame.to_le_bytes()));
        frames.dedup();
        frames.into_iter().take(count).collect()
    }
}

/// A worker thread's use of a device.
pub struct DeviceWorker<'a> {
    /// `None` without a device, and after it has failed.
    shared_device: Option<&'a SharedDevice>,
}

/// The outcome of an attempt to integrate a batch on a device.
pub enum DeviceOutcome {
    /// The device integrated the batch.
    Done(DeviceBatch),
    /// There is no device, it supports none of the recipes, or it failed before: the processor
    /// integrates the batch.
    UseCpu,
    /// The device failed now, or returned wrong sums: no frame is integrated, and the device is not
    /// used again.
    Failed(DeviceError),
}

/// The sums of a frame by each recipe, or why it can't be decoded.
type SumsByRecipe = Result<Vec<Sums>, DecodeError>;

/// The frames of a batch as they are stored, and what integrates them.
struct EncodedBatch<'a> {
    integrators: &'a MultiIntegrator<'a>,
    decoder: &'a Decoder,
    frames: &'a [EncodedFrame<'a>],
    /// The number of each frame in the scan.
    numbers: &'a [u64],
}

/// The output of a device for one batch.
pub struct DeviceBatch {
    /// For each frame, its sums by each recipe.
    pub sums: Vec<SumsByRecipe>,
    /// The recipes that the device integrated, each with its share of the bytes sent; the shares
    /// are even and add up.
    pub sent_bytes: Vec<(usize, u64)>,
}

impl<'a> DeviceWorker<'a> {
    /// Creates a worker.
    pub fn new(shared_device: Option<&'a SharedDevice>) -> Self {
        Self { shared_device }
    }

    /// Integrates frames, whose frame numbers are `numbers`, on the device; the processor
    /// integrates recipes that the device does not support. The sums of some frames are compared
    /// with the processor's, and a device whose sums differ is disabled.
    pub fn integrate(
        &mut self,
        integrators: &MultiIntegrator<'_>,
        decoder: &Decoder,
        frames: &[EncodedFrame<'_>],
        numbers: &[u64],
        scratch: &mut Scratch,
    ) -> DeviceOutcome {
        let Some(shared_device) = self.shared_device.filter(|_| !frames.is_empty()) else {
            return DeviceOutcome::UseCpu;
        };
        let left_out: Vec<usize> = integrators
            .unsupported_on_device(shared_device.device())
            .map(|(recipe, _)| recipe)
            .collect();
        let recipes: Vec<usize> =
            (0..integrators.integrators().len()).filter(|at| !left_out.contains(at)).collect();
        if recipes.is_empty() {
            return DeviceOutcome::UseCpu;
        }
        let batch = EncodedBatch { integrators, decoder, frames, numbers };
        match shared_device.integrate_and_verify(&batch, scratch) {
            Ok((sums, sent)) => {
                DeviceOutcome::Done(DeviceBatch { sums, sent_bytes: share_evenly(sent, &recipes) })
            }
            Err(why) => {
                self.shared_device = None;
                DeviceOutcome::Failed(why)
            }
        }
    }
}

/// Divides `bytes` among recipes. The shares differ by at most 1 and add up.
fn share_evenly(bytes: u64, recipes: &[usize]) -> Vec<(usize, u64)> {
    let count = recipes.len() as u64;
    let share = |index: u64| bytes * (index + 1) / count - bytes * index / count;
    (0..).zip(recipes).map(|(index, &recipe)| (recipe, share(index))).collect()
}

impl SharedDevice {
    /// Integrates a batch on the device. Returns its sums, and how many bytes were sent.
    ///
    /// # Errors
    /// The device fails, or its sums differ from the processor's, for which it is disabled.
    fn integrate_and_verify(
        &self,
        batch: &EncodedBatch<'_>,
        scratch: &mut Scratch,
    ) -> Result<(Vec<SumsByRecipe>, u64), DeviceError> {
        let (sums, sent) = {
            let mut borrowed = self.queues.borrow()?;
            let queues = borrowed.get();
            let before = queues.sent_bytes();
            let EncodedBatch { integrators, decoder, frames, .. } = *batch;
            let sums = match integrators.integrate_on_device(queues, decoder, frames, scratch) {
                Ok(sums) => sums,
                Err(why) => {
                    borrowed.discard();
                    return Err(why);
                }
            };
            (sums, queues.sent_bytes() - before)
        };
        // Frames that are integrated once more do not count twice.
        let decode_paths = scratch.take_decode_paths();
        let mismatch = self.first_mismatch(batch, &sums, scratch);
        scratch.take_decode_paths();
        scratch.add_decode_paths(decode_paths);
        match mismatch {
            None => Ok((sums, sent)),
            Some(frame) => {
                self.device().disable(DeviceError::WrongSums(frame));
                Err(DeviceError::WrongSums(frame))
            }
        }
    }

    /// Returns the first frame to be verified whose sums differ from the processor's.
    fn first_mismatch(
        &self,
        batch: &EncodedBatch<'_>,
        sums: &[SumsByRecipe],
        scratch: &mut Scratch,
    ) -> Option<u64> {
        for ((found, frame), number) in sums.iter().zip(batch.frames).zip(batch.numbers) {
            if !self.verified_frames.contains(number) {
                continue;
            }
            let expected = batch
                .integrators
                .integrate(batch.decoder, std::slice::from_ref(frame), scratch)
                .remove(0);
            let agree = match (found, &expected) {
                (Ok(found), Ok(expected)) => {
                    let integrators = batch.integrators.integrators().iter();
                    let mut of_recipes = found.iter().zip(expected).zip(integrators);
                    of_recipes.all(|((one, other), integrator)| {
                        sums_agree(one, other, &other.spread_rounding(integrator.plan()))
                    })
                }
                (Err(_), Err(_)) => true,
                (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
            };
            if !agree {
                return Some(*number);
            }
        }
        None
    }
}

/// Returns whether two sums agree within rounding. `spread_rounding` is what the variances may be
/// off by besides, bin by bin.
fn sums_agree(one: &Sums, other: &Sums, spread_rounding: &[f64]) -> bool {
    let all = |one: &[f64], other: &[f64], rounding: &[f64]| {
        // Subtracting a dark from large counts leaves the rounding error of the large counts.
        let floor = other.iter().map(|value| value.abs()).fold(0.0, f64::max) * 1e-9;
        let rounding = rounding.iter().copied().chain(std::iter::repeat(0.0));
        let close = |((a, b), rounding): ((&f64, &f64), f64)| {
            a == b || (a - b).abs() <= VERIFY_TOLERANCE * b.abs() + floor + rounding
        };
        one.len() == other.len() && one.iter().zip(other).zip(rounding).all(close)
    };
    let variance = |sums: &Sums| sums.variance.clone().unwrap_or_default();
    all(&one.signal, &other.signal, &[])
        && all(&variance(one), &variance(other), spread_rounding)
        && one.weight_override == other.weight_override
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_the_same_each_time_and_from_all_over() {
        let sample = SharedDevice::sample_frames(0..1000, 10);
        assert_eq!(sample, SharedDevice::sample_frames((0..1000).rev().chain(0..1000), 10));
        assert_eq!(sample.len(), 10);
        assert!(
            sample.iter().any(|frame| *frame < 500) && sample.iter().any(|frame| *frame >= 500),
            "{sample:?}"
        );
    }

    /// Pixels that are all equal have no spread, and the rounding error of it may be taken for one.
    #[test]
    fn variances_may_be_off_by_the_rounding_of_spreads() {
        let sums = |variance: f64| Sums {
            signal: vec![1e9],
            variance: Some(vec![variance]),
            ..Sums::default()
        };
        assert!(sums_agree(&sums(60.0), &sums(0.0), &[100.0]));
        assert!(!sums_agree(&sums(120.0), &sums(0.0), &[100.0]));
        assert!(!sums_agree(&sums(60.0), &sums(0.0), &[]));
    }

    #[test]
    fn what_is_off_by_more_than_rounding_is_seen() {
        let sums = |signal: f64| Sums { signal: vec![signal, 1e3], ..Sums::default() };
        let agree = |one: &Sums, other: &Sums| sums_agree(one, other, &[]);
        assert!(agree(&sums(10.0), &sums(10.0 + 1e-6)) && !agree(&sums(10.0), &sums(10.0001)));
        assert!(!agree(&sums(f64::NAN), &sums(1.0)));
        assert!(agree(&sums(f64::INFINITY), &sums(f64::INFINITY)));
    }
}
