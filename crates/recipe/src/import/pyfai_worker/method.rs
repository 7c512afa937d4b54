//! The integration method of a worker's configuration: pixel splitting, error model, and pyFAI's
//! function.

use serde_json::{Map, Value};

use super::WorkerConfig;
use crate::import::refuse;
use crate::{ErrorModel, Mean, Quantiles, RecipeError, Settings, SigmaClip, Split};

impl WorkerConfig<'_> {
    pub(super) fn set_method(
        &self,
        settings: &mut Settings,
        remarks: &mut Vec<String>,
    ) -> Result<(), RecipeError> {
        settings.split = Some(self.split(settings.npt_azim.is_some(), remarks)?);
        let is_unweighted =
            self.value("method").is_some_and(|method| method.to_string().contains("unweighted"));
        settings.mean = is_unweighted.then_some(Mean::Unweighted);
        settings.error_model = Some(self.error_model("error_model", self.value("error_model"))?);
        if self.bool_value("do_poisson")? == Some(true) {
            settings.error_model = Some(ErrorModel::Poisson);
        }
        if let Some(class) =
            self.text_value("integrator_class")?.filter(|class| *class != "AzimuthalIntegrator")
        {
            return refuse(
                self.path,
                "integrator_class",
                format!("{class}: expected AzimuthalIntegrator"),
            );
        }
        let mut options = match self.value("extra_options") {
            None => Map::new(),
            Some(Value::Object(options)) => options.clone(),
            Some(other) => return self.unsupported("extra_options", other, "a JSON object"),
        };
        if let Some(model) = options.remove("error_model") {
            settings.error_model =
                Some(self.error_model("extra_options.error_model", Some(&model))?);
        }
        let name = self
            .text_value("integrator_method")?
            .or(self.text_value("integrator_name")?)
            .unwrap_or("");
        match name {
            "" => (),
            name if name.starts_with("integrate1d") || name.starts_with("integrate2d") => (),
            "sigma_clip" | "sigma_clip_ng" => {
                let threshold =
                    self.take_number(&mut options, &["thres", "thresh"])?.unwrap_or(5.0);
                let max_iter = self.take_number(&mut options, &["max_iter"])?.unwrap_or(5.0);
                if max_iter.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&max_iter) {
                    return self.unsupported(
                        "extra_options.max_iter",
                        &max_iter.into(),
                        "a whole number",
                    );
                }
                let max_iter = max_iter as u32;
                settings.sigma_clip = Some(SigmaClip { threshold, max_iter });
                if settings.error_model == Some(ErrorModel::No) {
                    // pyFAI clips with Poisson errors if no error model is given.
                    settings.error_model = Some(ErrorModel::Poisson);
                }
            }
            "medfilt1d" | "medfilt1d_ng" => settings.median = Some(self.quantiles(&mut options)?),
            other => {
                let expected = "integrate1d, integrate2d, sigma_clip_ng or medfilt1d_ng";
                return refuse(
                    self.path,
                    "integrator_method",
                    format!("{other}: expected {expected}"),
                );
            }
        }
        match options.iter().find(|(_, value)| !value.is_null()) {
            Some((key, value)) => refuse(
                self.path,
                &format!("extra_options.{key}"),
                format!("{value}: not supported; remove the key"),
            ),
            None => Ok(()),
        }
    }

    /// Removes the first of several keys that is given from the extra options, and returns its
    /// number; `None` if none is given.
    fn take_number(
        &self,
        options: &mut Map<String, Value>,
        keys: &[&str],
    ) -> Result<Option<f64>, RecipeError> {
        let given = keys
            .iter()
            .find_map(|key| Some((key, options.remove(*key).filter(|value| !value.is_null())?)));
        let Some((key, value)) = given else { return Ok(None) };
        match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => self.unsupported(&format!("extra_options.{key}"), &value, "a number"),
        }
    }

    fn quantiles(&self, options: &mut Map<String, Value>) -> Result<Quantiles, RecipeError> {
        let value = options.remove("percentile").unwrap_or(Value::Null);
        match (&value, value.as_array().map(Vec::as_slice)) {
            (Value::Null, _) => Ok(Quantiles { low: 50.0, high: 50.0 }),
            (Value::Number(number), _) => {
                let percent = number.as_f64().unwrap_or(f64::NAN);
                Ok(Quantiles { low: percent, high: percent })
            }
            (_, Some([Value::Number(low), Value::Number(high)])) => Ok(Quantiles {
                low: low.as_f64().unwrap_or(f64::NAN),
                high: high.as_f64().unwrap_or(f64::NAN),
            }),
            _ => self.unsupported("extra_options.percentile", &value, "one or two percentiles"),
        }
    }

    /// Parses an error model, given as a number or as the beginning of its name.
    fn error_model(&self, key: &str, value: Option<&Value>) -> Result<ErrorModel, RecipeError> {
        let models = [
            ("no", ErrorModel::No),
            ("variance", ErrorModel::Variance),
            ("poisson", ErrorModel::Poisson),
        ]
        .into_iter()
        .chain([("azimuthal", ErrorModel::Azimuthal), ("hybrid", ErrorModel::Hybrid)]);
        let found = match value {
            None | Some(Value::Null) => return Ok(ErrorModel::No),
            Some(Value::String(text)) => {
                let text = text.to_lowercase();
                models.clone().find(|(name, _)| {
                    !text.is_empty() && (name.starts_with(&text) || text == "none" && *name == "no")
                })
            }
            Some(value) => value.as_u64().and_then(|number| models.clone().nth(number as usize)),
        };
        match (found, value) {
            (Some((_, ErrorModel::Variance)), Some(value)) => {
                self.unsupported(key, value, "a model that needs no image of variances")
            }
            (Some((_, model)), _) => Ok(model),
            (None, value) => self.unsupported(
                key,
                value.unwrap_or(&Value::Null),
                "no, poisson, azimuthal or hybrid",
            ),
        }
    }

    /// Parses the pixel splitting. It is the first of three items of `method` from version 3 on,
    /// and part of its text before.
    fn split(&self, is_cake: bool, remarks: &mut Vec<String>) -> Result<Split, RecipeError> {
        let value = self.value("method");
        let split = match value {
            None => String::new(),
            Some(Value::String(text)) => text.to_lowercase(),
            Some(Value::Array(items)) => {
                // A list of five begins with the number of dimensions.
                let split = if items.len() == 5 { items.get(1) } else { items.first() };
                split.and_then(Value::as_str).unwrap_or("").to_lowercase()
            }
            Some(other) => {
                return self.unsupported(
                    "method",
                    other,
                    "[splitting, algorithm, implementation] or a string",
                );
            }
        };
        match split.as_str() {
            split if split.contains("bbox") => Ok(Split::BBox),
            split if split.contains("full") => Ok(Split::Full),
            split if split.contains("pseudo") && !is_cake => {
                remarks.push(
                    "method: bbox splitting is used for pseudo, as in pyFAI's 1-D integration"
                        .to_owned(),
                );
                Ok(Split::BBox)
            }
            split if split.contains("pseudo") => self.unsupported(
                "method",
                value.unwrap_or(&Value::Null),
                "no, bbox or full splitting",
            ),
            split if split.contains("no") || split == "numpy" || split == "cython" => Ok(Split::No),
            _ => {
                remarks.push(
                    "method: no known pixel splitting is named, so bbox is used; set --split"
                        .to_owned(),
                );
                Ok(Split::BBox)
            }
        }
    }
}
