//! Allocates memory whose size an untrusted file determines, with an error instead of an abort
//! where there is too little.

use std::fs::read_to_string;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit};

/// The size up to which memory is allocated without a check.
const UNCHECKED_BYTES: u64 = 64 << 20;

/// Reserves exactly enough room for `len` elements in a buffer.
///
/// # Errors
/// Returns `OutOfMemory` if the system, the job's cgroup or `ulimit -v` does not allow as much.
pub fn reserve<T>(buffer: &mut Vec<T>, len: usize) -> io::Result<()> {
    let more = len.saturating_sub(buffer.capacity());
    if more == 0 {
        return Ok(());
    }
    let bytes = (more as u64).saturating_mul(size_of::<T>() as u64);
    check_available(bytes)?;
    buffer
        .try_reserve_exact(len.saturating_sub(buffer.len()))
        .map_err(|_| out_of_memory_error(bytes, None))
}

/// Returns a buffer of `len` zeros.
///
/// # Errors
/// Fails as [`reserve`] does.
pub fn zeroed(len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reserve(&mut bytes, len)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

/// Checks that `bytes` more can be allocated. The answer may be outdated at once, because other
/// programs allocate, too.
///
/// # Errors
/// Fails as [`reserve`] does.
pub fn check_available(bytes: u64) -> io::Result<()> {
    if bytes <= UNCHECKED_BYTES {
        return Ok(());
    }
    match available_bytes() {
        Some(free) if bytes > free => Err(out_of_memory_error(bytes, Some(free))),
        _ => Ok(()),
    }
}

fn out_of_memory_error(bytes: u64, free: Option<u64>) -> io::Error {
    let free =
        free.map(|free| format!(", but only {} MiB are free", free >> 20)).unwrap_or_default();
    let why = format!("not enough memory: {} MiB are needed{free}", bytes.div_ceil(1 << 20));
    io::Error::new(io::ErrorKind::OutOfMemory, why)
}

/// Returns how many bytes can still be allocated, as far as limits are known.
fn available_bytes() -> Option<u64> {
    let cgroups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = [
        system_available(),
        address_space_left(),
        cgroup_left(&cgroups, Path::new("/sys/fs/cgroup")),
    ];
    limits.into_iter().flatten().min()
}

fn system_available() -> Option<u64> {
    let text = read_to_string("/proc/meminfo").ok()?;
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    kilobytes.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

fn address_space_left() -> Option<u64> {
    let (limit, _) =
        getrlimit(Resource::RLIMIT_AS).ok().filter(|(limit, _)| *limit != libc::RLIM_INFINITY)?;
    let status = read_to_string("/proc/self/status").ok()?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let size = size.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.saturating_mul(1024);
    Some(limit.saturating_sub(size))
}

/// Returns how many bytes the cgroups of a process and their parents (version 2 or 1) leave. Cached
/// files do not count as used, because the kernel evicts them when needed.
fn cgroup_left(list: &str, root: &Path) -> Option<u64> {
    let mut least = None;
    for line in list.lines() {
        let [_, controllers, path] = line.splitn(3, ':').collect::<Vec<_>>()[..] else { continue };
        let (root, limit, used) = match controllers {
            "" => (root.to_owned(), "memory.max", &["anon", "shmem"][..]),
            _ if controllers.split(',').any(|one| one == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes", &["total_rss", "total_shmem"][..])
            }
            _ => continue,
        };
        let below = PathBuf::from(path.trim_start_matches('/'));
        for directory in below.ancestors().map(|path| root.join(path)) {
            let Some(limit) = read_to_string(directory.join(limit))
                .ok()
                .and_then(|text| text.trim().parse().ok())
            else {
                continue;
            };
            let stat = read_to_string(directory.join("memory.stat")).unwrap_or_default();
            let number = |line: &str| -> Option<u64> {
                let (name, number) = line.split_once(' ')?;
                used.contains(&name).then(|| number.parse().ok())?
            };
            let used = stat.lines().filter_map(number).fold(0, u64::saturating_add);
            let free: u64 = u64::saturating_sub(limit, used);
            least = Some(least.map_or(free, |least: u64| least.min(free)));
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_refused_in_words() {
        let mut buffer = vec![1_u16, 2];
        for len in [1 << 46, usize::MAX] {
            let why = reserve(&mut buffer, len).expect_err("too much");
            assert_eq!(why.kind(), io::ErrorKind::OutOfMemory);
            assert!(why.to_string().starts_with("not enough memory: "), "{why}");
        }
        assert_eq!(buffer, [1, 2]);
        reserve(&mut buffer, 1000).expect("a little");
        assert!(buffer.capacity() >= 1000);
        assert_eq!(zeroed(3).expect("a little"), [0; 3]);
        assert!(check_available(1 << 60).is_err() && check_available(UNCHECKED_BYTES).is_ok());
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn the_least_of_all_cgroups_counts_and_files_in_memory_do_not() {
        let root = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        };
        write("job/step/memory.max", "max\n");
        write("job/memory.max", "1000\n");
        write("job/memory.stat", "anon 300\nfile 600\nshmem 50\n");
        write("memory/job/memory.limit_in_bytes", "800\n");
        write("memory/job/memory.stat", "rss 10\ntotal_rss 200\ntotal_cache 500\n");
        let free = |list: &str| cgroup_left(list, root.path());
        assert_eq!(free("0::/job/step\n"), Some(650));
        assert_eq!(free("3:cpu,memory:/job\n0::/job/step\n"), Some(600));
        assert_eq!(free("3:cpu:/job\n0::/\nnonsense\n"), None);
    }
}
