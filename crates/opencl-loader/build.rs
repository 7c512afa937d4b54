//! Writes an empty library OpenCL for the linker. Crate `ocl` asks for a library of that name, but
//! this crate defines all of its functions. Zig's linker, with which releases are built, takes only
//! a file that is called `.so` where a dynamic library is asked for; like others, it goes by the
//! content then, which is that of an archive.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let dir = env::var_os("OUT_DIR").map(PathBuf::from).ok_or(io::ErrorKind::NotFound)?;
    for name in ["libOpenCL.a", "libOpenCL.so"] {
        fs::write(dir.join(name), "!<arch>\n")?;
    }
    println!("cargo:rustc-link-search=native={}", dir.display());
    println!("cargo:rerun-if-changed=build.rs");
    Ok(())
}
