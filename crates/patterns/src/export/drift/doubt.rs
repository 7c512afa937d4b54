//! [`DriftDoubt`]: signs that the lines are not those of the calibrant.
//!
//! Peaks of another substance lie near some lines of any calibrant, and a displacement brings some of
//! them onto each other. What then differs is that few of the lines are found, that many positions
//! are outliers, that the others agree with each other less well, in widths of the lines, or that the
//! displacement is about as large as lines are looked for. The limits were measured
//! (docs/benchmarks.md, "Calibrants that are not in the beam").

use super::{CalibrantLine, Drift, LineUse};

/// Fewest lines that agree by more than chance.
const MIN_LINES: usize = 3;
/// Least part of the lines in range that is used.
const MIN_USED: f64 = 0.2;
/// A line counts if it is used in this part of the sectors of the line that is used in the most.
const MIN_SECTORS: f64 = 1.0 / 3.0;
/// Largest part of the positions of cakes that are outliers. Patterns have few.
const MAX_OUTLIERS: f64 = 0.15;
/// Largest scatter of positions beyond their errors, in widths of the lines.
const MAX_SCATTER: f64 = 0.0066;
/// Least χ² at which the scatter counts: bins that share pixels have errors that are too small.
const MIN_CHI2: f64 = 5.0;
/// Largest product of the scatter and √χ². Of few counts, the scatter of the right lines is larger, and
/// of many counts their χ².
const MAX_SCATTER_BY_CHI: f64 = 0.0265;
/// Largest scatter of patterns of one dimension, in which lines move by a tilt and the beam, too.
const MAX_SCATTER_OF_PATTERN: f64 = 0.0065;
/// Least χ² at which the scatter of patterns counts.
const MIN_CHI2_OF_PATTERN: f64 = 10.0;
/// Largest displacement along the beam, as a part of the distance.
const MAX_DISTANCE: f64 = 0.025;

/// A sign that the calibrant is not in the beam, or the PONI file of another geometry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DriftDoubt {
    /// Few of the lines that are in range are found.
    FewLines {
        /// Lines that are used.
        used: usize,
        /// Lines that are used, too weak or not fitted.
        sought: usize,
    },
    /// Many positions are outliers.
    Outliers {
        /// Positions that are left out.
        outliers: usize,
        /// Positions that were fitted.
        fitted: usize,
    },
    /// The positions do not agree with each other. In widths of the lines.
    Scatter(f64),
    /// The displacement is as large as lines are looked for. In parts of the distance.
    Distance(f64),
}

impl DriftDoubt {
    /// Returns the name in files and summaries.
    pub fn name(self) -> &'static str {
        match self {
            Self::FewLines { .. } => "few_lines",
            Self::Outliers { .. } => "outliers",
            Self::Scatter(_) => "scatter",
            Self::Distance(_) => "distance",
        }
    }
}

impl Drift {
    /// Returns the first sign that the lines are not those of the calibrant; `None` if there is none.
    pub fn doubt(&self) -> Option<DriftDoubt> {
        let most = self.lines.iter().map(|line| line.sectors).max().unwrap_or_default();
        let counts = |sectors: usize| sectors as f64 >= MIN_SECTORS * most as f64;
        let is_used = |line: &&CalibrantLine| line.line_use == LineUse::Used;
        let used = self.lines.iter().filter(is_used).filter(|line| counts(line.sectors)).count();
        let sought = [LineUse::Used, LineUse::TooWeak, LineUse::FitFailed];
        let sought: usize = sought.into_iter().map(|line_use| self.count(line_use)).sum();
        // Of patterns, a line has one position, which may be an outlier.
        let used = if self.has_beam { used } else { used.min(self.average.positions) };
        let is_few = used < MIN_LINES.min(sought) || (used as f64) < MIN_USED * sought as f64;
        let fitted: usize = self.lines.iter().map(|line| line.sectors).sum();
        let outliers = fitted.saturating_sub(self.average.positions);
        let of_distance = self.average.value[2].abs() / self.distance;
        let (scatter, chi2) = (self.average.scatter, self.average.chi2);
        let is_scattered = match self.has_beam {
            true => {
                let is_far = scatter > MAX_SCATTER && chi2 > MIN_CHI2;
                is_far && scatter * chi2.sqrt() > MAX_SCATTER_BY_CHI
            }
            false => scatter > MAX_SCATTER_OF_PATTERN && chi2 > MIN_CHI2_OF_PATTERN,
        };
        if is_few {
            Some(DriftDoubt::FewLines { used, sought })
        } else if self.has_beam && outliers as f64 > MAX_OUTLIERS * fitted as f64 {
            Some(DriftDoubt::Outliers { outliers, fitted })
        } else if is_scattered {
            Some(DriftDoubt::Scatter(scatter))
        } else if of_distance > MAX_DISTANCE {
            Some(DriftDoubt::Distance(of_distance))
        } else {
            None
        }
    }
}
