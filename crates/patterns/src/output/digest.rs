//! Digests of the content of a final file: of average patterns, of all data, and of the values that
//! coverage relies on.

use xxhash_rust::xxh3::Xxh3;

use super::average::AveragePattern;
use crate::{PatternAxes, SharedBins};

/// Returns XXH3-64 of an average pattern.
pub(super) fn pattern_digest(pattern: &AveragePattern) -> u64 {
    let mut hash = Xxh3::new();
    add_numbers(&mut hash, [pattern.frames].into_iter());
    for values in [Some(&pattern.intensity), pattern.errors.as_ref()].into_iter().flatten() {
        add_numbers(&mut hash, values.iter().map(|value| value.to_bits()));
    }
    hash.digest()
}

/// Returns XXH3-128 of axes, weights and rows, in 32 hexadecimal digits. Equal patterns have equal
/// digests, whatever the tasks and the layout.
pub(super) fn data_digest(shared: &SharedBins, rows: &[u64]) -> String {
    let mut hash = Xxh3::new();
    add_axes(&mut hash, &shared.axes);
    for weights in [&shared.weights.norm, &shared.weights.norm_sq, &shared.weights.count] {
        add_numbers(&mut hash, weights.iter().map(|weight| weight.to_bits()));
    }
    add_numbers(&mut hash, rows.iter().copied());
    format!("{:032x}", hash.digest128())
}

/// Returns XXH3-128 of the values that coverage relies on, except the rows.
pub(super) fn coverage_digest(texts: &[&str], monitor: &[f64], lists: &[&[u64]]) -> String {
    let mut hash = Xxh3::new();
    texts.iter().for_each(|text| add_text(&mut hash, text));
    add_numbers(&mut hash, monitor.iter().map(|monitor| monitor.to_bits()));
    lists.iter().for_each(|list| add_numbers(&mut hash, list.iter().copied()));
    format!("{:032x}", hash.digest128())
}

fn add_axes(hash: &mut Xxh3, axes: &PatternAxes) {
    for axis in axes.iter() {
        add_text(hash, &axis.name);
        add_text(hash, &axis.units);
        add_numbers(hash, axis.centers.iter().map(|center| center.to_bits()));
    }
}

fn add_text(hash: &mut Xxh3, text: &str) {
    hash.update(&(text.len() as u64).to_le_bytes());
    hash.update(text.as_bytes());
}

fn add_numbers(hash: &mut Xxh3, numbers: impl Iterator<Item = u64>) {
    let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    hash.update(&(bytes.len() as u64).to_le_bytes());
    hash.update(&bytes);
}
