//! slurm-emit's scripts, and the engines that run them: SLURM, dask, GNU parallel, make and plain Linux.
//!
//! What is about the engines and the scripts runs stand-ins for ai-integrate and gather (`cluster/stub`);
//! what is about patterns runs the real ones.

mod array;
mod cluster;
mod dask;
mod engines;
mod patterns;
mod ray;
mod scripts;
mod task;
