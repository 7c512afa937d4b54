//! Cakes, which pyFAI neither clips nor takes quantiles of, row by row against patterns of their
//! sectors.

use serde_json::{Map, Value, json};

use super::azpipe::{Pattern, integrate_with};
use super::case::Case;

/// Rows of a cake.
const SECTORS: u32 = 5;

/// Settings of the statistics over the pixels of a bin.
const METHODS: [&str; 5] = [
    r#"{"error-model": "azimuthal"}"#,
    r#"{"sigma-clip": "3", "error-model": "poisson"}"#,
    r#"{"sigma-clip": "chauvenet,3", "error-model": "azimuthal"}"#,
    r#"{"median": "50", "error-model": "poisson"}"#,
    r#"{"median": "20,70", "error-model": "poisson"}"#,
];

/// Holds a cake of the case, by two methods that `choice` gives, against its sectors. Returns how many
/// bins have pixels.
pub fn check(case: &Case, choice: usize) -> usize {
    let case =
        Case { split: "no".to_owned(), azimuth_range: None, radial_range: None, ..case.clone() };
    let ends = [case.axis[0], case.axis[case.axis.len() - 1]];
    [0, 2]
        .map(|further| METHODS[(choice + further) % METHODS.len()])
        .iter()
        .map(|method| check_method(&case, ends, serde_json::from_str(method).unwrap()))
        .sum()
}

fn check_method(case: &Case, ends: [f64; 2], mut method: Map<String, Value>) -> usize {
    method.insert("radial-range".to_owned(), json!(ends));
    let with = |key: &str, value: Value| {
        let mut settings = method.clone();
        settings.insert(key.to_owned(), value);
        integrate_with(case, settings)
    };
    let cake = with("npt-azim", json!(SECTORS)).unwrap();
    let width = 360.0 / f64::from(SECTORS);
    let mut bins = 0;
    for sector in 0..SECTORS {
        let low = -180.0 + f64::from(sector) * width;
        let row = split_row(&cake, sector as usize, cake.axis.len());
        match with("azimuth-range", json!([low, low + width])) {
            None => assert!(row[0].iter().all(|intensity| intensity.is_nan())),
            Some(pattern) => {
                let row_of_its_own = split_row(&pattern, 0, pattern.axis.len());
                assert!(
                    are_equal_bits(&row, &row_of_its_own),
                    "case {}, {method:?}, sector {sector}\n{case}",
                    case.number
                );
                bins += pattern.intensity.iter().filter(|intensity| !intensity.is_nan()).count();
            }
        }
    }
    bins
}

fn split_row(pattern: &Pattern, row: usize, bins: usize) -> [Vec<f64>; 3] {
    [&pattern.intensity, &pattern.sem, &pattern.std].map(|all| all[row * bins..][..bins].to_vec())
}

/// To the bit: a bin's sums depend on its pixels alone.
fn are_equal_bits(one: &[Vec<f64>; 3], two: &[Vec<f64>; 3]) -> bool {
    one.iter().flatten().zip(two.iter().flatten()).all(|(one, two)| one.to_bits() == two.to_bits())
}
