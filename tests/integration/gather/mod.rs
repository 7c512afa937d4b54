//! gather, run as users run it, on what the other filters leave.

mod absent_frames;
mod backgrounds;
mod changed_monitors;
mod clean;
mod concurrency;
mod error_bars;
mod exports;
mod file_ownership;
mod flipped_bits;
mod follow;
mod h5web;
mod hangs;
mod maps;
mod merges;
mod monitors;
mod node_locks;
mod nxcansas;
mod odd_names;
mod percent_signs;
mod readers;
mod replacements;
mod report_page;
mod statuses;
mod summaries;
mod unread_inputs;
mod viewers;
