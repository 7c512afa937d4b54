//! The frames that a final covers.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use records::{Spans, Task};

use crate::output::{OutputError, OutputFile};
use crate::source_fingerprint::SourceFingerprints;

/// Bytes of rows that are verified together.
const VERIFY_BYTES: usize = 1 << 20;

/// A final that stays open from task to task, as long as the same file is in its place.
#[derive(Default)]
pub(super) struct OutputCoverage(Option<(OutputFileId, OpenOutput)>);

/// Path, device, inode, bytes, and time of last change in seconds and nanoseconds.
type OutputFileId = (PathBuf, u64, u64, u64, i64, i64);

struct OpenOutput {
    file: OutputFile,
    stamps: SourceFingerprints,
    /// Rows that have been read and compared with their checksums.
    verified: Vec<bool>,
}

impl OutputCoverage {
    /// Returns which of the wanted frames (rising, one at least) the final at `path` covers.
    ///
    /// # Errors
    /// No final of azpipe, or a damaged one.
    pub fn covered_frames(
        &mut self,
        path: &Path,
        task: &Task,
        stamps: &SourceFingerprints,
        wanted: &[u64],
    ) -> Result<Spans, OutputError> {
        let identity = output_file_id(path)?;
        if self.0.as_ref().is_none_or(|(known, _)| *known != identity) {
            self.0 = None;
            let file = OutputFile::open(path)?;
            let (stamps, verified) = (SourceFingerprints::new(&file.task.acquisition), vec![false; file.status.len()]);
            self.0 = Some((identity, OpenOutput { file, stamps, verified }));
        }
        let (_, there) = self.0.as_mut().expect("it was just opened");
        if there.file.task.scan != task.scan || there.file.task.recipe_digest != task.recipe_digest {
            return Ok(Spans::default());
        }
        there.verify(wanted)?;
        let covered = |frame: &u64| {
            let settled = there.file.status.get(*frame as usize).is_some_and(|status| status.is_final());
            settled && there.file.is_intact_at(*frame) && there.stamps.get(*frame) == stamps.get(*frame)
        };
        Ok(wanted.iter().copied().filter(covered).collect())
    }
}

impl OpenOutput {
    /// Verifies the rows of all frames between the first and the last that are wanted, unless that was done before.
    fn verify(&mut self, wanted: &[u64]) -> Result<(), OutputError> {
        let rows = self.verified.len();
        let place = |frame: Option<&u64>, beyond: u64| {
            frame.map_or(0, |frame| (frame.saturating_add(beyond) as usize).min(rows))
        };
        let mut range = place(wanted.first(), 0)..place(wanted.last(), 1);
        if self.verified[range.clone()].contains(&false) {
            // A row is read with its neighbours, which the next task asks for.
            let at_once = crate::row_writer::rows_in::<[f32; 2]>(VERIFY_BYTES, self.file.shared.axes.bins());
            range.end = range.end.max(range.start.saturating_add(at_once)).min(rows);
            self.file.verify(range.clone())?;
            self.file.verify_sums(range.clone())?;
            self.verified[range].fill(true);
        }
        Ok(())
    }
}

fn output_file_id(path: &Path) -> Result<OutputFileId, OutputError> {
    let metadata = path.metadata().map_err(|why| OutputError::Io { path: path.to_path_buf(), why })?;
    let path = path.to_path_buf();
    Ok((path, metadata.dev(), metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}
