//! The tables of known detectors, one JSON object per line, parsed on first use.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::gaps::DetectorGaps;
use crate::pixel_grid::WidePixels;

/// The detectors of pyFAI, written by scripts/detectors-from-pyfai.
const PYFAI_TABLE: &str = include_str!("table.jsonl");

/// Other detectors, written by hand, with comments that begin with `#`.
const MORE_DETECTORS: &str = include_str!("more.jsonl");

/// The properties of one known detector.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DetectorEntry {
    /// Class name in pyFAI.
    pub(crate) class: String,
    /// Lower-case names and aliases.
    pub(crate) names: Vec<String>,
    /// Property that rules this detector out, such as `hexagonal pixels`; the other fields are
    /// empty then.
    pub(crate) refused: Option<String>,
    /// Rows and columns of the unbinned detector.
    pub(crate) shape: Option<[usize; 2]>,
    /// Default binning along the slow and the fast axis.
    pub(crate) binning: Option<[usize; 2]>,
    /// Size of a pixel at the default binning, in metres along the slow and the fast axis.
    pub(crate) pixel: Option<[f64; 2]>,
    /// Default orientation, if it is not 3.
    pub(crate) orientation: Option<u64>,
    /// pyFAI's `DUMMY`.
    pub(crate) dummy: Option<f64>,
    /// pyFAI's `DELTA_DUMMY`.
    pub(crate) delta: Option<f64>,
    /// True if the detector counts photons, so that counts are never negative.
    #[serde(default)]
    pub(crate) counter: bool,
    #[serde(default)]
    pub(crate) modes: BinningModes,
    #[serde(default)]
    pub(crate) gaps: DetectorGaps,
    pub(crate) wide: Option<WidePixels>,
}

/// The hardware binnings with which a detector can be read out.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BinningModes {
    /// No binning: pixels have one size.
    #[default]
    None,
    /// Any integer binning that divides the unbinned shape.
    Any,
    /// Listed binnings, each with its pixel size in metres.
    Binning(BTreeMap<usize, f64>),
    /// Square images of listed side lengths in pixels, each with its pixel size in metres.
    Side(BTreeMap<usize, f64>),
}

/// Returns the entries of all known detectors.
pub(crate) fn entries() -> &'static [DetectorEntry] {
    static ENTRIES: OnceLock<Vec<DetectorEntry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let lines =
            PYFAI_TABLE.lines().chain(MORE_DETECTORS.lines().filter(|line| !line.starts_with('#')));
        lines
            .map(|line| serde_json::from_str(line).expect("the tables are checked by the tests"))
            .collect()
    })
}

/// Returns the class names of the detectors that were written by hand.
pub(crate) fn names_of_more() -> impl Iterator<Item = &'static str> {
    let from_pyfai = PYFAI_TABLE.lines().count();
    entries().iter().skip(from_pyfai).map(|entry| entry.class.as_str())
}
