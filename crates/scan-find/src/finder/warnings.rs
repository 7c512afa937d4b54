//! Warns of scans that may not be what they seem, and of scans that have not ended when a search does.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use filter::Stop;
use records::Acquisition;

use super::Finder;
use crate::messages::{describe_older_files, describe_replaced_scan, describe_second_scan};
use crate::since::seconds_before_start;

/// Seconds by which the clocks of a beamline's computers may differ.
const CLOCK_TOLERANCE: f64 = 60.0;

/// A scan that a following search found running.
pub(super) struct RunningScan {
    /// The file in which it was found last.
    pub file: PathBuf,
    /// Name of the scan in messages.
    pub about: String,
    /// Message about the frames that it lacks.
    pub absent: Option<String>,
    /// Message about files that are older than the scan.
    pub older: Option<String>,
}

/// Identifies a measurement also where the directory of its files gets another name, and its scan another id.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MeasurementKey {
    file_name: Option<OsString>,
    entry: String,
    detector: String,
    start_time: Option<String>,
    content: Option<String>,
}

impl MeasurementKey {
    /// Returns the key of a scan.
    pub(super) fn new(scan: &Acquisition) -> Self {
        Self {
            file_name: scan.file.file_name().map(OsStr::to_owned),
            entry: scan.entry.clone(),
            detector: scan.detector.clone(),
            start_time: scan.start_time.clone(),
            content: scan.content.clone(),
        }
    }
}

/// Returns what is told of data files that were last written before the scan began. A scan that is measured
/// again under its name and ends early leaves those of the earlier one, which its master names, too. They are
/// taken all the same, because the clocks of two computers may differ.
pub(super) fn older_files(id: &str, acquisition: &Acquisition) -> Option<String> {
    let start = acquisition.start_time.as_deref()?;
    let older: Vec<(f64, &Path)> = acquisition
        .sources
        .iter()
        .filter(|source| source.file != acquisition.file)
        .filter_map(|source| {
            let seconds = seconds_before_start(source.mtime, start)?;
            (seconds > CLOCK_TOLERANCE).then_some((seconds, &*source.file))
        })
        .collect();
    let (_, first) = older.first()?;
    let least = older.iter().map(|(seconds, _)| *seconds).fold(f64::INFINITY, f64::min);
    Some(describe_older_files(first, older.len(), least as u64, id))
}

impl Finder<'_> {
    /// Warns of files that were scans of their own before this one, which has their frames, too: a
    /// master that came after its data files, or an image before the others of its series.
    pub(super) fn warn_of_second_scan(&mut self, id: &str, acquisition: &Acquisition) {
        let known = &self.ids_of_own_frames;
        let earlier: Vec<(PathBuf, String)> = acquisition
            .sources
            .iter()
            // Scans of one HDF5 file have datasets of their own.
            .filter(|source| source.file != acquisition.file || source.dataset.is_empty())
            .filter_map(|source| known.get_key_value(&*source.file))
            .filter(|(_, earlier)| *earlier != id)
            .map(|(file, earlier)| (file.clone(), earlier.clone()))
            .collect();
        for (file, earlier) in earlier {
            let (about, other) = (file.display().to_string(), acquisition.file.display());
            self.warn_once(
                about,
                match *file == *acquisition.file {
                    true => describe_replaced_scan(&earlier, id),
                    false => describe_second_scan(&earlier, id, &other),
                },
            );
        }
        if acquisition.sources.first().is_some_and(|source| source.file == acquisition.file) {
            let file = acquisition.file.to_path_buf();
            self.ids_of_own_frames.entry(file).or_insert_with(|| id.to_owned());
        }
    }

    /// Reports what scans lack that are running at the end of a following search, or that are gone.
    ///
    /// # Errors
    /// Fails as [`Finder::report`] does.
    pub(crate) fn report_running(&mut self) -> Result<(), Stop> {
        for scan in std::mem::take(&mut self.running).into_values() {
            let RunningScan { file, about, absent, older } = scan;
            if matches!(file.try_exists(), Ok(false)) {
                let why = "is gone, and was running when it was last read: its last record tells what there was";
                self.report_failure(about, why.to_owned(), false)?;
                continue;
            }
            for why in [absent, older].into_iter().flatten() {
                self.warn_once(about.clone(), why);
            }
        }
        Ok(())
    }
}
