//! The OpenCL library: opening it, and looking up its functions.

use std::ffi::{CStr, CString, OsString};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::OnceLock;

/// Environment variable that names a library to use instead of the system's.
pub const LIBRARY_VARIABLE: &str = "AZPIPE_OPENCL_LIBRARY";

/// Names of the system's OpenCL library, in the order in which they are tried.
const SYSTEM_LIBRARY_NAMES: [&str; 2] = ["libOpenCL.so.1", "libOpenCL.so"];

/// Why the OpenCL library can't be loaded, in the words of the operating system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenClNotLoaded {
    /// There is no library of that name.
    NotInstalled(String),
    /// There is a library of that name, and it can't be loaded, for example because a library that
    /// it needs is missing.
    CannotLoad {
        /// The name or path of the OpenCL library.
        library: String,
        /// The reason.
        why: String,
    },
}

impl std::fmt::Display for OpenClNotLoaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotInstalled(why) => write!(
                f,
                "no OpenCL library: {why}: install an OpenCL loader (Debian: ocl-icd-libopencl1) and the GPU's driver"
            ),
            Self::CannotLoad { library, why } => write!(
                f,
                "the OpenCL library {library} is there but can't be loaded: {why}: install what is missing, or name its directory in \
                 LD_LIBRARY_PATH"
            ),
        }
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
                return open_library(name).map_err(|error| match error {
                    OpenClNotLoaded::NotInstalled(why) => {
                        OpenClNotLoaded::NotInstalled(format!("{LIBRARY_VARIABLE}: {why}"))
                    }
                    broken @ OpenClNotLoaded::CannotLoad { .. } => broken,
                });
            }
            let [first, second] = SYSTEM_LIBRARY_NAMES.map(OsString::from);
            match open_library(first) {
                // A library that is there and broken is the one to mend, whatever the next name
                // gives.
                Err(OpenClNotLoaded::NotInstalled(_)) => open_library(second),
                found_or_broken => found_or_broken,
            }
        })
        .clone()
}

/// Opens a library by name or path. The error names it.
fn open_library(name: OsString) -> Result<NonZeroUsize, OpenClNotLoaded> {
    let library = name.display().to_string();
    let name = CString::new(name.into_vec())
        .map_err(|why| OpenClNotLoaded::NotInstalled(format!("{library}: {why}")))?;
    // SAFETY: `name` ends with a NUL byte and outlives the call. Opening a library runs its
    // initializers, which may do anything: that the library is an OpenCL library is for the system,
    // or for whoever sets `AZPIPE_OPENCL_LIBRARY`, to answer for, as for every library that a
    // program is started with.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    NonZeroUsize::new(handle as usize).ok_or_else(|| {
        // SAFETY: `dlopen` has just failed on this thread, so `dlerror` returns null or a string
        // that ends with a NUL byte.
        let why = unsafe { libc::dlerror().as_ref().map(|why| CStr::from_ptr(why)) };
        let why = why.map_or_else(
            || format!("{library}: can't be opened"),
            |why| why.to_string_lossy().into_owned(),
        );
        // The message of a missing file begins with the file's name: this library's, or that of
        // one that it needs.
        if why.starts_with(&format!("{library}: cannot open shared object file: No such file")) {
            OpenClNotLoaded::NotInstalled(why)
        } else {
            OpenClNotLoaded::CannotLoad { library, why }
        }
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
