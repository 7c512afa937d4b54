//! The fuzz targets under LLVM's fuzzer, which finds inputs by the code that they reach.
//! `AZPIPE_FUZZ` names the target.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static CHOSEN: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("AZPIPE_FUZZ").unwrap_or_default();
    let target = fuzz::find_target(&name);
    target
        .unwrap_or_else(|| panic!("AZPIPE_FUZZ={name}: expected one of {}", fuzz::target_names()))
        .run
});

fuzz_target!(|data: &[u8]| CHOSEN(data));
