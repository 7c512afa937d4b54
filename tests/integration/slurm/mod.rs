//! slurm-emit's scripts, and the engines that run them: SLURM, dask, Ray, HyperQueue, GNU parallel,
//! make, Snakemake and plain Linux.
//!
//! One property above all: whatever engine runs the plan, and whatever happens to it, the patterns
//! have the bytes of a plain pipe's. The cluster and the dataset are made once; where a test needs
//! time, tasks come slowly to ai-integrate.

mod array;
mod cluster;
mod dask;
mod dask_jobs;
mod dask_parameters;
mod dask_security;
mod dataset;
mod drivers;
mod engine_commands;
mod file_ownership;
mod flags;
mod hyperqueue;
mod integrator_ini;
mod jobs;
mod limits;
mod live;
mod pbs;
mod profiles;
mod ray;
mod scripts;
mod single_machine;
mod snakemake;
mod submissions;
mod surroundings;
mod task;
mod unanswered;
mod unused_flags;
