//! scan-find as a user meets it: what it lists, what it leaves out, and what it says of the rest.

#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod faults;
mod field;
mod links;
mod live;
mod names;
mod nonsense;
mod opens;
mod refusals;
mod selection;
mod walks;

#[path = "../faults/shim.rs"]
#[allow(dead_code, reason = "the calls are chosen here")]
mod shim;
