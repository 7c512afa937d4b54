//! Positions of a goniometer's motors in a scan, and the geometry of each range of frames that
//! follows from them.

use frames::hdf5_array::{Hdf5ArrayError, list_group, read_array, read_written_numbers};
use recipe::{Goniometer, GoniometerFile, MAX_PONI_RANGES, PoniRange, closest_name};
use records::{Acquisition, ScanState};

use crate::unsuitable_scan::UnsuitableScan;

/// How far a motor that stands still may be at the end of a scan from where it was at its start, in
/// units of the motor.
const MAX_DRIFT: f64 = 1e-3;

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
                if ranges.len() == MAX_PONI_RANGES {
                    return Err(format!(
                        "the detector moves more than {MAX_PONI_RANGES} times; expected fewer ranges of frames with \
                         one geometry"
                    )
                    .into());
                }
                let poni_file = file.path.clone();
                ranges.push(PoniRange { first: frame, last: frame, poni, poni_file });
            }
        }
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
    if let Some(dataset) = scan.counters.get(motor) {
        return read_positions(scan, motor, dataset);
    }
    let group = format!("/{}/instrument/positioners", scan.entry);
    let names = list_group(&scan.file, &group).map_err(|why| unreadable_motor(motor, &why))?;
    if !names.iter().any(|name| name == motor) {
        let known: Vec<&str> = scan
            .counters
            .keys()
            .map(String::as_str)
            .chain(names.iter().map(String::as_str))
            .collect();
        let hint = match closest_name(motor, known.iter().copied()) {
            Some(nearest) => format!("; perhaps `{nearest}`"),
            None => String::new(),
        };
        return Err(format!(
            "no motor `{motor}` among the counters and positioners of the scan{hint}. Pass --motor POSITION=MOTOR if it \
             has another name"
        )
        .into());
    }
    let positions = read_positions(scan, motor, &format!("{group}/{motor}"))?;
    if matches!(positions, MotorPositions::Constant(_)) {
        check_stands_still(scan, motor)?;
    }
    Ok(positions)
}

/// Reads the positions of a motor from a dataset: of one number for the whole scan, or a list with a
/// number for each frame.
fn read_positions(
    scan: &Acquisition,
    motor: &str,
    dataset: &str,
) -> Result<MotorPositions, UnsuitableScan> {
    let unreadable = |why| unreadable_motor(motor, &why);
    let shape = read_array(&scan.file, dataset).map_err(unreadable)?.shape;
    let values = read_written_numbers(&scan.file, dataset).map_err(unreadable)?;
    match (&shape[..], &values[..]) {
        ([], [position]) => Ok(MotorPositions::Constant(*position)),
        // An aborted scan may have frames without a position, or positions without a frame. The list of a
        // running scan is not used.
        ([count], _)
            if *count == scan.frames
                || matches!(scan.scan_state(), ScanState::Aborted | ScanState::Running) =>
        {
            Ok(MotorPositions::PerFrame(values))
        }
        ([count], _) => Err(format!(
            "motor {motor}: {count} positions in {dataset} for {} frames; expected one for each frame. Pass --poni-table \
             with the frames of each position",
            scan.frames
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
fn check_stands_still(scan: &Acquisition, motor: &str) -> Result<(), UnsuitableScan> {
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
        [start, end] if (start - end).abs() > MAX_DRIFT => Err(format!(
            "motor {motor} has one position for all frames, and moved from {start} to {end} during the scan; expected a \
             counter with its position in each frame. Pass --poni-table with the frames of each position"
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

fn describe_positions(motors: &[String], positions: &[f64]) -> String {
    let pairs = motors.iter().zip(positions);
    pairs.map(|(motor, position)| format!("{motor} = {position}")).collect::<Vec<_>>().join(", ")
}
