//! Warnings about a recipe that does not suit its frames, derived from the sums of the first frame.

use patterns::{BinWeights, FrameRow, Normalizer};
use recipe::{ErrorFloor, Recipe};

/// The share of a frame's variance above which the error floor is worth a warning.
const MAX_FLOOR_SHARE: f64 = 0.5;

/// Returns warnings about a frame's errors and outliers; most frames give none. `shared` holds the
/// weights of all unmasked pixels.
pub fn check_frame(recipe: &Recipe, row: &FrameRow, shared: &BinWeights) -> Vec<String> {
    if !row.has_sums() {
        return Vec::new();
    }
    [warn_of_error_floor(recipe, row, shared), warn_of_clipping(recipe, row, shared)]
        .into_iter()
        .flatten()
        .collect()
}

fn warn_of_error_floor(recipe: &Recipe, row: &FrameRow, shared: &BinWeights) -> Option<String> {
    let share = Normalizer::new(recipe)
        .floor_share(row, shared)
        .filter(|share| *share > MAX_FLOOR_SHARE)?;
    let times = (1.0 / (1.0 - share)).sqrt();
    let by = if times.is_finite() {
        format!(", which makes errors about {times:.1} times too large")
    } else {
        String::new()
    };
    let frame = row.frame;
    Some(format!(
        "frame {frame}: {:.0} % of the variance is that of pixels without a count, which have 1 by pyFAI's rule{by}: for errors \
         of sparse frames pass plan-split --error-floor {}",
        100.0 * share,
        ErrorFloor::Bin
    ))
}

fn warn_of_clipping(recipe: &Recipe, row: &FrameRow, shared: &BinWeights) -> Option<String> {
    let own = row.weight_override.as_ref().filter(|_| recipe.sigma_clip.is_some())?;
    let bins = || (0..row.signal.len()).filter(|bin| shared.count[*bin] > 0.0);
    let emptied = bins()
        .filter(|bin| row.signal[*bin] == 0.0 && own.count[*bin] < shared.count[*bin])
        .count();
    let (frame, all) = (row.frame, bins().count());
    (2 * emptied > all).then(|| {
        format!(
            "frame {frame}: sigma clipping dropped every photon of {emptied} of {all} bins: where most pixels are 0, a single count \
             is an outlier; integrate such frames without --sigma-clip"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipe::Settings;

    fn recipe(clip: bool) -> Recipe {
        let (geometry, sigma_clip) =
            (Some("Distance: 1".to_owned()), clip.then(|| "4".parse().unwrap()));
        Recipe::resolve(&Settings { geometry, sigma_clip, ..Settings::default() }).unwrap()
    }

    /// Returns a row of four bins of 100 pixels each, whose total counts are `counts`.
    fn frame(counts: [f64; 4]) -> (FrameRow, BinWeights) {
        let variance = counts.iter().map(|counts| counts.max(100.0)).collect();
        let row = FrameRow {
            frame: 3,
            signal: counts.to_vec(),
            variance: Some(variance),
            ..FrameRow::default()
        };
        (row, BinWeights { norm: vec![100.0; 4], norm_sq: vec![100.0; 4], count: vec![100.0; 4] })
    }

    #[test]
    fn sparse_frames_are_warned_of_and_others_not() {
        let (row, shared) = frame([4.0; 4]);
        let said = check_frame(&recipe(false), &row, &shared);
        assert!(
            said[0].starts_with("frame 3: 96 % of the variance") && said[0].contains("5.0 times"),
            "{said:?}"
        );
        for counts in [[100.0; 4], [5000.0; 4], [4.0, 300.0, 400.0, 500.0]] {
            let (row, shared) = frame(counts);
            assert_eq!(check_frame(&recipe(false), &row, &shared), [""; 0]);
        }
        let lost = FrameRow::without_sums(3, patterns::Status::Corrupt, 1.0);
        assert_eq!(check_frame(&recipe(false), &lost, &shared), [""; 0]);
    }

    #[test]
    fn clipping_that_leaves_no_photon_is_warned_of() {
        let (row, shared) = frame([0.0, 0.0, 0.0, 5000.0]);
        let clipped = BinWeights { count: vec![97.0, 95.0, 99.0, 100.0], ..shared.clone() };
        let row = FrameRow {
            weight_override: Some(clipped.into()),
            variance: Some(vec![1.0, 1.0, 1.0, 5000.0]),
            ..row
        };
        let said = check_frame(&recipe(true), &row, &shared);
        assert!(said.iter().any(|said| said.contains("every photon of 3 of 4 bins")), "{said:?}");
        assert!(
            !check_frame(&recipe(false), &row, &shared)
                .iter()
                .any(|said| said.contains("clipping"))
        );
    }
}
