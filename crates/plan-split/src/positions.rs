//! The geometry of each range of frames of a scan, as far as it follows from the positions of motors:
//! of those of a goniometer, and of the one whose position is the incident angle.

use std::borrow::Cow;

use recipe::{Goniometer, GoniometerFile, MAX_PONI_RANGES, PoniRange, Recipe};
use records::{Acquisition, RawPath, ScanState, Spans};

use crate::messages;
use crate::motor::MotorPositions;
use crate::unsuitable_scan::UnsuitableScan;

/// The last frame of a range that does not depend on the number of frames, so that a scan may go on.
const LAST_OF_ALL: u64 = i64::MAX as u64;

/// The motors of a scan, and what they move.
struct Motors<'a> {
    recipe: &'a Recipe,
    goniometer: Option<MovedDetector<'a>>,
    /// The motor of the incident angle, and its positions in degrees.
    incident_angle: Option<(&'a str, MotorPositions)>,
    /// The path of the PONI file of ranges that have the recipe's own.
    no_file: RawPath,
}

/// A goniometer and the positions of its motors.
struct MovedDetector<'a> {
    goniometer: &'a Goniometer,
    file: &'a GoniometerFile,
    positions: Vec<MotorPositions>,
}

/// The positions of detector and sample in a frame.
struct Placement<'a> {
    /// PONI text; empty if it is the recipe's own.
    poni: Cow<'a, str>,
    poni_file: &'a RawPath,
    /// Incident angle in degrees, if it is that of a motor.
    incident_angle: Option<f64>,
}

/// Returns the geometry of each range of frames of a scan. Frames of which a motor has no value, or
/// for which the goniometer or the table of PONI files has no geometry, are in no range.
/// `goniometer` is that of the recipe. `warn` is called if frames have no incident angle.
///
/// # Errors
/// The scan lacks a motor, or is being recorded while motors move; a motor can't be read, or no
/// incident angle is in it.
pub fn find_geometries(
    scan: &Acquisition,
    recipe: &Recipe,
    goniometer: Option<&Goniometer>,
    warn: impl Fn(&str),
) -> Result<Vec<PoniRange>, UnsuitableScan> {
    let motors = Motors::read(scan, recipe, goniometer)?;
    let spans: Vec<[u64; 2]> = match recipe.poni_table.is_empty() {
        true => vec![[0, LAST_OF_ALL]],
        false => recipe.poni_table.iter().map(|range| [range.first, range.last]).collect(),
    };
    if motors.all_stay() {
        return spans.into_iter().map(|[first, last]| motors.constant_range(first, last)).collect();
    }
    if scan.scan_state() == ScanState::Running {
        return Err(UnsuitableScan {
            why: format!(
                "motors move ({}) and the scan is being recorded; run plan-split again when it has ended",
                motors.names()
            ),
            retryable: true,
        });
    }
    let mut ranges: Vec<PoniRange> = Vec::new();
    for [first, last] in spans {
        for frame in first..scan.frames.min(last.saturating_add(1)) {
            let Some(placement) = motors.placement_at(frame) else { continue };
            match ranges.last_mut() {
                Some(last) if last.last + 1 == frame && placement.is_that_of(last) => {
                    last.last = frame;
                }
                _ => ranges.push(placement.into_range(frame, frame)),
            }
            if ranges.len() > MAX_PONI_RANGES {
                return Err(format!(
                    "the geometry changes more than {MAX_PONI_RANGES} times; expected fewer ranges of frames with one \
                     geometry"
                )
                .into());
            }
        }
    }
    if ranges.is_empty() {
        return Err(motors.describe_no_geometry().into());
    }
    if let Some((motor, angles)) = &motors.incident_angle {
        let lacking: Spans =
            (0..scan.frames).filter(|&frame| !angles.at(frame).is_finite()).collect();
        if !lacking.is_empty() {
            warn(&messages::frames_without_angle(&scan.entry, motor, &lacking));
        }
    }
    Ok(ranges)
}

