//! scan-find as a user meets it: what it lists, what it leaves out, and what it says of the rest.

#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod field;
mod live;
mod names;
mod refusals;
mod selection;
mod walks;
