//! Frames that the final file covers.

use std::path::{Path, PathBuf};

use records::Task;
use system::untrusted_file::FileVersion;

use super::CoveredFrames;
use super::input_state::InputState;
use crate::output::{OutputError, OutputFile};
use crate::source_fingerprint::SourceFingerprints;

/// Minimum number of bytes of rows that are verified at a time.
const VERIFY_BYTES: usize = 1 << 20;

/// Final file that stays open between tasks, as long as the file at the path is the same.
#[derive(Default)]
pub(super) struct OutputCoverage(Option<OpenOutput>);

struct OpenOutput {
    path: PathBuf,
    version: FileVersion,
    file: OutputFile,
    fingerprints: SourceFingerprints,
    /// True for each row that was read and compared with its checksum.
    verified: Vec<bool>,
    is_sparse_verified: bool,
}

impl OutputCoverage {
    /// Returns the wanted frames that the final file at `path` covers. `wanted` is ascending and
    /// not empty; `state` is that of the task's inputs.
    ///
    /// # Errors
    /// Fails if the file can't be read, is damaged, or is not a final file of azpipe.
    pub fn covered_frames(
        &mut self,
        path: &Path,
        task: &Task,
        state: &InputState<'_>,
        wanted: &[u64],
    ) -> Result<CoveredFrames, OutputError> {
        let metadata =
            path.metadata().map_err(|why| OutputError::Io { path: path.to_path_buf(), why })?;
        let version = FileVersion::new(&metadata);
        if self.0.as_ref().is_none_or(|open| open.path != path || open.version != version) {
            self.0 = None;
            let file = OutputFile::open(path)?;
            let (fingerprints, verified) =
                (SourceFingerprints::new(&file.task.acquisition), vec![false; file.status.len()]);
            self.0 = Some(OpenOutput {
                path: path.to_path_buf(),
                version,
                file,
                fingerprints,
                verified,
                is_sparse_verified: false,
            });
        }
        let output = self.0.as_mut().expect("it was just opened");
        if output.file.task.scan != task.scan
            || output.file.task.recipe_digest != task.recipe_digest
        {
            return Ok(CoveredFrames::default());
        }
        // Without the sums, patterns can't be divided by a new mean.
        let earlier = output.file.task.monitor_readings;
        let has_new_mean = state.monitors.is_some_and(|monitors| !monitors.confirms_mean(earlier));
        if has_new_mean && !output.file.has_sums {
            return Ok(CoveredFrames::default());
        }
        output.verify(wanted)?;
        if state.needs_sparse && !output.is_sparse_verified {
            output.file.verify_sparse()?;
            output.is_sparse_verified = true;
        }
        let comparison = state.compare_with(&output.fingerprints, wanted);
        let covered = |&frame: &u64| {
            let status = output
                .file
                .status
                .get(frame as usize)
                .copied()
                .filter(|status| status.is_settled())?;
            let sparse = output.file.sparse.as_ref();
            let has_sparse = sparse.is_some_and(|sparse| sparse.is_settled(frame as usize));
            let is_same = output.file.is_intact_at(frame)
                && state.has_sparse(status, has_sparse)
                && comparison.recognizes(frame, status)
                && state.confirms(frame, status, output.file.monitor[frame as usize]);
            is_same.then_some((frame, status))
        };
        Ok(wanted.iter().filter_map(covered).collect())
    }
}

impl OpenOutput {
    /// Verifies the rows from the first to the last wanted frame, except those that were verified
    /// before.
    fn verify(&mut self, wanted: &[u64]) -> Result<(), OutputError> {
        let rows = self.verified.len();
        let place = |frame: Option<&u64>, beyond: u64| {
            frame.map_or(0, |frame| (frame.saturating_add(beyond) as usize).min(rows))
        };
        let mut range = place(wanted.first(), 0)..place(wanted.last(), 1);
        if self.verified[range.clone()].contains(&false) {
            // The following rows are verified, too, because the next task asks for them.
            let at_once =
                crate::row_blocks::rows_in::<[f32; 2]>(VERIFY_BYTES, self.file.shared.axes.bins());
            range.end = range.end.max(range.start.saturating_add(at_once)).min(rows);
            self.file.verify(range.clone())?;
            self.file.verify_sums(range.clone())?;
            self.verified[range].fill(true);
        }
        Ok(())
    }
}
