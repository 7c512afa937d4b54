//! The flags that change nothing in the scripts of some targets: [`unused_flags`](super::JobTarget::unused_flags).
//! An integration test compares the scripts with and without each flag.

/// The flags for dask's scheduler and workers.
pub const DASK_FLAGS: &[&str] = &["interface", "cluster_kwarg", "dashboard"];

/// The flags for the start of Ray on several nodes.
pub const RAY_FLAGS: &[&str] = &["min_nodes", "node_seconds"];

/// The flags for jobs that wait in a queue, which asks what they need.
pub const QUEUE_FLAGS: &[&str] = &[
    "max_array_size",
    "partition",
    "time",
    "drain_seconds",
    "mem",
    "mem_per_cpu",
    "mem_per_gpu",
    "gres",
    "gpus",
    "gpus_per_task",
    "account",
    "gather_partition",
];

/// The flags for the size of batches.
pub const BATCH_FLAGS: &[&str] = &["batch_minutes", "rate", "rate_from"];

/// The flags for the directives of SLURM's jobs.
pub const SLURM_FLAGS: &[&str] = &[
    NTASKS_PER_NODE,
    "qos",
    "constraint",
    "nodelist",
    "exclude",
    "reservation",
    "licenses",
    "exclusive",
    "hint",
    "threads_per_core",
    CPU_BIND,
    "directive",
    "skip_directive",
];

/// The flag that divides a job into tasks of SLURM.
pub const NTASKS_PER_NODE: &str = "ntasks_per_node";

/// The flag for `srun`.
pub const CPU_BIND: &str = "cpu_bind";

/// The flag for the name of jobs.
pub const JOB_NAME: &str = "job_name";

/// The flag for the Python that has the modules of a target.
pub const PYTHON: &str = "python";
