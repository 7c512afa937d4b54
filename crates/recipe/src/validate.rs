//! What a recipe's values must keep to.

use crate::{ErrorFloor, ErrorMeasure, ErrorModel, Recipe, RecipeError};

/// Patterns of more bins than a large detector has pixels take memory and show nothing.
const MAX_BINS: u64 = 1 << 24;

impl Recipe {
    /// Whether the values are ones that can be worked by.
    pub(crate) fn validate(&self) -> Result<(), RecipeError> {
        self.validate_bins()?;
        self.validate_ranges()?;
        let wrong = |key, why: String| Err(RecipeError::Setting { key, why });
        match (self.polarization, self.polarization_offset) {
            (Some(factor), _) if !(-1.0..=1.0).contains(&factor) => {
                wrong("polarization", format!("{factor}: expected -1 to 1"))
            }
            (_, Some(offset)) if !offset.is_finite() => {
                wrong("polarization-offset", format!("{offset}: expected degrees"))
            }
            _ => self.validate_error_model(),
        }
    }

    fn validate_bins(&self) -> Result<(), RecipeError> {
        let wrong = |key, why: String| Err(RecipeError::Setting { key, why });
        check_edges("radial-edges", self.radial_edges.as_deref(), 2)?;
        // One bin is a range.
        check_edges("azimuth-edges", self.azimuth_edges.as_deref(), 3)?;
        if let Some([first, .., last]) = self.azimuth_edges.as_deref()
            && last - first > 360.0
        {
            return wrong("azimuth-edges", format!("{first} to {last}: expected at most a full circle, 360 degrees"));
        }
        if !(1..=1 << 20).contains(&self.npt) {
            return wrong("npt", format!("{}: expected 1 to 1048576 bins", self.npt));
        }
        if !(1..=36_000).contains(&self.npt_azim) {
            return wrong("npt-azim", format!("{}: expected 1 to 36000 bins", self.npt_azim));
        }
        if self.npt * self.npt_azim > MAX_BINS {
            let why = format!("{} x {} bins: expected {MAX_BINS} at the most", self.npt, self.npt_azim);
            return wrong("npt-azim", why);
        }
        Ok(())
    }

    fn validate_ranges(&self) -> Result<(), RecipeError> {
        let wrong = |key, why: String| Err(RecipeError::Setting { key, why });
        for (key, range) in [("radial-range", self.radial_range), ("azimuth-range", self.azimuth_range)] {
            if let Some([low, high]) = range
                && !(low.is_finite() && high.is_finite() && low < high)
            {
                return wrong(key, format!("{low},{high}: expected two numbers, the lower first"));
            }
        }
        if let Some([low, high]) = self.azimuth_range
            && high - low > 360.0
        {
            return wrong("azimuth-range", format!("{low},{high}: expected at most a full circle, 360 degrees"));
        }
        match (self.valid_min, self.valid_max) {
            (Some(low), _) if !low.is_finite() => wrong("valid-min", format!("{low}: expected a number")),
            (_, Some(high)) if !high.is_finite() => wrong("valid-max", format!("{high}: expected a number")),
            (_, Some(high)) if high < 0.0 => {
                wrong("valid-max", format!("{high}: expected no less than 0; below it no pixel counts anything"))
            }
            (Some(low), Some(high)) if low > high => {
                wrong("valid-max", format!("{high}: expected no less than valid-min, {low}"))
            }
            _ => Ok(()),
        }
    }

    /// Which ways of averaging and error models go together.
    fn validate_error_model(&self) -> Result<(), RecipeError> {
        let wrong = |key, why: &str| Err(RecipeError::Setting { key, why: why.to_owned() });
        match (self.error_model, &self.variance) {
            (ErrorModel::Variance, None) => return wrong("variance", "missing; error-model variance needs the image"),
            (ErrorModel::Variance, Some(_)) | (_, None) => (),
            (_, Some(_)) => return wrong("variance", "an image beside another error-model; expected variance"),
        }
        if self.error_model == ErrorModel::No && self.error == ErrorMeasure::Std {
            return wrong("error", "std without errors; expected an error-model besides no");
        }
        if self.error_floor != ErrorFloor::Pixel && !self.error_model.is_counting_statistics() {
            return wrong(
                "error-floor",
                "set beside errors that are not of counts; expected error-model poisson or hybrid",
            );
        }
        if self.sigma_clip.is_some() && self.median.is_some() {
            return wrong("median", "set beside sigma-clip; expected one of them");
        }
        if self.sigma_clip.is_some() && self.error_model == ErrorModel::No {
            return wrong("sigma-clip", "needs a standard deviation; expected an error-model besides no");
        }
        if self.median.is_some() && self.error_model == ErrorModel::Azimuthal {
            return wrong("median", "has no azimuthal errors; expected error-model no, poisson, hybrid or variance");
        }
        Ok(())
    }
}

