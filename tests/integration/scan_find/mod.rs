//! scan-find as a user meets it: what it lists, what it leaves out, and what it says of the rest.

mod exposure_times;
mod faults;
mod file_numbers;
mod follow_ends;
mod linked_data;
mod links;
mod live;
mod lost_images;
mod names;
mod nonsense;
mod opens;
mod refusals;
mod replaced_scans;
mod selection;
mod unfinished_files;
mod walks;
