//! [`Combination`]: two patterns that are subtracted or summed, and the settings of their recipes
//! that must be equal for the result to have a meaning.
//!
//! A pattern estimates a quantity over bins. What defines the quantity, the estimate and its error must
//! be equal, and a difference is refused. What only chooses the pixels that take part may differ, as
//! one pixel estimates the same as another; the result is warned of where the choice depends on the
//! counts, or is one of directions. Callers compare the axes themselves and, of a background, the
//! detector and the wavelength.

use std::fmt;

use crate::{FileRef, Monitor, MonitorReference, Quantity, Recipe};

/// The way in which patterns of two recipes are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    /// One is a background that is subtracted from the other.
    Difference,
    /// Their sums are added, and divided by those of their weights.
    Sum {
        /// True if both are of one detector. Detectors have corrections and valid values of their own.
        same_detector: bool,
    },
}

/// The settings in which two recipes differ although they are combined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mismatches(Vec<Mismatch>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mismatch {
    key: &'static str,
    one: String,
    other: String,
    is_refused: bool,
}

/// Consequence of another value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consequence {
    Nothing,
    Warning,
    Refusal,
    /// A warning if both are of one detector.
    WarningOfDetector,
    /// A refusal if both are of one detector.
    RefusalOfDetector,
}

use Consequence::{Nothing, Refusal, RefusalOfDetector, Warning, WarningOfDetector};

/// A setting of a recipe that may not differ in any combination.
struct ComparedSetting {
    key: &'static str,
    /// Value in messages.
    shown: String,
    /// Text that is compared: the shown value, or one without its paths.
    compared: String,
    of_difference: Consequence,
    of_sum: Consequence,
}

impl Mismatches {
    /// Returns whether the patterns can't be combined.
    pub fn are_refused(&self) -> bool {
        self.0.iter().any(|mismatch| mismatch.is_refused)
    }

    /// Returns whether the recipes have no other settings than they may.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Describes the settings that are refused or, if none is, those that are warned of, with the
    /// values of both recipes, which are called `one` and `other`.
    pub fn describe(&self, one: &dyn fmt::Display, other: &dyn fmt::Display) -> String {
        let refused = self.are_refused();
        let shown = || self.0.iter().filter(|mismatch| mismatch.is_refused == refused);
        let values = |value: fn(&Mismatch) -> &String| -> String {
            let of_each = shown().map(|mismatch| format!("{} {}", mismatch.key, value(mismatch)));
            of_each.collect::<Vec<_>>().join(", ")
        };
        let flags: Vec<String> = shown().map(|mismatch| format!("--{}", mismatch.key)).collect();
        format!(
            "{one} was integrated with {}, and {other} with {}; integrate both with the same {}",
            values(|mismatch| &mismatch.one),
            values(|mismatch| &mismatch.other),
            flags.join(", ")
        )
    }
}

impl Recipe {
    /// Returns the settings in which this recipe and another may not differ, or should not, if their
    /// patterns are combined.
    pub fn mismatches(&self, other: &Self, combination: Combination) -> Mismatches {
        let pairs = compared_settings(self, combination).into_iter();
        let pairs = pairs.zip(compared_settings(other, combination));
        let mismatch = |(one, other): (ComparedSetting, ComparedSetting)| {
            let is_refused = one.is_refused_in(combination)?;
            let differs = one.compared != other.compared;
            differs.then_some(Mismatch {
                key: one.key,
                one: one.shown,
                other: other.shown,
                is_refused,
            })
        };
        Mismatches(pairs.filter_map(mismatch).collect())
    }
}

impl ComparedSetting {
    /// Creates a setting that has the consequences of a difference and of a sum.
    fn new(key: &'static str, value: String, consequences: [Consequence; 2]) -> Self {
        let [of_difference, of_sum] = consequences;
        Self { key, shown: value.clone(), compared: value, of_difference, of_sum }
    }

    /// Returns whether another value is refused; `None` if nothing follows from it.
    fn is_refused_in(&self, combination: Combination) -> Option<bool> {
        let (consequence, same_detector) = match combination {
            Combination::Difference => (self.of_difference, true),
            Combination::Sum { same_detector } => (self.of_sum, same_detector),
        };
        match consequence {
            Nothing => None,
            Warning => Some(false),
            Refusal => Some(true),
            WarningOfDetector => same_detector.then_some(false),
            RefusalOfDetector => same_detector.then_some(true),
        }
    }
}

