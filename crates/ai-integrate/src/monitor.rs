//! The monitor value by which each frame is normalized.

use frames::hdf5_array::{Hdf5ArrayError, list_group, read_written_numbers};
use patterns::Status;
use recipe::{Monitor as Ratio, MonitorReference, Quantity};
use records::{Acquisition, MonitorReadings, Task, format_count};

use crate::error::TaskError;

/// The product of the recipe's monitors, for each frame of the scan.
#[derive(Default)]
pub struct MonitorValues {
    /// Quantities that multiply the monitor.
    numerator: Vec<QuantityValues>,
    /// Quantities that divide the monitor.
    denominator: Vec<QuantityValues>,
    /// True while the scan is being recorded, so that its counters may still grow.
    scan_is_running: bool,
}

/// The values of a quantity.
enum QuantityValues {
    /// One value for all frames.
    Constant(f64),
    /// One value per frame; there may be fewer values than frames.
    PerFrame(Vec<f64>),
}

impl MonitorValues {
    /// Reads the quantities for the task's scan. References that are numbers, or a mean over the
    /// scan, are left to gather, which has the whole scan.
    ///
    /// # Errors
    /// Fails if the scan has no such counter or no exposure time, and if a dataset can't be read.
    pub fn read(task: &Task, monitors: &[Ratio]) -> Result<Self, TaskError> {
        let scan = &task.acquisition;
        let mut read =
            Self { scan_is_running: !scan.complete && scan.end_time.is_none(), ..Self::default() };
        for Ratio { quantity, reference } in monitors {
            read.numerator.push(read_values(task, quantity)?);
            match reference {
                MonitorReference::Mean | MonitorReference::Quantity(Quantity::Number(_)) => (),
                MonitorReference::Quantity(divisor) => {
                    read.denominator.push(read_values(task, divisor)?)
                }
            }
        }
        Ok(read)
    }

    /// Returns the monitor of a frame: 1 without monitors, NaN if a quantity has no value.
    pub fn value(&self, frame: u64) -> f64 {
        let product = |list: &[QuantityValues]| {
            list.iter().map(|values| values.value(frame)).product::<f64>()
        };
        match self.denominator.is_empty() {
            true => product(&self.numerator),
            false => product(&self.numerator) / product(&self.denominator),
        }
    }

    /// Returns the readings over the scan's frames; `None` if there is nothing to take a mean of.
    pub fn readings(&self, frames: u64) -> Option<MonitorReadings> {
        let readings: MonitorReadings = (0..frames).map(|frame| self.value(frame)).collect();
        (readings.count > 0 && readings.sum.is_finite()).then_some(readings)
    }

    /// Returns the status of a frame with this monitor value. While the scan is being recorded, a
    /// counter may be short or still hold its fill value.
    pub fn status(&self, value: f64) -> Status {
        match value.is_finite() && value != 0.0 {
            true => Status::Ok,
            false if self.scan_is_running => Status::MonitorPending,
            false => Status::Monitor,
        }
    }
}

impl QuantityValues {
    fn value(&self, frame: u64) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::PerFrame(values) => values.get(frame as usize).copied().unwrap_or(f64::NAN),
        }
    }
}

/// Describes that a scan has no counter `name`. `is_there` says that `measurement` has something
/// else by that name.
pub(crate) fn describe_unknown_counter(scan: &Acquisition, name: &str, is_there: bool) -> String {
    let why = if is_there {
        format!(": `measurement/{name}` does not have one number per frame")
    } else {
        String::new()
    };
    let known: Vec<&str> = scan.counters.keys().map(String::as_str).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    format!("monitor {name}: entry {} has no such counter{why}; its counters: {known}", scan.entry)
}

fn read_values(task: &Task, quantity: &Quantity) -> Result<QuantityValues, TaskError> {
    let scan = &task.acquisition;
    let refuse = |why: String| Err(TaskError { why, retryable: false });
    let unreadable = |why: Hdf5ArrayError| TaskError { why: why.to_string(), retryable: true };
    match quantity {
        Quantity::Number(number) => Ok(QuantityValues::Constant(*number)),
        Quantity::ExposureTime => match scan.exposure_time {
            Some(seconds) => Ok(QuantityValues::Constant(seconds)),
            None => {
                refuse(format!("monitor exposure-time: entry {} has no exposure time", scan.entry))
            }
        },
        Quantity::Counter(name) => match scan.counters.get(name) {
            Some(dataset) => read_written_numbers(&scan.file, dataset)
                .map(QuantityValues::PerFrame)
                .map_err(unreadable),
            None => {
                let group = format!("/{}/measurement", scan.entry);
                // The listing only makes the error clearer: if the group can't be listed, the
                // reason is left out.
                let is_there =
                    list_group(&scan.file, &group).is_ok_and(|names| names.contains(name));
                refuse(describe_unknown_counter(scan, name, is_there))
            }
        },
        Quantity::File(file) => {
            let dataset = file.dataset.as_deref().unwrap_or("/");
            let values = read_written_numbers(&file.path, dataset).map_err(unreadable)?;
            match values[..] {
                [one] => Ok(QuantityValues::Constant(one)),
                ref each if (each.len() as u64) < scan.frames => {
                    let (found, expected) =
                        (format_count(each.len(), "value"), format_count(scan.frames, "frame"));
                    refuse(format!(
                        "monitor {}: {found}: expected one, or one for each of {expected}",
                        file.name()
                    ))
                }
                _ => Ok(QuantityValues::PerFrame(values)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_values(list: &[f64]) -> QuantityValues {
        QuantityValues::PerFrame(list.to_vec())
    }

    #[test]
    fn quantities_multiply_and_divide_frame_by_frame() {
        let monitor = MonitorValues {
            numerator: vec![read_values(&[6.0, 8.0]), QuantityValues::Constant(2.0)],
            denominator: vec![read_values(&[3.0, 0.0])],
            scan_is_running: false,
        };
        assert_eq!(monitor.value(0), 4.0);
        let status = |monitor: &MonitorValues, frame| monitor.status(monitor.value(frame));
        assert_eq!(
            [0, 1, 2].map(|frame| status(&monitor, frame)),
            [Status::Ok, Status::Monitor, Status::Monitor]
        );
        let live = MonitorValues { scan_is_running: true, ..monitor };
        assert_eq!(
            status(&live, 2),
            Status::MonitorPending,
            "the counter is short, and the scan goes on"
        );
        assert_eq!(MonitorValues::default().value(7), 1.0);
    }
}
