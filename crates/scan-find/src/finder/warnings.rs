//! Warns of scans that may not be what they seem, and of those that were running to the end.

use std::path::{Path, PathBuf};

use filter::Stop;
use records::Acquisition;

use super::Finder;
use crate::messages::{describe_older_files, describe_replaced_scan, describe_second_scan};
use crate::since::seconds_before_start;

/// Seconds by which the clocks of a beamline's computers may differ.
const CLOCK_TOLERANCE: f64 = 60.0;

impl Finder<'_> {
    /// Warns of data files that were last written before the scan began. A scan that is measured again
    /// under its name and ends early leaves those of the earlier one, which its master names, too. They are
    /// taken all the same, because the clocks of two computers may differ.
    pub(super) fn warn_of_older_files(&mut self, id: &str, about: &str, acquisition: &Acquisition) {
        let Some(start) = acquisition.start_time.as_deref() else { return };
        let older: Vec<(f64, &Path)> = acquisition
            .sources
            .iter()
            .filter(|source| source.file != acquisition.file)
            .filter_map(|source| {
                let seconds = seconds_before_start(source.mtime, start)?;
                (seconds > CLOCK_TOLERANCE).then_some((seconds, &*source.file))
            })
            .collect();
        let Some((_, first)) = older.first() else { return };
        let least = older.iter().map(|(seconds, _)| *seconds).fold(f64::INFINITY, f64::min);
        let why = describe_older_files(first, older.len(), least as u64, id);
        self.warn_once(about.to_owned(), why);
    }

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
        for ((file, _), (about, absent)) in std::mem::take(&mut self.running) {
            match absent {
                _ if matches!(file.try_exists(), Ok(false)) => {
                    let why = "is gone, and was running when it was last read: its last record tells what there was";
                    self.report_failure(about, why.to_owned(), false)?;
                }
                Some(absent) => self.filter.warn(&format!("{about}: {absent}")),
                None => (),
            }
        }
        Ok(())
    }
}
