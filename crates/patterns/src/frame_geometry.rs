//! [`FrameGeometries`]: the geometry of each frame of a scan whose detector or sample moves.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use geometry::{Poni, PoniError};
use recipe::Recipe;
use records::RawPath;

/// The geometry of some frames: a PONI text, by which it is compared with others, and the incident
/// angle.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameGeometry {
    /// PONI text.
    pub poni: Arc<str>,
    /// Path of the PONI file for messages; empty if the geometry was computed.
    pub poni_file: RawPath,
    /// Incident angle of the sample in degrees, if it is that of a motor.
    pub incident_angle: Option<f64>,
}

/// The geometry of each frame of a scan.
#[derive(Debug)]
pub struct FrameGeometries {
    ranges: Vec<(u64, u64, FrameGeometry)>,
    /// Number of different geometries.
    positions: usize,
    /// Distance in metres to which the solid angle of all frames refers; `None` without the
    /// correction of the solid angle.
    reference: Option<f64>,
}

impl FrameGeometries {
    /// Returns the geometries of a recipe; `None` if all frames have one.
    ///
    /// # Errors
    /// The PONI text to which the solid angle refers is invalid.
    pub fn new(recipe: &Recipe) -> Result<Option<Self>, PoniError> {
        if !recipe.has_moving_geometry() {
            return Ok(None);
        }
        let mut ranges: Vec<(u64, u64, FrameGeometry)> =
            Vec::with_capacity(recipe.poni_table.len());
        let mut texts: HashMap<&str, Arc<str>> = HashMap::new();
        let mut positions = HashSet::new();
        // A range without the angle of the motor has no geometry.
        let needs_angle = recipe.incident_angle_motor().is_some();
        let ranges_with_geometry =
            recipe.poni_table.iter().filter(|range| range.incident_angle.is_some() || !needs_angle);
        for range in ranges_with_geometry {
            let (text, poni_file) = recipe.poni_of(range);
            let poni = Arc::clone(texts.entry(text).or_insert_with(|| text.into()));
            let incident_angle = range.incident_angle;
            positions.insert((text, incident_angle.map(f64::to_bits)));
            let geometry = FrameGeometry { poni, poni_file: poni_file.clone(), incident_angle };
            ranges.push((range.first, range.last, geometry));
        }
        let reference = match recipe.solid_angle {
            true => Some(Poni::parse(&recipe.poni)?.dist),
            false => None,
        };
        Ok(Some(Self { ranges, positions: positions.len(), reference }))
    }

    /// Returns the geometry of a frame; `None` if it has none.
    pub fn geometry(&self, frame: u64) -> Option<&FrameGeometry> {
        let after = self.ranges.partition_point(|(first, _, _)| *first <= frame);
        let (_, last, geometry) = self.ranges.get(after.checked_sub(1)?)?;
        (frame <= *last).then_some(geometry)
    }

