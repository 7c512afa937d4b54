//! What a recipe divides frames by, held against what the record says of the scan.

use frames::hdf5_array::{Hdf5ArrayError, read_written_numbers};
use recipe::{Monitor, MonitorReference, Quantity, Recipe, closest_name};
use records::{Acquisition, ScanState};

/// More counters than this are not listed in an error.
const MOST_LISTED: usize = 40;

/// The quantities that the monitors of a recipe are made of.
pub struct Monitors(Vec<Needed>);

/// A quantity that a scan may lack.
enum Needed {
    /// A counter of the scan, by name.
    Counter(String),
    /// The seconds that each frame was exposed.
    ExposureTime,
    /// So many values of a dataset, which this names.
    Values(String, u64),
}

impl Monitors {
    /// Lists a recipe's quantities, and counts the values of those that lie in files.
    ///
    /// # Errors
    /// A dataset that can't be read as numbers.
    pub fn read(recipe: &Recipe) -> Result<Self, Hdf5ArrayError> {
        let needed =
            recipe.monitor.iter().flat_map(quantities).filter_map(|quantity| Needed::read(quantity).transpose());
        needed.collect::<Result<_, _>>().map(Self)
    }

    /// Checks that a scan has all of them, as far as its record tells: what a running scan lacks may come, and a record without any
    /// counter may be of a program that lists none.
    ///
    /// # Errors
    /// What the scan lacks, and what it has.
    pub fn check(&self, scan: &Acquisition) -> Result<(), String> {
        let is_running = scan.scan_state() == ScanState::Running;
        self.0.iter().try_for_each(|needed| match needed {
            Needed::Values(name, count) if *count != 1 && *count < scan.frames => {
                Err(format!("monitor {name}: {count} values: expected one, or one for each of {} frames", scan.frames))
            }
            Needed::ExposureTime if scan.exposure_time.is_none() && !is_running => {
                Err("monitor exposure-time: the scan does not say how long it exposed".to_owned())
            }
            Needed::Counter(name) if !is_running && lacks_counter(scan, name) => Err(no_counter(scan, name)),
            _ => Ok(()),
        })
    }
}

impl Needed {
    fn read(quantity: &Quantity) -> Result<Option<Self>, Hdf5ArrayError> {
        Ok(Some(match quantity {
            Quantity::Number(_) => return Ok(None),
            Quantity::Counter(name) => Self::Counter(name.clone()),
            Quantity::ExposureTime => Self::ExposureTime,
            Quantity::File(file) => {
                let values = read_written_numbers(&file.path, file.dataset.as_deref().unwrap_or("/"))?;
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
    let is_of_images = !scan.sources.is_empty() && scan.sources.iter().all(|source| source.dataset.is_empty());
    !scan.counters.contains_key(name) && (!scan.counters.is_empty() || is_of_images)
}

fn no_counter(scan: &Acquisition, name: &str) -> String {
    if scan.counters.is_empty() {
        return format!("no counter `{name}`: images have none; expected a number or FILE.h5::/PATH");
    }
    let names = || scan.counters.keys().map(String::as_str);
    let mut listed = names().take(MOST_LISTED).collect::<Vec<_>>().join(", ");
    if scan.counters.len() > MOST_LISTED {
        listed += &format!(" and {} more", scan.counters.len() - MOST_LISTED);
    }
    let hint = match closest_name(name, names()) {
        Some(nearest) => format!("did you mean `{nearest}`? The scan has"),
        None => "the scan has".to_owned(),
    };
    format!("no counter `{name}` of one number a frame; {hint}: {listed}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::Source;

    fn scan(counters: &[&str]) -> Acquisition {
        let counters = counters.iter().map(|name| ((*name).to_owned(), format!("/1.1/measurement/{name}"))).collect();
        let source = Source { dataset: "/data".to_owned(), ..Source::default() };
        Acquisition { frames: 10, complete: true, counters, sources: vec![source], ..Acquisition::default() }
    }

    fn counter(name: &str) -> Monitors {
        Monitors(vec![Needed::Counter(name.to_owned())])
    }

    #[test]
    fn a_counter_that_the_scan_lacks_is_refused_with_the_nearest() {
        let known = scan(&["fpico1", "fpico2", "epoch"]);
        assert_eq!(counter("fpico2").check(&known), Ok(()));
        let why = counter("fpcio2").check(&known).unwrap_err();
        assert!(why.starts_with("no counter `fpcio2` of one number a frame; did you mean `fpico2`?"), "{why}");
        assert!(why.ends_with("has: epoch, fpico1, fpico2"), "{why}");
        let why = counter("zzz").check(&known).unwrap_err();
        assert_eq!(why, "no counter `zzz` of one number a frame; the scan has: epoch, fpico1, fpico2");
        let many: Vec<String> = (0..50).map(|number| format!("c{number:02}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(counter("x").check(&scan(&many)).unwrap_err().ends_with("c39 and 10 more"));
    }

    #[test]
    fn what_may_come_or_was_not_listed_is_not_refused() {
        let start_time = Some("2026-03-04T10:20:30+01:00".to_owned());
        let running = Acquisition { start_time, complete: false, ..scan(&["epoch"]) };
        assert_eq!(counter("diode").check(&running), Ok(()));
        assert_eq!(Monitors(vec![Needed::ExposureTime]).check(&running), Ok(()));
        assert_eq!(counter("diode").check(&scan(&[])), Ok(()));
        let images = Acquisition { sources: vec![Source::default()], ..scan(&[]) };
        assert!(counter("diode").check(&images).unwrap_err().contains("images have none"));
    }

    #[test]
    fn a_list_of_values_has_one_a_frame_or_one() {
        let values = |count| Monitors(vec![Needed::Values("m.h5::/m".to_owned(), count)]);
        let check = |count| values(count).check(&scan(&[]));
        assert_eq!([1, 10, 11].map(|count| check(count).is_ok()), [true; 3]);
        assert_eq!(check(9).unwrap_err(), "monitor m.h5::/m: 9 values: expected one, or one for each of 10 frames");
        assert!(check(0).is_err());
        assert!(Monitors(vec![Needed::ExposureTime]).check(&scan(&[])).unwrap_err().contains("exposure-time"));
    }
}
