//! How the measurements behind two final files differ, in what neither axes nor recipes show.

use geometry::{Poni, PoniError};
use recipe::Recipe;
use records::Acquisition;

/// Largest relative difference of wavelengths that counts as that of two calibrations, and of exposure
/// times that counts as that of two clocks.
const TOLERANCE: f64 = 1e-3;

/// A scan with the recipe that its frames are integrated with.
pub(crate) type Measurement<'a> = (&'a Acquisition, &'a Recipe);

/// Returns the wavelengths of two measurements in metres, if they are known and differ.
///
/// # Errors
/// Fails if a PONI text is invalid.
pub(crate) fn different_wavelengths(
    [(_, one), (_, two)]: [Measurement<'_>; 2],
) -> Result<Option<[f64; 2]>, PoniError> {
    let wavelength = |recipe: &Recipe| Poni::parse(&recipe.poni).map(|poni| poni.wavelength);
    Ok(differ([wavelength(one)?, wavelength(two)?]))
}

/// Returns the exposure times of a frame of two measurements in seconds, if they are known and differ, and
/// no monitor makes up for it.
pub(crate) fn different_exposures(measurements: [Measurement<'_>; 2]) -> Option<[f64; 2]> {
    let has_monitor = measurements.iter().any(|(_, recipe)| !recipe.monitor.is_empty());
    differ(measurements.map(|(scan, _)| scan.exposure_time)).filter(|_| !has_monitor)
}

fn differ(values: [Option<f64>; 2]) -> Option<[f64; 2]> {
    let [one, two] = [values[0]?, values[1]?];
    ((one - two).abs() > TOLERANCE * two.abs()).then_some([one, two])
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipe::{MonitorSetting, OneOrMany, Settings};

    #[test]
    fn exposures_are_compared_unless_a_monitor_makes_up_for_them() {
        let recipe = |monitor: Option<&str>| {
            let monitor = monitor.map(|name| OneOrMany::One(MonitorSetting::Name(name.to_owned())));
            let poni = "poni_version: 2.1\nDetector: Pilatus100k\nDetector_config: {}\nDistance: 0.1\n\
                        Poni1: 0\nPoni2: 0\nRot1: 0\nRot2: 0\nRot3: 0\nWavelength: 1e-10\n";
            let geometry = Some(poni.to_owned());
            Recipe::resolve(&Settings { geometry, monitor, ..Settings::default() }).unwrap()
        };
        let scan = |seconds| Acquisition { exposure_time: seconds, ..Acquisition::default() };
        let [short, long, unknown] = [Some(0.1), Some(0.5), None].map(scan);
        let (bare, divided) = (recipe(None), recipe(Some("i0")));
        assert_eq!(different_exposures([(&short, &bare), (&long, &bare)]), Some([0.1, 0.5]));
        assert_eq!(different_exposures([(&short, &bare), (&short, &bare)]), None);
        assert_eq!(different_exposures([(&short, &bare), (&unknown, &bare)]), None);
        assert_eq!(different_exposures([(&short, &divided), (&long, &divided)]), None);
        let wavelengths = |other: &Recipe| different_wavelengths([(&short, &bare), (&long, other)]);
        assert_eq!(wavelengths(&divided).unwrap(), None);
        let poni = bare.poni.replace("1e-10", "2e-10");
        assert_eq!(wavelengths(&Recipe { poni, ..bare.clone() }).unwrap(), Some([1e-10, 2e-10]));
        let poni = "no PONI text".to_owned();
        assert!(wavelengths(&Recipe { poni, ..bare.clone() }).is_err());
    }
}
