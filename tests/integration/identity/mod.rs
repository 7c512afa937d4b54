//! Which results are whose: no final is shared by two files, none is lost where a tree is moved,
//! and none holds rows of what a file was before.

mod archives;
mod later_data;
mod live_raw_data;
mod live_sequences;
mod moves;
mod operations;
mod pairs;
mod pipe_results;
mod recipes;
mod remeasured;
mod renumbered;
mod replaced_again;
mod uniform_frames;
