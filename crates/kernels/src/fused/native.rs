//! Pixels as they are, read into a lane.

use super::lane::{Lane, Width};
use crate::bitmap::Bitmap;
use crate::invalid::InvalidOf;
use crate::matrix::Tile;
use crate::order::TILE;
use crate::pixel::Pixel;

/// Reads native pixels, those of tile number `number`; what is missing to a whole tile is zero. Written to be compiled
/// for wide vectors.
#[inline(always)]
pub(crate) fn read<T: Pixel>(lane: &mut Lane, pixels: &[u8], number: usize, tile: Tile<'_>, rule: &InvalidOf<T>) {
    let invalid = match *rule.ranges() {
        [] => sift(lane, pixels, tile, |pixel: T| !pixel.is_finite()),
        [(low, high)] => sift(lane, pixels, tile, |pixel: T| !pixel.is_finite() || low <= pixel && pixel <= high),
        _ => sift(lane, pixels, tile, |pixel| rule.contains(pixel)),
    };
    if invalid {
        let pixels = pixels.chunks_exact(T::SIZE).map(T::read).enumerate();
        let invalid = pixels.filter(|&(i, pixel)| tile.pair[i][0] != 0. && rule.contains(pixel));
        lane.invalid.extend(invalid.map(|(i, _)| (number * TILE + i) as u32));
    }
    narrow(lane);
}

/// Copies the valid pixels that have entries, and zero for the others; whether one with entries is invalid.
#[inline(always)]
fn sift<T: Pixel>(lane: &mut Lane, pixels: &[u8], tile: Tile<'_>, is_invalid: impl Fn(T) -> bool) -> bool {
    let mut any = false;
    let len = pixels.len() / T::SIZE;
    for ((real, pair), bytes) in lane.real.iter_mut().zip(tile.pair).zip(pixels.chunks_exact(T::SIZE)) {
        let (pixel, used) = (T::read(bytes), pair[0] != 0.);
        let invalid = is_invalid(pixel);
        any |= used & invalid;
        *real = if used & !invalid { pixel.value() } else { 0. };
    }
    lane.real[len..].fill(0.);
    any
}

/// Says how wide a lane of reals is, and fills in the narrower forms if they do.
#[inline(always)]
fn narrow(lane: &mut Lane) {
    let (mut least, mut greatest, mut whole) = (0f64, 0f64, true);
    for &real in &lane.real {
        (least, greatest) = (least.min(real), greatest.max(real));
        whole &= real == real.trunc();
    }
    lane.width = match () {
        () if least == 0. && greatest == 0. => Width::Zero,
        () if !whole || least < 0. || greatest > 65535. => Width::Real,
        () if greatest > 255. => Width::Middle,
        () => Width::Narrow,
    };
    if matches!(lane.width, Width::Narrow | Width::Middle) {
        for ((low, high), &real) in lane.low.iter_mut().zip(&mut lane.high).zip(&lane.real) {
            let pixel = real as u16;
            (*low, *high) = (pixel as u8, (pixel >> 8) as u8);
        }
        let low = &lane.low;
        (lane.lit, lane.bright) = (Bitmap::of(|p| low[p] > 0), Bitmap::of(|p| low[p] > 1));
    }
}
