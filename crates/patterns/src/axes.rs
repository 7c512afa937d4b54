//! Where the bins are.

/// One axis of a pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// Its quantity, which names its dataset: `q`, `2th`, `r`, `d*2`, `chi`.
    pub name: String,
    /// Its unit, such as `nm^-1` or `deg`.
    pub units: String,
    /// The centres of its bins, in `units`.
    pub centers: Vec<f64>,
}

impl Axis {
    /// What a plot writes beside it, such as `q (nm^-1)`.
    pub fn label(&self) -> String {
        format!("{} ({})", self.name, self.units)
    }

    /// The outer edges of the first and of the last bin, of which each is taken to be as wide as all are on average.
    pub fn limits(&self) -> [f64; 2] {
        match self.centers[..] {
            [first, .., last] => {
                let half = (last - first) / (self.centers.len() - 1) as f64 / 2.0;
                [first - half, last + half]
            }
            [only] => [only - 0.5, only + 0.5],
            [] => [0.0, 0.0],
        }
    }

    /// The edges of the bins, one more than there are bins; `None` where the bins are not equally wide, so that their
    /// centres do not tell.
    pub fn edges(&self) -> Option<Vec<f64>> {
        let ([low, high], bins) = (self.limits(), self.centers.len());
        let width = (high - low) / bins.max(1) as f64;
        let is_even = |(bin, center): (usize, &f64)| (low + width * (bin as f64 + 0.5) - center).abs() < 1e-6 * width;
        let all_even = self.centers.iter().enumerate().all(is_even);
        all_even.then(|| (0..=bins).map(|edge| low + width * edge as f64).collect())
    }
}

/// The axes of a pattern: radial, and azimuthal in a cake. The bins of a cake are stored
/// azimuth-major: all radial bins of the first chi, then those of the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Axes {
    /// The radial axis.
    pub radial: Axis,
    /// The azimuthal axis of a cake.
    pub chi: Option<Axis>,
}

impl Axes {
    /// How many bins there are.
    pub fn bins(&self) -> usize {
        self.radial.centers.len() * self.chi.as_ref().map_or(1, |chi| chi.centers.len())
    }

    /// The shape of one pattern: `[radial]` or `[chi, radial]`.
    pub fn shape(&self) -> Vec<usize> {
        self.iter().map(|axis| axis.centers.len()).collect()
    }

    /// The axes in the order of a pattern's dimensions.
    pub fn iter(&self) -> impl Iterator<Item = &Axis> {
        self.chi.iter().chain([&self.radial])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_known_of_equal_bins_alone() {
        let axis = |centers: &[f64]| Axis { centers: centers.to_vec(), ..Axis::default() };
        assert_eq!(axis(&[1.0, 2.0, 3.0]).edges(), Some(vec![0.5, 1.5, 2.5, 3.5]));
        assert_eq!((axis(&[1.0, 2.0, 4.0]).edges(), axis(&[2.0]).limits()), (None, [1.5, 2.5]));
    }
}
