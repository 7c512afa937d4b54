//! Positions of a scan's motors: counters with a value per frame, or positioners that stay.

use frames::hdf5_array::{
    Hdf5ArrayError, list_group, read_array, read_text_attribute, read_written_numbers,
};
use recipe::closest_name;
use records::{Acquisition, ScanState};

use crate::unsuitable_scan::UnsuitableScan;

/// How far a motor that stands still may be at the end of a scan from where it was at its start, in
/// units of the motor; in degrees if it turns the sample.
const MAX_DRIFT: f64 = 1e-3;

/// The names of units of angles, and their size in degrees. Bliss takes the names from the motor's
/// configuration.
const ANGLE_UNITS: [(&[&str], f64); 3] = [
    (&["deg", "degree", "degrees", "\u{b0}"], 1.0),
    (&["rad", "radian", "radians"], DEGREES_PER_RADIAN),
    (&["mrad", "milliradian", "milliradians"], DEGREES_PER_RADIAN / 1e3),
];

const DEGREES_PER_RADIAN: f64 = 180.0 / std::f64::consts::PI;

/// The positions of a motor.
#[derive(Clone, Debug, PartialEq)]
pub enum MotorPositions {
    /// One position in all frames.
    Constant(f64),
    /// One position per frame; there may be fewer positions than frames.
    PerFrame(Vec<f64>),
}

/// The use of a motor's positions, on which the hints of messages depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MotorUse {
    /// The geometry, by a goniometer.
    Goniometer,
    /// The incident angle of the sample.
    IncidentAngle,
}

impl MotorUse {
    /// Says how a motor with another name is given.
    fn hint_of_name(self) -> &'static str {
        match self {
            Self::Goniometer => "Pass --motor POSITION=MOTOR if it has another name",
            Self::IncidentAngle => {
                "--incident-angle takes the name of one of them, or a number of degrees"
            }
        }
    }

    /// Says what to do where the scan has no position for each frame.
    fn hint_of_positions(self) -> &'static str {
        match self {
            Self::Goniometer => "Pass --poni-table with the frames of each position",
            Self::IncidentAngle => {
                "Pass --incident-angle DEGREES if the angle is the same in all frames"
            }
        }
    }
}

/// A dataset with the positions of a motor.
struct MotorDataset {
    path: String,
    is_positioner: bool,
}

impl MotorPositions {
    /// Reads the positions of a motor of the goniometer: those of the counter with its name, else of
    /// the positioner.
    ///
    /// # Errors
    /// The scan lacks the motor or has no position for each frame; the motor can't be read.
    pub fn read(scan: &Acquisition, motor: &str) -> Result<Self, UnsuitableScan> {
        let motor_use = MotorUse::Goniometer;
        let dataset = find_motor(scan, motor, motor_use)?;
        read_positions(scan, motor, &dataset, motor_use, MAX_DRIFT)
    }

    /// Reads the positions of a motor that turns the sample, in degrees. Without a unit they are
    /// degrees.
    ///
    /// # Errors
    /// As [`read`](Self::read); a unit that is none of an angle; no finite position at all.
    pub fn read_incident_angles(scan: &Acquisition, motor: &str) -> Result<Self, UnsuitableScan> {
        let motor_use = MotorUse::IncidentAngle;
        let dataset = find_motor(scan, motor, motor_use)?;
        let path = &dataset.path;
        let unit = read_text_attribute(&scan.file, path, "units")
            .map_err(|why| unreadable_motor(motor, &why))?;
        let size = degrees_per_unit(unit.as_deref().unwrap_or_default()).ok_or_else(|| {
            format!(
                "motor {motor}: {path} has the unit {:?}; expected an angle in deg, rad or mrad",
                unit.unwrap_or_default()
            )
        })?;
        let angles = match read_positions(scan, motor, &dataset, motor_use, MAX_DRIFT / size)? {
            Self::Constant(position) => Self::Constant(position * size),
            Self::PerFrame(positions) => {
                Self::PerFrame(positions.into_iter().map(|position| position * size).collect())
            }
        };
        let values = match &angles {
            Self::Constant(angle) => std::slice::from_ref(angle),
            Self::PerFrame(angles) => angles,
        };
        // The list of a running scan is not used, and may be empty.
        let is_used = angles.is_constant() || scan.scan_state() != ScanState::Running;
        if !is_used || values.iter().any(|angle| angle.is_finite()) {
            return Ok(angles);
        }
        let found = match values.first() {
            Some(angle) => angle.to_string(),
            None => "no value".to_owned(),
        };
        Err(format!(
            "motor {motor}: {found} in {path}; expected a finite incident angle. {}",
            motor_use.hint_of_positions()
        )
        .into())
    }

    /// Returns the position in a frame; NaN if there is none.
    pub fn at(&self, frame: u64) -> f64 {
        match self {
            Self::Constant(position) => *position,
            Self::PerFrame(positions) => usize::try_from(frame)
                .ok()
                .and_then(|frame| positions.get(frame))
                .copied()
                .unwrap_or(f64::NAN),
        }
    }

    /// Returns whether all frames have one position.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }
}

