//! Validation of a recipe's values, alone and in combination.

use std::ops::RangeInclusive;

use geometry::{Unit, format_number};

use crate::{
    ErrorFloor, ErrorMeasure, ErrorModel, IncidentAngle, Mean, MedianError, Recipe, RecipeError,
    SpreadUse, VarianceSource,
};

/// Largest number of bins, about that of pixels of a large detector: more bins take memory and show
/// nothing.
const MAX_BINS: u64 = 1 << 24;

/// Bits of the mantissa that can be kept. Single precision stores 23.
const KEPT_BITS: RangeInclusive<u32> = 1..=22;

/// Largest angle in degrees, two turns: a larger one is a mistake, such as another unit.
const MAX_DEGREES: f64 = 720.0;

impl Recipe {
    /// Checks all values.
    ///
    /// # Errors
    /// A value is out of range, or two settings contradict each other.
    pub(crate) fn validate(&self) -> Result<(), RecipeError> {
        self.validate_bins()?;
        self.validate_ranges()?;
        self.validate_sample()?;
        self.validate_constant_monitors()?;
        self.validate_moving_geometry()?;
        let refuse = |key, why: String| Err(RecipeError::Setting { key, why });
        match (self.polarization, self.polarization_offset) {
            (Some(factor), _) if !(-1.0..=1.0).contains(&factor) => {
                refuse("polarization", format!("{factor}: expected a number from -1 to 1"))
            }
            (_, Some(offset)) => check_angle("polarization-offset", offset)
                .and_then(|()| self.validate_error_model()),
            _ => self.validate_error_model(),
        }
    }

