//! The behavior that all five filters share, asked of the programs as they are built.

mod address_space;
mod arguments;
mod file_flags;
mod inputs_and_outputs;
mod paths;
mod progress;
mod records;
mod required_flags;
mod scans;
mod signals;
mod stack;
mod streams;
mod terminal;
mod values;
