//! Settings that are a single item or a list of items.

use serde::{Deserialize, Serialize};

/// A single item or a list of items, such as `mask = "a.edf"` or `mask = ["a.edf", "b.edf"]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    // First, because serde takes the first variant that fits: a struct (a monitor with its
    // reference) may be read from a list.
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
