//! ai-integrate with unusual input: layouts, interruptions, limits of the system, and records that no
//! scan-find wrote.

mod cache;
mod changed;
mod corrections;
mod damaged;
mod edges;
mod fletcher;
mod foreign;
mod hostile;
mod layouts;
mod limits;
mod memory;
mod operations;
mod parts;
#[path = "../pipe/site.rs"]
#[allow(dead_code, reason = "the tests of the pipe need more of it")]
mod site;
mod stops;
mod workers;
