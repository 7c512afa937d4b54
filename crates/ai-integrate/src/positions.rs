//! [`PositionCache`]: the integrators of positions of detectors that move, which all recipes of a run
//! share.

use std::sync::{Arc, Mutex, PoisonError};

use integrator::{Integrator, PixelType};
use memory_model::MAX_POSITION_BYTES;
use recipe::{Recipe, Time};
use records::FrameLayout;

/// Everything on which the integrator of a position depends. Recipes of several scans with the same
/// settings have the same keys where their detectors have the same position.
#[derive(Clone, Debug, PartialEq)]
pub struct PositionKey {
    matrix: String,
    dtype: String,
    /// Dead time and exposure time, which the matrix does not depend on.
    times: [Option<Time>; 2],
}

impl PositionKey {
    /// Returns the key of a recipe of one position, for frames of this layout and type.
    pub fn new(recipe: &Recipe, framing: &FrameLayout, dtype: PixelType) -> Self {
        let times = [recipe.dead_time, recipe.exposure_time];
        Self { matrix: Integrator::cache_key(recipe, framing), dtype: dtype.to_string(), times }
    }
}

/// The integrators of positions that were used last, as far as they fit into a limit together.
pub struct PositionCache {
    max_bytes: u64,
    /// In the order of their last use.
    known: Mutex<Vec<(PositionKey, Arc<Integrator>)>>,
}

impl Default for PositionCache {
    fn default() -> Self {
        Self::new(MAX_POSITION_BYTES)
    }
}

impl PositionCache {
    /// Creates a cache that keeps at most `max_bytes`.
    pub fn new(max_bytes: u64) -> Self {
        Self { max_bytes, known: Mutex::default() }
    }

    /// Returns the integrator of a position, if it is still kept.
    pub fn get(&self, key: &PositionKey) -> Option<Arc<Integrator>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|(other, _)| other == key)?;
        let found = known.remove(at);
        let integrator = Arc::clone(&found.1);
        known.push(found);
        Some(integrator)
    }

    /// Adds an integrator, and drops those that were not used for the longest time.
    pub fn add(&self, key: PositionKey, integrator: &Arc<Integrator>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(other, _)| *other != key);
        known.push((key, Arc::clone(integrator)));
        let mut bytes = 0;
        let fit = known.iter().rev().take_while(|(_, integrator)| {
            bytes += integrator.memory_bytes() as u64;
            bytes <= self.max_bytes
        });
        let dropped = known.len() - fit.count();
        known.drain(..dropped);
    }
}

#[cfg(test)]
mod tests {
    use recipe::{ErrorMeasure, PoniRange, Settings};
    use records::RawPath;

    use super::*;

    const GEOMETRY: &str = "Detector: Pilatus100k\nDistance: 0.2\nPoni1: 0.01\nPoni2: 0\n";

    #[test]
    fn scans_share_positions_and_the_longest_unused_go() {
        let settings = Settings {
            geometry: Some(GEOMETRY.to_owned()),
            unit: "2th_deg".parse().ok(),
            npt: Some(50),
            ..Settings::default()
        };
        let recipe = Recipe::resolve(&settings).unwrap();
        let framing = FrameLayout::full_frame([195, 487]);
        let no_file = RawPath::default();
        let range = |first, distance: &str| PoniRange {
            first,
            last: first,
            poni: GEOMETRY.replace("0.2", distance),
            poni_file: no_file.clone(),
            incident_angle: None,
        };
        let scans = [
            recipe.with_geometries(vec![range(0, "0.2"), range(1, "0.3")]),
            recipe.with_geometries(vec![range(0, "0.3"), range(4, "0.4")]),
        ];
        let at = |scan: &Recipe, number: usize| {
            let PoniRange { poni, poni_file, incident_angle, .. } = &scan.poni_table[number];
            scan.at_geometry(poni, poni_file, *incident_angle)
        };
        let key = |recipe: &Recipe| PositionKey::new(recipe, &framing, PixelType::U16);
        let keys = [at(&scans[0], 0), at(&scans[0], 1), at(&scans[1], 0), at(&scans[1], 1)];
        let keys = keys.each_ref().map(key);
        assert_eq!(keys[1], keys[2], "another range of frames, another scan");
        assert_ne!(keys[0], keys[1]);
        let spread = Recipe { error: ErrorMeasure::Std, ..at(&scans[1], 0) };
        assert_eq!(key(&spread), keys[1], "applied to the sums");
        let masked = Recipe { detector_mask: false, ..at(&scans[1], 0) };
        assert_ne!(key(&masked), keys[1]);
        assert_ne!(PositionKey::new(&recipe, &framing, PixelType::U32), keys[0]);
        let dead_time = "120ns".parse().ok();
        let corrected = Recipe { dead_time, ..at(&scans[1], 0) };
        assert_ne!(key(&corrected), keys[1]);
        let longer = corrected.with_exposure_time("2s".parse().unwrap());
        assert_ne!(key(&longer), key(&corrected));

        let integrator = Arc::new(Integrator::new(&recipe, &framing, PixelType::U16).unwrap());
        let cache = PositionCache::new(2 * integrator.memory_bytes() as u64);
        cache.add(keys[0].clone(), &integrator);
        cache.add(keys[1].clone(), &integrator);
        assert!(cache.get(&keys[0]).is_some());
        cache.add(keys[3].clone(), &integrator);
        assert_eq!(keys.map(|key| cache.get(&key).is_some()), [true, false, false, true]);
    }
}
