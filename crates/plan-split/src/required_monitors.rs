//! The monitors that a recipe needs, and a check that a scan has them.

use frames::hdf5_array::{Hdf5ArrayError, read_written_numbers};
use recipe::{Monitor, MonitorReference, Quantity, Recipe, closest_name};
use records::format_count;
use records::{Acquisition, ScanState};

/// The largest number of counters that an error lists.
const MAX_LISTED: usize = 40;

/// The quantities that the monitors of a recipe and their references consist of.
#[derive(Clone)]
pub struct RequiredMonitors(Vec<RequiredQuantity>);

/// A quantity that a scan may lack.
#[derive(Clone)]
enum RequiredQuantity {
    /// A counter of the scan, by name.
    Counter(String),
    /// The exposure time of each frame.
    ExposureTime,
    /// A dataset in a file: its name for messages, and its number of values.
    Values(String, u64),
}

impl RequiredMonitors {
    /// Lists the quantities of a recipe, and counts the values of those in files.
    ///
    /// # Errors
    /// Fails if a dataset can't be read as numbers.
    pub fn read(recipe: &Recipe) -> Result<Self, Hdf5ArrayError> {
        let quantities = recipe.monitor.iter().flat_map(quantities);
        quantities
            .filter_map(|quantity| RequiredQuantity::read(quantity).transpose())
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Checks that a scan has all quantities, as far as its record shows. A running scan may get
    /// them later, and a record without any counter may be written by a program that lists none.
    ///
    /// # Errors
    /// Returns a message with the quantity that the scan lacks, and those that it has.
    pub fn check(&self, scan: &Acquisition) -> Result<(), String> {
        let is_running = scan.scan_state() == ScanState::Running;
        self.0.iter().try_for_each(|quantity| match quantity {
            RequiredQuantity::Values(name, count) if *count != 1 && *count < scan.frames => {
                let (values, frames) =
                    (format_count(*count, "value"), format_count(scan.frames, "frame"));
                Err(format!("monitor {name}: {values}: expected one, or one for each of {frames}"))
            }
            RequiredQuantity::ExposureTime if scan.exposure_time.is_none() && !is_running => {
                Err("monitor exposure-time: the scan records none, or not one for all frames in a known unit of time; choose a \
                     counter of the scan"
                    .to_owned())
            }
            RequiredQuantity::Counter(name) if !is_running && lacks_counter(scan, name) => {
                Err(describe_missing_counter(scan, name))
            }
            _ => Ok(()),
        })
    }

    /// Describes the counters that a running scan has not yet, whose frames wait for them.
    pub fn describe_pending(&self, scan: &Acquisition) -> Vec<String> {
        let is_running = scan.scan_state() == ScanState::Running;
        let pending = self.0.iter().filter_map(|quantity| match quantity {
            RequiredQuantity::Counter(name) if is_running && !scan.counters.contains_key(name) => {
                let why = match lacks_counter(scan, name) {
                    true => describe_missing_counter(scan, name),
                    false => format!("no counter `{name}`; the scan lists none yet"),
                };
                Some(format!("its frames wait for the monitor while the scan runs: {why}"))
            }
            RequiredQuantity::ExposureTime if is_running && scan.exposure_time.is_none() => {
                Some("its frames wait for the exposure time while the scan runs".to_owned())
            }
            _ => None,
        });
        pending.collect()
    }

    /// Describes lists of values and counters that are longer than a scan, of which the first are
    /// taken. An aborted scan may have counted one point more. A counter that can't be read is an
    /// error where it is needed.
    pub fn describe_longer(&self, scan: &Acquisition) -> Vec<String> {
        let longer = self.0.iter().filter_map(|quantity| match quantity {
            RequiredQuantity::Values(name, count) => Some((name, *count)),
            RequiredQuantity::Counter(name) if scan.scan_state() == ScanState::Ended => {
                let values = read_written_numbers(&scan.file, scan.counters.get(name)?);
                Some((name, values.ok()?.len() as u64))
            }
            _ => None,
        });
        let longer = longer.filter(|(_, count)| *count > scan.frames && !may_grow(scan));
        let describe = |(name, count): (&String, u64)| {
            let (values, frames) =
                (format_count(count, "value"), format_count(scan.frames, "frame"));
            format!("monitor {name}: {values} for {frames}: the first {} are taken", scan.frames)
        };
        longer.map(describe).collect()
    }
}

/// Returns whether more frames may come: a scan that runs may take some, and images may be added to a
/// series.
fn may_grow(scan: &Acquisition) -> bool {
    match scan.scan_state() {
        ScanState::Running => true,
        ScanState::Unknown => scan.dataset.is_empty(),
        ScanState::Ended | ScanState::Aborted => false,
    }
}

impl RequiredQuantity {
    fn read(quantity: &Quantity) -> Result<Option<Self>, Hdf5ArrayError> {
        Ok(Some(match quantity {
            Quantity::Number(_) => return Ok(None),
            Quantity::Counter(name) => Self::Counter(name.clone()),
            Quantity::ExposureTime => Self::ExposureTime,
            Quantity::File(file) => {
                let values =
                    read_written_numbers(&file.path, file.dataset.as_deref().unwrap_or("/"))?;
                Self::Values(file.name(), values.len() as u64)
            }
        }))
    }
}

fn quantities(monitor: &Monitor) -> impl Iterator<Item = &Quantity> {
    let divisor = match &monitor.reference {
        MonitorReference::Mean => None,
        MonitorReference::Quantity(divisor) => Some(divisor),
    };
    [&monitor.quantity].into_iter().chain(divisor)
}

fn lacks_counter(scan: &Acquisition, name: &str) -> bool {
    let is_of_images =
        !scan.sources.is_empty() && scan.sources.iter().all(|source| source.dataset.is_empty());
    !scan.counters.contains_key(name) && (!scan.counters.is_empty() || is_of_images)
}

fn describe_missing_counter(scan: &Acquisition, name: &str) -> String {
    if scan.counters.is_empty() {
        return format!(
            "no counter `{name}`: image files have no counters; expected a number or FILE.h5::/PATH"
        );
    }
    let names = || scan.counters.keys().map(String::as_str);
    let mut listed = names().take(MAX_LISTED).collect::<Vec<_>>().join(", ");
    if scan.counters.len() > MAX_LISTED {
        listed += &format!(" and {} more", scan.counters.len() - MAX_LISTED);
    }
    let hint = match closest_name(name, names()) {
        Some(nearest) => format!("did you mean `{nearest}`? The scan has"),
        None => "the scan has".to_owned(),
    };
    format!("no counter `{name}` with one number per frame; {hint}: {listed}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::Source;

    fn scan(counters: &[&str]) -> Acquisition {
        let counters = counters
            .iter()
            .map(|name| ((*name).to_owned(), format!("/1.1/measurement/{name}")))
            .collect();
        let source = Source { dataset: "/data".to_owned(), ..Source::default() };
        Acquisition {
            frames: 10,
            complete: true,
            counters,
            sources: vec![source],
            ..Acquisition::default()
        }
    }

    fn counter(name: &str) -> RequiredMonitors {
        RequiredMonitors(vec![RequiredQuantity::Counter(name.to_owned())])
    }

    #[test]
    fn a_counter_that_the_scan_lacks_is_refused_with_the_nearest() {
        let known = scan(&["fpico1", "fpico2", "epoch"]);
        assert_eq!(counter("fpico2").check(&known), Ok(()));
        let why = counter("fpcio2").check(&known).unwrap_err();
        assert!(
            why.starts_with(
                "no counter `fpcio2` with one number per frame; did you mean `fpico2`?"
            ),
            "{why}"
        );
        assert!(why.ends_with("has: epoch, fpico1, fpico2"), "{why}");
        let why = counter("zzz").check(&known).unwrap_err();
        assert_eq!(
            why,
            "no counter `zzz` with one number per frame; the scan has: epoch, fpico1, fpico2"
        );
        let many: Vec<String> = (0..50).map(|number| format!("c{number:02}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(counter("x").check(&scan(&many)).unwrap_err().ends_with("c39 and 10 more"));
    }

    #[test]
    fn counters_that_may_come_or_were_not_listed_are_not_refused() {
        let start_time = Some("2026-03-04T10:20:30+01:00".to_owned());
        let running = Acquisition { start_time, complete: false, ..scan(&["epoch"]) };
        assert_eq!(counter("diode").check(&running), Ok(()));
        assert_eq!(RequiredMonitors(vec![RequiredQuantity::ExposureTime]).check(&running), Ok(()));
        assert_eq!(counter("diode").check(&scan(&[])), Ok(()));
        let images = Acquisition { sources: vec![Source::default()], ..scan(&[]) };
        assert!(
            counter("diode").check(&images).unwrap_err().contains("image files have no counters")
        );
    }

    #[test]
    fn a_list_of_values_has_one_per_frame_or_one() {
        let values =
            |count| RequiredMonitors(vec![RequiredQuantity::Values("m.h5::/m".to_owned(), count)]);
        let check = |count| values(count).check(&scan(&[]));
        assert_eq!([1, 10, 11].map(|count| check(count).is_ok()), [true; 3]);
        assert_eq!(
            check(9).unwrap_err(),
            "monitor m.h5::/m: 9 values: expected one, or one for each of 10 frames"
        );
        assert!(check(0).is_err());
        assert!(
            RequiredMonitors(vec![RequiredQuantity::ExposureTime])
                .check(&scan(&[]))
                .unwrap_err()
                .contains("exposure-time")
        );
    }
}
