//! The one SLURM of these tests: three nodes with eight CPUs and two fake GPUs each, and what they
//! share with it.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, RwLock};
use std::time::{Duration, Instant};

/// Lines of its slurm.conf. Arrays have six elements at the most, so that longer plans run in
/// strides everywhere here.
const LINES: [&str; 11] = [
    "MaxArraySize=6",
    "PartitionName=gpu Nodes=node[1-2] MaxTime=INFINITE",
    "PartitionName=p9gpu Nodes=node3 MaxTime=INFINITE",
    "PartitionName=short Nodes=ALL MaxTime=10",
    "PartitionName=low Nodes=node3 PriorityTier=1 GraceTime=120 PreemptMode=REQUEUE",
    "PartitionName=high Nodes=node3 PriorityTier=10 PreemptMode=OFF",
    "PreemptType=preempt/partition_prio",
    "PreemptMode=REQUEUE",
    "Licenses=gpfs:2",
    "JobSubmitPlugins=lua",
    "AccountingStorageEnforce=limits,qos",
];

/// The records of its accounting: the accounts of the user, and a QOS with a limit of jobs for its
/// users. The partition of the QOS is added to slurm.conf after it, because SLURM does not start
/// with a partition whose QOS it does not know.
const ACCOUNTS: [&[&str]; 3] = [
    &["account", "default,id31"],
    &["user", "root", "account=default,id31"],
    &["qos", "few", "set", "MaxSubmitJobsPerUser=4"],
];
const PARTITION_OF_FEW: &str = "PartitionName=few Nodes=ALL MaxTime=60 QOS=few\n";

/// A site's own rule, as many have them: here, jobs whose comment says so may not say --mem.
const RULES: &str = r#"
function slurm_job_submit(job, partitions, user)
    if job.comment == "no --mem" and job.pn_min_memory ~= nil and job.pn_min_memory < 9223372036854775808 then
        slurm.log_user("this site takes --mem-per-cpu and no --mem")
        return slurm.ERROR
    end
    return slurm.SUCCESS
end
function slurm_job_modify(job, old, partitions, user)
    return slurm.SUCCESS
end
"#;

/// Held to read by tests whose jobs must not lose their node, and to write by the one that takes a
/// node away.
pub static NODES: RwLock<()> = RwLock::new(());

/// A directory of all tests of this program, which goes when the program has ended, and the cluster
/// in it with it.
pub fn shared_directory() -> &'static Path {
    static TOP: OnceLock<(PathBuf, Child)> = OnceLock::new();
    let (path, _) = TOP.get_or_init(|| {
        // sockets in it allow 60 characters
        let path =
            tempfile::Builder::new().prefix("azpipe-slurm-").tempdir_in("/tmp").unwrap().keep();
        // its stdin is ours to hold: it ends when we do, however we do
        let mut keeper = Command::new("bash");
        keeper
            .args(["-c", r#"trap '' INT; cat; "$0" stop "$1/c"; rm -rf -- "$1""#])
            .arg(script())
            .arg(&path);
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let keeper = keeper.spawn().unwrap();
        (path, keeper)
    });
    path
}

/// A running cluster.
pub struct Cluster;

impl Cluster {
    /// The cluster, started by whoever asks first. `None` on a machine without SLURM, but never in
    /// CI.
    pub fn get() -> Option<Self> {
        static STARTED: OnceLock<bool> = OnceLock::new();
        STARTED.get_or_init(start).then_some(Self)
    }

    /// The cluster, if it has accounting, which limits of jobs need. `None` where its database is
    /// not installed, but never in CI.
    pub fn with_accounting() -> Option<Self> {
        if has_accounting() {
            return Self::get();
        }
        eprintln!(
            "skipped: needs the packages slurmdbd slurm-wlm-mysql-plugin mariadb-server-core mariadb-client-core"
        );
        None
    }

    /// A program that sees this cluster.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", shared_directory().join("c/slurm.conf"));
        command
    }

    /// Runs a program of SLURM, which must succeed, and returns its output.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> String {
        output_of(self.command(program).args(arguments))
    }
}

fn start() -> bool {
    if std::env::var_os("CI").is_none() && !is_installed() {
        eprintln!("skipped: needs root and the packages slurmctld slurmd slurm-client munge");
        return false;
    }
    let dir = shared_directory().join("c");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("job_submit.lua"), RULES).unwrap();
    // ports are looked for before they are taken: one cluster after the other
    let lock = File::create("/tmp/azpipe-slurm.lock").unwrap();
    lock.lock().unwrap();
    let mut start = Command::new(script());
    start.arg("start").arg(&dir);
    // Without accounting, SLURM refuses to enforce limits.
    let lines = if has_accounting() { &LINES[..] } else { &LINES[..LINES.len() - 1] };
    start.args(lines.iter().flat_map(|line| ["-o", line]));
    if has_accounting() {
        start.arg("-a");
    }
    output_of(&mut start);
    if has_accounting() {
        for what in ACCOUNTS {
            Cluster.ask("sacctmgr", &[&["--immediate", "add"], what].concat());
        }
        let mut configuration =
            OpenOptions::new().append(true).open(dir.join("slurm.conf")).unwrap();
        configuration.write_all(PARTITION_OF_FEW.as_bytes()).unwrap();
        Cluster.ask("scontrol", &["reconfigure"]);
    }
    true
}

/// Returns whether the cluster has accounting: always in CI, and elsewhere if its database is
/// installed.
fn has_accounting() -> bool {
    let programs = ["slurmdbd", "mariadbd", "mariadb-install-db", "my_print_defaults", "sacctmgr"];
    std::env::var_os("CI").is_some() || programs.into_iter().all(is_on_path)
}

/// Runs a program, which must succeed, and returns its output.
pub fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// How long anything may take: for ever, as far as a machine with much else to do is concerned.
/// Only what fails takes it.
const LIMIT: Duration = Duration::from_secs(600);

/// Waits until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/slurm-cluster")
}

fn is_installed() -> bool {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    is_root && ["slurmctld", "slurmd", "sbatch", "munged"].into_iter().all(is_on_path)
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).exists())
}
