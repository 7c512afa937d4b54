//! [`SpreadFactors`], the factors of a tile's pixels in the sums that the spread of a bin follows from.

use crate::plan::IntegrationPlan;
use crate::summation_order::TILE;

/// The normalization and the dark of each pixel of a tile.
#[derive(Clone, Copy)]
pub(super) struct SpreadFactors<'a> {
    norms: &'a [f64; TILE],
    /// `None` without a dark.
    darks: Option<&'a [f64; TILE]>,
}

/// Memory for the factors of a short tile.
pub(super) struct ShortTileFactors {
    norms: [f64; TILE],
    darks: [f64; TILE],
}

impl Default for ShortTileFactors {
    fn default() -> ShortTileFactors {
        ShortTileFactors { norms: [0.; TILE], darks: [0.; TILE] }
    }
}

impl<'a> SpreadFactors<'a> {
    /// Returns the factors of a tile of a plan. Those of a short tile are filled up with zeros, in
    /// `short`.
    pub(super) fn from_tile(
        plan: &'a IntegrationPlan,
        tile_index: usize,
        short: &'a mut ShortTileFactors,
    ) -> SpreadFactors<'a> {
        let ShortTileFactors { norms, darks } = short;
        SpreadFactors {
            norms: whole_tile(plan.normalization(), tile_index, norms),
            darks: plan.dark().map(|dark| whole_tile(dark, tile_index, darks)),
        }
    }

    /// Returns n and d of a pixel of the tile.
    #[inline(always)]
    pub(super) fn pixel(&self, pixel: usize) -> (f64, f64) {
        (self.norms[pixel], self.darks.map_or(0., |darks| darks[pixel]))
    }
}

/// Returns the values of a tile, of which a short one is filled up with zeros in `short`.
fn whole_tile<'a>(
    values: &'a [f64],
    tile_index: usize,
    short: &'a mut [f64; TILE],
) -> &'a [f64; TILE] {
    let values = &values[tile_index * TILE..];
    if let Some(whole) = values.first_chunk() {
        return whole;
    }
    short[..values.len()].copy_from_slice(values);
    short[values.len()..].fill(0.);
    short
}
