//! The OpenCL library: opening it, and looking up its functions.

use std::ffi::{CStr, CString, OsString};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::OnceLock;

/// Environment variable that names a library to use instead of the system's.
pub const LIBRARY_VARIABLE: &str = "AZPIPE_OPENCL_LIBRARY";

/// Names of the system's OpenCL library, in the order in which they are tried.
const SYSTEM_LIBRARY_NAMES: [&str; 2] = ["libOpenCL.so.1", "libOpenCL.so"];

/// The OpenCL library can't be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenClNotLoaded(String);

impl std::fmt::Display for OpenClNotLoaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenClNotLoaded {}

/// The handle that `dlopen` returned. It is never closed.
static LIBRARY: OnceLock<Result<NonZeroUsize, OpenClNotLoaded>> = OnceLock::new();

/// Opens the library that `AZPIPE_OPENCL_LIBRARY` names, or else the system's. Only the first call
/// opens it; later calls return the same result.
///
/// # Errors
/// The library can't be opened. The message has the reason of the operating system for the last
/// name tried.
pub fn load() -> Result<(), OpenClNotLoaded> {
    library_handle().map(|_| ())
}

fn library_handle() -> Result<NonZeroUsize, OpenClNotLoaded> {
    LIBRARY
        .get_or_init(|| {
            if let Some(name) = std::env::var_os(LIBRARY_VARIABLE).filter(|name| !name.is_empty()) {
                return open_library(name)
                    .map_err(|why| OpenClNotLoaded(format!("{LIBRARY_VARIABLE}: {why}")));
            }
            let [first, second] = SYSTEM_LIBRARY_NAMES.map(OsString::from);
            let library = open_library(first).or_else(|_| open_library(second));
            library.map_err(|why| OpenClNotLoaded(format!("no OpenCL library: {why}")))
        })
        .clone()
}

/// Opens a library by name or path. The error names it.
fn open_library(name: OsString) -> Result<NonZeroUsize, String> {
    let shown = name.display().to_string();
    let name = CString::new(name.into_vec()).map_err(|why| format!("{shown}: {why}"))?;
    // SAFETY: `name` ends with a NUL byte and outlives the call. Opening a library runs its
    // initializers, which may do anything: that the library is an OpenCL library is for the system,
    // or for whoever sets `AZPIPE_OPENCL_LIBRARY`, to answer for, as for every library that a
    // program is started with.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    NonZeroUsize::new(handle as usize).ok_or_else(|| {
        // SAFETY: `dlopen` has just failed on this thread, so `dlerror` returns null or a string
        // that ends with a NUL byte.
        let why = unsafe { libc::dlerror().as_ref().map(|why| CStr::from_ptr(why)) };
        why.map_or_else(
            || format!("{shown}: can't be opened"),
            |why| why.to_string_lossy().into_owned(),
        )
    })
}

/// Returns the address of a function in the library. `name` ends with a NUL byte.
pub(crate) fn find_symbol(name: &'static str) -> Option<NonZeroUsize> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
    let library = library_handle().ok()?.get() as *mut libc::c_void;
    // SAFETY: `library` is a handle from `dlopen` that is never closed, and `name` ends with a NUL
    // byte.
    NonZeroUsize::new(unsafe { libc::dlsym(library, name.as_ptr()) } as usize)
}
