//! Which file gives which row: every frame of the scan, from the best that is there.

use std::collections::BTreeMap;

use records::{MonitorReadings, Spans};

use super::{OutputFile, OutputSpec};
use crate::part::Part;
use crate::source_fingerprint::SourceFingerprints;
use crate::{Normalizer, Status};

/// Where a frame's row comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowSource {
    /// A part, by its place in the list of parts, and a row of it.
    Part { part: usize, row: usize },
    /// The final that there is already, whose row is the frame's number.
    Output,
    /// Nowhere.
    None,
}

/// The rows of a final to be, one a frame.
#[derive(Default)]
pub(super) struct RowSources {
    pub sources: Vec<RowSource>,
    /// What becomes of each frame.
    pub status: Vec<Status>,
    pub monitor: Vec<f64>,
    pub stored_digest: Vec<u64>,
    /// Further rows of frames that several parts have: they must agree with the first.
    pub duplicates: BTreeMap<u64, Vec<(usize, usize)>>,
    /// What the raw data of the frames is known by.
    pub stamps: SourceFingerprints,
    /// What the monitor read over the scan, where it is divided by its mean.
    pub readings: MonitorReadings,
    /// What the monitors are divided by.
    pub reference: f64,
}

impl RowSources {
    /// Chooses for each frame of the target. A row counts if its raw data is what the records say it
    /// is now, or, where they say nothing, the newest that any file knows. A pattern goes before a
    /// loss, and a part before the final.
    pub fn new(target: &OutputSpec, parts: &[Part], existing: Option<&OutputFile>, finish: &Normalizer) -> Self {
        let total = target.frames();
        let mut known = SourceFingerprints::default();
        parts.iter().for_each(|part| known.add_newest(&part.metadata.task.acquisition));
        if let Some(existing) = existing {
            known.add_newest(&existing.task.acquisition);
        }
        let last = target.latest_file_states(parts, existing);
        let stamps = last.retain_current(&target.stamps).with_fallback(&last.retain_current(&known));
        let frames = total as usize;
        let mut supply = Self {
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
            supply.add_part(index, part);
        }
        if let Some(existing) = existing {
            supply.add_final(existing);
        }
        for absent in target.absent() {
            for frame in absent.range.iter() {
                if let Some(status @ Status::NotIntegrated) = supply.status.get_mut(frame as usize) {
                    *status = Status::from_absent_kind(absent.kind);
                }
            }
        }
        let of_parts = parts.iter().map(|part| &part.metadata.task);
        let tasks = of_parts.chain(existing.map(|existing| &existing.task)).chain([target.task()]);
        // A counter grows while its scan runs: who has read most of it knows best.
        let readings = tasks.filter_map(|task| task.monitor_readings);
        let known = readings.max_by(|one, two| (one.count.cmp(&two.count)).then(one.sum.total_cmp(&two.sum)));
        supply.set_monitor_reference(finish, known);
        supply
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

    /// Settles what the monitors are divided by. Where nobody has read the monitor of the whole scan, as in parts of before
    /// that was kept, the frames that are there speak for it.
    fn set_monitor_reference(&mut self, finish: &Normalizer, known: Option<MonitorReadings>) {
        if !finish.needs_only_own_frame() {
            let of_rows: MonitorReadings = self.monitor.iter().copied().collect();
            self.readings = known.filter(|known| known.count >= of_rows.count).unwrap_or(of_rows);
        }
        self.reference = finish.reference(self.readings);
        for (status, monitor) in self.status.iter_mut().zip(&self.monitor) {
            if *status == Status::Ok && finish.scale(*monitor, self.reference).is_none() {
                *status = Status::Monitor;
            }
        }
    }

    /// The frames of this status.
    pub fn frames_with_status(&self, status: Status) -> Spans {
        let frames = self.status.iter().enumerate().filter(|(_, found)| **found == status);
        frames.map(|(frame, _)| frame as u64).collect()
    }

    /// The frames with a pattern that come from the final that there is.
    pub fn frames_from_output(&self) -> Spans {
        let rows = self.sources.iter().zip(&self.status).enumerate();
        rows.filter(|(_, (origin, status))| **origin == RowSource::Output && **status == Status::Ok)
            .map(|(frame, _)| frame as u64)
            .collect()
    }
}

/// The order in which statuses are preferred; no cut or order of the work changes the choice.
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
