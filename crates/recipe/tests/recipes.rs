//! Recipes that earlier versions wrote are read, and keep their digests.

#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

use std::path::Path;

use recipe::Recipe;

#[test]
fn recipes_of_earlier_versions_keep_their_digests() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recipes");
    let mut read = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let recipe: Recipe = toml::from_str(&text).unwrap();
        // The name of the file, recipe-DIGEST.toml, has the digest that plan-split gave the recipe.
        let name = Recipe::file_name_for_digest(&recipe.digest());
        assert_eq!(name.rsplit('/').next(), path.file_name().and_then(|name| name.to_str()));
        assert_eq!(recipe.to_toml(), text, "{}", path.display());
        read += 1;
    }
    assert_eq!(read, 6);
}
