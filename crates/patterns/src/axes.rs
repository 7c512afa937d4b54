//! The axes of a pattern: the quantity, unit, centres and edges of its bins.

use geometry::Unit;
use recipe::Recipe;

/// One axis of a pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PatternAxis {
    /// Quantity on the axis, which names its dataset: `q`, `2th`, `r`, `d*2` or `chi`.
    pub name: String,
    /// Unit of the quantity, such as `nm^-1` or `deg`.
    pub units: String,
    /// Centres of the bins, in `units`.
    pub centers: Vec<f64>,
}

impl PatternAxis {
    /// Returns the name and units in ASCII, such as `q (nm^-1)`, for text files and messages.
    pub fn label(&self) -> String {
        format!("{} ({})", self.name, self.units)
    }

    /// Returns the title of the axis in a plot, such as `q (nm⁻¹)` or `χ (°)`.
    pub fn plot_label(&self) -> String {
        match Unit::parse(&format!("{}_{}", self.name, self.units)) {
            Ok(unit) => unit.axis_label().to_owned(),
            Err(_) if self.name == "chi" => format!("χ ({})", print_degrees(&self.units)),
            Err(_) => self.label(),
        }
    }

    /// Returns the edges of the bins, one more than there are bins. `asked` are the edges that the
    /// recipe gives; without them, all bins have the same width. The edges can't be derived from
    /// the centres alone: the centres of alternately narrow and wide bins may be equally spaced,
    /// too.
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

/// Returns units as they are printed: ° for `deg`.
pub(crate) fn print_degrees(units: &str) -> &str {
    if units == "deg" { "°" } else { units }
}

/// Returns the first and last of a list of edges; NaN if the list is empty.
pub(crate) fn ends(edges: &[f64]) -> (f64, f64) {
    let (first, last) = (edges.first().copied(), edges.last().copied());
    (first.unwrap_or(f64::NAN), last.unwrap_or(f64::NAN))
}

/// Axes of a pattern: the radial one, and the azimuthal one if the pattern is a cake. The bins of a
/// cake are stored azimuth-major: all radial bins of the first chi, then all radial bins of the
/// second.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternAxes {
    /// Radial axis.
    pub radial: PatternAxis,
    /// Azimuthal axis of a cake; `None` for a pattern with one dimension.
    pub chi: Option<PatternAxis>,
}

impl PatternAxes {
    /// Returns the edges of the radial bins.
    pub fn radial_edges(&self, recipe: &Recipe) -> Vec<f64> {
        self.radial.edges(recipe.radial_edges.as_deref())
    }

    /// Returns the edges of the azimuthal bins; `None` if the pattern is not a cake.
    pub fn chi_edges(&self, recipe: &Recipe) -> Option<Vec<f64>> {
        self.chi.as_ref().map(|chi| chi.edges(recipe.azimuth_edges.as_deref()))
    }

    /// Returns the number of bins of one pattern.
    pub fn bins(&self) -> usize {
        // Both axes are in memory, and so is any pattern that is read, so the product does not
        // saturate.
        self.iter().fold(1_usize, |bins, axis| bins.saturating_mul(axis.centers.len()))
    }

    /// Returns the shape of one pattern: `[radial]` or `[chi, radial]`.
    pub fn shape(&self) -> Vec<usize> {
        self.iter().map(|axis| axis.centers.len()).collect()
    }

    /// Returns the outer edges of each axis, `[low, high]`, in the order of a pattern's dimensions.
    pub fn bin_ranges(&self, recipe: &Recipe) -> Vec<[f64; 2]> {
        let all = self.chi_edges(recipe).into_iter().chain([self.radial_edges(recipe)]);
        all.map(|edges| ends(&edges).into()).collect()
    }

    /// Iterates over the axes in the order of a pattern's dimensions.
    pub fn iter(&self) -> impl Iterator<Item = &PatternAxis> {
        self.chi.iter().chain([&self.radial])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_show_the_signs_of_print() {
        let axis = |name: &str, units: &str| {
            PatternAxis { name: name.into(), units: units.into(), centers: Vec::new() }.plot_label()
        };
        assert_eq!((axis("q", "A^-1"), axis("2th", "deg")), ("q (Å⁻¹)".into(), "2θ (°)".into()));
        assert_eq!(
            (axis("chi", "deg"), axis("d*2", "nm^-2")),
            ("χ (°)".into(), "d*² (nm⁻²)".into())
        );
    }

    #[test]
    fn edges_are_those_that_were_asked_for_or_of_bins_of_one_width() {
        let axis =
            |centers: &[f64]| PatternAxis { centers: centers.to_vec(), ..PatternAxis::default() };
        assert_eq!(axis(&[1.0, 2.0, 3.0]).edges(None), [0.5, 1.5, 2.5, 3.5]);
        assert_eq!(axis(&[2.0]).edges(None), [1.5, 2.5]);
        assert_eq!(axis(&[]).edges(None).len(), 1);
        let in_turn = [0.0, 1.0, 4.0, 5.0];
        assert_eq!(
            axis(&[0.5, 2.5, 4.5]).edges(Some(&in_turn)),
            in_turn,
            "though centres are equally far apart"
        );
    }
}
