//! A thread's work on an OpenCL device, and the proof that the device can be trusted.

use std::collections::BTreeSet;
use std::sync::Arc;

use integrator::opencl::{Device, DeviceError, DeviceQueues};
use integrator::{DecodeError, Decoder, MultiIntegrator, Scratch, StoredFrame, Sums};
use xxhash_rust::xxh3::xxh3_64;

/// Sums by a device differ from the processor's by no more than this, relatively.
const VERIFY_TOLERANCE: f64 = 1e-6;

/// What the threads of a task have of a device.
pub struct SharedDevice {
    /// The device.
    pub device: Arc<Device>,
    /// What results and warnings call it.
    pub label: String,
    /// Queues a thread.
    pub queues_per_thread: usize,
    /// The frames that the processor integrates, too.
    pub verified_frames: BTreeSet<u64>,
}

impl SharedDevice {
    /// Of `frames`, some that look random, and are the same each time.
    pub fn sample_frames(frames: impl Iterator<Item = u64>, count: usize) -> BTreeSet<u64> {
        let mut frames: Vec<u64> = frames.collect();
        frames.sort_unstable_by_key(|frame| xxh3_64(&frame.to_le_bytes()));
        frames.dedup();
        frames.into_iter().take(count).collect()
    }
}

/// A thread's queues on a device, as long as it works.
pub struct DeviceWorker<'a> {
    shared_device: Option<&'a SharedDevice>,
    queues: Option<DeviceQueues>,
}

/// A batch by a device: the sums of each frame, and what it took.
pub struct DeviceBatch {
    /// By frame, the sums by each recipe.
    pub sums: Vec<Result<Vec<Sums>, DecodeError>>,
    /// The recipes that were for the device, and bytes sent to it: an even share for each, so that the shares add up.
    pub sent_bytes: Vec<(usize, u64)>,
}

impl<'a> DeviceWorker<'a> {
    /// None yet: they are made when they are needed.
    pub fn new(berth: Option<&'a SharedDevice>) -> Self {
        Self { shared_device: berth, queues: None }
    }

    /// The sums of frames, which have these numbers; those by recipes that are not for devices are made here. Some are compared
    /// with the processor's, and a device that is wrong is given up. `None` without a device, where no recipe is for devices, and
    /// once the device has failed.
    ///
    /// # Errors
    /// The device fails, is wrong, or lacks something; nothing is done.
    pub fn integrate(
        &mut self,
        together: &MultiIntegrator<'_>,
        decoder: &Decoder,
        frames: &[StoredFrame<'_>],
        numbers: &[u64],
        scratch: &mut Scratch,
    ) -> Option<Result<DeviceBatch, DeviceError>> {
        let berth = self.shared_device.filter(|_| !frames.is_empty())?;
        let left_out: Vec<usize> = together.unsupported_on_device(&berth.device).map(|(recipe, _)| recipe).collect();
        let recipes: Vec<usize> = (0..together.integrators().len()).filter(|at| !left_out.contains(at)).collect();
        if recipes.is_empty() {
            return None;
        }
        let queues = match self.queues.take() {
            Some(queues) => Ok(queues),
            None => DeviceQueues::new(berth.device.clone(), berth.queues_per_thread),
        };
        let done = queues.and_then(|mut queues| {
            let before = queues.sent_bytes();
            let sums = together.integrate_on_device(&mut queues, decoder, frames, scratch)?;
            let sent = queues.sent_bytes() - before;
            let up_to = |at: usize| sent * at as u64 / recipes.len() as u64;
            let shares = recipes.iter().enumerate().map(|(at, recipe)| (*recipe, up_to(at + 1) - up_to(at)));
            self.queues = Some(queues);
            Ok(DeviceBatch { sums, sent_bytes: shares.collect() })
        });
        let done = done.and_then(|batch| {
            let wrong = berth.first_mismatch(together, decoder, frames, numbers, &batch.sums, scratch);
            wrong.map_or(Ok(batch), |frame| {
                berth.device.disable(DeviceError::WrongSums(frame));
                Err(DeviceError::WrongSums(frame))
            })
        });
        if done.is_err() {
            (self.shared_device, self.queues) = (None, None);
        }
        Some(done)
    }
}

impl SharedDevice {
    /// The first of the frames whose sums are not the processor's, of those that are to be compared.
    fn first_mismatch(
        &self,
        together: &MultiIntegrator<'_>,
        decoder: &Decoder,
        frames: &[StoredFrame<'_>],
        numbers: &[u64],
        sums: &[Result<Vec<Sums>, DecodeError>],
        scratch: &mut Scratch,
    ) -> Option<u64> {
        let compared = sums.iter().zip(frames).zip(numbers).filter(|(_, number)| self.verified_frames.contains(number));
        let mut wrong = compared.filter(|((found, frame), _)| {
            let expected = together.integrate(decoder, std::slice::from_ref(*frame), scratch).remove(0);
            match (found, &expected) {
                (Ok(found), Ok(expected)) => !found.iter().zip(expected).all(|(one, other)| sums_agree(one, other)),
                (found, expected) => found.is_ok() || expected.is_ok(),
            }
        });
        wrong.next().map(|(_, number)| *number)
    }
}

/// Whether sums are the same but for rounding.
fn sums_agree(one: &Sums, other: &Sums) -> bool {
    let all = |one: &[f64], other: &[f64]| {
        // What a dark leaves of large counts has the rounding of these.
        let floor = other.iter().map(|value| value.abs()).fold(0.0, f64::max) * 1e-9;
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= VERIFY_TOLERANCE * b.abs() + floor;
        one.len() == other.len() && one.iter().zip(other).all(close)
    };
    let variance = |sums: &Sums| sums.variance.clone().unwrap_or_default();
    all(&one.signal, &other.signal)
        && all(&variance(one), &variance(other))
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
        assert!(sample.iter().any(|frame| *frame < 500) && sample.iter().any(|frame| *frame >= 500), "{sample:?}");
    }

    #[test]
    fn what_is_off_by_more_than_rounding_is_seen() {
        let sums = |signal: f64| Sums { signal: vec![signal, 1e3], ..Sums::default() };
        assert!(sums_agree(&sums(10.0), &sums(10.0 + 1e-6)) && !sums_agree(&sums(10.0), &sums(10.0001)));
        assert!(!sums_agree(&sums(f64::NAN), &sums(1.0)));
    }
}
