//! Settings that are a single item or a list of items.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    Deserialize, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};

/// A single item or a list of items, such as `mask = "a.edf"` or `mask = ["a.edf", "b.edf"]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// A list of any length.
    Many(Vec<T>),
    /// A single item.
    One(T),
}

impl<T> OneOrMany<T> {
    /// Returns the items in order.
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(item) => std::slice::from_ref(item),
            Self::Many(items) => items,
        }
    }

    /// Returns the items in order, mutably.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        match self {
            Self::One(item) => std::slice::from_mut(item),
            Self::Many(items) => items,
        }
    }

    /// Returns the items of an optional setting; none if it is absent.
    pub fn items(setting: Option<&Self>) -> &[T] {
        setting.map_or(&[], Self::as_slice)
    }

    /// Makes a setting from the values of a repeated flag; `None` if there are none.
    pub fn from_items(items: Vec<T>) -> Option<Self> {
        (!items.is_empty()).then_some(Self::Many(items))
    }
}

// Not derived: serde's error of an untagged enum does not say which entry is wrong, or why.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrManyVisitor(PhantomData))
    }
}

struct OneOrManyVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrManyVisitor<T> {
    type Value = OneOrMany<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        let error = |number: usize, why: A::Error| {
            A::Error::custom(format!("entry {number}: {}", describe_in_one_line(&why)))
        };
        while let Some(item) = list.next_element().map_err(|why| error(items.len() + 1, why))? {
            items.push(item);
        }
        Ok(OneOrMany::Many(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(OneOrMany::One)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(text.into_deserializer()).map(OneOrMany::One)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(OneOrMany::One)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(OneOrMany::One)
    }
}

/// Describes an error of crate `toml` without line ends, with the key that it names in front.
fn describe_in_one_line(why: &impl fmt::Display) -> String {
    let text = why.to_string();
    match text.trim().split_once("\nin `") {
        Some((message, key)) => format!("{}: {message}", key.trim_end_matches('`')),
        None => text.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Settings;

    #[test]
    fn errors_name_the_key_and_the_entry_and_what_was_expected() {
        let refuse =
            |text: &str| Settings::parse(text, Path::new("recipe.toml")).unwrap_err().to_string();
        let circle = "expected circle:ROW,COLUMN,RADIUS: ";
        let cases = [
            (
                "mask-region = ['circle:1,2,3', 'circle:1,2,nan']",
                format!("mask-region: entry 2: `circle:1,2,nan`: {circle}"),
            ),
            (
                "mask-region = ['polygon:1,2']",
                "mask-region: entry 1: `polygon:1,2`: expected polygon:ROW,COLUMN,".to_owned(),
            ),
            (
                "mask-region = 'sector:0,0'",
                "mask-region: `sector:0,0`: expected sector:FROM,TO: ".to_owned(),
            ),
            (
                "mask_region = ['circle:1,2,-5']",
                format!("mask-region: entry 1: `circle:1,2,-5`: {circle}"),
            ),
            ("mask-region = true", "mask-region: invalid type: boolean `true`".to_owned()),
            (
                "mask-region = [true]",
                "mask-region: entry 1: expected a text, a number or a list of numbers".to_owned(),
            ),
            (
                "monitor-reference = ['0']",
                "monitor-reference: entry 1: `0`: expected mean, a finite number other".to_owned(),
            ),
            ("mask = ['a.edf', 5]", "mask: entry 2: invalid type: integer `5`".to_owned()),
            (
                "monitor = [{ name = 'a', reference = '0' }]",
                "monitor: entry 1: reference: `0`: expected mean".to_owned(),
            ),
            (
                "monitor = ['a', [1.0]]",
                "monitor: entry 2: invalid type: sequence, expected a name, a number or \
                 { name = ..., reference = ... }"
                    .to_owned(),
            ),
            (
                "[detector.p3]\nmonitor = { name = 'a', referenc = 5 }",
                "detector.p3.monitor: unknown field `referenc`".to_owned(),
            ),
        ];
        for (text, expected) in cases {
            let why = refuse(text);
            assert!(why.starts_with(&format!("recipe.toml: {expected}")), "{text}: {why}");
            assert!(!why.contains("variant") && !why.contains('\n'), "{why}");
        }
    }

    #[test]
    fn single_items_and_lists_are_read() {
        let read = |text: &str| Settings::parse(text, Path::new("recipe.toml")).unwrap();
        for [one, many] in [
            ["mask = 'a.edf'", "mask = ['a.edf']"],
            ["monitor = 5", "monitor = [5.0]"],
            [
                "monitor = { name = 'a', reference = 5 }",
                "monitor = [{ name = 'a', reference = 5 }]",
            ],
            ["monitor-reference = 2.5", "monitor-reference = [2.5]"],
        ] {
            let [one, many] = [one, many].map(read);
            assert_eq!(
                one.monitor.map(|all| all.as_slice().to_vec()),
                many.monitor.map(|all| all.as_slice().to_vec())
            );
            assert_eq!(
                one.mask.map(|all| all.as_slice().to_vec()),
                many.mask.map(|all| all.as_slice().to_vec())
            );
        }
    }
}