/// Edges rise, and there are some.
fn check_edges(key: &'static str, edges: Option<&[f64]>, fewest: usize) -> Result<(), RecipeError> {
    let wrong = |why: String| Err(RecipeError::Setting { key, why });
    let Some(edges) = edges else { return Ok(()) };
    if edges.len() < fewest {
        return wrong(format!("{} numbers: expected {fewest} or more", edges.len()));
    }
    if let Some(edge) = edges.iter().find(|edge| !edge.is_finite()) {
        return wrong(format!("{edge}: expected a number"));
    }
    match edges.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => wrong(format!("{} before {}: expected numbers that rise", pair[0], pair[1])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{ErrorMeasure, ErrorModel, MonitorSetting, OneOrMany, Recipe, ReferenceSetting, Settings, Split};

    fn settings(dir: &Path) -> Settings {
        std::fs::write(dir.join("m.npy"), "image").unwrap();
        Settings { geometry: Some("Distance: 1".into()), ..Settings::default() }
    }

    #[test]
    fn values_out_of_bounds_say_what_was_expected() {
        let refuse = |change: fn(&mut Settings)| {
            let mut all = Settings { geometry: Some("Distance: 1".into()), ..Settings::default() };
            change(&mut all);
            Recipe::resolve(&all).unwrap_err().to_string()
        };
        assert!(refuse(|all| all.npt = Some(0)).starts_with("npt: 0: expected"));
        assert!(refuse(|all| all.radial_range = Some([2.0, 1.0])).contains("lower first"));
        assert!(refuse(|all| all.azimuth_range = Some([-200.0, 200.0])).contains("full circle"));
        assert!(refuse(|all| (all.npt, all.npt_azim) = (Some(1 << 20), Some(36_000))).contains("16777216 at the most"));
        assert!(refuse(|all| all.polarization = Some(2.0)).contains("-1 to 1"));
        assert!(refuse(|all| all.radial_edges = Some(vec![1.0])).starts_with("radial-edges: 1 numbers: expected 2"));
        assert!(
            refuse(|all| all.radial_edges = Some(vec![1.0, 3.0, 3.0])).contains("3 before 3: expected numbers that")
        );
        assert!(refuse(|all| all.radial_edges = Some(vec![1.0, f64::NAN])).contains("expected a number"));
        assert!(refuse(|all| all.azimuth_edges = Some(vec![0.0, 90.0])).contains("expected 3 or more"));
        assert!(refuse(|all| all.azimuth_edges = Some(vec![0.0, 90.0, 361.0])).contains("full circle"));
        let both = refuse(|all| (all.radial_edges, all.npt) = (Some(vec![1.0, 2.0]), Some(1)));
        assert!(both.starts_with("npt: set beside radial-edges"), "{both}");
        let both = refuse(|all| (all.azimuth_edges, all.azimuth_range) = (Some(vec![1.0, 2.0, 4.0]), Some([1.0, 4.0])));
        assert!(both.starts_with("azimuth-range: set beside azimuth-edges"), "{both}");
        assert!(refuse(|all| all.geometry = None).contains("--poni"));
        assert!(refuse(|all| all.valid_max = Some(f64::NAN)).contains("expected a number"));
        assert!(refuse(|all| all.valid_max = Some(-1.0)).starts_with("valid-max: -1: expected no less than 0"));
        assert!(
            refuse(|all| (all.valid_min, all.valid_max) = (Some(2.0), Some(1.0))).contains("no less than valid-min")
        );
        assert!(refuse(|all| all.polarization_offset = Some(1.0)).contains("without a polarization factor"));
        assert!(refuse(|all| all.flat_mode = Some(crate::FlatMode::Multiply)).contains("without a flat field"));
        assert!(
            refuse(|all| all.monitor_reference = Some(OneOrMany::One(ReferenceSetting::Mean))).contains("0 monitors")
        );
        assert!(refuse(|all| all.monitor = Some(OneOrMany::One(MonitorSetting::Number(0.0)))).contains("other than 0"));
    }

    #[test]
    fn averages_and_error_models_go_together_or_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let resolve = |change: fn(&mut Settings)| {
            let mut all = settings(dir.path());
            change(&mut all);
            Recipe::resolve(&all).map_err(|error| error.to_string())
        };
        let clipped = resolve(|all| all.sigma_clip = "4".parse().ok()).unwrap();
        assert_eq!((clipped.split, clipped.error_model), (Split::No, ErrorModel::Poisson));
        assert_ne!(clipped.digest(), resolve(|all| all.sigma_clip = "4,4".parse().ok()).unwrap().digest());
        let refuse = |change| resolve(change).unwrap_err();
        let both = refuse(|all| (all.sigma_clip, all.median) = ("4".parse().ok(), "50".parse().ok()));
        assert!(both.starts_with("median: set beside sigma-clip"), "{both}");
        let none = refuse(|all| (all.sigma_clip, all.error_model) = ("4".parse().ok(), Some(ErrorModel::No)));
        assert!(none.starts_with("sigma-clip: needs"), "{none}");
        assert!(refuse(|all| all.error_model = Some(ErrorModel::Variance)).starts_with("variance: missing"));
        let spread = refuse(|all| (all.median, all.error_model) = ("50".parse().ok(), Some(ErrorModel::Azimuthal)));
        assert!(spread.starts_with("median: has no azimuthal errors"), "{spread}");
        let bare = refuse(|all| (all.error, all.error_model) = (Some(ErrorMeasure::Std), Some(ErrorModel::No)));
        assert!(bare.starts_with("error: std without errors"), "{bare}");
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
        assert!(error.starts_with("variance: an image beside"), "{error}");
    }
}
