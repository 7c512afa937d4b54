//! [`DummyCheck`], which warns when a frame of an unnamed detector has values that photon counters
//! write for gaps and dead pixels.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kernels::PixelType;
use recipe::{DummySetting, Recipe};

use crate::image_stack::pixels_to_f64;

/// Checks the unmasked pixels of one frame for the dummy values of photon counters.
pub struct DummyCheck {
    mask: Vec<bool>,
    dtype: PixelType,
    has_started: AtomicBool,
}

impl DummyCheck {
    /// Makes the check; `None` if the detector is named or the recipe gives the dummy values, so
    /// that no check is needed.
    pub fn new(recipe: &Recipe, is_named: bool, mask: &[bool], dtype: PixelType) -> Option<Self> {
        let is_dummy_unknown = recipe.dummy == DummySetting::Auto && !is_named;
        // Below or above the limits, such values are left out.
        let is_left_out = match dtype {
            PixelType::I16 | PixelType::I32 => recipe.valid_min.is_some_and(|least| least > -1.0),
            PixelType::U16 => recipe.valid_max.is_some_and(|most| most < 65534.0),
            _ => false,
        };
        (is_dummy_unknown && !is_left_out).then(|| Self::unconditional(mask.to_vec(), dtype))
    }

    /// Returns the mask, true for pixels that are not checked.
    pub fn mask(&self) -> &[bool] {
        &self.mask
    }

    fn unconditional(mask: Vec<bool>, dtype: PixelType) -> Self {
        Self { mask, dtype, has_started: AtomicBool::new(false) }
    }

    /// Returns whether [`DummyCheck::start_once`] was called.
    pub fn has_started(&self) -> bool {
        self.has_started.load(Relaxed)
    }

    /// Returns true on the first call, from any thread, and false on all others, so that one frame
    /// is checked.
    pub fn start_once(&self) -> bool {
        !self.has_started.swap(true, Relaxed)
    }

    /// Checks a frame of native-endian pixels; returns a warning if unmasked pixels have dummy
    /// values.
    pub fn check(&self, pixels: &[u8]) -> Option<String> {
        let (rule, is_dummy): (_, fn(f64) -> bool) = match self.dtype {
            PixelType::U16 => ("65534,1", |value| value >= 65534.0),
            PixelType::I16 | PixelType::I32 => ("-2,1", |value| value == -1.0 || value == -2.0),
            _ => return None,
        };
        let unmasked = pixels_to_f64(pixels, self.dtype)
            .into_iter()
            .zip(&self.mask)
            .filter(|(_, masked)| !**masked);
        let (count, first) = unmasked
            .filter(|(value, _)| is_dummy(*value))
            .fold((0, None), |(count, first), (value, _)| (count + 1, first.or(Some(value))));
        first.map(|value| {
            format!(
                "{count} unmasked pixels of the first frame have values such as {value}, which photon counters write for \
                 gaps and dead pixels; they are integrated as counts, because the PONI file names no detector: name it \
                 there, or pass a mask, --dummy {rule}, or --dummy none if they are counts"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dummy_check(dtype: PixelType) -> DummyCheck {
        DummyCheck::unconditional(vec![false, false, true], dtype)
    }

    #[test]
    fn unmasked_dummy_values_give_a_warning() {
        let bytes = |values: [i32; 3]| values.map(i32::to_ne_bytes).concat();
        let warning = dummy_check(PixelType::I32).check(&bytes([-2, 5, -1])).unwrap();
        assert!(
            warning.starts_with("1 unmasked pixels") && warning.contains("such as -2"),
            "{warning}"
        );
        assert_eq!(dummy_check(PixelType::I32).check(&bytes([3, 5, -1])), None);
    }

    #[test]
    fn types_without_dummy_values_are_not_checked() {
        assert_eq!(dummy_check(PixelType::U8).check(&[255, 255, 255]), None);
    }
}
