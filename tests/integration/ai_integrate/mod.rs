//! ai-integrate with unusual input: layouts, interruptions, limits of the system, and records that
//! no scan-find wrote.

mod bin_edges;
mod changed;
mod codecs;
mod corrections;
mod damaged;
mod fletcher;
mod hostile_records;
mod image_operations;
mod layouts;
mod limits;
mod matrix_cache;
mod memory;
pub mod parts;
mod pyfai_worker;
mod special_files;
mod stops;
mod virtual_monitors;