impl<'a> Motors<'a> {
    fn read(
        scan: &Acquisition,
        recipe: &'a Recipe,
        goniometer: Option<&'a Goniometer>,
    ) -> Result<Self, UnsuitableScan> {
        let goniometer = match goniometer.zip(recipe.goniometer.as_ref()) {
            Some((goniometer, file)) => {
                let read = |motor: &String| MotorPositions::read(scan, motor);
                let positions = file.motors.iter().map(read).collect::<Result<_, _>>()?;
                Some(MovedDetector { goniometer, file, positions })
            }
            None => None,
        };
        let incident_angle = match recipe.incident_angle_motor() {
            Some(motor) => Some((motor, MotorPositions::read_incident_angles(scan, motor)?)),
            None => None,
        };
        Ok(Self { recipe, goniometer, incident_angle, no_file: RawPath::default() })
    }

    fn all_stay(&self) -> bool {
        let of_detector = self.goniometer.iter().flat_map(|moved| &moved.positions);
        let of_sample = self.incident_angle.iter().map(|(_, angles)| angles);
        of_detector.chain(of_sample).all(MotorPositions::is_constant)
    }

    /// Returns the names of all motors, separated by commas.
    fn names(&self) -> String {
        let of_detector = self.goniometer.iter().flat_map(|moved| &moved.file.motors);
        let of_sample = self.incident_angle.iter().map(|(motor, _)| *motor);
        of_detector.map(String::as_str).chain(of_sample).collect::<Vec<_>>().join(", ")
    }

    /// Returns a range of frames, if no motor moves.
    fn constant_range(&self, first: u64, last: u64) -> Result<PoniRange, UnsuitableScan> {
        let placement = self.placement_at(first);
        Ok(placement.ok_or_else(|| self.describe_no_geometry())?.into_range(first, last))
    }

    fn placement_at(&self, frame: u64) -> Option<Placement<'_>> {
        let incident_angle = match &self.incident_angle {
            // A zero has no sign, so that equal geometries have equal digests.
            Some((_, angles)) => Some(angles.at(frame) + 0.0).filter(|angle| angle.is_finite()),
            None => None,
        };
        if incident_angle.is_none() && self.incident_angle.is_some() {
            return None;
        }
        let (poni, poni_file) = match &self.goniometer {
            Some(moved) => (moved.poni_at(&self.recipe.poni, frame)?.into(), &moved.file.path),
            None if self.recipe.poni_table.is_empty() => ("".into(), &self.no_file),
            None => {
                let table = &self.recipe.poni_table;
                let after = table.partition_point(|range| range.first <= frame);
                let range = table.get(after.checked_sub(1)?).filter(|range| frame <= range.last)?;
                (range.poni.as_str().into(), &range.poni_file)
            }
        };
        Some(Placement { poni, poni_file, incident_angle })
    }

    /// Says why no frame of the scan has a geometry.
    fn describe_no_geometry(&self) -> String {
        match (&self.goniometer, &self.incident_angle) {
            (Some(moved), None) if self.all_stay() => format!(
                "the goniometer has no geometry at {}; expected numbers and a positive distance",
                moved.describe_positions()
            ),
            (Some(moved), None) => format!(
                "the goniometer has no geometry for any frame: {} has no values, or the geometry no positive distance",
                moved.file.motors.join(", ")
            ),
            _ => format!(
                "no frame has a geometry: expected frames with a position of {} and a geometry of the detector",
                self.names()
            ),
        }
    }
}

impl MovedDetector<'_> {
    fn poni_at(&self, reference: &str, frame: u64) -> Option<String> {
        let positions: Vec<f64> = self.positions.iter().map(|motor| motor.at(frame)).collect();
        self.goniometer.poni_at(reference, &positions)
    }

    /// Describes the positions of motors that stay.
    fn describe_positions(&self) -> String {
        let pairs = self.file.motors.iter().zip(&self.positions);
        let pairs = pairs.map(|(motor, positions)| format!("{motor} = {}", positions.at(0)));
        pairs.collect::<Vec<_>>().join(", ")
    }
}

impl Placement<'_> {
    fn is_that_of(&self, range: &PoniRange) -> bool {
        self.poni == range.poni
            && *self.poni_file == range.poni_file
            && self.incident_angle == range.incident_angle
    }

    fn into_range(self, first: u64, last: u64) -> PoniRange {
        let Self { poni, poni_file, incident_angle } = self;
        PoniRange { first, last, poni: poni.into(), poni_file: poni_file.clone(), incident_angle }
    }
}
