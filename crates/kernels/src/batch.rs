//! Stored frames in, sums out, many frames a pass: the entry point of an integrator.

use crate::decode::{DecodeError, Pipeline};
use crate::invalid::Invalid;
use crate::plan::Plan;
use crate::scalar;
use crate::sums::Sums;

/// The stored bytes of exactly one whole frame, as read from the file.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// The bytes of the chunk.
    pub bytes: &'a [u8],
    /// Bit `i` set: the pipeline's filter `i` was skipped for this chunk.
    pub filter_mask: u32,
}

/// Memory that is kept from call to call; one a thread.
#[derive(Default)]
pub struct Scratch {
    frame: Vec<u8>,
}

/// Decodes and integrates frames, each with the plan's number of pixels of the pipeline's type. The sums are those of
/// [`crate::accumulate`], to the bit, however many frames come together; a frame that does not decode is an error of
/// its own and takes nothing from the others.
pub fn integrate_batch(
    pipeline: &Pipeline,
    plan: &Plan,
    invalid: &Invalid,
    frames: &[Stored<'_>],
    scratch: &mut Scratch,
) -> Vec<Result<Sums, DecodeError>> {
    frames
        .iter()
        .map(|stored| {
            scratch.frame.resize(plan.pixels() * pipeline.dtype().size(), 0);
            pipeline.decode(stored.filter_mask, stored.bytes, &mut scratch.frame)?;
            let mut sums = Sums::default();
            scalar::accumulate(&scratch.frame, pipeline.dtype(), plan, invalid, &mut sums);
            Ok(sums)
        })
        .collect()
}
