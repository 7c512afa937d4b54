//! Measures the rate of a job from the results of an earlier run.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use records::Record;
use system::untrusted_file;

use crate::error::EmitError;

/// Returns the stored bytes per second that a job with `engines` engines integrated, from the
/// result records in a file. Other lines are skipped, and so are results of work that had been done
/// before.
///
/// # Errors
/// Fails if the file can't be read, or if no record in it tells a rate.
pub fn measure_rate(path: &Path, engines: u64) -> Result<f64, EmitError> {
    let file = untrusted_file::open(path).map_err(EmitError::at(path))?;
    let (mut bytes, mut seconds) = (0, 0.0);
    for line in BufReader::new(file).lines() {
        // An engine works on one task at a time, so that `wall` is the time of one engine.
        if let Ok(Record::Result(result)) = Record::parse(&line.map_err(EmitError::at(path))?)
            && !result.skipped
        {
            bytes += result.read_bytes;
            seconds += result.seconds.wall;
        }
    }
    let rate = bytes as f64 / seconds * engines as f64;
    if rate.is_normal() { Ok(rate) } else { Err(EmitError::NoRate { path: path.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use records::{Acquisition, RawPath, Seconds, Task, TaskResult};

    use super::*;

    fn result_line(read_bytes: u64, wall: f64, skipped: bool) -> String {
        let seconds = Seconds { wall, ..Seconds::default() };
        let (scan, recipe_digest) = ("5c".to_owned(), "4e".to_owned());
        let [file, recipe, out] = ["/raw/a.h5", "/out/recipe.toml", "/out"].map(RawPath::from);
        let acquisition = Acquisition { file, below: "a.h5".into(), ..Acquisition::default() };
        let task = Task { scan, acquisition, recipe, recipe_digest, out, ..Task::default() };
        Record::from(TaskResult { task, read_bytes, seconds, skipped, ..TaskResult::default() })
            .to_line()
            + "\n"
    }

    #[test]
    fn engines_add_up_and_skipped_work_does_not_count() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines = [
            result_line(600, 2.0, false),
            result_line(0, 1.0, true),
            "{}\n".to_owned(),
            result_line(400, 3.0, false),
        ];
        std::fs::write(file.path(), lines.concat()).unwrap();
        assert_eq!(measure_rate(file.path(), 4).unwrap(), 800.0);
        std::fs::write(file.path(), result_line(0, 1.0, true)).unwrap();
        assert!(matches!(measure_rate(file.path(), 4), Err(EmitError::NoRate { .. })));
    }
}
