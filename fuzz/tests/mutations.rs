//! The fuzz targets over mutated seeds, for a few seconds each: `AZPIPE_FUZZ_SECONDS=3600 cargo
//! test -p azpipe-fuzz` for more.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    fuzz::run_mutations(Path::new(env!("CARGO_TARGET_TMPDIR")))
}
