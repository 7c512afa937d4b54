//! Settings that are one thing or a list of them.

use serde::{Deserialize, Serialize};

/// One item or a list of items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// One.
    One(T),
    /// Any number.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// The items in order.
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(item) => std::slice::from_ref(item),
            Self::Many(items) => items,
        }
    }

    /// The items in order, to change.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        match self {
            Self::One(item) => std::slice::from_mut(item),
            Self::Many(items) => items,
        }
    }

    /// The items of a setting that may not be given.
    pub fn items(setting: Option<&Self>) -> &[T] {
        setting.map_or(&[], Self::as_slice)
    }

    /// A setting from a repeated flag; `None` where it was not given.
    pub fn from_items(items: Vec<T>) -> Option<Self> {
        (!items.is_empty()).then_some(Self::Many(items))
    }
}
