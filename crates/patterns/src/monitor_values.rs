//! [`MonitorValues`]: the monitor value by which each frame is normalized, as the raw files have it
//! now.

use frames::hdf5_array::{Hdf5ArrayError, list_group, read_written_numbers};
use recipe::{Monitor, MonitorReference, Quantity, Recipe};
use records::{Acquisition, MonitorReadings, ScanState, Task, format_count};

use crate::scan_identity::{ScanIdentityError, check_same_scan};
use crate::{Normalizer, Status};

/// The product of the recipe's monitors, for each frame of the scan.
#[derive(Debug, Default)]
pub struct MonitorValues {
    /// Quantities that multiply the monitor.
    numerator: Vec<QuantityValues>,
    /// Quantities that divide the monitor.
    denominator: Vec<QuantityValues>,
    normalizer: Normalizer,
    /// Number that the monitor is divided by.
    reference: f64,
    /// Readings over the scan, if there is anything to take a mean of.
    readings: Option<MonitorReadings>,
    /// True while the scan is being recorded, so that its counters may still grow.
    scan_is_running: bool,
}

/// The values of a quantity.
#[derive(Debug)]
enum QuantityValues {
    /// One value for all frames.
    Constant(f64),
    /// One value per frame; there may be fewer values than frames.
    PerFrame(Vec<f64>),
}

/// Reason why the monitor of a scan is unknown.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub struct MonitorError {
    /// The reason in one line.
    pub why: String,
    /// True if another attempt may succeed.
    pub retryable: bool,
}

impl MonitorValues {
    /// Reads the quantities of the recipe's monitors for the task's scan.
    ///
    /// # Errors
    /// Fails if the scan has no such counter or no exposure time, if a dataset can't be read, and if
    /// the scan's file holds another scan by now.
    pub fn read(task: &Task, recipe: &Recipe) -> Result<Self, MonitorError> {
        let scan = &task.acquisition;
        if !recipe.monitor.is_empty() {
            check_same_scan(scan).map_err(|why| MonitorError {
                retryable: matches!(why, ScanIdentityError::Unknown(_)),
                why: match why {
                    ScanIdentityError::OtherScan { .. } => {
                        format!("{}: {why}", scan.file.display())
                    }
                    // It names the file.
                    ScanIdentityError::Unknown(why) => why.to_string(),
                },
            })?;
        }
        let mut read = Self {
            normalizer: Normalizer::new(recipe),
            scan_is_running: !scan.complete && scan.end_time.is_none(),
            ..Self::default()
        };
        for Monitor { quantity, reference } in &recipe.monitor {
            read.numerator.push(read_values(task, quantity)?);
            match reference {
                MonitorReference::Mean | MonitorReference::Quantity(Quantity::Number(_)) => (),
                MonitorReference::Quantity(divisor) => {
                    read.denominator.push(read_values(task, divisor)?)
                }
            }
        }
        if !read.normalizer.needs_only_own_frame() {
            let readings: MonitorReadings =
                (0..scan.frames).map(|frame| read.value(frame)).collect();
            let has_mean = readings.count > 0 && readings.sum.is_finite();
            read.readings = has_mean.then_some(readings);
        }
        read.reference = read.normalizer.reference(read.readings.unwrap_or_default());
        Ok(read)
    }

    /// Returns whether the recipe has a monitor.
    pub fn has_monitor(&self) -> bool {
        self.normalizer.has_monitor()
    }

