//! Recipes as they are resolved, written and read back.

use super::*;

fn settings(dir: &Path) -> Settings {
    std::fs::write(dir.join("a.poni"), "Distance: 0.1\n").unwrap();
    std::fs::write(dir.join("m.npy"), "mask").unwrap();
    let mask = Some(OneOrMany::One(dir.join("m.npy").into()));
    Settings { poni: Some(dir.join("a.poni").into()), mask, ..Settings::default() }
}

#[test]
fn the_digest_is_of_content_and_not_of_places() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let here = Recipe::resolve(&settings(one.path())).unwrap();
    let there = Recipe::resolve(&settings(two.path())).unwrap();
    assert_eq!(here.digest(), there.digest());
    let other = settings(two.path());
    std::fs::write(two.path().join("m.npy"), "other").unwrap();
    assert_ne!(Recipe::resolve(&other).unwrap().digest(), here.digest());
    let finer = Settings { npt: Some(1001), ..settings(one.path()) };
    assert_ne!(Recipe::resolve(&finer).unwrap().digest(), here.digest());
}

#[test]
fn a_written_recipe_reads_back_and_is_refused_once_a_file_changes() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = Recipe::resolve(&settings(dir.path())).unwrap();
    let path = dir.path().join("recipe.toml");
    std::fs::write(&path, recipe.to_toml()).unwrap();
    assert_eq!(Recipe::load(&path, &recipe.digest()).unwrap(), recipe);
    assert!(matches!(Recipe::load(&path, "0000"), Err(Error::Changed { .. })));
    std::fs::write(dir.path().join("m.npy"), "edited").unwrap();
    let error = Recipe::load(&path, &recipe.digest()).unwrap_err().to_string();
    assert!(error.contains("m.npy") && error.contains("plan-split"), "{error}");
}

#[test]
fn a_recipe_that_no_plan_split_wrote_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = Recipe::resolve(&settings(dir.path())).unwrap();
    let path = dir.path().join("recipe.toml");
    let load = |recipe: &Recipe, more: &str| {
        std::fs::write(&path, recipe.to_toml() + more).unwrap();
        Recipe::load(&path, &recipe.digest()).unwrap_err().to_string()
    };
    let newer = Recipe { version: 2, ..recipe.clone() };
    assert!(load(&newer, "").contains("version 2: this azpipe reads up to version 1"));
    // A newer one may have keys that this version does not know: its version is the better reason.
    assert!(load(&newer, "[clipping]\nthreshold = 5\n").contains("version 2"));
    assert!(load(&recipe, "[clipping]\nthreshold = 5\n").contains("clipping"));
    assert!(load(&Recipe { npt: 1 << 40, ..recipe.clone() }, "").contains("npt"));
}
