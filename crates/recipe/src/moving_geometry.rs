//! Validation of a recipe whose geometry differs between frames.

use crate::poni_table::find_overlap;
use crate::{Mean, Recipe, RecipeError};

impl Recipe {
    /// Checks that the settings can be applied to frames of several geometries: their patterns have
    /// one axis, and are sums over pixels. Those of a detector that moves have one dimension.
    ///
    /// # Errors
    /// A setting that needs one geometry, or ranges of frames without sense.
    pub(crate) fn validate_moving_geometry(&self) -> Result<(), RecipeError> {
        if !self.has_moving_geometry() {
            return Ok(());
        }
        let refuse = |key, why: &str| Err(RecipeError::Setting { key, why: why.to_owned() });
        let key = match (&self.goniometer, self.has_moving_detector()) {
            (Some(_), _) => "goniometer",
            (None, true) => "poni-table",
            (None, false) => "incident-angle",
        };
        if find_overlap(&self.poni_table).is_some() {
            return refuse("poni-table", "two ranges overlap; expected each frame at most once");
        }
        let angles = self.poni_table.iter().filter_map(|range| range.incident_angle);
        let of_motor =
            if self.incident_angle_motor().is_some() { self.poni_table.len() } else { 0 };
        // plan-split adds the angles of all ranges once it knows the scan.
        if ![0, of_motor].contains(&angles.clone().count())
            || !angles.into_iter().all(f64::is_finite)
        {
            let why = "expected a finite angle for each range of frames if it is a motor's, and none otherwise";
            return refuse("incident-angle", why);
        }
        if self.radial_range.is_none() && self.radial_edges.is_none() {
            let why = "set without radial-range; expected the range of all positions (--radial-range LOW,HIGH), \
                       because their patterns have one axis";
            return refuse(key, why);
        }
        if self.npt_azim > 1 && self.has_moving_detector() {
            return refuse(key, "set together with npt-azim; expected patterns of one dimension");
        }
        for (other, is_set) in [
            ("sigma-clip", self.sigma_clip.is_some()),
            ("median", self.median.is_some()),
            ("mean unweighted", self.mean == Mean::Unweighted),
        ] {
            if is_set {
                let expected = match key {
                    "incident-angle" => {
                        "an angle in degrees, which all frames have, instead of a motor, or no "
                    }
                    _ => "means of sums over all pixels of a bin, without ",
                };
                let why = format!("set together with {other}; expected {expected}{other}");
                return refuse(key, &why);
            }
        }
        Ok(())
    }
}