    /// Returns whether the scan is being recorded, so that its counters may still grow.
    pub fn may_grow(&self) -> bool {
        self.scan_is_running
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

    /// Returns the readings over all frames of the scan if the monitor is divided by their mean;
    /// `None` also if there is nothing to take a mean of.
    pub fn readings(&self) -> Option<MonitorReadings> {
        self.readings
    }

    /// Returns the status of a frame with this monitor value. While the scan is being recorded, a
    /// counter may be short or still hold its fill value.
    pub fn status(&self, value: f64) -> Status {
        match self.normalizer.scale(value, self.reference) {
            Some(_) => Status::Ok,
            None if self.scan_is_running => Status::MonitorPending,
            None => Status::Monitor,
        }
    }

    /// Returns whether a frame's row is up to date, judged by its monitor: one that was corrected
    /// since makes the row stale, and one that a running scan lacks doesn't. A row of another status than these does not depend on the
    /// monitor.
    pub(crate) fn confirms(&self, frame: u64, status: Status, monitor: f64) -> bool {
        if !self.has_monitor() || !matches!(status, Status::Ok | Status::Monitor) {
            return true;
        }
        let now = self.value(frame);
        // A record of the running scan may know less than the result.
        (self.scan_is_running && now.is_nan())
            || now == monitor
            || (now.is_nan() && monitor.is_nan())
    }

    /// Returns whether the mean of the monitor is the one of these earlier readings, or the recipe
    /// needs no mean. Earlier versions did not store the readings.
    pub(crate) fn confirms_mean(&self, earlier: Option<MonitorReadings>) -> bool {
        self.normalizer.needs_only_own_frame() || earlier.is_none() || self.readings == earlier
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
fn describe_unknown_counter(scan: &Acquisition, name: &str, is_there: bool) -> String {
    let why = if is_there {
        format!(": `measurement/{name}` does not have one number per frame")
    } else {
        String::new()
    };
    let known: Vec<&str> = scan.counters.keys().map(String::as_str).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    format!("monitor {name}: entry {} has no such counter{why}; its counters: {known}", scan.entry)
}

fn read_values(task: &Task, quantity: &Quantity) -> Result<QuantityValues, MonitorError> {
    let scan = &task.acquisition;
    // A scan that runs may get its counters later: without a value, the monitors of its frames are pending.
    let is_running = scan.scan_state() == ScanState::Running;
    let refuse = |why: String| Err(MonitorError { why, retryable: false });
    let unreadable = |why: Hdf5ArrayError| MonitorError { why: why.to_string(), retryable: true };
    match quantity {
        Quantity::Number(number) => Ok(QuantityValues::Constant(*number)),
        Quantity::ExposureTime => match scan.exposure_time {
            Some(seconds) => Ok(QuantityValues::Constant(seconds)),
            None if is_running => Ok(QuantityValues::PerFrame(Vec::new())),
            None => {
                refuse(format!("monitor exposure-time: entry {} has no exposure time", scan.entry))
            }
        },
        Quantity::Counter(name) => match scan.counters.get(name) {
            Some(dataset) => read_written_numbers(&scan.file, dataset)
                .map(QuantityValues::PerFrame)
                .map_err(unreadable),
            // The record may be older than the counter.
            None if is_running => {
                let dataset = format!("/{}/measurement/{name}", scan.entry);
                match read_written_numbers(&scan.file, &dataset) {
                    Ok(values) => Ok(QuantityValues::PerFrame(values)),
                    // It is not there yet.
                    Err(Hdf5ArrayError::Dataset { .. }) => Ok(QuantityValues::PerFrame(Vec::new())),
                    Err(why) => Err(unreadable(why)),
                }
            }
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

    fn normalizer(reference: &str) -> Normalizer {
        let settings = recipe::Settings {
            geometry: Some("Distance: 1\nPoni1: 0\nPoni2: 0".to_owned()),
            monitor: recipe::OneOrMany::from_items(vec![recipe::MonitorSetting::Name("m".into())]),
            monitor_reference: recipe::OneOrMany::from_items(vec![reference.parse().unwrap()]),
            ..recipe::Settings::default()
        };
        Normalizer::new(&Recipe::resolve(&settings).unwrap())
    }

    #[test]
    fn quantities_multiply_and_divide_frame_by_frame() {
        let monitor = MonitorValues {
            numerator: vec![read_values(&[6.0, 8.0]), QuantityValues::Constant(2.0)],
            denominator: vec![read_values(&[3.0, 0.0])],
            normalizer: normalizer("1"),
            reference: 1.0,
            ..MonitorValues::default()
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

    #[test]
    fn a_monitor_is_good_if_gather_can_divide_by_it() {
        let of = |reference: f64| MonitorValues {
            normalizer: normalizer(&reference.to_string()),
            reference,
            ..MonitorValues::default()
        };
        for bad in [-1.0, 0.0, f64::NAN, f64::INFINITY, 1e-300, 1e300] {
            assert_eq!(of(1.0).status(bad), Status::Monitor, "{bad}");
        }
        assert_eq!(of(1.0).status(1e-20), Status::Ok);
        assert_eq!(of(-2.0).status(-1.0), Status::Ok);
        assert_eq!(of(-2.0).status(1.0), Status::Monitor);
    }

    #[test]
    fn a_row_is_confirmed_by_an_equal_reading() {
        let monitor = MonitorValues {
            numerator: vec![read_values(&[6.0, f64::NAN])],
            normalizer: normalizer("1"),
            reference: 1.0,
            ..MonitorValues::default()
        };
        assert!(monitor.confirms(0, Status::Ok, 6.0) && !monitor.confirms(0, Status::Ok, 6.5));
        assert!(monitor.confirms(1, Status::Monitor, f64::NAN));
        assert!(!monitor.confirms(1, Status::Ok, 6.0));
        assert!(monitor.confirms(0, Status::Absent, f64::NAN), "it has no monitor");
        assert!(MonitorValues::default().confirms(0, Status::Ok, f64::NAN));
    }

    #[test]
    fn a_counter_that_is_not_there_is_told_with_those_that_are() {
        let scan = Acquisition {
            entry: "1.1".to_owned(),
            counters: [("diode".to_owned(), String::new())].into(),
            ..Acquisition::default()
        };
        let none = Acquisition { entry: "2.1".to_owned(), ..Acquisition::default() };
        assert_eq!(
            describe_unknown_counter(&scan, "mon", false),
            "monitor mon: entry 1.1 has no such counter; its counters: diode",
        );
        assert_eq!(
            describe_unknown_counter(&scan, "mca", true),
            "monitor mca: entry 1.1 has no such counter: `measurement/mca` does not have one number per frame; its counters: diode",
        );
        assert_eq!(
            describe_unknown_counter(&none, "mon", false),
            "monitor mon: entry 2.1 has no such counter; its counters: none",
        );
    }
}
