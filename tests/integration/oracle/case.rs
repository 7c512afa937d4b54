//! One case of pyfai.py: what is integrated, and what pyFAI makes of it.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

/// A line of pyfai.py. Fields are those of `a_case` in drawn_cases.py and of
/// `integrate` in integration.py.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub number: usize,
    pub poni: String,
    pub shape: [usize; 2],
    pub unit: String,
    pub npt: u64,
    pub split: String,
    pub radial_range: Option<[f64; 2]>,
    pub azimuth_range: Option<[f64; 2]>,
    pub polarization: Option<f64>,
    pub solid_angle: bool,
    pub seed: u32,
    pub top: u32,
    pub dtype: String,
    pub marks: Vec<i64>,
    pub mask: bool,
    pub dark: bool,
    pub flat: bool,
    /// True if parallax is corrected.
    #[serde(default)]
    pub parallax: bool,
    /// Where the beam meets the detector, row and column.
    pub centre: Option<[f64; 2]>,
    pub axis: Vec<f64>,
    pub intensity: Vec<f64>,
    pub sem: Vec<f64>,
    pub weight: Vec<f64>,
    /// Of corrected cases: further keys of a recipe.
    #[serde(default)]
    pub more: Map<String, Value>,
    /// Of robust cases: how pixels are averaged, and where errors come from.
    #[serde(default)]
    pub sigma_clip: Option<[f64; 2]>,
    #[serde(default)]
    pub median: Option<[f64; 2]>,
    #[serde(default)]
    pub error_model: Option<String>,
    #[serde(default)]
    pub std: Vec<f64>,
    /// Of full splitting: intensity and sem by shares in double precision.
    #[serde(default)]
    pub exact: Vec<Vec<f64>>,
    /// The smallest intensity, sem and std that pyFAI may give in bins where its rounding decides
    /// about a pixel; `high` has the largest.
    #[serde(default)]
    pub low: Vec<Vec<f64>>,
    #[serde(default)]
    pub high: Vec<Vec<f64>>,
}

impl Case {
    /// From a line.
    pub fn read(line: &str) -> Self {
        serde_json::from_str(line).unwrap()
    }

    /// The orientation in the PONI file.
    pub fn orientation(&self) -> usize {
        let (_, after) = self.poni.split_once("\"orientation\": ").unwrap();
        after[..1].parse().unwrap()
    }

    /// Returns whether the beam does not meet the detector.
    pub fn misses_beam(&self) -> bool {
        let inside = |index: usize| {
            self.centre.is_some_and(|at| (0.0..=self.shape[index] as f64).contains(&at[index]))
        };
        !(inside(0) && inside(1))
    }

    /// Returns whether the sector holds the discontinuity of the azimuth at 180 degrees.
    pub fn holds_azimuth_seam(&self) -> bool {
        self.azimuth_range.is_some_and(|[low, high]| low < 180.0 && high > 180.0)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shape: [rows, columns], unit, npt, split, dtype, .. } = self;
        write!(f, "  {rows} x {columns} {dtype}, {npt} bins of {unit}, {split}, ")?;
        write!(f, "radial {:?}, azimuth {:?}, ", self.radial_range, self.azimuth_range)?;
        write!(
            f,
            "mask {}, dark {}, flat {}, beam at {:?}",
            self.mask, self.dark, self.flat, self.centre
        )?;
        self.poni.lines().try_for_each(|line| write!(f, "\n  | {line}"))
    }
}
