//! How fast earlier work went.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use filter::untrusted_file;
use records::Record;

use crate::error::Error;

/// Stored bytes a second of a job with so many engines, from the result records in a file; other
/// lines, and results of work that was found done, tell nothing and are passed over.
///
/// # Errors
/// The file can't be read, or no record in it tells a rate.
pub fn of_results(path: &Path, engines: u64) -> Result<f64, Error> {
    let file = untrusted_file::open(path).map_err(Error::at(path))?;
    let (mut bytes, mut seconds) = (0, 0.0);
    for line in BufReader::new(file).lines() {
        // An engine works on one task at a time, so that `wall` is time of one engine.
        if let Ok(Record::Result(result)) = Record::parse(&line.map_err(Error::at(path))?)
            && !result.skipped
        {
            bytes += result.read_bytes;
            seconds += result.seconds.wall;
        }
    }
    let rate = bytes as f64 / seconds * engines as f64;
    if rate.is_normal() { Ok(rate) } else { Err(Error::NoRate { path: path.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use records::{Acquisition, RawPath, Seconds, Task, TaskResult};

    use super::*;

    fn result(read_bytes: u64, wall: f64, skipped: bool) -> String {
        let seconds = Seconds { wall, ..Seconds::default() };
        let (scan, recipe_digest) = ("5c".to_owned(), "4e".to_owned());
        let [file, recipe, out] = ["/raw/a.h5", "/out/recipe.toml", "/out"].map(RawPath::from);
        let acquisition = Acquisition { file, below: "a.h5".into(), ..Acquisition::default() };
        let task = Task { scan, acquisition, recipe, recipe_digest, out, ..Task::default() };
        Record::from(TaskResult { task, read_bytes, seconds, skipped, ..TaskResult::default() }).to_line() + "\n"
    }

    #[test]
    fn engines_add_up_and_skipped_work_does_not_count() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines = [result(600, 2.0, false), result(0, 1.0, true), "{}\n".to_owned(), result(400, 3.0, false)];
        std::fs::write(file.path(), lines.concat()).unwrap();
        assert_eq!(of_results(file.path(), 4).unwrap(), 800.0);
        std::fs::write(file.path(), result(0, 1.0, true)).unwrap();
        assert!(matches!(of_results(file.path(), 4), Err(Error::NoRate { .. })));
    }
}
