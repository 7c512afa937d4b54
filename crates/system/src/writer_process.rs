//! Identifies the process that writes a temporary file, and determines whether it still runs.
//!
//! A writer's name, `HOST-MACHINE-PID-START-NONCE`, suffices to look up the process on its own
//! machine: MACHINE is a digest of the host's name, the boot, and the PID namespace (a container
//! has its own). On other machines the writer's lock answers, but only if locks reach every machine
//! that sees the file. If they don't (NFS with `local_lock`, Lustre with `localflock`, GPFS,
//! BeeGFS), only the file's age distinguishes a dead writer from a running one.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::sys::statfs::{
    BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, FsType, NFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC,
    TMPFS_MAGIC, XFS_SUPER_MAGIC, statfs,
};
use nix::unistd::Pid;
use sha2::{Digest as _, Sha256};

/// The age from which on a file that another machine's process has not touched counts as dead. No
/// task works for so long on one part without writing to it.
const STALE_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The number of letters of the host's name in a writer's name.
const MAX_HOST_CHARS: usize = 24;

/// The process that writes a temporary file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriterProcess {
    machine: String,
    pid: i32,
    start: u64,
}

impl WriterProcess {
    /// Returns the writer that is this process.
    pub fn current() -> &'static Self {
        static THIS: LazyLock<WriterProcess> = LazyLock::new(|| WriterProcess {
            machine: machine_id(),
            pid: std::process::id() as i32,
            // Without /proc the start time is unknown, and the PID alone must do.
            start: process_start_time(std::process::id() as i32).unwrap_or(0),
        });
        &THIS
    }

    /// Returns a name for one more file of this process.
    pub fn unique_name(&self) -> String {
        static NONCE: AtomicU32 = AtomicU32::new(0);
        let Self { machine, pid, start } = self;
        format!("{}-{machine}-{pid}-{start}-{}", host_name(), NONCE.fetch_add(1, Relaxed))
    }

    /// Parses a name that [`WriterProcess::unique_name`] made.
    pub fn parse(name: &OsStr) -> Option<Self> {
        let mut words = name.to_str()?.rsplitn(5, '-');
        let mut number =
            || words.next().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
        let (_nonce, start, pid) = (number()?, number()?.parse().ok()?, number()?.parse().ok()?);
        let machine = words
            .next()
            .filter(|word| word.len() == 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        words.next()?;
        Some(Self { machine: machine.to_owned(), pid, start })
    }

    /// Returns whether the process has ended, as far as this machine can tell: by the process
    /// itself on its own machine, by its lock where locks reach this machine, and otherwise by how
    /// long the files at `lock` and `file` have been left untouched before `now`, the file system's
    /// own time.
    pub fn has_ended(
        &self,
        lock: &Path,
        file: &Path,
        now: impl FnOnce() -> io::Result<SystemTime>,
    ) -> io::Result<bool> {
        let this = Self::current();
        if self.machine == this.machine {
            return Ok(self != this && !is_process_running(self.pid, self.start));
        }
        match File::open(lock) {
            Err(error) if error.kind() == ErrorKind::NotFound => (),
            Err(error) => return Err(error),
            Ok(opened) => match opened.try_lock() {
                Ok(()) if locks_reach_all_machines(lock)? => return Ok(true),
                Ok(()) | Err(TryLockError::Error(_)) => (),
                Err(TryLockError::WouldBlock) => return Ok(false),
            },
        }
        let touched = |path: &Path| match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => found?.modified().map(Some),
        };
        let Some(last) = touched(lock)?.max(touched(file)?) else { return Ok(false) };
        // A file with a time in the future is not old.
        Ok(now()?.duration_since(last).is_ok_and(|silence| silence > STALE_AFTER))
    }
}

/// Returns whether the process `pid` that started at `start_then` still runs on this machine.
fn is_process_running(pid: i32, start_then: u64) -> bool {
    match kill(Pid::from_raw(pid), None) {
        Err(Errno::ESRCH) => false,
        // Another process may have the PID by now. Where that can't be determined (/proc is
        // hidden), it counts as the same.
        _ => process_start_time(pid).is_none_or(|start| start_then == 0 || start == start_then),
    }
}

/// Returns the start time of a process in ticks since the boot. Returns `None` if /proc does not
/// say. A zombie, which has ended and is not yet waited for by its parent, gets `u64::MAX`, so that
/// it never counts as running.
fn process_start_time(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the program's name, may hold spaces and parentheses.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return Some(u64::MAX);
    }
    fields.nth(18)?.parse().ok()
}

/// Returns an identifier of the machine, its boot, and the PID namespace of this process.
fn machine_id() -> String {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let host = host_name();
    let parts = [host.as_bytes(), &boot, space.as_os_str().as_bytes()];
    sha256_hex(&parts)[..12].to_owned()
}

/// Returns the SHA-256 of parts, each followed by a zero byte, in hexadecimal.
pub(crate) fn sha256_hex(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
        hasher.update([0]);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the host's name without its domain, in letters that suit a file name.
fn host_name() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    let plain = |char: &char| char.is_ascii_alphanumeric() || *char == '-';
    host.to_string_lossy()
        .chars()
        .take_while(|&char| char != '.')
        .filter(plain)
        .take(MAX_HOST_CHARS)
        .collect()
}

