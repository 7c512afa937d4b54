//! The generated table: one detector a line, read once.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::gaps::DetectorGaps;
use crate::pixel_grid::WidePixels;

/// Written by scripts/detectors-from-pyfai.
const DETECTOR_TABLE: &str = include_str!("table.jsonl");

/// What is known of a detector by its name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DetectorEntry {
    pub(crate) class: String,
    /// Lower-case names and aliases.
    pub(crate) names: Vec<String>,
    /// Why this detector can't be described here; nothing else is given then.
    pub(crate) refused: Option<String>,
    /// Rows and columns of the unbinned detector.
    pub(crate) shape: Option<[usize; 2]>,
    /// The binning that it has by default.
    pub(crate) binning: Option<[usize; 2]>,
    /// Size of a pixel at the default binning, metres.
    pub(crate) pixel: Option<[f64; 2]>,
    /// The orientation by default, where it is not 3.
    pub(crate) orientation: Option<u64>,
    /// pyFAI's `DUMMY` and `DELTA_DUMMY`.
    pub(crate) dummy: Option<f64>,
    pub(crate) delta: Option<f64>,
    /// A counter of single photons, whose counts are never negative.
    #[serde(default)]
    pub(crate) counter: bool,
    #[serde(default)]
    pub(crate) modes: BinningModes,
    #[serde(default)]
    pub(crate) gaps: DetectorGaps,
    pub(crate) wide: Option<WidePixels>,
}

/// Which binnings a detector can be read with.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BinningModes {
    /// One size of pixel only.
    #[default]
    None,
    /// Any whole binning of the unbinned shape.
    Any,
    /// Listed binnings, with the size of their pixels in metres.
    Binning(BTreeMap<usize, f64>),
    /// Square images of listed sides, with the size of their pixels in metres.
    Side(BTreeMap<usize, f64>),
}

/// All detectors.
pub(crate) fn entries() -> &'static [DetectorEntry] {
    static ENTRIES: OnceLock<Vec<DetectorEntry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let read = |line| serde_json::from_str(line).expect("the generated table is checked by the tests");
        DETECTOR_TABLE.lines().map(read).collect()
    })
}
