//! [`accumulate_frame`], the scalar kernel: one frame and one pixel at a time. It is the reference
//! of all others.

use crate::bitmap::Bitmap;
use crate::dead_time::DeadTime;
use crate::invalid_pixels::InvalidPixels;
use crate::invalid_values::{InvalidRanges, InvalidValues};
use crate::photon_sums::PhotonSums;
use crate::pixel::{Pixel, PixelType, with_pixel};
use crate::plan::IntegrationPlan;
use crate::simd::Isa;
use crate::summation_order::{self, TILE};
use crate::sums::Sums;

/// Integrates a decoded frame of native-endian pixels, row-major, and overwrites `sums`.
///
/// # Panics
/// If the frame's length in bytes differs from the plan's number of pixels times the size of
/// `dtype`.
pub fn accumulate_frame(
    frame: &[u8],
    dtype: PixelType,
    plan: &IntegrationPlan,
    invalid: &InvalidValues,
    sums: &mut Sums,
) {
    assert_eq!(
        frame.len(),
        plan.pixels() * dtype.size(),
        "bytes of a frame of {} {dtype}",
        plan.pixels()
    );
    *sums = with_pixel!(dtype, integrate(frame, plan, invalid));
}

fn integrate<T: Pixel>(frame: &[u8], plan: &IntegrationPlan, invalid: &InvalidValues) -> Sums {
    let matrix = &plan.matrix;
    let mut photons = PhotonSums::zeros(plan.quantities(), plan.dead_time(), matrix.nbins());
    let rule = invalid.for_type::<T>();
    let mut invalid_pixels = InvalidPixels::default();
    for (tile, bytes) in frame.chunks(TILE * T::SIZE).enumerate() {
        accumulate_tile(
            tile,
            &TilePixels { bytes, dead_time: plan.dead_time(), rule: &rule },
            plan,
            &mut photons,
            &mut invalid_pixels,
        );
    }
    let without_masked = (!invalid_pixels.is_empty())
        .then(|| Isa::Portable.run(plan.static_sums_without(&invalid_pixels)));
    Sums::from_photon_sums(plan, photons, without_masked.as_ref())
}

/// The native-endian pixels of one tile, and the rule for invalid ones.
struct TilePixels<'a, T> {
    bytes: &'a [u8],
    dead_time: DeadTime,
    rule: &'a InvalidRanges<T>,
}

impl<T: Pixel> TilePixels<'_, T> {
    /// Returns the pixel's counts, corrected for dead time; `None` if it is invalid.
    #[inline(always)]
    fn get(&self, pixel: usize) -> Option<f64> {
        let pixel = T::read(&self.bytes[pixel * T::SIZE..]);
        (!self.rule.contains(pixel)).then(|| self.dead_time.correct(pixel.to_f64()))
    }

    fn len(&self) -> usize {
        self.bytes.len() / T::SIZE
    }
}

/// Adds a tile in two rounds, as [`crate::summation_order`] defines them, and records its invalid
/// pixels.
fn accumulate_tile<T: Pixel>(
    tile_index: usize,
    pixels: &TilePixels<'_, T>,
    plan: &IntegrationPlan,
    photons: &mut PhotonSums,
    invalid: &mut InvalidPixels,
) {
    let columns = plan.matrix.tile(tile_index);
    let mut invalid_of_tile = Bitmap::EMPTY;
    let mut add = |in_tile: usize, bin: usize, weight: f32, x: f64| {
        let pixel = tile_index * TILE + in_tile;
        let dark = plan.dark().map_or(0., |dark| dark[pixel]);
        photons.add(bin, weight, x, plan.normalization()[pixel], dark);
    };
    for pixel in summation_order::pixels_of_tile(pixels.len()) {
        let [here, next] = columns.pair_weights[pixel];
        match pixels.get(pixel) {
            // A pixel without weight in its first bin has no entries.
            _ if here == 0. => {}
            None => invalid_of_tile.insert(pixel),
            Some(0.) => {}
            Some(x) => {
                let bin = columns.first_bin[pixel] as usize;
                add(pixel, bin, here, x);
                if next != 0. {
                    add(pixel, bin + 1, next, x);
                }
            }
        }
    }
    invalid.add(tile_index, &invalid_of_tile);
    for entry in columns.extra {
        if let Some(x) = pixels.get(entry.pixel as usize) {
            add(entry.pixel as usize, entry.bin as usize, entry.weight, x);
        }
    }
}
