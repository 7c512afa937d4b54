//! How a worker's configuration integrates: splitting, error model, and the function that is called.

use serde_json::{Map, Value};

use super::WorkerConfig;
use crate::import::refuse;
use crate::{ErrorModel, Quantiles, RecipeError, Settings, SigmaClip, Split};

impl WorkerConfig<'_> {
    pub(super) fn set_method(&self, settings: &mut Settings, said: &mut Vec<String>) -> Result<(), RecipeError> {
        settings.split = Some(self.split(settings.npt_azim.is_some(), said)?);
        settings.error_model = Some(self.error_model("error_model", self.value("error_model"))?);
        if self.bool_value("do_poisson")? == Some(true) {
            settings.error_model = Some(ErrorModel::Poisson);
        }
        if let Some(class) = self.text_value("integrator_class")?.filter(|class| *class != "AzimuthalIntegrator") {
            return refuse(self.path, "integrator_class", format!("{class}: expected AzimuthalIntegrator"));
        }
        let none = Map::new();
        let mut options = match self.value("extra_options") {
            None => none,
            Some(Value::Object(options)) => options.clone(),
            Some(other) => return self.unsupported("extra_options", other, "an object"),
        };
        if let Some(model) = options.remove("error_model") {
            settings.error_model = Some(self.error_model("extra_options.error_model", Some(&model))?);
        }
        let name = self.text_value("integrator_method")?.or(self.text_value("integrator_name")?).unwrap_or("");
        match name {
            "" => (),
            name if name.starts_with("integrate1d") || name.starts_with("integrate2d") => (),
            "sigma_clip" | "sigma_clip_ng" => {
                let threshold = take_number(&mut options, &["thres", "thresh"]).unwrap_or(5.0);
                let max_iter = take_number(&mut options, &["max_iter"]).unwrap_or(5.0) as u32;
                settings.sigma_clip = Some(SigmaClip { threshold, max_iter });
                if settings.error_model == Some(ErrorModel::No) {
                    // As pyFAI does where no errors are asked for.
                    settings.error_model = Some(ErrorModel::Poisson);
                }
            }
            "medfilt1d" | "medfilt1d_ng" => settings.median = Some(self.quantiles(&mut options)?),
            other => {
                let expected = "integrate1d, integrate2d, sigma_clip_ng or medfilt1d_ng";
                return refuse(self.path, "integrator_method", format!("{other}: expected {expected}"));
            }
        }
        match options.iter().find(|(_, value)| !value.is_null()) {
            Some((key, value)) => {
                refuse(self.path, &format!("extra_options.{key}"), format!("{value}: has no counterpart here"))
            }
            None => Ok(()),
        }
    }

    fn quantiles(&self, options: &mut Map<String, Value>) -> Result<Quantiles, RecipeError> {
        let value = ["percentile", "quantile"].iter().find_map(|key| options.remove(*key)).unwrap_or(Value::Null);
        match (&value, value.as_array().map(Vec::as_slice)) {
            (Value::Null, _) => Ok(Quantiles { low: 50.0, high: 50.0 }),
            (Value::Number(number), _) => {
                let percent = number.as_f64().unwrap_or(f64::NAN);
                Ok(Quantiles { low: percent, high: percent })
            }
            (_, Some([Value::Number(low), Value::Number(high)])) => {
                Ok(Quantiles { low: low.as_f64().unwrap_or(f64::NAN), high: high.as_f64().unwrap_or(f64::NAN) })
            }
            _ => self.unsupported("extra_options.percentile", &value, "a percentile or two"),
        }
    }

    /// By number, or by a word that begins a model's name.
    fn error_model(&self, key: &str, value: Option<&Value>) -> Result<ErrorModel, RecipeError> {
        let models = [("no", ErrorModel::No), ("variance", ErrorModel::Variance), ("poisson", ErrorModel::Poisson)]
            .into_iter()
            .chain([("azimuthal", ErrorModel::Azimuthal), ("hybrid", ErrorModel::Hybrid)]);
        let found = match value {
            None | Some(Value::Null) => return Ok(ErrorModel::No),
            Some(Value::String(word)) => {
                let word = word.to_lowercase();
                models
                    .clone()
                    .find(|(name, _)| !word.is_empty() && (name.starts_with(&word) || word == "none" && *name == "no"))
            }
            Some(value) => value.as_u64().and_then(|number| models.clone().nth(number as usize)),
        };
        match (found, value) {
            (Some((_, ErrorModel::Variance)), Some(value)) => {
                self.unsupported(key, value, "a model that needs no image of variances")
            }
            (Some((_, model)), _) => Ok(model),
            (None, value) => self.unsupported(key, value.unwrap_or(&Value::Null), "no, poisson, azimuthal or hybrid"),
        }
    }

    /// The splitting: first of three words from version 3 on, a part of one word before.
    fn split(&self, is_cake: bool, said: &mut Vec<String>) -> Result<Split, RecipeError> {
        let value = self.value("method");
        let word = match value {
            None => String::new(),
            Some(Value::String(word)) => word.to_lowercase(),
            Some(Value::Array(words)) => {
                // Of five, the first is the number of dimensions.
                let split = if words.len() == 5 { words.get(1) } else { words.first() };
                split.and_then(Value::as_str).unwrap_or("").to_lowercase()
            }
            Some(other) => {
                return self.unsupported("method", other, "[splitting, algorithm, implementation] or a word");
            }
        };
        if value.is_some_and(|value| value.to_string().contains("unweighted")) {
            return self.unsupported("method", value.unwrap_or(&Value::Null), "weighted averages");
        }
        match word.as_str() {
            word if word.contains("bbox") => Ok(Split::BBox),
            word if word.contains("full") => Ok(Split::Full),
            word if word.contains("pseudo") && !is_cake => {
                said.push("method pseudo: bbox, as in pyFAI's patterns".to_owned());
                Ok(Split::BBox)
            }
            word if word.contains("pseudo") => {
                self.unsupported("method", value.unwrap_or(&Value::Null), "no, bbox or full splitting")
            }
            word if word.contains("no") || word == "numpy" || word == "cython" => Ok(Split::No),
            _ => {
                said.push("method: names no splitting; bbox is taken".to_owned());
                Ok(Split::BBox)
            }
        }
    }
}

fn take_number(options: &mut Map<String, Value>, keys: &[&str]) -> Option<f64> {
    keys.iter().find_map(|key| options.remove(*key)).and_then(|value| value.as_f64())
}
