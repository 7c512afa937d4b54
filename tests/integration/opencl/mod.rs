//! ai-integrate on OpenCL devices. PoCL, a driver for processors, takes the place of a GPU.

mod devices;
mod driver;
mod faults;
mod patterns;
mod recipes;
