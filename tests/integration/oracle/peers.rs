//! pyFAI, run in a few processes that each do many cases.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use geometry::Unit;
use tempfile::TempDir;

use super::case::Case;
use crate::support::{python, source_file};

/// Processes at a time; each computes on one thread.
const PROCESSES: usize = 2;

/// The first `count` cases of a kind, from processes that run at the same time.
pub fn cases(kind: &str, count: usize) -> Option<Vec<PyfaiProcess>> {
    let python = python()?;
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let script = source_file("oracle/pyfai.py");
    let share = count.div_ceil(PROCESSES);
    let start = |first: usize| {
        let stop = (first + share).min(count).to_string();
        let mut command = Command::new(&python);
        command.arg(&script).args([kind, &first.to_string(), &stop]).arg(folder.path());
        command.args(Unit::all().map(Unit::name));
        // Threads that spin for each other would take the time of everything else. Some do although
        // they are to be one.
        command.env("OMP_NUM_THREADS", "1").env("OMP_WAIT_POLICY", "passive");
        command.env("NUMEXPR_NUM_THREADS", "1").stdout(Stdio::piped());
        PyfaiProcess::start(command, folder.clone())
    };
    Some((0..count).step_by(share).map(start).collect())
}

/// The cases of one process, as they come.
pub struct PyfaiProcess {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Where its PONI files are.
    _folder: Arc<TempDir>,
}

impl PyfaiProcess {
    fn start(mut command: Command, folder: Arc<TempDir>) -> Self {
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines, _folder: folder }
    }
}

impl Iterator for PyfaiProcess {
    type Item = Case;

    fn next(&mut self) -> Option<Case> {
        if let Some(line) = self.lines.next() {
            return Some(Case::read(&line.unwrap()));
        }
        assert!(self.process.wait().unwrap().success(), "pyfai.py failed");
        None
    }
}
