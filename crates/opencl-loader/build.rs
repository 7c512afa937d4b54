//! Gives the linker a `libOpenCL` to find: an archive without members, for this crate has all that would be in it.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let dir = env::var_os("OUT_DIR").map(PathBuf::from).ok_or(io::ErrorKind::NotFound)?;
    fs::write(dir.join("libOpenCL.a"), "!<arch>\n")?;
    println!("cargo:rustc-link-search=native={}", dir.display());
    println!("cargo:rerun-if-changed=build.rs");
    Ok(())
}
