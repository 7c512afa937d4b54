//! The library that the forwarders forward to.

use std::ffi::{CStr, CString, OsString};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::OnceLock;

/// The environment variable that names another library than the system's.
pub const LIBRARY_VARIABLE: &str = "AZPIPE_OPENCL_LIBRARY";

/// The names that the system's OpenCL loader goes by.
const SYSTEM_LIBRARY_NAMES: [&str; 2] = ["libOpenCL.so.1", "libOpenCL.so"];

/// Why there is no OpenCL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenClNotLoaded(String);

impl std::fmt::Display for OpenClNotLoaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenClNotLoaded {}

/// What `dlopen` returned; never closed.
static LIBRARY: OnceLock<Result<NonZeroUsize, OpenClNotLoaded>> = OnceLock::new();

/// Opens the library, once: the one that `AZPIPE_OPENCL_LIBRARY` names, or else the system's.
///
/// # Errors
/// What the system says of the last name that was tried.
pub fn load() -> Result<(), OpenClNotLoaded> {
    library_handle().map(|_| ())
}

fn library_handle() -> Result<NonZeroUsize, OpenClNotLoaded> {
    LIBRARY
        .get_or_init(|| {
            let own = std::env::var_os(LIBRARY_VARIABLE).filter(|name| !name.is_empty());
            let names = own.map_or_else(|| SYSTEM_LIBRARY_NAMES.map(OsString::from).to_vec(), |name| vec![name]);
            let mut found = Err(OpenClNotLoaded("no name".to_owned()));
            for name in names {
                found = found.or_else(|_| open_library(name));
            }
            found
        })
        .clone()
}

fn open_library(name: OsString) -> Result<NonZeroUsize, OpenClNotLoaded> {
    let shown = name.display().to_string();
    let name = CString::new(name.into_vec()).map_err(|why| OpenClNotLoaded(format!("{shown}: {why}")))?;
    // SAFETY: a string that ends in a zero. To open a library runs its initializers, which is what the user wants of
    // the system's OpenCL loader.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    NonZeroUsize::new(handle as usize).ok_or_else(|| {
        // SAFETY: called on the thread whose `dlopen` has just failed; null, or a string that ends in a zero.
        let why = unsafe { libc::dlerror().as_ref().map(|why| CStr::from_ptr(why)) };
        OpenClNotLoaded(why.map_or(shown, |why| why.to_string_lossy().into_owned()))
    })
}

/// The address of a function, whose name ends in a zero.
pub(crate) fn find_symbol(name: &'static str) -> Option<NonZeroUsize> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
    let library = library_handle().ok()?.get() as *mut libc::c_void;
    // SAFETY: a handle that `dlopen` gave and nobody closes, and a string that ends in a zero.
    NonZeroUsize::new(unsafe { libc::dlsym(library, name.as_ptr()) } as usize)
}
