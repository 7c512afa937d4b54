//! The tests of the five filters together, as one program: each test program links the static HDF5
//! library anew, which takes longer than the compilation of the tests. A topic is a module, run
//! alone by `cargo test --test integration gather::`.
//!
//! The tests run as threads of one process, so that none changes what the process has once:
//! environment, working directory, limits, signal handlers. They start filters as processes, and
//! set those things there.

mod ai_integrate;
mod cookbook;
mod faults;
mod filter;
mod gather;
mod identity;
mod instructions;
mod man;
mod opencl;
mod oracle;
mod pipe;
mod readme;
mod real;
mod scan_find;
mod slurm;
mod support;
