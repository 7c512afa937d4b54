//! MotorPositions of a goniometer's motors in a scan, and the geometry of each range of frames that
//! follows from them.

use frames::hdf5_array::{Hdf5ArrayError, list_group, read_written_numbers};
use recipe::{Goniometer, GoniometerFile, PoniRange, closest_name};
use records::{Acquisition, ScanState};

use crate::unsuitable_scan::UnsuitableScan;

/// The most ranges of frames of a scan, whose PONI texts are part of its recipe.
const MAX_RANGES: usize = 50_000;

/// The positions of a motor.
enum MotorPositions {
    /// One position in all frames.
    Constant(f64),
    /// One position per frame; there may be fewer positions than frames.
    PerFrame(Vec<f64>),
}

/// Returns the geometry of each range of frames of a scan. Frames of which a motor has no value, or
/// for which the goniometer has no geometry, are in no range. `reference` is the PONI text of the
/// recipe.
///
/// # Errors
/// The scan lacks a motor, or is being recorded while motors move; a motor can't be read.
pub fn find_geometries(
    scan: &Acquisition,
    goniometer: &Goniometer,
    file: &GoniometerFile,
    reference: &str,
) -> Result<Vec<PoniRange>, UnsuitableScan> {
    let motors: Vec<MotorPositions> =
        file.motors.iter().map(|motor| read_motor(scan, motor)).collect::<Result<_, _>>()?;
    let all_stay = motors.iter().all(|motor| matches!(motor, MotorPositions::Constant(_)));
    if all_stay {
        let positions: Vec<f64> = motors.iter().map(|motor| motor.at(0)).collect();
        let Some(poni) = goniometer.poni_at(reference, &positions) else {
            return Err(format!(
                "the goniometer has no geometry at {}; expected numbers and a positive distance",
                describe_positions(&file.motors, &positions)
            )
            .into());
        };
        // The range does not depend on the number of frames, so that a scan may go on.
        let poni_file = file.path.clone();
        return Ok(vec![PoniRange { first: 0, last: i64::MAX as u64, poni, poni_file }]);
    }
    if scan.scan_state() == ScanState::Running {
        return Err(UnsuitableScan {
            why: format!(
                "motors move ({}) and the scan is being recorded; run plan-split again when it has ended",
                file.motors.join(", ")
            ),
            retryable: true,
        });
    }
    let mut ranges: Vec<PoniRange> = Vec::new();
    for frame in 0..scan.frames {
        let positions: Vec<f64> = motors.iter().map(|motor| motor.at(frame)).collect();
        let Some(poni) = goniometer.poni_at(reference, &positions) else { continue };
        match ranges.last_mut() {
            Some(last) if last.last + 1 == frame && last.poni == poni => last.last = frame,
            _ => {
                let poni_file = file.path.clone();
                ranges.push(PoniRange { first: frame, last: frame, poni, poni_file });
            }
        }
    }
    if ranges.len() > MAX_RANGES {
        return Err(format!(
            "the detector moves {} times; expected at most {MAX_RANGES} ranges of frames with one geometry",
            ranges.len()
        )
        .into());
    }
    if ranges.is_empty() {
        return Err(format!(
            "the goniometer has no geometry for any frame: {} has no values, or the geometry no positive distance",
            file.motors.join(", ")
        )
        .into());
    }
    Ok(ranges)
}

impl MotorPositions {
    fn at(&self, frame: u64) -> f64 {
        match self {
            Self::Constant(position) => *position,
            Self::PerFrame(positions) => usize::try_from(frame)
                .ok()
                .and_then(|frame| positions.get(frame))
                .copied()
                .unwrap_or(f64::NAN),
        }
    }
}

/// Reads the positions of a motor: those of the counter with its name, else of the positioner.
fn read_motor(scan: &Acquisition, motor: &str) -> Result<MotorPositions, UnsuitableScan> {
    let unreadable = |why: Hdf5ArrayError| UnsuitableScan {
        retryable: matches!(why, Hdf5ArrayError::Io { .. } | Hdf5ArrayError::NoAnswer { .. }),
        why: format!("motor {motor}: {why}"),
    };
    if let Some(dataset) = scan.counters.get(motor) {
        return read_written_numbers(&scan.file, dataset)
            .map(MotorPositions::PerFrame)
            .map_err(unreadable);
    }
    let group = format!("/{}/instrument/positioners", scan.entry);
    let names = list_group(&scan.file, &group).map_err(unreadable)?;
    if !names.iter().any(|name| name == motor) {
        let known: Vec<&str> = scan
            .counters
            .keys()
            .map(String::as_str)
            .chain(names.iter().map(String::as_str))
            .collect();
        let hint = match closest_name(motor, known.iter().copied()) {
            Some(nearest) => format!("; did you mean `{nearest}`?"),
            None => String::new(),
        };
        return Err(format!(
            "no motor `{motor}` among the counters and positioners of the scan{hint} Pass --motor POSITION=MOTOR if it \
             has another name"
        )
        .into());
    }
    match &read_written_numbers(&scan.file, &format!("{group}/{motor}")).map_err(unreadable)?[..] {
        [position] => Ok(MotorPositions::Constant(*position)),
        positions => Ok(MotorPositions::PerFrame(positions.to_vec())),
    }
}

fn describe_positions(motors: &[String], positions: &[f64]) -> String {
    let pairs = motors.iter().zip(positions);
    pairs.map(|(motor, position)| format!("{motor} = {position}")).collect::<Vec<_>>().join(", ")
}
