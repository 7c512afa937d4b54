//! A word of warning for frames of a detector that the PONI does not name: do they hold values that
//! photon counters mark gaps and dead pixels with?

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kernels::PixelType;
use recipe::{DummySetting, Recipe};

use crate::images::pixels_to_f64;

/// Which pixels to look at, and for which values.
pub struct DummyCheck {
    mask: Vec<bool>,
    dtype: PixelType,
    has_started: AtomicBool,
}

impl DummyCheck {
    /// `None` where the detector is named, or the recipe says itself what is no measurement.
    pub fn new(recipe: &Recipe, is_named: bool, mask: &[bool], dtype: PixelType) -> Option<Self> {
        let nobody_says = recipe.dummy == DummySetting::Auto && !is_named;
        nobody_says.then(|| Self::unconditional(mask.to_vec(), dtype))
    }

    /// The pixels that are not looked at.
    pub fn mask(&self) -> &[bool] {
        &self.mask
    }

    fn unconditional(mask: Vec<bool>, dtype: PixelType) -> Self {
        Self { mask, dtype, has_started: AtomicBool::new(false) }
    }

    /// Whether this is the first frame to be looked at: one is enough.
    pub fn start(&self) -> bool {
        !self.has_started.swap(true, Relaxed)
    }

    /// What to say of a frame of native-endian pixels, if anything.
    pub fn check(&self, pixels: &[u8]) -> Option<String> {
        let (rule, marks): (_, fn(f64) -> bool) = match self.dtype {
            PixelType::U16 => ("65534,1", |value| value >= 65534.0),
            // All ones alone are taken for no measurement anyway.
            PixelType::U32 => ("4294967294,1", |value| value == 4_294_967_294.0),
            PixelType::I16 | PixelType::I32 => ("-2,1", |value| value == -1.0 || value == -2.0),
            _ => return None,
        };
        let unmasked = pixels_to_f64(pixels, self.dtype).into_iter().zip(&self.mask).filter(|(_, masked)| !**masked);
        let (count, first) = unmasked
            .filter(|(value, _)| marks(*value))
            .fold((0, None), |(count, first), (value, _)| (count + 1, first.or(Some(value))));
        first.map(|value| {
            format!(
                "{count} unmasked pixels of the first frame hold values such as {value}, with which photon counters mark \
                 gaps; the PONI names no detector, so they count: name it, or give a mask, --dummy {rule} or --dummy none"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspect(dtype: PixelType) -> DummyCheck {
        DummyCheck::unconditional(vec![false, false, true], dtype)
    }

    #[test]
    fn marks_of_gaps_are_told_unless_masked() {
        let bytes = |values: [i32; 3]| values.map(i32::to_ne_bytes).concat();
        let said = suspect(PixelType::I32).check(&bytes([-2, 5, -1])).unwrap();
        assert!(said.starts_with("1 unmasked pixels") && said.contains("such as -2"), "{said}");
        assert_eq!(suspect(PixelType::I32).check(&bytes([3, 5, -1])), None);
    }

    #[test]
    fn types_that_mark_nothing_are_not_looked_at() {
        assert_eq!(suspect(PixelType::U8).check(&[255, 255, 255]), None);
    }
}