/// Returns the settings that are compared. The recipe is taken apart without `..`: a setting that is
/// added to it has to be decided on here.
fn compared_settings(recipe: &Recipe, combination: Combination) -> Vec<ComparedSetting> {
    let Recipe {
        // The axes have the same bins or not, however they were asked for.
        npt: _,
        npt_azim: _,
        unit: _,
        radial_range: _,
        // How it is written, and how a PONI file is applied to a part of the detector.
        version: _,
        roi: _,
        image_operation: _,
        // Where the pixels were: of another calibration, another detector or one that moves, patterns
        // have the same quantity over the same bins, and refer to solid angles that are known.
        poni: _,
        poni_file: _,
        detector_file: _,
        goniometer: _,
        poni_table: _,
        // Pixels that no frame uses: a bin has the mean of those that are left.
        mask: _,
        mask_inverted: _,
        mask_region: _,
        // Of each scan its own, from which errors of the same meaning follow.
        variance: _,
        // Of each scan its own, by which its counts are corrected.
        exposure_time: _,
        incident_angle,
        tilt_angle,
        sample_orientation,
        azimuth_range: _,
        radial_edges,
        azimuth_edges,
        split,
        polarization,
        polarization_offset,
        sensor,
        solid_angle,
        mean,
        error_model,
        error,
        error_floor,
        sigma_clip,
        median,
        median_error,
        empty,
        keep_bits,
        dummy,
        valid_min,
        valid_max,
        detector_mask,
        dead_time,
        flat_mode,
        dark,
        flat,
        monitor,
    } = recipe;
    let setting = ComparedSetting::new;
    let mut compared = vec![
        // Bins may have the same centres and other edges.
        setting("radial-edges", show_edges(radial_edges), [Refusal; 2]),
        setting("azimuth-edges", show_edges(azimuth_edges), [Refusal; 2]),
        // What lies in a bin of the sample's frame moves on the detector with the sample, and a
        // background does not. Sums of several orientations cover more of that frame.
        setting("incident-angle", show(incident_angle), [Refusal, Nothing]),
        setting("tilt-angle", show(tilt_angle), [Refusal, Nothing]),
        setting("sample-orientation", show(sample_orientation), [Refusal, Nothing]),
        // A background of all directions is that of a sector if it is the same in all. Sectors are
        // there to be merged.
        setting("azimuth-range", show_azimuths(recipe), [Warning, Nothing]),
        // The same quantity, another resolution.
        setting("split", split.to_string(), [Warning, Nothing]),
        // Corrections change the quantity. Those of a detector are another detector's, too, only by
        // chance; the beam is the same.
        setting("solid-angle", show_switch(*solid_angle), [Refusal; 2]),
        setting("polarization", show(polarization), [Refusal; 2]),
        setting("polarization-offset", show(polarization_offset), [Refusal, RefusalOfDetector]),
        setting("sensor", show(sensor), [Refusal, RefusalOfDetector]),
        setting("dead-time", show(dead_time), [Refusal, RefusalOfDetector]),
        setting("flat-mode", show(flat_mode), [Refusal, RefusalOfDetector]),
        show_files("flat", flat),
        // Counts of the dark belong to an exposure: each scan may have its own, but not one alone.
        ComparedSetting { compared: dark.is_empty().to_string(), ..show_files("dark", dark) },
        // The estimate, and what is written where there is none.
        setting("mean", mean.to_string(), [Refusal; 2]),
        setting("median", show(median), [Refusal; 2]),
        setting("empty", empty.to_string(), [Refusal; 2]),
        // The errors: those of a pixel and of a mean, or of counts and of a spread, don't add up to
        // either.
        setting("error-model", error_model.to_string(), [Refusal; 2]),
        setting("error", error.to_string(), [Refusal; 2]),
        setting("error-floor", error_floor.to_string(), [Refusal; 2]),
        setting("median-error", show(median_error), [Refusal; 2]),
        // Rounding is far below the errors. One file has one.
        setting("keep-bits", show(keep_bits), [Nothing, Refusal]),
        // Pixels that are left out for their counts: where limits are reached, the rest has another
        // mean. A limit that one scan reaches and the other does not is a reason to set it for one.
        setting("sigma-clip", show(sigma_clip), [Warning; 2]),
        setting("dummy", dummy.to_string(), [Warning, WarningOfDetector]),
        setting("valid-min", show(valid_min), [Warning, WarningOfDetector]),
        setting("valid-max", show(valid_max), [Warning, WarningOfDetector]),
        // Gaps are pixels without counts, and not only other pixels.
        setting("detector-mask", show_switch(*detector_mask), [Warning, WarningOfDetector]),
    ];
    compared.extend(show_monitors(monitor, combination));
    compared
}

