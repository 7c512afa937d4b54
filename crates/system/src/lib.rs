//! Files, memory and CPUs of the machine, used with the care that foreign data and shared machines
//! need.
//!
//! Files that others wrote are opened through [`untrusted_file`] alone, and files are replaced or
//! removed through [`atomic`] and [`ownership`] alone, so that no call hangs on a FIFO and no file
//! that azpipe didn't write is lost. The crate knows no records, so that the kernels, which take
//! long to compile, don't depend on them.

pub mod atomic;
pub mod cpu;
pub mod huge_pages;
pub mod mapped_file;
pub mod memory;
pub mod ownership;
pub mod set_aside;
pub mod untrusted_file;
pub mod work_mark;

mod denied;
mod protected_files;
mod writer_process;

#[cfg(test)]
mod message_tests;
