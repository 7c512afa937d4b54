//! What frames are normalized by: a product of quantities, each over its reference.

use std::path::Path;

use records::RawPath;
use serde::{Deserialize, Serialize};

use crate::options::SettingValue;
use crate::{FileRef, RecipeError, ReferenceSetting};

/// The word for the exposure time of the scan's frames.
const EXPOSURE_TIME: &str = "exposure-time";

/// A value for each frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// A counter of the scan, by name.
    Counter(String),
    /// The seconds that each frame of the scan was exposed.
    ExposureTime,
    /// The same number for all frames.
    Number(f64),
    /// A dataset of one value a frame, or one for all, in an HDF5 file.
    File(FileRef),
}

/// What a quantity is divided by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MonitorReference {
    /// The mean over the scan's frames, whether they have a pattern or not, of the readings that are finite and positive; with
    /// several monitors that of their product. What is merged has one mean over all scans.
    Mean,
    /// Another quantity.
    Quantity(Quantity),
}

/// A quantity over its reference. A frame's intensities are divided by the product of all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Monitor {
    /// The quantity.
    pub of: Quantity,
    /// Its reference.
    pub over: MonitorReference,
}

/// A monitor as a user names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MonitorSetting {
    /// With its reference.
    WithReference(NamedMonitor),
    /// A number.
    Number(f64),
    /// A counter's name, `exposure-time`, or `file.h5::/path`.
    Name(String),
}

/// A monitor's name and its reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedMonitor {
    name: SettingValue,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reference: Option<ReferenceSetting>,
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

    /// The same with the path of a file below `directory`.
    pub(crate) fn taken_from(&mut self, directory: &Path) {
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
    /// The same with the path of a file below `directory`.
    pub(crate) fn resolve_paths_from(&mut self, directory: &Path) {
        if let Self::Quantity(name) = self {
            *name = join_if_file(directory, name);
        }
    }
}

/// A name of the form `file_ref::path`, its file taken from `directory`; any other as it is.
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
            let usable = number.is_finite() && number != 0.0;
            let wrong =
                || RecipeError::Setting { key: "monitor", why: format!("{name}: expected a number other than 0") };
            return usable.then_some(Self::Number(number)).ok_or_else(wrong);
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

    fn name(&self) -> String {
        match self {
            Self::Counter(name) => name.clone(),
            Self::ExposureTime => EXPOSURE_TIME.to_owned(),
            Self::Number(number) => number.to_string(),
            Self::File(file) => file.name(),
        }
    }
}

impl Monitor {
    /// Monitors by name, and the references that are given beside them: none, or one each.
    pub(crate) fn resolve(names: &[MonitorSetting], references: &[ReferenceSetting]) -> Result<Vec<Self>, RecipeError> {
        let wrong = |why: String| Err(RecipeError::Setting { key: "monitor-reference", why });
        if !references.is_empty() && references.len() != names.len() {
            let (found, expected) = (references.len(), names.len());
            return wrong(format!("{found} references, {expected} monitors: expected one for each"));
        }
        let mut monitors = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let over = match name.reference().or(references.get(at)) {
                None => MonitorReference::Quantity(Quantity::Number(1.0)),
                Some(ReferenceSetting::Mean) => MonitorReference::Mean,
                Some(ReferenceSetting::Value(number)) => MonitorReference::Quantity(Quantity::Number(*number)),
                Some(ReferenceSetting::Quantity(name)) => MonitorReference::Quantity(Quantity::resolve(name)?),
            };
            monitors.push(Self { of: Quantity::resolve(&name.name())?, over });
        }
        let means = monitors.iter().filter(|monitor| monitor.over == MonitorReference::Mean).count();
        if means != 0 && means != monitors.len() {
            return wrong(
                "mean: with several monitors it is that of their product; expected it for all, or none".into(),
            );
        }
        Ok(monitors)
    }

    /// What it is called: `fpico2`, `det / exposure-time`.
    pub fn name(&self) -> String {
        match &self.over {
            MonitorReference::Mean | MonitorReference::Quantity(Quantity::Number(_)) => self.of.name(),
            MonitorReference::Quantity(over) => format!("{} / {}", self.of.name(), over.name()),
        }
    }

    /// Returns where the files lie that it is read from.
    pub(crate) fn file_paths(&self) -> impl Iterator<Item = &Path> {
        let over = match &self.over {
            MonitorReference::Mean => None,
            MonitorReference::Quantity(over) => over.file_path(),
        };
        self.of.file_path().into_iter().chain(over)
    }

    /// The files that it is read from.
    pub(crate) fn files_mut(&mut self) -> impl Iterator<Item = &mut FileRef> {
        let over = match &mut self.over {
            MonitorReference::Mean => None,
            MonitorReference::Quantity(over) => over.file_mut(),
        };
        self.of.file_mut().into_iter().chain(over)
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
    fn names_are_told_apart() {
        let found = Monitor::resolve(&names(&["fpico2", "exposure-time", "2.5"]), &[]).unwrap();
        let expected = [Quantity::Counter("fpico2".into()), Quantity::ExposureTime, Quantity::Number(2.5)];
        assert!(found.iter().map(|monitor| &monitor.of).eq(&expected));
        assert!(found.iter().all(|monitor| monitor.over == number(1.0)));
    }

    #[test]
    fn references_are_one_a_monitor_and_mean_is_of_all() {
        let references = ["1000".parse().unwrap(), "diode".parse().unwrap()];
        let found = Monitor::resolve(&names(&["a", "b"]), &references).unwrap();
        assert_eq!(found[0].over, number(1000.0));
        assert_eq!(found[1].name(), "b / diode");
        let refuse = |references: &[&str]| {
            let references: Vec<ReferenceSetting> = references.iter().map(|text| text.parse().unwrap()).collect();
            Monitor::resolve(&names(&["a", "b"]), &references).unwrap_err().to_string()
        };
        assert!(refuse(&["1"]).contains("1 references, 2 monitors"));
        assert!(refuse(&["mean", "1"]).contains("expected it for all, or none"));
        assert!(Monitor::resolve(&names(&["a", "b"]), &[ReferenceSetting::Mean, ReferenceSetting::Mean]).is_ok());
    }

    #[test]
    fn a_number_that_divides_by_nothing_is_refused() {
        for bad in ["0", "nan", "inf"] {
            assert!(Monitor::resolve(&names(&[bad]), &[]).unwrap_err().to_string().contains("other than 0"), "{bad}");
        }
    }
}
