//! Flats, darks and variances with values that no pattern can be made of: plan-split refuses an
//! image without a usable pixel, and ai-integrate does, too; single such pixels are masked.

use super::plan_checks::{plan, plan_unchecked, write_recipe};
use crate::ai_integrate::parts;
use crate::support::{NO_ARGUMENTS, Workspace, npy, run, small_options};

const SHAPE: [usize; 2] = [195, 487];

/// Writes an image of 64-bit floats that are 1 but where `other` returns a value.
fn write_image(workspace: &Workspace, name: &str, other: impl Fn(usize) -> Option<f64>) {
    let pixels =
        (0..SHAPE[0] * SHAPE[1]).flat_map(|pixel| other(pixel).unwrap_or(1.0).to_le_bytes());
    let pixels: Vec<u8> = pixels.collect();
    std::fs::write(workspace.path(name), npy("<f8", SHAPE, &pixels)).unwrap();
}

#[test]
fn images_without_a_usable_pixel_are_refused() {
    let workspace = Workspace::new(&small_options());
    let plain = workspace.plan("plain", &["--by", "scan"]);
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let flat = (["flat", "image.npy"], "expected numbers above 0");
    let dark = (["dark", "image.npy"], "expected finite numbers");
    let variance = (["variance", "image.npy"], "expected numbers from 0");
    let (none, zero) = ("none of the 94965 unmasked pixels can be used", "values of all 94965");
    let cases = [
        (flat, 0.0, "values are 0;", none),
        (flat, nan, "values are NaN;", none),
        (flat, inf, "values are inf;", none),
        (flat, 1e308, "values are 1e308;", none),
        (flat, -1.0, "values are -1;", none),
        (flat, 1e-320, "values are 1e-320;", none),
        (dark, nan, "values are NaN;", none),
        (dark, inf, "values are inf;", none),
        (dark, 1e308, "values are 1e308;", none),
        (variance, nan, "values are NaN;", none),
        (variance, inf, "values are inf;", none),
        (variance, -1.0, "values are -1;", none),
        ((variance.0, "expected variances above 0"), 0.0, "pixels are 0", zero),
    ];
    for (([key, file], expected), value, found, count) in cases {
        write_image(&workspace, file, |_| Some(value));
        let more = if key == "variance" { "error-model = 'variance'" } else { "" };
        let settings = format!("npt = 50\n{key} = '{file}'\n{more}");
        let recipe = write_recipe(&workspace, &settings);
        let planned = plan(&workspace, &recipe);
        assert_eq!(planned.status, 1, "{settings} {value}: {}", planned.stderr);
        assert!(planned.records("task").is_empty());
        for word in [key, file, expected, found, count] {
            assert!(planned.stderr.contains(word), "{word:?} in: {}", planned.stderr);
        }
        let tasks = plan_unchecked(&workspace, &recipe, &plain).unwrap();
        let integrated = run("ai-integrate", NO_ARGUMENTS, &tasks);
        assert_eq!(integrated.status, 1, "{settings} {value}: {}", integrated.stderr);
        assert!(integrated.stderr.contains(count), "{}", integrated.stderr);
    }
}

#[test]
fn images_that_together_or_with_the_mask_leave_no_pixel_are_refused() {
    let workspace = Workspace::new(&small_options());
    write_image(&workspace, "upper.npy", |pixel| (pixel < 50_000).then_some(0.0));
    write_image(&workspace, "lower.npy", |pixel| (pixel >= 50_000).then_some(f64::NAN));
    let upper = "flat = 'upper.npy'";
    let cases = [
        ("dark = 'lower.npy'", "lower.npy: 44965 of the 94965 unmasked pixels"),
        ("mask-region = 'outside-rectangle:0,0,90,487'", "none of the 43830 unmasked pixels"),
    ];
    for (more, expected) in cases {
        let planned = plan(&workspace, &write_recipe(&workspace, &format!("{upper}\n{more}")));
        assert_eq!(planned.status, 1, "{more}: {}", planned.stderr);
        assert!(planned.stderr.contains(expected), "{}", planned.stderr);
    }
}

#[test]
fn single_unusable_pixels_are_masked_with_a_warning() {
    let workspace = Workspace::new(&small_options());
    // Away from the edges, so that the radial range is the same without them.
    let bad = |pixel: usize| pixel / 487 == 90 && (100..140).contains(&(pixel % 487));
    let values = [f64::NAN, f64::INFINITY, -1.0, 1e308, f64::NEG_INFINITY];
    write_image(&workspace, "mask.npy", |pixel| Some(if bad(pixel) { 1.0 } else { 0.0 }));
    write_image(&workspace, "sound.npy", |_| None);
    write_image(&workspace, "flat.npy", |pixel| bad(pixel).then(|| values[pixel % 5]));
    write_image(&workspace, "variance.npy", |pixel| bad(pixel).then(|| values[pixel % 5]));
    write_image(&workspace, "dark.npy", |pixel| bad(pixel).then(|| values[[0, 1, 3][pixel % 3]]));
    for (key, more) in [("flat", ""), ("dark", ""), ("variance", "error-model = 'variance'")] {
        let integrate = |out: &str, settings: &str| {
            let recipe = write_recipe(&workspace, &format!("npt = 50\n{settings}\n{more}"));
            let planned = plan(&workspace, &recipe);
            let planned = planned.assert_success();
            run("ai-integrate", NO_ARGUMENTS, &planned.stdout).assert_success();
            let found = ["intensity", "intensity_errors"]
                .map(|name| parts::read_rows::<f32>(&workspace.path("out"), name));
            std::fs::rename(workspace.path("out"), workspace.path(out)).unwrap();
            (planned.stderr, found)
        };
        let (said, found) = integrate(&format!("{key}-bad"), &format!("{key} = '{key}.npy'"));
        assert!(
            said.contains(key) && said.contains("40 of the 94965 unmasked pixels can't be used"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
        let sound = format!("{key} = 'sound.npy'\nmask = 'mask.npy'");
        let (said, expected) = integrate(&format!("{key}-sound"), &sound);
        assert_eq!(said, "");
        assert!(found == expected, "{key}: as if these pixels were masked");
        // Pixels that are masked are not counted.
        let masked = format!("{key} = '{key}.npy'\nmask = 'mask.npy'");
        assert_eq!(integrate(&format!("{key}-masked"), &masked).0, "");
    }
}

#[test]
fn variances_of_0_are_legal_in_single_pixels() {
    let workspace = Workspace::new(&small_options());
    write_image(&workspace, "variance.npy", |pixel| (pixel % 7 == 0).then_some(0.0));
    let recipe =
        write_recipe(&workspace, "error-model = 'variance'\nvariance = 'variance.npy'\nnpt = 50");
    let planned = plan(&workspace, &recipe);
    let planned = planned.assert_success();
    assert_eq!(planned.stderr, "");
}
