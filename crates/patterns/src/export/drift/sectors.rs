//! [`Sectors`]: the radial bins of patterns as scattering angles, in sectors of the azimuth.

use std::f64::consts::TAU;

use geometry::Unit;
use recipe::Recipe;

use super::peak::ProfileBin;
use crate::SharedBins;

/// Most sectors: neighbouring azimuthal bins of a cake are joined to as many, so that narrow bins have
/// counts enough for a fit.
const MAX_SECTORS: usize = 36;
/// Azimuths at which the ring in an azimuthal bin is computed, at least.
const POINTS_PER_BIN: usize = 4;
/// Azimuths of a pattern of one dimension.
const POINTS_OF_PATTERN: usize = 72;

/// The bins of patterns, by sector.
pub(super) struct Sectors {
    /// Scattering angle of each radial bin in radians; NaN if no ray has its position.
    two_theta: Vec<f64>,
    /// Indices of the radial bins, in ascending order of the angles.
    order: Vec<usize>,
    /// Azimuths of each azimuthal bin, in radians.
    azimuths: Vec<Vec<f64>>,
    /// Azimuthal bins in a sector.
    bins_per_sector: usize,
    /// Pixels of each bin, by which bins of a sector are weighted.
    weights: Vec<f64>,
}

impl Sectors {
    /// Makes the sectors of patterns. `wavelength` is in metres. `None` if the radial axis is none of
    /// 2θ, q, d*² and d, or the azimuthal one is not χ.
    pub fn new(shared: &SharedBins, recipe: &Recipe, wavelength: f64) -> Option<Self> {
        let radial = &shared.axes.radial;
        let unit = Unit::parse(&format!("{}_{}", radial.name, radial.units)).ok()?;
        let angle = |position: &f64| unit.two_theta(*position, wavelength).unwrap_or(f64::NAN);
        let two_theta: Vec<f64> = radial.centers.iter().map(angle).collect();
        // Refuses a unit without angles, whatever its positions.
        unit.two_theta(0.0, wavelength).or_else(|| unit.two_theta(1.0, wavelength))?;
        let mut order: Vec<usize> = (0..two_theta.len()).collect();
        order.retain(|bin| two_theta.get(*bin).is_some_and(|angle| angle.is_finite()));
        order.sort_by(|one, other| two_theta[*one].total_cmp(&two_theta[*other]));
        let within = |low: f64, high: f64, count: usize| -> Vec<f64> {
            let at = |point: usize| low + (high - low) * (point as f64 + 0.5) / count as f64;
            (0..count).map(at).collect()
        };
        let azimuths = match (&shared.axes.chi, shared.axes.chi_edges(recipe)) {
            (Some(chi), Some(edges)) => {
                let factor = match (chi.name.as_str(), chi.units.as_str()) {
                    ("chi", "deg") => TAU / 360.0,
                    ("chi", "rad") => 1.0,
                    _ => return None,
                };
                let points = |edges: &[f64]| match edges {
                    [low, high] => within(low * factor, high * factor, POINTS_PER_BIN),
                    _ => Vec::new(),
                };
                edges.windows(2).map(points).collect()
            }
            _ => {
                let [low, high] = recipe.azimuth_range.unwrap_or([0.0, 360.0]);
                vec![within(low * TAU / 360.0, high * TAU / 360.0, POINTS_OF_PATTERN)]
            }
        };
        let bins_per_sector = azimuths.len().div_ceil(MAX_SECTORS).max(1);
        let weights = shared.weights.norm.clone();
        Some(Self { two_theta, order, azimuths, bins_per_sector, weights })
    }

    /// Returns the width of the widest azimuthal bin in radians.
    pub fn widest_bin(&self) -> f64 {
        let width = |points: &Vec<f64>| match (points.first(), points.last()) {
            (Some(first), Some(last)) => {
                (last - first).abs() * points.len() as f64
                    / points.len().saturating_sub(1).max(1) as f64
            }
            _ => 0.0,
        };
        self.azimuths.iter().map(width).fold(0.0, f64::max)
    }

