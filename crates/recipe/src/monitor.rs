//! Monitors: the quantities by which each frame's intensities are divided, each relative to a
//! reference.

use std::fmt;
use std::path::Path;

use records::RawPath;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::options::SettingValue;
use crate::{FileRef, RecipeError, ReferenceSetting};

/// The name of the exposure time as a monitor.
const EXPOSURE_TIME: &str = "exposure-time";

/// A quantity with a value for each frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// A counter of the scan, by name.
    Counter(String),
    /// The exposure time of each frame, in seconds.
    ExposureTime,
    /// A number for all frames.
    Number(f64),
    /// A dataset in an HDF5 file, with one value per frame or one for all.
    File(FileRef),
}

/// The reference by which a monitor's quantity is divided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MonitorReference {
    /// The mean of all finite, positive readings of the scan, including those of frames without a
    /// pattern. With several monitors it is the mean of their product. Merged scans have one mean
    /// over all of them.
    Mean,
    /// Another quantity, frame by frame.
    Quantity(Quantity),
}

/// A quantity and its reference. Intensities of a frame are divided by quantity / reference, for
/// each monitor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Monitor {
    /// Quantity that is proportional to the incident flux.
    #[serde(rename = "of")]
    pub quantity: Quantity,
    /// Value of the quantity for which intensities stay as they are.
    #[serde(rename = "over")]
    pub reference: MonitorReference,
}

/// A monitor as given by a user.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MonitorSetting {
    /// A monitor with its reference.
    WithReference(NamedMonitor),
    /// A constant by which each frame is divided.
    Number(f64),
    /// The name of a counter, `exposure-time`, or `file.h5::/path`.
    Name(String),
}

/// The name of a monitor and its reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedMonitor {
    name: SettingValue,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reference: Option<ReferenceSetting>,
}

// Not derived: serde's error of an untagged enum does not say what is wrong.
impl<'de> Deserialize<'de> for MonitorSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MonitorSettingVisitor)
    }
}

struct MonitorSettingVisitor;

impl<'de> Visitor<'de> for MonitorSettingVisitor {
    type Value = MonitorSetting;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name, a number or { name = ..., reference = ... }")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let named = NamedMonitor::deserialize(MapAccessDeserializer::new(map))?;
        Ok(MonitorSetting::WithReference(named))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(MonitorSetting::Name(name.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(MonitorSetting::Number(number as f64))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(MonitorSetting::Number(number))
    }
}

impl MonitorSetting {
    fn name(&self) -> String {
        match self {
            Self::WithReference(NamedMonitor { name, .. }) => name.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Name(name) => name.clone(),
        }
    }

    fn reference(&self) -> Option<&ReferenceSetting> {
        match self {
            Self::WithReference(NamedMonitor { reference, .. }) => reference.as_ref(),
            _ => None,
        }
    }

    /// Resolves relative paths of files from `directory`.
    pub(crate) fn resolve_paths_from(&mut self, directory: &Path) {
        let reference = match self {
            Self::WithReference(NamedMonitor { name, reference }) => {
                *name = SettingValue::Text(join_if_file(directory, &name.to_string()));
                reference.as_mut()
            }
            Self::Name(name) => {
                *name = join_if_file(directory, name);
                None
            }
            Self::Number(_) => None,
        };
        reference.into_iter().for_each(|reference| reference.resolve_paths_from(directory));
    }
}

impl ReferenceSetting {
    /// Resolves the relative path of a file from `directory`.
    pub(crate) fn resolve_paths_from(&mut self, directory: &Path) {
        if let Self::Quantity(name) = self {
            *name = join_if_file(directory, name);
        }
    }
}

/// Joins `directory` and a name of the form `file::path`; returns any other name as it is.
fn join_if_file(directory: &Path, name: &str) -> String {
    match (name.contains("::"), directory.join(name).to_str()) {
        (true, Some(joined)) => joined.to_owned(),
        _ => name.to_owned(),
    }
}

impl Quantity {
    fn resolve(name: &str) -> Result<Self, RecipeError> {
        if name == EXPOSURE_TIME {
            return Ok(Self::ExposureTime);
        }
        if let Ok(number) = name.parse::<f64>() {
            if !number.is_finite() || number == 0.0 {
                let why = format!("{name}: expected a finite number other than 0");
                return Err(RecipeError::Setting { key: "monitor", why });
            }
            return Ok(Self::Number(number));
        }
        if name.contains("::") {
            return Ok(Self::File(FileRef::resolve(&RawPath::from(name), Path::new(""))?));
        }
        Ok(Self::Counter(name.to_owned()))
    }

    fn file_path(&self) -> Option<&Path> {
        match self {
            Self::File(file) => Some(file.path.as_path()),
            _ => None,
        }
    }

