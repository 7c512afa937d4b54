//! [`FrameFit`]: the displacement in a frame, by lines whose shapes are those in the average of the
//! frames.

use geometry::DetectorPlane;

use super::displacement::{Displacement, Parameters};
use super::lines::Lines;
use super::peak::ProfileBin;

/// Most rounds in which the lines are fitted where the displacement of the round before has them. A
/// window that is not symmetric about a line draws its position to where it was before, by some per
/// cent of the way.
const MAX_ROUNDS: usize = 6;
/// Rounds end when the displacement changes by this many of its errors: the next change would be a
/// tenth.
const SETTLED: f64 = 1.0;
/// Windows are those of the average up to this many errors from there.
const NEAR_AVERAGE: f64 = 3.0;
/// Lines are narrower than in the average if they are by more than this; a beam that moves by a third
/// of their width makes them wider by 1 %.
const NARROWER: f64 = 0.98;
/// Fewest clear peaks that widths are taken from.
const MIN_PEAKS: usize = 5;

/// How displacements are fitted.
pub(super) struct FrameFit<'a> {
    /// Plane of the PONI file.
    pub plane: &'a DetectorPlane,
    /// Lines in the average of the frames.
    pub lines: &'a Lines,
    /// Parameters that the positions determine.
    pub parameters: Parameters,
    /// Displacement in the average of the frames.
    pub average: Displacement,
    /// Width of lines in frames over that in their average, in which they are wider if the beam moves.
    pub width: f64,
}

impl FrameFit<'_> {
    /// Measures the displacement in the average, about whose lines the windows are.
    pub fn measure_average(&self, average: &[Vec<ProfileBin>]) -> Displacement {
        Displacement::fit(self.plane, &self.lines.positions(average), self.parameters)
    }

    /// Measures the displacement in the pattern of a frame, given by sector.
    pub fn measure(&self, pattern: &[Vec<ProfileBin>]) -> Displacement {
        let mut found = self.measure_average(pattern);
        if self.width == 1.0 && found.is_within(NEAR_AVERAGE, &self.average) {
            return found;
        }
        for _ in 0..MAX_ROUNDS {
            if !found.is_known() {
                break;
            }
            let near = found.known_value();
            let positions = self.lines.displaced_positions(pattern, self.plane, near, self.width);
            let next = Displacement::fit(self.plane, &positions, self.parameters);
            if !next.is_known() {
                break;
            }
            let is_settled = next.is_within(SETTLED, &found);
            found = next;
            if is_settled {
                break;
            }
        }
        found
    }

    /// Returns the median width of clear lines in these patterns over that in the average; 1 if they
    /// are about as wide, or too few.
    pub fn find_width<'b>(&self, patterns: impl Iterator<Item = &'b Vec<Vec<ProfileBin>>>) -> f64 {
        let of_pattern = |pattern: &Vec<Vec<ProfileBin>>| {
            let found = self.measure(pattern);
            match found.is_known() {
                true => self.lines.widths(pattern, self.plane, found.known_value()),
                false => Vec::new(),
            }
        };
        let mut widths: Vec<f64> = patterns.flat_map(of_pattern).collect();
        if widths.len() < MIN_PEAKS {
            return 1.0;
        }
        widths.sort_by(f64::total_cmp);
        let width = widths[widths.len() / 2];
        if width < NARROWER { width } else { 1.0 }
    }
}
