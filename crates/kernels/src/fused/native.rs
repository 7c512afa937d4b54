//! Reads uncompressed or decoded pixels into a lane.

use super::lane::Lane;
use super::tile_context::TileContext;
use crate::bitmap::Bitmap;
use crate::invalid_values::InvalidRanges;
use crate::pixel::{Pixel, PixelWidth};
use crate::simd::{Kernel, Simd};
use crate::summation_order::TILE;

/// Reads the native pixels of one tile into a lane, and records the invalid ones. A short tile is
/// filled up with zeros. The loops are written so that the compiler vectorizes them.
pub(super) struct ReadNativeTile<'a, T> {
    pub(super) lane: &'a mut Lane,
    /// The tile's pixels, [`Pixel::SIZE`] bytes each.
    pub(super) pixels: &'a [u8],
    pub(super) context: TileContext<'a>,
    pub(super) rule: &'a InvalidRanges<T>,
}

impl<T: Pixel> Kernel for ReadNativeTile<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let ReadNativeTile { lane, pixels, context, rule } = self;
        match *rule.ranges() {
            [] => read_valid_pixels(lane, pixels, context, |pixel: T| !pixel.is_finite()),
            [(low, high)] => read_valid_pixels(lane, pixels, context, |pixel: T| {
                !pixel.is_finite() | ((low <= pixel) & (pixel <= high))
            }),
            _ => read_valid_pixels(lane, pixels, context, |pixel| rule.contains(pixel)),
        }
    }
}

/// Reads the valid pixels that have entries, and zero for the others.
#[inline(always)]
fn read_valid_pixels<T: Pixel>(
    lane: &mut Lane,
    pixels: &[u8],
    context: TileContext<'_>,
    is_invalid: impl Fn(T) -> bool,
) {
    let used = context.used();
    let pixels =
        || pixels.chunks_exact(T::SIZE).map(T::read).zip(used.iter().map(|&used| used != 0));
    let (mut bits, mut any_invalid) = (T::Bits::default(), false);
    for ((pixel, used), (low, high)) in
        pixels().zip(lane.low_bytes.iter_mut().zip(&mut lane.high_bytes))
    {
        let invalid = is_invalid(pixel);
        any_invalid |= used & invalid;
        let valid = if used & !invalid { pixel.bits() } else { T::Bits::default() };
        bits |= valid;
        [*low, *high] = T::low_bytes(valid);
    }
    if any_invalid {
        let mut invalid = [0; TILE];
        for ((pixel, used), invalid) in pixels().zip(&mut invalid) {
            *invalid = u8::from(used & is_invalid(pixel));
        }
        lane.invalid.add(context.tile_index, &Bitmap::from_bytes(&invalid));
    }
    let len = pixels().len();
    lane.width = T::min_width(bits);
    match lane.width {
        PixelWidth::Zero => {}
        PixelWidth::U8 | PixelWidth::U16 => {
            lane.low_bytes[len..].fill(0);
            lane.high_bytes[len..].fill(0);
            // Finding the zero pixels would cost more than skipping them saves.
            (lane.nonzero, lane.above_one) = (Bitmap::FULL, Bitmap::FULL);
        }
        PixelWidth::F64 => {
            for ((pixel, used), real) in pixels().zip(&mut lane.f64_pixels) {
                *real = if used & !is_invalid(pixel) { pixel.to_f64() } else { 0. };
            }
            lane.f64_pixels[len..].fill(0.);
        }
    }
}
