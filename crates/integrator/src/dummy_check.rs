//! [`DummyCheck`], which warns when a frame of an unnamed detector has values that photon counters
//! write for gaps and dead pixels, and when a dead time makes many pixels invalid.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kernels::{DeadTime, PixelType};
use recipe::{DummySetting, Recipe, Time};

use crate::image_stack::pixels_to_f64;

/// The least share of invalid pixels that a dead time is warned of.
const MIN_DEAD_SHARE: f64 = 1e-3;

/// Checks the unmasked pixels of one frame for the dummy values of photon counters, and for counts that are
/// invalid by the dead time.
pub struct DummyCheck {
    mask: Vec<bool>,
    dtype: PixelType,
    has_started: AtomicBool,
    /// True if dummy values are looked for.
    is_dummy_unknown: bool,
    /// The dead time and the exposure time of the recipe, if it has a dead time.
    times: Option<[Time; 2]>,
}

impl DummyCheck {
    /// Makes the check. It is needed if the recipe has a dead time, or if the detector has no name and the
    /// recipe gives no dummy values.
    pub fn new(recipe: &Recipe, is_named: bool, mask: &[bool], dtype: PixelType) -> Self {
        // Below or above the limits, such values are left out.
        let is_left_out = match dtype {
            PixelType::I16 | PixelType::I32 => recipe.valid_min.is_some_and(|least| least > -1.0),
            PixelType::U16 => recipe.valid_max.is_some_and(|most| most < 65534.0),
            _ => false,
        };
        Self {
            is_dummy_unknown: recipe.dummy == DummySetting::Auto && !is_named && !is_left_out,
            times: recipe.dead_time.zip(recipe.exposure_time).map(|(dead, all)| [dead, all]),
            mask: mask.to_vec(),
            dtype,
            has_started: AtomicBool::new(false),
        }
    }

    /// Returns whether a frame is to be checked.
    pub fn is_needed(&self) -> bool {
        self.is_dummy_unknown || self.times.is_some()
    }

    /// Returns the mask, true for pixels that are not checked.
    pub fn mask(&self) -> &[bool] {
        &self.mask
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
    /// values, or if a dead time makes pixels invalid.
    pub fn check(&self, pixels: &[u8]) -> Option<String> {
        let dummies = self.is_dummy_unknown.then(|| self.check_dummies(pixels)).flatten();
        let told = [dummies, self.check_dead_time(pixels)];
        told.into_iter().flatten().reduce(|one, other| format!("{one}; {other}"))
    }

    /// Returns the values of the pixels that are not masked.
    fn unmasked(&self, pixels: &[u8]) -> impl Iterator<Item = f64> {
        let values = pixels_to_f64(pixels, self.dtype).into_iter().zip(&self.mask);
        values.filter(|(_, masked)| !**masked).map(|(value, _)| value)
    }

    fn check_dead_time(&self, pixels: &[u8]) -> Option<String> {
        let [dead_time, exposure_time] = self.times?;
        let most = (DeadTime::MAX_DEAD_PART * exposure_time.get() / dead_time.get()).floor();
        // The largest values stand for gaps.
        let largest = match self.dtype {
            PixelType::U8 => 252.0,
            PixelType::U16 => 65532.0,
            PixelType::U32 => 4_294_967_292.0,
            _ => f64::MAX,
        };
        let counts = self.unmasked(pixels).filter(|value| *value <= largest);
        let (all, invalid) = counts.fold((0_usize, 0_usize), |(all, invalid), value| {
            (all + 1, invalid + usize::from(value > most))
        });
        (invalid as f64 > MIN_DEAD_SHARE * all as f64).then(|| {
            format!(
                "{invalid} of {all} pixels of the first frame have more than {most} counts, the most that dead-time {dead_time} \
                 allows in an exposure of {exposure_time}, and are left out, which makes bright places darker: check both times and \
                 their units"
            )
        })
    }

    fn check_dummies(&self, pixels: &[u8]) -> Option<String> {
        let (rule, is_dummy): (_, fn(f64) -> bool) = match self.dtype {
            PixelType::U16 => ("65534,1", |value| value >= 65534.0),
            PixelType::I16 | PixelType::I32 => ("-2,1", |value| value == -1.0 || value == -2.0),
            _ => return None,
        };
        let (count, first) = self
            .unmasked(pixels)
            .filter(|value| is_dummy(*value))
            .fold((0, None), |(count, first), value| (count + 1, first.or(Some(value))));
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
        let mask = vec![false, false, true];
        let has_started = AtomicBool::new(false);
        DummyCheck { mask, dtype, has_started, is_dummy_unknown: true, times: None }
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
    fn pixels_that_a_dead_time_makes_invalid_give_a_warning() {
        let times = |dead: &str, all: &str| Some([dead.parse().unwrap(), all.parse().unwrap()]);
        let check = |dead, values: [u16; 3]| {
            let times = times(dead, "10ms");
            let check = DummyCheck { times, ..dummy_check(PixelType::U16) };
            let check = DummyCheck { is_dummy_unknown: false, ..check };
            check.check(&values.map(u16::to_ne_bytes).concat())
        };
        let told = check("10us", [900, 901, 65535]).unwrap();
        let expected = "1 of 2 pixels of the first frame have more than 900 counts, the most that dead-time 1e-5 s allows in \
                        an exposure of 0.01 s, and are left out, which makes bright places darker: check both times and their units";
        assert_eq!(told, expected);
        // The third pixel is masked, and the largest values stand for gaps.
        assert_eq!(check("10us", [900, 65535, 5000]), None);
        assert_eq!(check("120ns", [900, 901, 5000]), None);
    }

    #[test]
    fn types_without_dummy_values_are_not_checked() {
        assert_eq!(dummy_check(PixelType::U8).check(&[255, 255, 255]), None);
    }
}