    fn validate_bins(&self) -> Result<(), RecipeError> {
        let refuse = |key, why: String| Err(RecipeError::Setting { key, why });
        check_edges("radial-edges", self.radial_edges.as_deref(), 2)?;
        // A cake has at least two azimuthal bins; azimuth-range selects one.
        check_edges("azimuth-edges", self.azimuth_edges.as_deref(), 3)?;
        for &angle in self.azimuth_edges.iter().flatten() {
            check_angle("azimuth-edges", angle)?;
        }
        if let Some([first, .., last]) = self.azimuth_edges.as_deref()
            && last - first > 360.0
        {
            return refuse(
                "azimuth-edges",
                format!("{first} to {last}: expected at most a full circle, 360 degrees"),
            );
        }
        if !(1..=1 << 20).contains(&self.npt) {
            return refuse("npt", format!("{}: expected 1 to 1048576 bins", self.npt));
        }
        if !(1..=36_000).contains(&self.npt_azim) {
            return refuse("npt-azim", format!("{}: expected 1 to 36000 bins", self.npt_azim));
        }
        if self.npt * self.npt_azim > MAX_BINS {
            let why = format!(
                "{} x {} bins: expected at most {MAX_BINS} in all",
                self.npt, self.npt_azim
            );
            return refuse("npt-azim", why);
        }
        match self.keep_bits {
            Some(bits) if !KEPT_BITS.contains(&bits) => {
                let (least, most) = (KEPT_BITS.start(), KEPT_BITS.end());
                refuse("keep-bits", format!("{bits}: expected {least} to {most}"))
            }
            Some(_) if self.npt_azim == 1 => refuse(
                "keep-bits",
                "set without npt-azim; expected a cake, as patterns of one dimension are not compressed"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }

    /// Checks the orientation of the sample, which other units than those of the sample's frame do
    /// not depend on.
    fn validate_sample(&self) -> Result<(), RecipeError> {
        let refuse = |key, why: String| Err(RecipeError::Setting { key, why });
        let incident_angle = match self.incident_angle {
            Some(IncidentAngle::Degrees(degrees)) => Some(degrees),
            Some(IncidentAngle::Motor(_)) | None => None,
        };
        let angles = [("incident-angle", incident_angle), ("tilt-angle", self.tilt_angle)];
        for (key, angle) in angles {
            angle.map_or(Ok(()), |angle| check_angle(key, angle))?;
        }
        if let Err(why) = self.sample_frame() {
            return refuse("sample-orientation", why.to_string());
        }
        let is_set = [
            ("incident-angle", self.incident_angle.is_some()),
            ("tilt-angle", self.tilt_angle.is_some()),
            ("sample-orientation", self.sample_orientation.is_some()),
        ];
        match is_set.into_iter().find(|(_, is_set)| *is_set && !self.unit.depends_on_sample()) {
            Some((key, _)) => {
                let units = Unit::all().filter(|unit| unit.depends_on_sample()).map(Unit::name);
                let units = units.collect::<Vec<_>>().join(", ");
                let why = format!(
                    "set with unit {}, which does not depend on the sample; expected one of {units}",
                    self.unit
                );
                refuse(key, why)
            }
            None => Ok(()),
        }
    }

    fn validate_ranges(&self) -> Result<(), RecipeError> {
        let refuse = |key, why: String| Err(RecipeError::Setting { key, why });
        for (key, range) in
            [("radial-range", self.radial_range), ("azimuth-range", self.azimuth_range)]
        {
            if let Some([low, high]) = range
                && !(low.is_finite() && high.is_finite() && low < high)
            {
                return refuse(
                    key,
                    format!("{low},{high}: expected two finite numbers, the lower first"),
                );
            }
        }
        if let Some([low, high]) = self.azimuth_range
            && high - low > 360.0
        {
            return refuse(
                "azimuth-range",
                format!("{low},{high}: expected at most a full circle, 360 degrees"),
            );
        }
        for angle in self.azimuth_range.into_iter().flatten() {
            check_angle("azimuth-range", angle)?;
        }
        match (self.valid_min, self.valid_max) {
            (Some(low), _) if !low.is_finite() => {
                refuse("valid-min", format!("{low}: expected a finite number"))
            }
            (_, Some(high)) if !high.is_finite() => {
                refuse("valid-max", format!("{high}: expected a finite number"))
            }
            (_, Some(high)) if high < 0.0 => refuse(
                "valid-max",
                format!("{high}: expected at least 0; a negative limit masks every photon count"),
            ),
            (Some(low), Some(high)) if low > high => {
                refuse("valid-max", format!("{high}: expected at least valid-min, {low}"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that error model, error measure, error floor, clipping and median can be combined.
    fn validate_error_model(&self) -> Result<(), RecipeError> {
        let refuse = |key, why: &str| Err(RecipeError::Setting { key, why: why.to_owned() });
        let model = self.error_model;
        match (model.variance_source() == VarianceSource::Image, self.variance.is_some()) {
            (true, false) => {
                let why = format!(
                    "missing; error-model {model} needs an image of variances (--variance)"
                );
                return refuse("variance", &why);
            }
            (false, true) => {
                let with_image =
                    ErrorModel::list(|other| other.variance_source() == VarianceSource::Image);
                return refuse(
                    "variance",
                    &format!("set with another error-model; expected error-model {with_image}"),
                );
            }
            _ => (),
        }
        if !model.has_errors() && self.error == ErrorMeasure::Std {
            return refuse(
                "error",
                &format!("std with error-model {model}; expected another error-model"),
            );
        }
        if !model.has_errors()
            && self.median_error.is_some_and(|kind| kind != MedianError::default())
        {
            return refuse(
                "median-error",
                &format!("set with error-model {model}; expected another error-model"),
            );
        }
        if self.error_floor != ErrorFloor::Pixel && !model.is_counting_statistics() {
            let counting = ErrorModel::list(ErrorModel::is_counting_statistics);
            let why = format!(
                "set without counting statistics; expected error-model {counting}, or no error-floor"
            );
            return refuse("error-floor", &why);
        }
        let averages =
            [("sigma-clip", self.sigma_clip.is_some()), ("median", self.median.is_some())];
        if let Some((key, _)) =
            averages.into_iter().find(|(_, is_set)| *is_set && self.mean == Mean::Unweighted)
        {
            return refuse(key, "set together with mean unweighted; expected one of them");
        }
        if self.sigma_clip.is_some() && self.median.is_some() {
            return refuse("median", "set together with sigma-clip; expected one of them");
        }
        if self.sigma_clip.is_some() && !model.has_errors() {
            let why =
                format!("needs a standard deviation; expected another error-model than {model}");
            return refuse("sigma-clip", &why);
        }
        let is_from_spread = |model: ErrorModel| model.spread_use() == SpreadUse::ClippingAndResult;
        if self.median.is_some() && is_from_spread(model) {
            let others = ErrorModel::list(|other| !is_from_spread(other));
            return refuse(
                "median",
                &format!("has no {model} errors; expected error-model {others}"),
            );
        }
        Ok(())
    }
}

/// Checks that an angle is a number of degrees within [`MAX_DEGREES`].
fn check_angle(key: &'static str, degrees: f64) -> Result<(), RecipeError> {
    if degrees.abs() <= MAX_DEGREES {
        return Ok(());
    }
    let why = format!(
        "{}: expected a number of degrees, from -{MAX_DEGREES} to {MAX_DEGREES}",
        format_number(degrees)
    );
    Err(RecipeError::Setting { key, why })
}

/// Checks that there are at least `min_count` edges, all finite and rising.
fn check_edges(
    key: &'static str,
    edges: Option<&[f64]>,
    min_count: usize,
) -> Result<(), RecipeError> {
    let refuse = |why: String| Err(RecipeError::Setting { key, why });
    let Some(edges) = edges else { return Ok(()) };
    if edges.len() < min_count {
        return refuse(format!("{} given; expected at least {min_count} numbers", edges.len()));
    }
    if let Some(edge) = edges.iter().find(|edge| !edge.is_finite()) {
        return refuse(format!("{edge}: expected finite numbers"));
    }
    match edges.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => {
            refuse(format!("{} is followed by {}; expected rising numbers", pair[0], pair[1]))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{
        ErrorMeasure, ErrorModel, MonitorSetting, OneOrMany, Recipe, ReferenceSetting, Settings,
        Split,
    };

    fn settings(dir: &Path) -> Settings {
        std::fs::write(dir.join("m.npy"), "image").unwrap();
        Settings { geometry: Some("Distance: 1".into()), ..Settings::default() }
    }

    #[test]
    fn errors_about_values_say_what_was_expected() {
        let refuse = |change: fn(&mut Settings)| {
            let mut all = Settings { geometry: Some("Distance: 1".into()), ..Settings::default() };
            change(&mut all);
            Recipe::resolve(&all).unwrap_err().to_string()
        };
        assert!(refuse(|all| all.npt = Some(0)).starts_with("npt: 0: expected"));
        assert!(refuse(|all| all.radial_range = Some([2.0, 1.0])).contains("lower first"));
        assert!(refuse(|all| all.azimuth_range = Some([-200.0, 200.0])).contains("full circle"));
        assert!(
            refuse(|all| (all.npt, all.npt_azim) = (Some(1 << 20), Some(36_000)))
                .contains("at most 16777216")
        );
        assert!(refuse(|all| all.polarization = Some(2.0)).contains("-1 to 1"));
        let degrees = "expected a number of degrees, from -720 to 720";
        for (change, expected) in [
            (
                (|all| all.azimuth_range = Some([1000.0, 1010.0])) as fn(&mut Settings),
                "azimuth-range: 1000",
            ),
            (|all| all.tilt_angle = Some(1e308), "tilt-angle: 1e308"),
            (
                |all| (all.polarization, all.polarization_offset) = (Some(0.9), Some(-1e308)),
                "polarization-offset: -1e308",
            ),
        ] {
            assert_eq!(refuse(change), format!("{expected}: {degrees}"));
        }
        assert!(
            refuse(|all| all.radial_edges = Some(vec![1.0]))
                .starts_with("radial-edges: 1 given; expected at least 2")
        );
        assert!(
            refuse(|all| all.radial_edges = Some(vec![1.0, 3.0, 3.0]))
                .contains("3 is followed by 3; expected rising")
        );
        assert!(
            refuse(|all| all.radial_edges = Some(vec![1.0, f64::NAN]))
                .contains("expected finite numbers")
        );
        assert!(
            refuse(|all| all.azimuth_edges = Some(vec![0.0, 90.0])).contains("expected at least 3")
        );
        assert!(
            refuse(|all| all.azimuth_edges = Some(vec![0.0, 90.0, 361.0])).contains("full circle")
        );
        let both = refuse(|all| (all.radial_edges, all.npt) = (Some(vec![1.0, 2.0]), Some(1)));
        assert!(both.starts_with("npt: set together with radial-edges"), "{both}");
        let both = refuse(|all| {
            (all.azimuth_edges, all.azimuth_range) = (Some(vec![1.0, 2.0, 4.0]), Some([1.0, 4.0]))
        });
        assert!(both.starts_with("azimuth-range: set together with azimuth-edges"), "{both}");
        assert!(refuse(|all| all.geometry = None).contains("--poni"));
        assert!(refuse(|all| all.valid_max = Some(f64::NAN)).contains("expected a finite number"));
        assert!(
            refuse(|all| all.valid_max = Some(-1.0))
                .starts_with("valid-max: -1: expected at least 0")
        );
        assert!(
            refuse(|all| (all.valid_min, all.valid_max) = (Some(2.0), Some(1.0)))
                .contains("expected at least valid-min")
        );
        assert!(refuse(|all| all.polarization_offset = Some(1.0)).contains("without polarization"));
        assert!(
            refuse(|all| all.flat_mode = Some(crate::FlatMode::Multiply)).contains("without flat")
        );
        assert!(
            refuse(|all| all.monitor_reference = Some(OneOrMany::One(ReferenceSetting::Mean)))
                .contains("for 0 monitors")
        );
        assert!(
            refuse(|all| all.monitor = Some(OneOrMany::One(MonitorSetting::Number(0.0))))
                .contains("other than 0")
        );
    }

    #[test]
    fn averages_and_error_models_that_can_not_be_combined_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let resolve = |change: fn(&mut Settings)| {
            let mut all = settings(dir.path());
            change(&mut all);
            Recipe::resolve(&all).map_err(|error| error.to_string())
        };
        let clipped = resolve(|all| all.sigma_clip = "4".parse().ok()).unwrap();
        assert_eq!((clipped.split, clipped.error_model), (Split::No, ErrorModel::Poisson));
        assert_ne!(
            clipped.digest(),
            resolve(|all| all.sigma_clip = "4,4".parse().ok()).unwrap().digest()
        );
        let refuse = |change| resolve(change).unwrap_err();
        let both =
            refuse(|all| (all.sigma_clip, all.median) = ("4".parse().ok(), "50".parse().ok()));
        assert!(both.starts_with("median: set together with sigma-clip"), "{both}");
        let none = refuse(|all| {
            (all.sigma_clip, all.error_model) = ("4".parse().ok(), Some(ErrorModel::No))
        });
        assert!(none.starts_with("sigma-clip: needs"), "{none}");
        assert!(
            refuse(|all| all.error_model = Some(ErrorModel::Variance))
                .starts_with("variance: missing")
        );
        let spread = refuse(|all| {
            (all.median, all.error_model) = ("50".parse().ok(), Some(ErrorModel::Azimuthal))
        });
        assert!(spread.starts_with("median: has no azimuthal errors"), "{spread}");
        let none = refuse(|all| {
            (all.error, all.error_model) = (Some(ErrorMeasure::Std), Some(ErrorModel::No))
        });
        assert!(none.starts_with("error: std with error-model no"), "{none}");
        let none = refuse(|all| {
            all.median = "50".parse().ok();
            (all.median_error, all.error_model) =
                (Some(crate::MedianError::PyFai), Some(ErrorModel::No));
        });
        assert!(none.starts_with("median-error: set with error-model no"), "{none}");
    }

    #[test]
    fn a_variance_image_is_the_error_model_unless_another_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let with = |error_model| Settings {
            variance: Some(dir.path().join("m.npy").into()),
            error_model,
            ..settings(dir.path())
        };
        let recipe = Recipe::resolve(&with(None)).unwrap();
        assert_eq!(recipe.error_model, ErrorModel::Variance);
        assert_ne!(recipe.digest(), Recipe::resolve(&settings(dir.path())).unwrap().digest());
        let error = Recipe::resolve(&with(Some(ErrorModel::Poisson))).unwrap_err().to_string();
        assert!(error.starts_with("variance: set with another error-model"), "{error}");
    }
}
