//! [`find_outliers`], which tells in which of 8 frames a bin has outliers.

use super::bin_entries::BinEntries;
use super::row_terms::{LaneSums, OutlierTerm, RowTerm, WeightedSignal, map_lanes};
use super::tile_lanes::INTERLEAVED_FRAMES;

/// Number of rows that are compared at once.
const ROWS_PER_STEP: usize = 16;

/// By how much of the mean and the limit the bounds of intensities are moved inwards, so that rounding
/// does not matter: of the bounds, and of w s - m w n in [`OutlierTerm`].
const MARGIN: f64 = 1e-9;

/// Returns for each lane whether it has an outlier, as [`OutlierTerm`] tells.
///
/// Counts that are no outliers with any normalization of the bin are told by comparing 16-bit
/// integers. Where more than one step in eight has counts beyond, as with normalizations that differ
/// much, the steps that follow are not compared first.
#[inline(always)]
pub(super) fn find_outliers<W: WeightedSignal>(
    bin: &BinEntries<'_>,
    rows: &[[u16; INTERLEAVED_FRAMES]],
    exact: &OutlierTerm<'_, W>,
) -> [bool; INTERLEAVED_FRAMES] {
    let bounds = CountBounds::new(bin, exact.mean, &exact.limits);
    let mut outliers = [0.; INTERLEAVED_FRAMES];
    let mut steps_beyond = 0;
    for (step, rows) in rows.chunks(ROWS_PER_STEP).enumerate() {
        if steps_beyond <= 1 + step / 8 && bounds.contain(rows) {
            continue;
        }
        steps_beyond += 1;
        for (index, row) in rows.iter().enumerate() {
            let of_row = exact.term(step * ROWS_PER_STEP + index, map_lanes(*row, f64::from));
            for (outliers, of_row) in outliers.iter_mut().zip(&of_row) {
                *outliers += of_row;
            }
        }
    }
    std::array::from_fn(|lane| outliers[lane] != 0.)
}

/// The lowest and the highest count of each lane that is no outlier with any normalization of the
/// bin. If there is none, the lowest is above the highest.
struct CountBounds {
    lowest: [u16; INTERLEAVED_FRAMES],
    highest: [u16; INTERLEAVED_FRAMES],
}

impl CountBounds {
    /// Returns the bounds of counts whose intensity is within `limits` of the means.
    #[inline(always)]
    fn new(bin: &BinEntries<'_>, mean: &LaneSums, limits: &LaneSums) -> CountBounds {
        let mut bounds =
            CountBounds { lowest: [1; INTERLEAVED_FRAMES], highest: [0; INTERLEAVED_FRAMES] };
        if bin.dark.is_some() {
            return bounds;
        }
        let [least, greatest] = norm_range(bin.norms);
        if least <= 0. {
            return bounds;
        }
        for lane in 0..INTERLEAVED_FRAMES {
            let (mean, limit) = (mean[lane], limits[lane]);
            let margin = MARGIN * (mean + limit);
            let low = (mean - limit + margin).max(0.) * greatest;
            let high = (mean + limit - margin) * least;
            // Nothing is known of a mean or a limit that is no number.
            if low <= f64::from(u16::MAX) && high >= 0. {
                bounds.lowest[lane] = low.ceil() as u16;
                bounds.highest[lane] = high.min(f64::from(u16::MAX)) as u16;
            }
        }
        bounds
    }

    /// Returns true if all counts are within the bounds.
    #[inline(always)]
    fn contain(&self, rows: &[[u16; INTERLEAVED_FRAMES]]) -> bool {
        let mut beyond = [0; INTERLEAVED_FRAMES];
        for row in rows {
            for lane in 0..INTERLEAVED_FRAMES {
                beyond[lane] |= row[lane].saturating_sub(self.highest[lane])
                    | self.lowest[lane].saturating_sub(row[lane]);
            }
        }
        beyond == [0; INTERLEAVED_FRAMES]
    }
}

