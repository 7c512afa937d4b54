//! ai-integrate on OpenCL devices. PoCL, a driver for processors, takes the place of a GPU.

mod devices;
mod driver;
mod faults;
mod patterns;
mod recipes;
#[path = "../pipe/site.rs"]
#[allow(dead_code, reason = "the tests of the pipe need more of it")]
mod site;
