//! gather, run as users run it, on what the other filters leave.

mod clean;
mod concurrency;
mod errors;
mod exports;
mod file_ownership;
mod follow;
mod hangs;
mod lists;
mod monitors;
mod nodes;
mod nxcansas;
mod statuses;
mod summaries;
mod unions;
mod viewers;