fn show(value: &Option<impl fmt::Display>) -> String {
    value.as_ref().map_or("none".to_owned(), ToString::to_string)
}

fn show_switch(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// Returns the limits of all azimuthal bins together.
fn show_azimuths(recipe: &Recipe) -> String {
    let bins = recipe.azimuth_bins();
    let limits = bins.first().zip(bins.last()).map(|(first, last)| [first[0], last[1]]);
    show(&limits.map(|[low, high]| format!("{low},{high}")))
}

fn show_edges(edges: &Option<Vec<f64>>) -> String {
    let list = |edges: &Vec<f64>| edges.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
    show(&edges.as_ref().map(list))
}

/// Returns a correction by files, which are compared by their content.
fn show_files(key: &'static str, files: &[FileRef]) -> ComparedSetting {
    let list = |text: fn(&FileRef) -> String| {
        let all: Vec<String> = files.iter().map(text).collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    };
    let content = |file: &FileRef| {
        let linked: Vec<&str> = file.linked.iter().map(|linked| linked.sha256.as_str()).collect();
        format!("{} {:?} {linked:?}", file.sha256, file.dataset)
    };
    let shown = |file: &FileRef| {
        format!("{} (SHA-256 {})", file.name(), file.sha256.get(..12).unwrap_or(&file.sha256))
    };
    let consequences = [Refusal, RefusalOfDetector];
    ComparedSetting {
        compared: list(content),
        ..ComparedSetting::new(key, list(shown), consequences)
    }
}

/// Returns the monitors and their references, in an order that does not depend on that of the
/// recipe. Numbers are left out of sums: by them, users scale detectors and scans to each other.
fn show_monitors(monitors: &[Monitor], combination: Combination) -> [ComparedSetting; 2] {
    let is_number = |monitor: &&Monitor| {
        matches!(monitor.quantity, Quantity::Number(_))
            && matches!(monitor.reference, MonitorReference::Quantity(Quantity::Number(_)))
    };
    let is_sum = matches!(combination, Combination::Sum { .. });
    let compared = monitors.iter().filter(|monitor| !(is_sum && is_number(monitor)));
    let mut pairs: Vec<[(String, String); 2]> = compared
        .map(|Monitor { quantity, reference }| {
            let reference = match reference {
                MonitorReference::Mean => ("mean".to_owned(), "mean".to_owned()),
                MonitorReference::Quantity(divisor) => show_quantity(divisor),
            };
            [show_quantity(quantity), reference]
        })
        .collect();
    pairs.sort();
    let setting = |key, index: usize| {
        let list = |text: fn(&(String, String)) -> &String| {
            let all: Vec<&str> = pairs.iter().map(|pair| text(&pair[index]).as_str()).collect();
            if all.is_empty() { "none".to_owned() } else { all.join(", ") }
        };
        let shown = ComparedSetting::new(key, list(|(_, shown)| shown), [Refusal; 2]);
        ComparedSetting { compared: list(|(compared, _)| compared), ..shown }
    };
    [setting("monitor", 0), setting("monitor-reference", 1)]
}

/// Returns what is compared of a quantity, and its name. Each scan has a file of its own, in which the
/// dataset has the same name.
fn show_quantity(quantity: &Quantity) -> (String, String) {
    let name = quantity.name();
    match quantity {
        Quantity::File(FileRef { dataset: Some(dataset), .. }) => (format!("::{dataset}"), name),
        _ => (name.clone(), name),
    }
}

#[cfg(test)]
mod tests;
