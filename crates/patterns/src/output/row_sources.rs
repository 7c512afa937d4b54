//! [`RowSources`]: for each frame of the scan, the file with the best row.

use std::collections::BTreeMap;

use records::{MonitorReadings, Spans};

use super::{OutputError, OutputFile, OutputSpec};
use crate::part::Part;
use crate::source_fingerprint::SourceFingerprints;
use crate::{Normalizer, Status};

/// File that a frame's row is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowSource {
    /// Row of a part, which is given by its index in the list of parts.
    Part { part: usize, row: usize },
    /// The existing final file, whose row number is the frame number.
    Output,
    /// No file has a row.
    None,
}

/// Sources of the rows of a final file that is to be written, one per frame.
#[derive(Default)]
pub(super) struct RowSources {
    pub sources: Vec<RowSource>,
    /// Status of each frame.
    pub status: Vec<Status>,
    pub monitor: Vec<f64>,
    pub stored_digest: Vec<u64>,
    /// Further rows of frames that several parts have. They must be equal to the first row.
    pub duplicates: BTreeMap<u64, Vec<(usize, usize)>>,
    /// Source fingerprints of the frames.
    pub stamps: SourceFingerprints,
    /// Readings of the monitor over the scan, if it is divided by its mean.
    pub readings: MonitorReadings,
    /// Reference that the monitors are divided by.
    pub reference: f64,
}

impl RowSources {
    /// Chooses a row for each frame of the target. A row is valid if its source fingerprint is the
    /// one in the records or, for frames that no record mentions, the newest one in any file. A row
    /// with a pattern takes precedence over a loss, and a part over the final file.
    ///
    /// # Errors
    /// Fails if a raw file is known in two states and can't be examined.
    pub fn new(
        target: &OutputSpec,
        parts: &[Part],
        existing: Option<&OutputFile>,
        normalizer: &Normalizer,
    ) -> Result<Self, OutputError> {
        let total = target.frames();
        let mut known = SourceFingerprints::default();
        parts.iter().for_each(|part| known.add_newest(&part.metadata.task.acquisition));
        if let Some(existing) = existing {
            known.add_newest(&existing.task.acquisition);
        }
        let last = target.latest_file_states(parts, existing)?;
        let stamps =
            last.retain_current(&target.stamps).with_fallback(&last.retain_current(&known));
        let frames = total as usize;
        let mut row_sources = Self {
            sources: vec![RowSource::None; frames],
            status: vec![Status::NotIntegrated; frames],
            monitor: vec![crate::normalize::NAN64; frames],
            stored_digest: vec![0; frames],
            duplicates: BTreeMap::new(),
            stamps,
            readings: MonitorReadings::default(),
            reference: 1.0,
        };
        for (index, part) in parts.iter().enumerate() {
            row_sources.add_part(index, part);
        }
        if let Some(existing) = existing {
            row_sources.add_final(existing);
        }
        for absent in target.absent() {
            for frame in absent.range.iter() {
                if let Some(status @ Status::NotIntegrated) =
                    row_sources.status.get_mut(frame as usize)
                {
                    *status = Status::from_absent_kind(absent.kind);
                }
            }
        }
        let of_parts = parts.iter().map(|part| &part.metadata.task);
        let tasks = of_parts.chain(existing.map(|existing| &existing.task)).chain([target.task()]);
        // The number of readings grows while a scan runs, so the part with the most readings is the
        // latest.
        let readings = tasks.filter_map(|task| task.monitor_readings);
        let known = readings
            .max_by(|one, two| (one.count.cmp(&two.count)).then(one.sum.total_cmp(&two.sum)));
        row_sources.set_monitor_reference(normalizer, known);
        Ok(row_sources)
    }

    fn add_part(&mut self, index: usize, part: &Part) {
        let stamps = SourceFingerprints::new(&part.metadata.task.acquisition);
        for (row, (&frame, &status)) in part.frames.iter().zip(&part.status).enumerate() {
            let at = frame as usize;
            if at >= self.sources.len() || stamps.get(frame) != self.stamps.get(frame) {
                continue;
            }
            if preference(status) < preference(self.status[at]) {
                self.sources[at] = RowSource::Part { part: index, row };
                self.status[at] = status;
                self.monitor[at] = part.monitor[row];
                self.stored_digest[at] = part.stored_digest[row];
            } else if status == Status::Ok {
                self.duplicates.entry(frame).or_default().push((index, row));
            }
        }
    }

    fn add_final(&mut self, existing: &OutputFile) {
        let stamps = SourceFingerprints::new(&existing.task.acquisition);
        for (at, &status) in existing.status.iter().enumerate().take(self.sources.len()) {
            let frame = at as u64;
            let usable = existing.intact[at] && stamps.get(frame) == self.stamps.get(frame);
            if usable && preference(status) < preference(self.status[at]) {
                self.sources[at] = RowSource::Output;
                self.status[at] = status;
                self.monitor[at] = existing.monitor[at];
                self.stored_digest[at] = existing.stored_digest[at];
            }
        }
    }

    /// Sets the reference of the monitors. Parts of earlier versions don't hold the readings of the
    /// whole scan; the mean is then that of the frames that have a pattern.
    fn set_monitor_reference(&mut self, normalizer: &Normalizer, known: Option<MonitorReadings>) {
        if !normalizer.needs_only_own_frame() {
            let of_rows: MonitorReadings = self.monitor.iter().copied().collect();
            self.readings = known.filter(|known| known.count >= of_rows.count).unwrap_or(of_rows);
        }
        self.reference = normalizer.reference(self.readings);
        for (status, monitor) in self.status.iter_mut().zip(&self.monitor) {
            if *status == Status::Ok && normalizer.scale(*monitor, self.reference).is_none() {
                *status = Status::Monitor;
            }
        }
    }

    /// Returns the frames of this status.
    pub fn frames_with_status(&self, status: Status) -> Spans {
        let frames = self.status.iter().enumerate().filter(|(_, found)| **found == status);
        frames.map(|(frame, _)| frame as u64).collect()
    }

    /// Returns the frames with a pattern that come from the existing final file.
    pub fn frames_from_output(&self) -> Spans {
        let rows = self.sources.iter().zip(&self.status).enumerate();
        rows.filter(|(_, (origin, status))| **origin == RowSource::Output && **status == Status::Ok)
            .map(|(frame, _)| frame as u64)
            .collect()
    }
}

/// Returns the rank of a status; the row with the lowest rank is chosen, whatever the tasks and
/// their order.
fn preference(status: Status) -> u8 {
    match status {
        Status::Ok => 0,
        Status::Monitor => 1,
        Status::MonitorPending => 2,
        Status::Absent => 3,
        Status::SourceChanged => 4,
        Status::Corrupt => 5,
        Status::FileMissing => 6,
        Status::Unreadable => 7,
        Status::NeverTaken => 8,
        Status::NotIntegrated => 9,
    }
}
