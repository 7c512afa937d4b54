//! Pixels as they are, read into a lane.

use super::lane::{Lane, Width};
use super::source::Place;
use crate::bitmap::Bitmap;
use crate::invalid::InvalidOf;
use crate::order::TILE;
use crate::pixel::Pixel;

/// Reads native pixels, those of the tile at `place`; what is missing to a whole tile is zero. Written to be compiled
/// for wide vectors.
#[inline(always)]
pub(crate) fn read<T: Pixel>(lane: &mut Lane, pixels: &[u8], place: Place<'_>, rule: &InvalidOf<T>) {
    match *rule.ranges() {
        [] => sift(lane, pixels, place, |pixel: T| !pixel.is_finite()),
        [(low, high)] => sift(lane, pixels, place, |pixel: T| !pixel.is_finite() | ((low <= pixel) & (pixel <= high))),
        _ => sift(lane, pixels, place, |pixel| rule.contains(pixel)),
    }
}

/// Takes the valid pixels that have entries, and zero for the others.
#[inline(always)]
fn sift<T: Pixel>(lane: &mut Lane, pixels: &[u8], place: Place<'_>, is_invalid: impl Fn(T) -> bool) {
    let used = place.used();
    let pixels = || pixels.chunks_exact(T::SIZE).map(T::read).zip(used.iter().map(|&used| used != 0));
    let (mut bits, mut any_invalid) = (T::Bits::default(), false);
    for ((pixel, used), (low, high)) in pixels().zip(lane.low.iter_mut().zip(&mut lane.high)) {
        let invalid = is_invalid(pixel);
        any_invalid |= used & invalid;
        let valid = if used & !invalid { pixel.bits() } else { T::Bits::default() };
        bits |= valid;
        [*low, *high] = T::lowest(valid);
    }
    if any_invalid {
        let invalid = pixels().enumerate().filter(|(_, (pixel, used))| *used && is_invalid(*pixel));
        lane.invalid.extend(invalid.map(|(i, _)| (place.number * TILE + i) as u32));
    }
    let len = pixels().len();
    lane.width = T::width(bits);
    match lane.width {
        Width::Zero => {}
        Width::Narrow | Width::Middle => {
            lane.low[len..].fill(0);
            lane.high[len..].fill(0);
            // Looking for dark pixels would cost more than it could save.
            (lane.lit, lane.bright) = (Bitmap::FULL, Bitmap::FULL);
        }
        Width::Real => {
            for ((pixel, used), real) in pixels().zip(&mut lane.real) {
                *real = if used & !is_invalid(pixel) { pixel.value() } else { 0. };
            }
            lane.real[len..].fill(0.);
        }
    }
}