/// Returns the size of a unit in degrees; `None` if it is none of an angle.
fn degrees_per_unit(unit: &str) -> Option<f64> {
    let unit = unit.trim().to_lowercase();
    if unit.is_empty() {
        return Some(1.0);
    }
    let known = ANGLE_UNITS.iter().find(|(names, _)| names.contains(&unit.as_str()));
    known.map(|(_, degrees)| *degrees)
}

/// Finds the dataset with the positions of a motor.
fn find_motor(
    scan: &Acquisition,
    motor: &str,
    motor_use: MotorUse,
) -> Result<MotorDataset, UnsuitableScan> {
    if let Some(path) = scan.counters.get(motor) {
        return Ok(MotorDataset { path: path.clone(), is_positioner: false });
    }
    let group = format!("/{}/instrument/positioners", scan.entry);
    let names = list_group(&scan.file, &group).map_err(|why| unreadable_motor(motor, &why))?;
    if names.iter().any(|name| name == motor) {
        return Ok(MotorDataset { path: format!("{group}/{motor}"), is_positioner: true });
    }
    let mut known: Vec<&str> =
        scan.counters.keys().map(String::as_str).chain(names.iter().map(String::as_str)).collect();
    known.sort_unstable();
    known.dedup();
    let hint = match closest_name(motor, known.iter().copied()) {
        Some(nearest) => format!("; perhaps `{nearest}`"),
        None => String::new(),
    };
    Err(format!(
        "no motor `{motor}` among the counters and positioners of the scan{hint}. There are: {}. {}",
        known.join(", "),
        motor_use.hint_of_name()
    )
    .into())
}

/// Reads the positions of a motor from a dataset: of one number for the whole scan, or a list with a
/// number for each frame. `max_drift` is that of a motor that stands still, in its unit.
fn read_positions(
    scan: &Acquisition,
    motor: &str,
    dataset: &MotorDataset,
    motor_use: MotorUse,
    max_drift: f64,
) -> Result<MotorPositions, UnsuitableScan> {
    let MotorDataset { path: dataset, is_positioner } = dataset;
    let unreadable = |why| unreadable_motor(motor, &why);
    let shape = read_array(&scan.file, dataset).map_err(unreadable)?.shape;
    let values = read_written_numbers(&scan.file, dataset).map_err(unreadable)?;
    match (&shape[..], &values[..]) {
        ([], [position]) => {
            if *is_positioner {
                check_stands_still(scan, motor, motor_use, max_drift)?;
            }
            Ok(MotorPositions::Constant(*position))
        }
        // An aborted scan may have frames without a position, or positions without a frame. The list of a
        // running scan is not used.
        ([count], _)
            if *count == scan.frames
                || matches!(scan.scan_state(), ScanState::Aborted | ScanState::Running) =>
        {
            Ok(MotorPositions::PerFrame(values))
        }
        ([count], _) => Err(format!(
            "motor {motor}: {count} positions in {dataset} for {} frames; expected one for each frame. {}",
            scan.frames,
            motor_use.hint_of_positions()
        )
        .into()),
        _ => Err(format!(
            "motor {motor}: {dataset} has {} dimensions; expected one number, or a list with one for each frame",
            shape.len()
        )
        .into()),
    }
}

/// Checks that a motor with one position for the whole scan was there before and after it, so far as
/// the scan says.
fn check_stands_still(
    scan: &Acquisition,
    motor: &str,
    motor_use: MotorUse,
    max_drift: f64,
) -> Result<(), UnsuitableScan> {
    let mut ends: Vec<f64> = Vec::new();
    for name in ["positioners_start", "positioners_end"] {
        let instrument = format!("/{}/instrument", scan.entry);
        let unreadable = |why| unreadable_motor(motor, &why);
        let has = |group: &str, name: &str| {
            list_group(&scan.file, group).map(|names| names.iter().any(|known| known == name))
        };
        let group = format!("{instrument}/{name}");
        if has(&instrument, name).map_err(unreadable)? && has(&group, motor).map_err(unreadable)? {
            let array = read_array(&scan.file, &format!("{group}/{motor}")).map_err(unreadable)?;
            ends.extend(array.values.first().copied());
        }
    }
    match ends[..] {
        [start, end] if (start - end).abs() > max_drift => Err(format!(
            "motor {motor} has one position for all frames, and moved from {start} to {end} during the scan; expected a \
             counter with its position in each frame. {}",
            motor_use.hint_of_positions()
        )
        .into()),
        _ => Ok(()),
    }
}

fn unreadable_motor(motor: &str, why: &Hdf5ArrayError) -> UnsuitableScan {
    UnsuitableScan {
        retryable: matches!(why, Hdf5ArrayError::Io { .. } | Hdf5ArrayError::NoAnswer { .. }),
        why: format!("motor {motor}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_angles_are_known_by_their_usual_names() {
        for degrees in ["", " ", "deg", "Degree", "degrees", "\u{b0}"] {
            assert_eq!(degrees_per_unit(degrees), Some(1.0), "{degrees:?}");
        }
        for (unit, radians) in [("rad", 1.0), ("mrad", 1e-3)] {
            let size = degrees_per_unit(unit).unwrap();
            assert!((size.to_radians() / radians - 1.0).abs() < 1e-15, "{unit}");
        }
        for other in ["mm", "keV", "step", "grad", "urad"] {
            assert_eq!(degrees_per_unit(other), None, "{other}");
        }
    }
}