    /// Returns the number of different geometries.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Returns the factor of the weights of frames with this geometry: the solid angle of a pixel
    /// at normal incidence relative to that at the distance of the reference, so that frames at
    /// several distances have one scale. It is 1 without the correction of the solid angle.
    ///
    /// # Errors
    /// The PONI text of the geometry is invalid.
    pub fn relative_solid_angle(&self, geometry: &FrameGeometry) -> Result<f64, PoniError> {
        let Some(reference) = self.reference else { return Ok(1.0) };
        Ok((reference / Poni::parse(&geometry.poni)?.dist).powi(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipe::{IncidentAngle, PoniRange, Settings};

    #[test]
    fn each_range_has_its_geometry_and_gaps_have_none() {
        let dir = tempfile::tempdir().unwrap();
        for (name, distance) in [("near", 1.0), ("far", 2.0)] {
            let text = format!("Distance: {distance}\nPoni1: 0\nPoni2: 0\n");
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let table = dir.path().join("table");
        std::fs::write(&table, "2,4 near\n5 far\n8,9 near\n").unwrap();
        let settings = Settings {
            poni_table: Some(table.into()),
            radial_range: Some([1.0, 2.0]),
            ..Settings::default()
        };
        let recipe = Recipe::resolve(&settings).unwrap();
        let geometries = FrameGeometries::new(&recipe).unwrap().unwrap();
        let solid_angle = |frame| {
            let found = geometries.geometry(frame)?;
            Some(geometries.relative_solid_angle(found).unwrap())
        };
        let found = [0, 1, 2, 4, 5, 6, 7, 8, 9, 10].map(solid_angle);
        let (near, far) = (Some(1.0), Some(0.25));
        assert_eq!(found, [None, None, near, near, far, None, None, near, near, None]);
        assert_eq!(geometries.geometry(2), geometries.geometry(9));
        assert_eq!(geometries.positions(), 2);
        let uncorrected = Settings { solid_angle: Some(false), ..settings };
        let uncorrected = Recipe::resolve(&uncorrected).unwrap();
        let geometries = FrameGeometries::new(&uncorrected).unwrap().unwrap();
        assert_eq!(geometries.relative_solid_angle(geometries.geometry(5).unwrap()).unwrap(), 1.0);
        let fixed = Settings { geometry: Some("Distance: 1".into()), ..Settings::default() };
        assert!(FrameGeometries::new(&Recipe::resolve(&fixed).unwrap()).unwrap().is_none());
    }

    #[test]
    fn angles_of_a_motor_are_positions_of_one_detector() {
        let settings = Settings {
            geometry: Some("Distance: 1\nPoni1: 0\nPoni2: 0\n".to_owned()),
            incident_angle: Some(IncidentAngle::Motor("th".to_owned())),
            unit: "qip_nm^-1".parse().ok(),
            radial_range: Some([1.0, 2.0]),
            ..Settings::default()
        };
        let range = |first: u64, incident_angle| PoniRange {
            first,
            last: first,
            poni: String::new(),
            poni_file: RawPath::default(),
            incident_angle,
        };
        let all = [(0, Some(0.1)), (1, Some(0.2)), (3, Some(0.1)), (4, None)];
        let base = Recipe::resolve(&settings).unwrap();
        let recipe = base.with_geometries(all.map(|(first, angle)| range(first, angle)).to_vec());
        let geometries = FrameGeometries::new(&recipe).unwrap().unwrap();
        let angle = |frame| geometries.geometry(frame).map(|found| found.incident_angle.unwrap());
        assert_eq!([0, 1, 2, 3, 4].map(angle), [Some(0.1), Some(0.2), None, Some(0.1), None]);
        assert_eq!(geometries.positions(), 2);
        assert_eq!(geometries.geometry(0), geometries.geometry(3));
        assert_ne!(geometries.geometry(0), geometries.geometry(1));
        let found = geometries.geometry(1).unwrap();
        assert_eq!(*found.poni, recipe.poni);
        assert_eq!(geometries.relative_solid_angle(found).unwrap(), 1.0);
        // Without a scan, the angle of no frame is known.
        let geometries = FrameGeometries::new(&base).unwrap().unwrap();
        assert!(geometries.geometry(0).is_none());
    }

    #[test]
    fn a_geometry_that_is_none_has_no_solid_angle() {
        let geometry = Some("Distance: 1\nPoni1: 0\nPoni2: 0\n".to_owned());
        let settings = Settings { geometry, ..Settings::default() };
        let range = |poni: &str| PoniRange {
            first: 0,
            last: 0,
            poni: poni.to_owned(),
            poni_file: RawPath::default(),
            incident_angle: None,
        };
        let fixed = Recipe::resolve(&settings).unwrap();
        let recipe = fixed.with_geometries(vec![range("nothing")]);
        let geometries = FrameGeometries::new(&recipe).unwrap().unwrap();
        let of_frame = geometries.relative_solid_angle(geometries.geometry(0).unwrap());
        assert!(matches!(of_frame, Err(PoniError::NotPoni)), "{of_frame:?}");
        let recipe = Recipe { poni: "nothing".to_owned(), ..recipe };
        let found = FrameGeometries::new(&recipe);
        assert!(matches!(found, Err(PoniError::NotPoni)), "{found:?}");
    }
}
