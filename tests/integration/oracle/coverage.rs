//! Counts of the settings that the cases covered.

use std::collections::BTreeMap;
use std::fmt;

use super::case::Case;
use super::compare::Difference;

/// How many cases there were of each kind, and how far the worst was from pyFAI.
#[derive(Default)]
pub struct Coverage {
    cases: usize,
    bins: usize,
    kinds: BTreeMap<String, usize>,
    worst: BTreeMap<String, f64>,
    /// The cases that are not as they should be.
    pub wrong: Vec<String>,
}

impl Coverage {
    pub fn count(&mut self, case: &Case, difference: &Difference) {
        self.cases += 1;
        self.bins += difference.bins;
        self.wrong.extend(
            difference.wrong.iter().map(|why| format!("case {}: {why}\n{case}", case.number)),
        );
        let mut seen =
            |kind: String, holds: bool| *self.kinds.entry(kind).or_default() += usize::from(holds);
        seen(format!("orientation {}", case.orientation()), true);
        seen(format!("unit {}", case.unit), true);
        seen(format!("split {}", case.split), true);
        seen(format!("dtype {}", case.dtype), true);
        seen("beam off the detector".to_owned(), case.misses_beam());
        seen("sector at the seam".to_owned(), case.holds_azimuth_seam());
        seen(
            "sector elsewhere".to_owned(),
            case.azimuth_range.is_some() && !case.holds_azimuth_seam(),
        );
        seen("radial range".to_owned(), case.radial_range.is_some());
        seen("polarization".to_owned(), case.polarization.is_some());
        seen("named detector".to_owned(), !case.poni.contains("Detector: Detector"));
        seen("mask".to_owned(), case.mask);
        seen("dark".to_owned(), case.dark);
        seen("flat".to_owned(), case.flat);
        seen("dummies".to_owned(), !case.marks.is_empty());
        if let Some(errors) = &case.error_model {
            seen(format!("errors {errors}"), true);
            seen("clipped".to_owned(), case.sigma_clip.is_some());
            seen("between quantiles".to_owned(), case.median.is_some());
        }
        let mut worst = |what: String, value: f64| {
            let worst = self.worst.entry(what).or_default();
            *worst = worst.max(value);
        };
        worst("axis".to_owned(), difference.axis);
        worst(format!("intensity ({})", case.split), difference.intensity);
        worst(format!("sem ({})", case.split), difference.sem);
        worst("std".to_owned(), difference.std);
        worst("from exact shares (full)".to_owned(), difference.exact);
    }

    /// How many cases there were.
    pub fn cases(&self) -> usize {
        self.cases
    }

    pub fn merge(&mut self, other: Self) {
        self.cases += other.cases;
        self.bins += other.bins;
        other
            .kinds
            .into_iter()
            .for_each(|(kind, count)| *self.kinds.entry(kind).or_default() += count);
        for (what, value) in other.worst {
            let worst = self.worst.entry(what).or_default();
            *worst = worst.max(value);
        }
        self.wrong.extend(other.wrong);
    }

    /// Asserts that the cases were as many as asked for, and `least` of each kind.
    pub fn assert_enough(&self, cases: usize, least: usize) {
        assert_eq!(self.cases, cases);
        for (kind, count) in &self.kinds {
            assert!(*count >= least, "{kind}: {count} cases; expected at least {least}");
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cases, {} bins:", self.cases, self.bins)?;
        self.kinds.iter().try_for_each(|(kind, count)| write!(f, "\n  {count:4} {kind}"))?;
        self.worst.iter().try_for_each(|(what, value)| write!(f, "\n  worst {what} {value:.1e}"))
    }
}
