//! Finds the motor along whose positions the frames of a scan lie, for the axis of the frames.

use super::counters::CopiedValues;
use super::schema::{ScannedMotor, name};
use crate::PatternAxes;

/// Timers, which Bliss lists among the positions.
const TIMERS: [&str; 2] = ["elapsed_time", "epoch"];

/// Datasets beside which the positions are stored.
const OTHER_DATASETS: [&str; 12] = [
    name::INTENSITY,
    name::ERRORS,
    name::SIGNAL,
    name::VARIANCE,
    name::NORM,
    name::NORM_SQ,
    name::COUNT,
    name::POINTS,
    name::FRAME_STATUS,
    name::MONITOR,
    "title",
    "exceptions",
];

/// Returns the motor that moved during the scan; `None` if none did, or several. If several moved
/// and the scan's title, such as `ascan rot 0 90 100 0.1`, names only one of them, it is that one.
/// A motor that has no position at some frame, or the same one twice, can't be an axis.
pub(super) fn find_scanned_motor(
    positioners: &[CopiedValues],
    title: Option<&str>,
    frames: u64,
    axes: &PatternAxes,
) -> Option<ScannedMotor> {
    let moved = |motor: &&CopiedValues| {
        motor.list().is_some_and(|positions| {
            positions.len() as u64 == frames
                && positions.iter().any(|position| *position != positions[0])
        })
    };
    let moved: Vec<&CopiedValues> = positioners
        .iter()
        .filter(|motor| !TIMERS.contains(&motor.name.as_str()))
        .filter(moved)
        .collect();
    let named: Vec<&CopiedValues> = moved
        .iter()
        .copied()
        .filter(|motor| is_named(title.unwrap_or_default(), &motor.name))
        .collect();
    let motor = match (&moved[..], &named[..]) {
        ([only], _) | (_, [only]) => only,
        _ => return None,
    };
    let positions = motor.list().filter(|positions| is_monotonic(positions))?;
    Some(ScannedMotor {
        name: axis_dataset_name(&motor.name, axes),
        positions,
        units: motor.units.clone(),
    })
}

/// Returns whether one of a title's words is the name.
fn is_named(title: &str, name: &str) -> bool {
    title
        .split(|character: char| character.is_whitespace() || "(),=".contains(character))
        .any(|word| word == name)
}

fn is_monotonic(positions: &[f64]) -> bool {
    positions.windows(2).all(|pair| pair[0] < pair[1])
        || positions.windows(2).all(|pair| pair[0] > pair[1])
}

/// Returns the name of the dataset with a motor's positions beside patterns over these axes.
pub(crate) fn axis_dataset_name(motor: &str, axes: &PatternAxes) -> String {
    if OTHER_DATASETS.contains(&motor) || axes.iter().any(|axis| axis.name == motor) {
        format!("motor_{motor}")
    } else {
        motor.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PatternAxis;

    fn axes() -> PatternAxes {
        let axis = |name: &str| PatternAxis { name: name.into(), ..PatternAxis::default() };
        PatternAxes { radial: axis("q"), chi: None }
    }

    fn find(motors: &[(&str, &[f64])], title: &str) -> Option<String> {
        let motors: Vec<_> =
            motors.iter().map(|(name, positions)| CopiedValues::floats(name, positions)).collect();
        find_scanned_motor(&motors, Some(title), 3, &axes()).map(|motor| motor.name)
    }

    #[test]
    fn the_axis_is_the_one_motor_that_moved() {
        let rot: (&str, &[f64]) = ("rot", &[0.0, 1.0, 2.0]);
        let back: (&str, &[f64]) = ("y", &[2.0, 1.5, 1.0]);
        assert_eq!(find(&[rot], "loopscan 3 1"), Some("rot".into()));
        assert_eq!(
            find(&[("epoch", &[1.0, 2.0, 3.0]), rot, ("z", &[4.0; 3])], ""),
            Some("rot".into())
        );
        assert_eq!(find(&[rot, back], "d2scan rot 0 2 y 2 1 2 1"), None);
        assert_eq!(find(&[rot, back], "ascan y 2 1 2 1"), Some("y".into()));
        assert_eq!(find(&[rot, back], "ascan(y,2,1,2,1)"), Some("y".into()));
        assert_eq!(find(&[rot, back], ""), None);
    }

    #[test]
    fn positions_that_are_missing_or_repeated_are_no_axis() {
        for positions in
            [&[0.0, 1.0][..], &[0.0, 1.0, 0.0], &[0.0, 0.0, 1.0], &[0.0, f64::NAN, 1.0], &[5.0; 3]]
        {
            assert_eq!(find(&[("rot", positions)], "ascan rot 0 1 2 1"), None, "{positions:?}");
        }
    }

    #[test]
    fn a_motor_called_like_a_dataset_gets_another_name() {
        assert_eq!(find(&[("q", &[0.0, 1.0, 2.0])], ""), Some("motor_q".into()));
        assert_eq!(find(&[("monitor", &[0.0, 1.0, 2.0])], ""), Some("motor_monitor".into()));
        assert_eq!(
            find(&[("chi", &[0.0, 1.0, 2.0])], ""),
            Some("chi".into()),
            "the pattern is no cake"
        );
    }
}
