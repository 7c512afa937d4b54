//! Where the bins are.

use recipe::Recipe;

/// One axis of a pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PatternAxis {
    /// Its quantity, which names its dataset: `q`, `2th`, `r`, `d*2`, `chi`.
    pub name: String,
    /// Its unit, such as `nm^-1` or `deg`.
    pub units: String,
    /// The centres of its bins, in `units`.
    pub centers: Vec<f64>,
}

impl PatternAxis {
    /// What a plot writes beside it, such as `q (nm^-1)`.
    pub fn label(&self) -> String {
        format!("{} ({})", self.name, self.units)
    }

    /// The edges of the bins, one more than there are bins: those that were `asked` for, else those of bins of one width.
    /// Centres alone do not tell: those of bins that are narrow and wide in turn may be equally far apart.
    fn edges(&self, asked: Option<&[f64]>) -> Vec<f64> {
        if let Some(asked) = asked {
            return asked.to_vec();
        }
        let bins = self.centers.len();
        let (first, width) = match self.centers[..] {
            [first, .., last] => (first, (last - first) / bins.saturating_sub(1) as f64),
            [only] => (only, 1.0),
            [] => (0.5, 1.0),
        };
        (0..=bins).map(|edge| first + width * (edge as f64 - 0.5)).collect()
    }
}

/// Returns the first and the last of some edges; NaN where there are none.
pub(crate) fn ends(edges: &[f64]) -> (f64, f64) {
    let (first, last) = (edges.first().copied(), edges.last().copied());
    (first.unwrap_or(f64::NAN), last.unwrap_or(f64::NAN))
}

/// The axes of a pattern: radial, and azimuthal in a cake. The bins of a cake are stored
/// azimuth-major: all radial bins of the first chi, then those of the next.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternAxes {
    /// The radial axis.
    pub radial: PatternAxis,
    /// The azimuthal axis of a cake.
    pub chi: Option<PatternAxis>,
}

impl PatternAxes {
    /// The edges of the radial bins that the recipe makes.
    pub fn radial_edges(&self, recipe: &Recipe) -> Vec<f64> {
        self.radial.edges(recipe.radial_edges.as_deref())
    }

    /// The edges of the azimuthal bins of a cake that the recipe makes.
    pub fn chi_edges(&self, recipe: &Recipe) -> Option<Vec<f64>> {
        self.chi.as_ref().map(|chi| chi.edges(recipe.azimuth_edges.as_deref()))
    }

    /// How many bins there are.
    pub fn bins(&self) -> usize {
        // Both axes are in memory, and so is a pattern, or else it is not read: the product is small.
        self.iter().fold(1_usize, |bins, axis| bins.saturating_mul(axis.centers.len()))
    }

    /// The shape of one pattern: `[radial]` or `[chi, radial]`.
    pub fn shape(&self) -> Vec<usize> {
        self.iter().map(|axis| axis.centers.len()).collect()
    }

    /// Where the first bin of each axis begins and the last one ends, in the order of a pattern's dimensions.
    pub fn bin_ranges(&self, recipe: &Recipe) -> Vec<[f64; 2]> {
        let all = self.chi_edges(recipe).into_iter().chain([self.radial_edges(recipe)]);
        all.map(|edges| ends(&edges).into()).collect()
    }

    /// The axes in the order of a pattern's dimensions.
    pub fn iter(&self) -> impl Iterator<Item = &PatternAxis> {
        self.chi.iter().chain([&self.radial])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_those_that_were_asked_for_or_of_bins_of_one_width() {
        let axis = |centers: &[f64]| PatternAxis { centers: centers.to_vec(), ..PatternAxis::default() };
        assert_eq!(axis(&[1.0, 2.0, 3.0]).edges(None), [0.5, 1.5, 2.5, 3.5]);
        assert_eq!(axis(&[2.0]).edges(None), [1.5, 2.5]);
        assert_eq!(axis(&[]).edges(None).len(), 1);
        let in_turn = [0.0, 1.0, 4.0, 5.0];
        assert_eq!(axis(&[0.5, 2.5, 4.5]).edges(Some(&in_turn)), in_turn, "though centres are equally far apart");
    }
}
