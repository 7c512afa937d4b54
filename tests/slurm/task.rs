//! Tasks that only the stand-ins can do.

use records::{Record, Task};

/// The id of a task.
pub fn id(index: usize) -> String {
    format!("{index:016x}")
}

/// The line of a task of a million bytes; three in a row are of one scan.
pub fn line(index: usize) -> String {
    let (scan, recipe_digest) = (format!("5ca{}", index / 3), "4ec1".to_owned());
    Record::from(Task { id: id(index), scan, recipe_digest, bytes: 1_000_000, ..Task::default() }).to_line() + "\n"
}

/// The lines of that many tasks.
pub fn lines(count: usize) -> String {
    (0..count).map(line).collect()
}