/// Returns the least and the greatest normalization.
#[inline(always)]
fn norm_range(norms: &[f64]) -> [f64; 2] {
    const LANES: usize = 16;
    let (mut least, mut greatest) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
    let (whole, rest) = norms.as_chunks::<LANES>();
    for norms in whole {
        for lane in 0..LANES {
            least[lane] = if norms[lane] < least[lane] { norms[lane] } else { least[lane] };
            greatest[lane] =
                if norms[lane] > greatest[lane] { norms[lane] } else { greatest[lane] };
        }
    }
    let least = rest.iter().copied().chain(least).fold(f64::INFINITY, f64::min);
    let greatest = rest.iter().copied().chain(greatest).fold(f64::NEG_INFINITY, f64::max);
    [least, greatest]
}

#[cfg(test)]
mod tests {
    use super::super::BinSums;
    use super::super::bin_entries::PixelVariance;
    use super::super::row_terms::UnitWeights;
    use super::*;

    fn bin<'a>(pixels: &'a [u32], norms: &'a [f64]) -> BinEntries<'a> {
        BinEntries {
            pixels,
            weights: None,
            norms,
            dark: None,
            variance: PixelVariance::No,
            zero_order: None,
            count_order: None,
            left_out: None,
            full_sums: BinSums::default(),
        }
    }

    /// Returns what is found in rows of one count per pixel, the same in all lanes.
    fn find(norms: &[f64], counts: &[u16], mean: f64, limit: f64) -> bool {
        let rows: Vec<_> = counts.iter().map(|&count| [count; INTERLEAVED_FRAMES]).collect();
        let pixels: Vec<u32> = (0..).take(norms.len()).collect();
        let (mean, limits) = (&[mean; INTERLEAVED_FRAMES], [limit; INTERLEAVED_FRAMES]);
        let exact = OutlierTerm { signal: UnitWeights, mean, norms, limits };
        let found = find_outliers(&bin(&pixels, norms), &rows, &exact);
        assert!(found.iter().all(|lane| *lane == found[0]), "{found:?}");
        found[0]
    }

    #[test]
    fn pixels_beyond_the_limit_are_found_whatever_the_norms() {
        // The last pixel, alone in its step, is the outlier or not.
        let with_last = |norm: f64, count: u16, last_norm: f64, last: u16| {
            let mut norms = vec![norm; 3 * ROWS_PER_STEP];
            let mut counts = vec![count; 3 * ROWS_PER_STEP];
            norms.push(last_norm);
            counts.push(last);
            (norms, counts)
        };
        for (norm, count, last_norm, last, mean, limit, expected) in [
            (1., 50, 1., 60, 50., 10., false),
            (1., 50, 1., 61, 50., 10., true),
            (1., 50, 1., 39, 50., 10., true),
            (1., 50, 0.5, 31, 50., 10., true),
            (1., 50, 0.5, 29, 50., 10., false),
            (1., 50, 2., 79, 50., 10., true),
            (1., 50, 2., 119, 50., 10., false),
            // All norms are negative, and so is the mean.
            (-1., 50, -1., 0, -50., 35., true),
            (-1., 50, -1., 20, -50., 35., false),
            (1., 50, -1., 50, 50., 10., true),
            (1., 65_534, 1., 65_534, 1e6, 1e3, true),
            (1., 65_534, 1., 65_534, 1e6, 1e6, false),
            (1., 0, 1., 0, 0., 0., false),
            (1., 0, 1., 0, f64::NAN, 1., true),
            (1., 0, 1., 0, 0., f64::NAN, true),
            (1., 7, 1., 7, 7., f64::INFINITY, false),
        ] {
            let (norms, counts) = with_last(norm, count, last_norm, last);
            let found = find(&norms, &counts, mean, limit);
            assert_eq!(found, expected, "{norm} {count} {last_norm} {last} {mean} {limit}");
        }
    }
}