/// File systems of a single machine that `nix` has no constant for: ZFS, F2FS, ramfs.
const LOCAL_FILE_SYSTEMS: [FsType; 3] =
    [FsType(0x2fc1_2fc1), FsType(0xf2f5_2010), FsType(0x8584_58f6)];
const LUSTRE: FsType = FsType(0x0bd0_0bd0);

/// Returns whether a lock on the file is seen by all machines that see the file.
pub(crate) fn locks_reach_all_machines(path: &Path) -> io::Result<bool> {
    let kind = statfs(path)?.filesystem_type();
    let named =
        [BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC];
    if named.contains(&kind) || LOCAL_FILE_SYSTEMS.contains(&kind) {
        return Ok(true);
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let options = mount_options(&mounts, path.metadata()?.dev());
    let has = |option: &str| {
        options.is_some_and(|options| options.split(',').any(|there| there == option))
    };
    Ok(match kind {
        NFS_SUPER_MAGIC => has("local_lock=none"),
        LUSTRE => has("flock"),
        _ => false,
    })
}

/// Returns the mount options of the file system on a device, from the lines of `mountinfo`.
fn mount_options(mounts: &str, device: u64) -> Option<&str> {
    let device = format!("{}:{}", nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&device))?;
    line.split_once(" - ")?.1.split(' ').nth(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> io::Result<SystemTime> {
        panic!("the age is not asked for")
    }

    #[test]
    fn a_name_says_who_writes() {
        let name = WriterProcess::current().unique_name();
        assert!(!name.contains('.') && name.len() < 90, "{name}");
        assert_eq!(WriterProcess::parse(name.as_ref()), Some(WriterProcess::current().clone()));
        for other in [
            "",
            "a-b",
            "node7-12-0",
            "node7-0123456789ab-x-1-0",
            "node7-0123456789a-1-1-0",
            "0123456789ab-1-1-0",
        ] {
            assert_eq!(WriterProcess::parse(other.as_ref()), None, "{other}");
        }
    }

    #[test]
    fn a_process_of_this_machine_is_asked_for_itself() {
        let nowhere = Path::new("/proc/nowhere");
        let this = WriterProcess::current();
        assert!(!this.has_ended(nowhere, nowhere, never).expect("known"));
        let parent = nix::unistd::getppid().as_raw();
        let writer = |pid, start| WriterProcess { pid, start, ..this.clone() };
        assert!(
            !writer(parent, process_start_time(parent).expect("/proc"))
                .has_ended(nowhere, nowhere, never)
                .expect("known")
        );
        assert!(
            writer(parent, 1).has_ended(nowhere, nowhere, never).expect("known"),
            "another with its number"
        );
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let (pid, began) =
            (child.id() as i32, process_start_time(child.id() as i32).expect("/proc"));
        child.wait().expect("ended");
        assert!(writer(pid, began).has_ended(nowhere, nowhere, never).expect("known"));
    }

    #[test]
    fn mount_options_are_found_by_the_device() {
        let mounts = "21 1 0:52 / /data rw,relatime shared:1 - nfs4 server:/data rw,vers=4.2,local_lock=none\n\
                      22 1 0:53 / /gpfs rw - gpfs fs1 rw,mtime\n23 1 8:1 / /lustre rw master:3 - lustre mgs:/l rw,localflock\n";
        let device = |major, minor| nix::sys::stat::makedev(major, minor);
        assert_eq!(mount_options(mounts, device(0, 52)), Some("rw,vers=4.2,local_lock=none"));
        assert_eq!(mount_options(mounts, device(8, 1)), Some("rw,localflock"));
        assert_eq!(mount_options(mounts, device(8, 2)), None);
    }

    #[test]
    fn on_another_machine_the_lock_decides_where_it_reaches() {
        let directory = tempfile::tempdir().expect("a directory");
        let (lock, file) = (directory.path().join("a.lock"), directory.path().join("a.tmp"));
        let other = WriterProcess { machine: "0123456789ab".to_owned(), pid: 1, start: 1 };
        let held = crate::ownership::open_lock(&lock).expect("a lock");
        held.lock().expect("locked");
        assert!(!other.has_ended(&lock, &file, never).expect("known"));
        drop(held);
        assert!(other.has_ended(&lock, &file, never).expect("a file system of one machine"));
    }

    #[test]
    fn without_a_lock_another_machines_file_is_left_alone_for_a_day() {
        let directory = tempfile::tempdir().expect("a directory");
        let (lock, file) = (directory.path().join("a.lock"), directory.path().join("a.tmp"));
        let other = WriterProcess { machine: "0123456789ab".to_owned(), pid: 1, start: 1 };
        std::fs::write(&file, "half").expect("a file");
        let written = file.metadata().and_then(|file| file.modified()).expect("a time");
        let ended = |now| other.has_ended(&lock, &file, || Ok(now)).expect("known");
        assert!(!ended(written) && !ended(written - STALE_AFTER) && !ended(written + STALE_AFTER));
        assert!(ended(written + STALE_AFTER + Duration::from_secs(1)));
    }
}
