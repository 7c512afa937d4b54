//! Fuzz targets for parsers and readers: no input may crash one, make it hang, or come back as
//! something else.
//!
//! `scripts/fuzz` runs them under LLVM's fuzzer; the test `mutations` runs them as they are, over
//! mutated seeds.

mod cakes;
mod chunks;
mod edits;
mod files;
mod hdf5_files;
mod input;
mod matrices;
mod mutator;
mod pixels;
mod runner;
mod sealed;
mod seals;
#[cfg(test)]
mod structures;
mod texts;

pub use runner::run_mutations;

/// A function that is given inputs.
pub struct Target {
    /// The name on the command line of `scripts/fuzz`.
    pub name: &'static str,
    /// The longest input in bytes.
    pub max_bytes: usize,
    /// `true` if the HDF5 library reads damaged files, and may crash or hang as filters expect it
    /// to.
    pub may_crash: bool,
    /// Uses one input. A panic is a finding.
    pub run: fn(&[u8]),
}

const fn target(name: &'static str, max_bytes: usize, run: fn(&[u8])) -> Target {
    Target { name, max_bytes, may_crash: false, run }
}

/// Every target; `scripts/fuzz` reads names and lengths here.
pub const TARGETS: &[Target] = &[
    target("record", 8192, texts::record),
    target("spans", 256, texts::spans),
    target("poni", 1024, texts::poni),
    target("recipe-toml", 8192, texts::recipe_toml),
    target("recipe-json", 4096, texts::recipe_json),
    target("recipe-ini", 4096, texts::recipe_ini),
    target("standard", 1024, texts::standard),
    target("reduction", 128, texts::reduction),
    target("image", 4096, files::image),
    target("part", 1024, files::part),
    target("chunk", 4096, chunks::chunk),
    target("lz4", 512, chunks::lz4),
    target("sums", 8192, chunks::sums),
    target("cake", 2048, cakes::cake),
    target("pixels", 256, pixels::pixels),
    target("matrix", 192, matrices::matrix),
    target("sealed-part", 256, sealed::sealed_part),
    target("sealed-final", 256, sealed::sealed_final),
    Target { may_crash: true, ..target("hdf5", 96, hdf5_files::hdf5) },
];

/// Returns the target of this name.
pub fn find_target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Returns the names of all targets for a message.
pub fn target_names() -> String {
    TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ")
}
