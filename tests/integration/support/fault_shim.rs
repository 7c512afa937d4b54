//! A preloaded library that makes system calls of a filter fail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use super::source_file;

/// A fault of a call: the name of an errno, once or (`+`) from then on; `short` for half of the
/// bytes; `kill`.
pub type Fault = &'static str;

/// The calls that the shim can make fail, and how each may fail on a real system.
pub const CALLS: [(&str, &[Fault]); 33] = [
    ("open", &["EIO", "ESTALE", "EINTR", "EMFILE", "ENOSPC", "EIO+", "ENOSPC+", "kill"]),
    ("read", &["EIO", "ESTALE", "EINTR", "short", "EIO+", "kill"]),
    ("pread", &["EIO", "ESTALE", "EINTR", "short", "EIO+", "ESTALE+", "kill"]),
    ("preadv", &["EIO", "ESTALE", "EINTR", "short", "EIO+", "kill"]),
    ("write", &["EIO", "ENOSPC", "ESTALE", "EINTR", "short", "ENOSPC+", "kill"]),
    ("pwrite", &["EIO", "ENOSPC", "ESTALE", "EINTR", "short", "EIO+", "ENOSPC+", "kill"]),
    ("fsync", &["EIO", "ENOSPC", "ESTALE", "EINTR", "EIO+", "kill"]),
    ("rename", &["EIO", "ENOSPC", "ESTALE", "EINTR", "EIO+", "kill"]),
    ("unlink", &["EIO", "ESTALE", "EROFS", "EIO+", "kill"]),
    ("close", &["EIO", "ENOSPC", "ESTALE", "EINTR", "EIO+", "kill"]),
    ("stat", &["EIO", "ESTALE", "EACCES", "EIO+", "ESTALE+", "kill"]),
    ("mkdir", &["EIO", "ENOSPC", "ESTALE", "ENOSPC+", "kill"]),
    ("flock", &["EIO", "ENOLCK", "ESTALE", "EINTR", "ENOLCK+", "kill"]),
    ("mmap", &["ENOMEM", "EACCES", "ENOMEM+", "kill"]),
    ("ftruncate", &["EIO", "ENOSPC", "ESTALE", "EINTR", "ENOSPC+", "kill"]),
    ("readdir", &["EIO", "ESTALE", "EIO+", "kill"]),
    ("lseek", &["EIO", "EIO+", "kill"]),
    ("chmod", &["EIO", "kill"]),
    ("utimens", &["EIO", "ESTALE", "EROFS", "kill"]),
    ("statfs", &["EIO", "ESTALE", "EACCES", "EINTR", "EIO+", "kill"]),
    ("link", &["EIO", "EPERM", "ENOSPC", "ESTALE", "EPERM+", "kill"]),
    ("dup", &["EMFILE", "EMFILE+", "kill"]),
    ("inotify_init", &["EMFILE", "ENOMEM", "kill"]),
    ("inotify_add_watch", &["ENOSPC", "ENOMEM", "EACCES", "ENOSPC+", "kill"]),
    ("inotify_read", &["EIO", "EINTR", "EIO+", "kill"]),
    ("pipe", &["EMFILE", "EMFILE+", "kill"]),
    ("poll", &["EINTR", "ENOMEM", "ENOMEM+", "kill"]),
    ("pthread_create", &["EAGAIN", "EAGAIN+", "kill"]),
    ("posix_spawn", &["EAGAIN", "ENOMEM", "EMFILE", "EACCES", "EAGAIN+", "kill"]),
    ("fork", &["EAGAIN", "ENOMEM", "EAGAIN+", "kill"]),
    ("exec", &["EACCES", "ENOENT", "ENOMEM", "EACCES+", "kill"]),
    ("getcwd", &["ENOENT", "EACCES", "ENOENT+", "kill"]),
    ("malloc", &["ENOMEM", "ENOMEM+"]),
];

/// Compiles the library at the first call, and returns its path.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = source_file("support/fault_shim.c");
        // Renamed into place, for other tests may load it at this moment.
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libazpipe-faults.so");
        let new = library.with_extension(format!("so.{}", std::process::id()));
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&new)
            .arg(source);
        compiler.args(["-ldl", "-lpthread"]);
        assert!(compiler.status().expect("a C compiler").success());
        std::fs::rename(&new, &library).expect("a library in place");
        library
    })
}

/// Preloads the library into a program; calls for files below `directory` alone can fail.
pub fn preload<'a>(command: &'a mut Command, directory: &Path) -> &'a mut Command {
    let hdf5 = find_hdf5_code(Path::new(command.get_program()));
    command.env("LD_PRELOAD", library()).env("FAULTS_DIR", directory).env("FAULTS_HDF5", hdf5)
}

/// Returns where the HDF5 library's functions lie in a program, which the linker keeps together, as
/// two hexadecimal numbers.
fn find_hdf5_code(program: &Path) -> String {
    static KNOWN: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().expect("no panic");
    let find = || {
        let listed = Command::new("nm").arg(program).output().expect("nm of the C compiler");
        let symbols = String::from_utf8(listed.stdout).expect("UTF-8");
        let functions = symbols.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
            let is_function = kind.eq_ignore_ascii_case("t") && name.starts_with("H5");
            is_function.then(|| u64::from_str_radix(address, 16).expect("an address"))
        });
        let (low, high) =
            functions.fold((u64::MAX, 0), |(low, high), at| (low.min(at), high.max(at)));
        format!("{low:x}-{high:x}")
    };
    known.entry(program.to_owned()).or_insert_with(find).clone()
}
