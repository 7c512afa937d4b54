//! Fuzz targets for parsers and readers: no input may crash one, make it hang, or come back as something else.
//!
//! One program has all targets, which `AZPIPE_FUZZ` chooses from, so that it is linked once; `scripts/fuzz` builds and runs it.

#![no_main]

mod chunks;
mod edits;
mod files;
mod hdf5_files;
mod input;
mod matrices;
mod sealed;
mod texts;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

/// A target's name, the longest input in bytes, and what is done with an input.
type Target = (&'static str, usize, fn(&[u8]));

/// Every target; `scripts/fuzz` reads names and lengths here.
const TARGETS: &[Target] = &[
    ("record", 8192, texts::record),
    ("spans", 256, texts::spans),
    ("poni", 1024, texts::poni),
    ("recipe-toml", 8192, texts::recipe_toml),
    ("recipe-json", 4096, texts::recipe_json),
    ("recipe-ini", 4096, texts::recipe_ini),
    ("image", 4096, files::image),
    ("part", 1024, files::part),
    ("chunk", 4096, chunks::chunk),
    ("lz4", 512, chunks::lz4),
    ("sums", 8192, chunks::sums),
    ("matrix", 192, matrices::matrix),
    ("sealed-part", 256, sealed::sealed_part),
    ("sealed-final", 256, sealed::sealed_final),
    ("hdf5", 96, hdf5_files::hdf5),
];

static CHOSEN: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("AZPIPE_FUZZ").unwrap_or_default();
    let target = TARGETS.iter().find(|(known, ..)| *known == name);
    let known: Vec<&str> = TARGETS.iter().map(|(known, ..)| *known).collect();
    target.unwrap_or_else(|| panic!("AZPIPE_FUZZ={name}: expected one of {}", known.join(", "))).2
});

fuzz_target!(|data: &[u8]| CHOSEN(data));
