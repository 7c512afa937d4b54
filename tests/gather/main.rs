//! gather, run as users run it, on what the other filters leave.

#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod answers;
mod clean;
mod company;
mod crowd;
mod errors;
mod follow;
mod foreign;
mod hangs;
mod lists;
mod monitors;
mod nodes;
#[allow(dead_code, reason = "the pipe's tests use the rest of it")]
#[path = "../pipe/site.rs"]
mod site;
mod statuses;
mod unions;
mod viewers;
