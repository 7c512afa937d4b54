//! Fuzz targets for parsers and readers: no input may crash one, make it hang, or come back as something else.
//!
//! One program has all targets, which `AZPIPE_FUZZ` chooses from, so that it is linked once; `scripts/fuzz` builds and runs it.

#![no_main]

mod chunks;
mod files;
mod matrices;
mod texts;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

/// A target's name, and what is done with an input.
type Target = (&'static str, fn(&[u8]));

/// Every target; `scripts/fuzz` reads the names here.
const TARGETS: &[Target] = &[
    ("record", texts::record),
    ("spans", texts::spans),
    ("poni", texts::poni),
    ("recipe-toml", texts::recipe_toml),
    ("recipe-json", texts::recipe_json),
    ("recipe-ini", texts::recipe_ini),
    ("image", files::image),
    ("part", files::part),
    ("chunk", chunks::chunk),
    ("lz4", chunks::lz4),
    ("matrix", matrices::matrix),
];

static CHOSEN: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("AZPIPE_FUZZ").unwrap_or_default();
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let known: Vec<&str> = TARGETS.iter().map(|(known, _)| *known).collect();
    target.unwrap_or_else(|| panic!("AZPIPE_FUZZ={name}: expected one of {}", known.join(", "))).1
});

fuzz_target!(|data: &[u8]| CHOSEN(data));