    fn file_mut(&mut self) -> Option<&mut FileRef> {
        match self {
            Self::File(file) => Some(file),
            _ => None,
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Counter(name) => name.clone(),
            Self::ExposureTime => EXPOSURE_TIME.to_owned(),
            Self::Number(number) => number.to_string(),
            Self::File(file) => file.name(),
        }
    }
}

impl Monitor {
    /// Makes the monitors of a recipe. `references` is the separate list of references: empty, or
    /// one for each monitor.
    pub(crate) fn resolve(
        names: &[MonitorSetting],
        references: &[ReferenceSetting],
    ) -> Result<Vec<Self>, RecipeError> {
        let refuse = |why: String| Err(RecipeError::Setting { key: "monitor-reference", why });
        if !references.is_empty() && references.len() != names.len() {
            let (found, expected) = (references.len(), names.len());
            return refuse(format!("{found} given for {expected} monitors; expected one for each"));
        }
        let mut monitors = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let reference = match name.reference().or(references.get(index)) {
                None => MonitorReference::Quantity(Quantity::Number(1.0)),
                Some(ReferenceSetting::Mean) => MonitorReference::Mean,
                Some(ReferenceSetting::Value(number)) => {
                    MonitorReference::Quantity(Quantity::Number(*number))
                }
                Some(ReferenceSetting::Quantity(name)) => {
                    MonitorReference::Quantity(Quantity::resolve(name)?)
                }
            };
            let quantity = Quantity::resolve(&name.name())?;
            // Numbers are factors, of which two may be equal.
            let is_given = |other: &Self| other.quantity == quantity;
            if !matches!(quantity, Quantity::Number(_)) && monitors.iter().any(is_given) {
                let why = format!("{} given twice; expected each monitor once", quantity.name());
                return Err(RecipeError::Setting { key: "monitor", why });
            }
            monitors.push(Self { quantity, reference });
        }
        let means =
            monitors.iter().filter(|monitor| monitor.reference == MonitorReference::Mean).count();
        if means != 0 && means != monitors.len() {
            return refuse(
                "mean: the mean is that of the product of all monitors; expected mean for all of them, or for none"
                    .into(),
            );
        }
        Ok(monitors)
    }

    /// Returns the name, such as `fpico2` or `det / exposure-time`. References that are numbers are
    /// left out.
    pub fn name(&self) -> String {
        match &self.reference {
            MonitorReference::Mean | MonitorReference::Quantity(Quantity::Number(_)) => {
                self.quantity.name()
            }
            MonitorReference::Quantity(divisor) => {
                format!("{} / {}", self.quantity.name(), divisor.name())
            }
        }
    }

    /// Returns the paths of the files that hold the quantity and its reference.
    pub(crate) fn file_paths(&self) -> impl Iterator<Item = &Path> {
        let reference = match &self.reference {
            MonitorReference::Mean => None,
            MonitorReference::Quantity(divisor) => divisor.file_path(),
        };
        self.quantity.file_path().into_iter().chain(reference)
    }

    /// Returns the files that hold the quantity and its reference.
    pub(crate) fn files_mut(&mut self) -> impl Iterator<Item = &mut FileRef> {
        let reference = match &mut self.reference {
            MonitorReference::Mean => None,
            MonitorReference::Quantity(divisor) => divisor.file_mut(),
        };
        self.quantity.file_mut().into_iter().chain(reference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<MonitorSetting> {
        list.iter().map(|name| MonitorSetting::Name((*name).to_owned())).collect()
    }

    fn number(number: f64) -> MonitorReference {
        MonitorReference::Quantity(Quantity::Number(number))
    }

    #[test]
    fn counters_exposure_times_and_numbers_are_distinguished() {
        let found = Monitor::resolve(&names(&["fpico2", "exposure-time", "2.5"]), &[]).unwrap();
        let expected =
            [Quantity::Counter("fpico2".into()), Quantity::ExposureTime, Quantity::Number(2.5)];
        assert!(found.iter().map(|monitor| &monitor.quantity).eq(&expected));
        assert!(found.iter().all(|monitor| monitor.reference == number(1.0)));
    }

    #[test]
    fn each_monitor_has_one_reference_and_mean_is_for_all() {
        let references = ["1000".parse().unwrap(), "diode".parse().unwrap()];
        let found = Monitor::resolve(&names(&["a", "b"]), &references).unwrap();
        assert_eq!(found[0].reference, number(1000.0));
        assert_eq!(found[1].name(), "b / diode");
        let refuse = |references: &[&str]| {
            let references: Vec<ReferenceSetting> =
                references.iter().map(|text| text.parse().unwrap()).collect();
            Monitor::resolve(&names(&["a", "b"]), &references).unwrap_err().to_string()
        };
        assert!(refuse(&["1"]).contains("1 given for 2 monitors"));
        assert!(refuse(&["mean", "1"]).contains("expected mean for all of them, or for none"));
        assert!(
            Monitor::resolve(
                &names(&["a", "b"]),
                &[ReferenceSetting::Mean, ReferenceSetting::Mean]
            )
            .is_ok()
        );
    }

    #[test]
    fn a_monitor_is_given_once_but_factors_may_be_equal() {
        let twice = Monitor::resolve(&names(&["a", "b", "a"]), &[]).unwrap_err().to_string();
        assert_eq!(twice, "monitor: a given twice; expected each monitor once");
        assert!(Monitor::resolve(&names(&["0.5", "0.5"]), &[]).is_ok());
    }

    #[test]
    fn a_number_that_can_not_be_divided_by_is_refused() {
        for bad in ["0", "nan", "inf"] {
            assert!(
                Monitor::resolve(&names(&[bad]), &[])
                    .unwrap_err()
                    .to_string()
                    .contains("other than 0"),
                "{bad}"
            );
        }
    }

    #[test]
    fn the_keys_in_recipes_and_digests_stay() {
        let [monitor] = &Monitor::resolve(&names(&["a"]), &[]).unwrap()[..] else {
            panic!("one monitor")
        };
        let json = serde_json::to_string(monitor).unwrap();
        assert_eq!(json, r#"{"of":{"counter":"a"},"over":{"quantity":{"number":1.0}}}"#);
    }
}