    /// Returns the least and the largest scattering angle.
    pub fn range(&self) -> [f64; 2] {
        let at = |bin: Option<&usize>| {
            bin.and_then(|bin| self.two_theta.get(*bin)).copied().unwrap_or(f64::NAN)
        };
        [at(self.order.first()), at(self.order.last())]
    }

    /// Returns the width of the radial bins around an angle.
    pub fn bin_width(&self, two_theta: f64) -> f64 {
        let angle = |at: usize| self.two_theta[self.order[at]];
        let after = self.order.partition_point(|bin| self.two_theta[*bin] < two_theta);
        let right = after.clamp(1, self.order.len().saturating_sub(1).max(1));
        if self.order.len() < 2 {
            return f64::INFINITY;
        }
        angle(right) - angle(right.saturating_sub(1))
    }

    /// Returns the azimuths of a sector at an angle, each with the pixels of its bin there.
    pub fn points(&self, sector: usize, two_theta: f64) -> Vec<(f64, f64)> {
        let near = self.order.partition_point(|bin| self.two_theta[*bin] < two_theta);
        let radial = self.order.get(near).or(self.order.last()).copied().unwrap_or_default();
        let bins = self.sector_bins(sector);
        bins.flat_map(|bin| {
            let weight = self.weights.get(self.index(bin, radial)).copied().unwrap_or_default();
            self.azimuths[bin].iter().map(move |azimuth| (*azimuth, weight))
        })
        .filter(|(_, weight)| *weight > 0.0)
        .collect()
    }

    /// Returns the bins of a pattern by sector, in ascending order of scattering angles: the means of
    /// joined azimuthal bins, Σ W I / Σ W with the error √(Σ (W σ)²) / Σ W of bins with the weight W.
    /// Bins without a value or error are left out.
    pub fn bins<T: Copy + Into<f64>>(&self, intensity: &[T], errors: &[T]) -> Vec<Vec<ProfileBin>> {
        let count = self.azimuths.len().div_ceil(self.bins_per_sector);
        (0..count).map(|sector| self.bins_of_sector(sector, intensity, errors)).collect()
    }

    fn bins_of_sector<T: Copy + Into<f64>>(
        &self,
        sector: usize,
        intensity: &[T],
        errors: &[T],
    ) -> Vec<ProfileBin> {
        let mean = |radial: &usize| {
            let (mut sum, mut variance, mut norm) = (0.0, 0.0, 0.0);
            for bin in self.sector_bins(sector) {
                let index = self.index(bin, *radial);
                let weight = self.weights.get(index).copied().unwrap_or_default();
                let (Some(value), Some(error)) = (intensity.get(index), errors.get(index)) else {
                    continue;
                };
                let (value, error): (f64, f64) = ((*value).into(), (*error).into());
                if value.is_finite() && error.is_finite() && weight > 0.0 {
                    sum += weight * value;
                    variance += (weight * error).powi(2);
                    norm += weight;
                }
            }
            let x = self.two_theta[*radial];
            (norm > 0.0).then(|| ProfileBin { x, y: sum / norm, error: variance.sqrt() / norm })
        };
        let mut bins: Vec<ProfileBin> = self.order.iter().filter_map(mean).collect();
        // Without a floor, the error of no counts is 0; a weight must be finite.
        let errors = bins.iter().map(|bin| bin.error).filter(|error| *error > 0.0);
        let least = errors.fold(f64::INFINITY, f64::min);
        bins.iter_mut().for_each(|bin| bin.error = bin.error.max(least));
        bins
    }

    fn sector_bins(&self, sector: usize) -> std::ops::Range<usize> {
        let first = sector.saturating_mul(self.bins_per_sector);
        first..first.saturating_add(self.bins_per_sector).min(self.azimuths.len())
    }

    fn index(&self, azimuthal: usize, radial: usize) -> usize {
        azimuthal.saturating_mul(self.two_theta.len()).saturating_add(radial)
    }
}
