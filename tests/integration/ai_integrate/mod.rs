//! ai-integrate with unusual input: layouts, interruptions, limits of the system, and records that no
//! scan-find wrote.

mod bin_edges;
mod cache;
mod changed;
mod corrections;
mod damaged;
mod fletcher;
mod hostile;
mod layouts;
mod limits;
mod memory;
mod operations;
mod parts;
mod special_files;
mod stops;
mod workers;
