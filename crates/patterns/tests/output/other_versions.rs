//! Parts and finals whose weights another version of azpipe made: equal but for rounding, or other
//! ones.

use std::path::PathBuf;

use patterns::output::{self, OutputOptions};
use patterns::{FrameRow, SharedBins};
use records::{Acquisition, Span, Spans};

use crate::support::*;
use crate::{Recipe, intensity, open, parts};

const FRAMES: u64 = 20;

/// A scan, and the directory of its results.
struct Results {
    out: tempfile::TempDir,
    recipe: Recipe,
    scan: Acquisition,
}

impl Results {
    fn new() -> Self {
        let out = tempfile::tempdir().unwrap();
        Self { out, recipe: recipe(), scan: acquisition(FRAMES, |_| 7) }
    }

    fn write(
        &self,
        from: u64,
        to: u64,
        row: impl Fn(u64) -> FrameRow,
        bins: &SharedBins,
    ) -> PathBuf {
        let task = task(&self.scan, &self.recipe, &Span::new(from, to).into());
        // The later part has the later time.
        std::thread::sleep(std::time::Duration::from_millis(20));
        write_part_of_bins(self.out.path(), &task, &self.recipe, (from..to).map(row), bins)
    }

    fn build(&self) -> Result<output::BuildOutcome, String> {
        let target = target(self.out.path(), &self.scan, &self.recipe);
        output::build(&target, &OutputOptions::default(), &()).map_err(|why| why.to_string())
    }
}

/// The weights times a factor.
fn scaled(factor: f64) -> SharedBins {
    let mut bins = shared();
    let weights = &mut bins.weights;
    for list in [&mut weights.norm, &mut weights.norm_sq, &mut weights.count] {
        list.iter_mut().for_each(|weight| *weight *= factor);
    }
    bins
}

/// A row of which a version rejected other pixels.
fn other_row(frame: u64) -> FrameRow {
    let mut row = row(frame);
    row.signal[2] *= 1.5;
    row
}

#[test]
fn what_differs_by_rounding_is_in_one_final() {
    let rounded = scaled(1.0 + 3e-16);
    assert_ne!(rounded, shared());
    let results = Results::new();
    results.write(0, 12, row, &shared());
    assert_eq!(results.build().unwrap().integrated, Spans::first_n(12));
    let before = intensity(&open(results.out.path()), 11);
    // The part that was written last has the frames that both have.
    results.write(10, FRAMES, other_row, &rounded);
    let built = results.build().unwrap();
    assert!(built.complete && built.warnings.is_empty(), "{:?}", built.warnings);
    let after = intensity(&open(results.out.path()), 11);
    assert!((after[2] / before[2] - 1.5).abs() < 1e-6 && after[1] == before[1], "{after:?}");
    assert!(results.build().unwrap().was_unchanged);

    // From the final and parts of the other version.
    results.write(5, 7, row, &shared());
    assert!(results.build().unwrap().complete);
}

#[test]
fn what_has_other_weights_is_named_until_it_is_integrated_again() {
    let results = Results::new();
    results.write(0, FRAMES, row, &shared());
    assert!(results.build().unwrap().complete);
    let before = intensity(&open(results.out.path()), 3);
    let part = results.write(0, 10, row, &scaled(2.0));
    let built = results.build().unwrap();
    let path = results.out.path().join("sample_scan0001_p3.h5");
    let warnings = [
        format!(
            "{}: not used: it has other axes or weights than {}, which was written later; only it has frames 10 to 19: run \
             ai-integrate --force on all tasks of the scan, and gather again",
            path.display(),
            part.display()
        ),
        format!("{}: the earlier result is kept until all frames are integrated", path.display()),
    ];
    assert_eq!(built.warnings, warnings);
    assert!(!built.up_to_date && built.only_in_replaced == Span::new(10, FRAMES).into());
    assert_eq!(intensity(&open(results.out.path()), 3)[..5], before[..5]);

    results.write(10, FRAMES, row, &scaled(2.0));
    let built = results.build().unwrap();
    assert!(built.complete && built.warnings.len() == 1, "{:?}", built.warnings);
    assert!(built.only_in_replaced.is_empty());
    assert!(built.warnings[0].contains("not used: it has other axes or weights than"));
    assert_eq!(intensity(&open(results.out.path()), 3)[1], before[1] / 2.0);
    assert_eq!(parts(results.out.path(), &results.scan, &results.recipe), 0);
    let again = results.build().unwrap();
    assert!(again.was_unchanged && again.warnings.is_empty(), "{:?}", again.warnings);
}

#[test]
fn a_part_with_other_weights_is_named_as_long_as_only_it_has_a_frame() {
    let results = Results::new();
    let other = results.write(0, 12, row, &scaled(2.0));
    let part = results.write(10, FRAMES, row, &shared());
    let expected = format!(
        "{}: has other axes or weights than {}, though their recipe is the same, as another version of azpipe may make them; \
         only the first has frames 0 to 9: run ai-integrate --force on all tasks of the scan and gather again, or remove the \
         one that is wrong",
        other.display(),
        part.display()
    );
    assert_eq!(results.build().unwrap_err(), expected);
    results.write(0, 10, row, &shared());
    let built = results.build().unwrap();
    assert!(built.complete && built.warnings.len() == 1, "{:?}", built.warnings);
}
