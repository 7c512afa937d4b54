//! [`RowSources`]: for each frame of the scan, the file with the best row.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use records::{MonitorReadings, Spans, Task};

use super::recorded_sources::FramesOfRows;
use super::{OutputError, OutputFile, OutputSpec};
use crate::file_states::LatestFileStates;
use crate::part::Part;
use crate::source_fingerprint::{SourceFingerprint, SourceFingerprints};
use crate::{MonitorValues, Normalizer, Status};

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
    /// Frames whose row was made with a reading of the monitor that was corrected since, and that
    /// have no other row.
    pub outdated_monitor: Spans,
    /// True if parts differ in the monitor of a frame.
    pub has_other_readings: bool,
    /// Frames of which the existing final file has a pattern of raw data that were written again or are
    /// away since, and which have no other.
    pub left_behind: Spans,
    /// Rank of each frame's row; see [`rank`].
    pub ranks: Vec<u8>,
    /// Where the sparse pixels of each frame are, if the row is of the same raw bytes.
    pub sparse: Vec<RowSource>,
    /// Times of last change of the latest part with the same weights as the one that each frame's row is
    /// in, and of that one itself.
    pub modified: Vec<Option<(SystemTime, SystemTime)>>,
}

impl RowSources {
    /// Chooses a row for each frame of the target. A row is valid if its source fingerprint is the
    /// one in the records or, for frames that no record mentions, the newest one in any file. A row
    /// with a pattern takes precedence over a loss, and a part over the final file.
    ///
    /// `monitors` is the monitor as it is now; `None` if the recipe has none, or if it can't be
    /// read. A row with another reading is stale. If a record mentions its frame, the row is not
    /// used, because ai-integrate makes a new one; otherwise it is the last resort. Of parts that
    /// differ in a reading that can't be compared, or in the rounding of their weights, the one that was
    /// written last counts.
    ///
    /// # Errors
    /// Fails if a raw file is known in two states and can't be examined.
    pub fn new(
        target: &OutputSpec,
        parts: &[Part],
        existing: Option<&OutputFile>,
        normalizer: &Normalizer,
        monitors: Option<&MonitorValues>,
    ) -> Result<Self, OutputError> {
        let total = target.frames();
        let last = target.latest_file_states(parts, existing)?;
        let stamps = find_sources(target, parts, existing, &last);
        let frames = total as usize;
        let mut row_sources = Self {
            sources: vec![RowSource::None; frames],
            status: vec![Status::NotIntegrated; frames],
            monitor: vec![crate::rounding::NAN64; frames],
            stored_digest: vec![0; frames],
            duplicates: BTreeMap::new(),
            stamps,
            readings: MonitorReadings::default(),
            reference: 1.0,
            outdated_monitor: Spans::default(),
            has_other_readings: false,
            left_behind: Spans::default(),
            ranks: vec![rank(Status::NotIntegrated, true); frames],
            sparse: vec![RowSource::None; frames],
            modified: vec![None; frames],
        };
        let is_recorded = |frame| target.has_record_of(frame);
        // Of equal rows, the first one is taken.
        let mut in_turn: Vec<usize> = (0..parts.len()).collect();
        in_turn.sort_by_key(|index| !parts[*index].has_sums);
        let last_writes = last_writes(parts);
        for index in in_turn {
            row_sources.add_part(parts, (index, &last_writes), monitors, &is_recorded);
        }
        if let Some(existing) = existing {
            row_sources.add_final(existing, monitors, &is_recorded);
        }
        if let Some(existing) = existing {
            row_sources.left_behind = row_sources.find_left_behind(existing, &last);
        }
        row_sources.sparse = find_sparse_pixels(&row_sources, parts, existing);
        let outdated = rank(Status::Ok, false)..=rank(Status::Monitor, false);
        let ranks = row_sources.ranks.iter().zip(0..);
        row_sources.outdated_monitor =
            ranks.filter(|(rank, _)| outdated.contains(*rank)).map(|(_, frame)| frame).collect();
        for absent in target.absent() {
            for frame in absent.range.iter() {
                let at = frame as usize;
                let Some(&status) = row_sources.status.get(at) else { continue };
                // What an earlier run found in a file says nothing of the frame once a record says that
                // it is lost.
                let is_outweighed = || {
                    let is_to_come =
                        status == Status::NeverTaken && target.is_absent_by_record(frame);
                    is_to_come
                        || status.is_without_data() && target.is_lost_by_record(frame, absent.kind)
                };
                if status == Status::NotIntegrated || is_outweighed() {
                    row_sources.status[at] = Status::from_absent_kind(absent.kind);
                    row_sources.sources[at] = RowSource::None;
                    // If its file comes back, even unchanged, it is integrated.
                    row_sources.stamps.remove(frame);
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
        // What ai-integrate makes anew, it makes by the mean of now.
        let now = monitors.filter(|_| target.has_record()).and_then(MonitorValues::readings);
        let known = known.and(now).or(known);
        row_sources.set_monitor_reference(normalizer, known);
        Ok(row_sources)
    }

    fn add_part(
        &mut self,
        parts: &[Part],
        (index, last_writes): (usize, &[SystemTime]),
        monitors: Option<&MonitorValues>,
        is_recorded: &dyn Fn(u64) -> bool,
    ) {
        let part = &parts[index];
        let modified = (last_writes[index], part.modified);
        let stamps = SourceFingerprints::new(&part.metadata.task.acquisition);
        for (row, (&frame, &status)) in part.frames.iter().zip(&part.status).enumerate() {
            let at = frame as usize;
            if at >= self.sources.len() || stamps.get(frame) != self.stamps.get(frame) {
                continue;
            }
            let monitor = part.monitor[row];
            let is_confirmed = monitors.is_none_or(|now| now.confirms(frame, status, monitor));
            if !is_confirmed && is_recorded(frame) {
                continue;
            }
            let rank = rank(status, is_confirmed);
            let has_other_reading = rank == self.ranks[at]
                && matches!(status, Status::Ok | Status::Monitor)
                && !is_same_reading(monitor, self.monitor[at]);
            self.has_other_readings |= has_other_reading;
            let is_later = || self.modified[at].is_none_or(|other| other < modified);
            // Another version made it, which may reject other pixels.
            let has_other_bins = rank == self.ranks[at]
                && matches!(self.sources[at], RowSource::Part { part: other, .. }
                    if !Arc::ptr_eq(&parts[other].shared, &part.shared));
            let is_other = has_other_reading || has_other_bins;
            if rank < self.ranks[at] || (is_other && is_later()) {
                self.sources[at] = RowSource::Part { part: index, row };
                self.status[at] = status;
                self.monitor[at] = monitor;
                self.stored_digest[at] = part.stored_digest[row];
                self.ranks[at] = rank;
                self.modified[at] = Some(modified);
                self.duplicates.remove(&frame);
            } else if rank == self.ranks[at] && status == Status::Ok && !is_other {
                self.duplicates.entry(frame).or_default().push((index, row));
            }
        }
    }

    fn add_final(
        &mut self,
        existing: &OutputFile,
        monitors: Option<&MonitorValues>,
        is_recorded: &dyn Fn(u64) -> bool,
    ) {
        let stamps = SourceFingerprints::new(&existing.task.acquisition);
        for (at, &status) in existing.status.iter().enumerate().take(self.sources.len()) {
            let frame = at as u64;
            let usable = existing.intact[at] && stamps.get(frame) == self.stamps.get(frame);
            let monitor = existing.monitor[at];
            let is_confirmed = monitors.is_none_or(|now| now.confirms(frame, status, monitor));
            let rank = rank(status, is_confirmed);
            if usable && (is_confirmed || !is_recorded(frame)) && rank < self.ranks[at] {
                self.sources[at] = RowSource::Output;
                self.status[at] = status;
                self.monitor[at] = monitor;
                self.stored_digest[at] = existing.stored_digest[at];
                self.ranks[at] = rank;
            }
        }
    }

    /// Finds the patterns of the existing final file that nothing takes the place of, though their files are
    /// outdated because others of the scan were written again.
    fn find_left_behind(&self, existing: &OutputFile, last: &LatestFileStates) -> Spans {
        let stamps = SourceFingerprints::new(&existing.task.acquisition);
        let lost = existing.status.iter().zip(0..).filter(|(then, frame)| {
            **then == Status::Ok
                && self.status.get(*frame as usize) != Some(&Status::Ok)
                && stamps.source_of(*frame).is_some_and(|source| last.is_left_behind(source))
        });
        lost.map(|(_, frame)| frame).collect()
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

    /// Returns whether a row comes from a part.
    pub fn has_rows_of_parts(&self) -> bool {
        self.sources.iter().any(|source| matches!(source, RowSource::Part { .. }))
    }

    /// Returns whether sparse pixels of any frame are known.
    pub fn has_sparse_pixels(&self) -> bool {
        self.sparse.iter().any(|source| *source != RowSource::None)
    }

    /// Returns the frames with a pattern whose sparse pixels are not known.
    pub fn frames_without_sparse_pixels(&self) -> Spans {
        let rows = self.sparse.iter().zip(&self.status).enumerate();
        rows.filter(|(_, (sparse, status))| **sparse == RowSource::None && **status == Status::Ok)
            .map(|(frame, _)| frame as u64)
            .collect()
    }

    /// Returns the frames with a pattern that come from the existing final file.
    pub fn frames_from_output(&self) -> Spans {
        self.output_frames(|status| status == Status::Ok)
    }

    /// Returns the frames whose sums come from the existing final file, if it has sums.
    pub fn sums_from_output(&self) -> Spans {
        self.output_frames(Status::may_have_sums)
    }

    fn output_frames(&self, is_included: impl Fn(Status) -> bool) -> Spans {
        let rows = self.sources.iter().zip(&self.status).zip(0..);
        rows.filter(|((origin, status), _)| **origin == RowSource::Output && is_included(**status))
            .map(|(_, frame)| frame)
            .collect()
    }
}

/// Returns the sources of the frames: as the records name them or, of frames that no record names, as the
/// newest file among those that tasks of parts and the final file name. Where images came between others,
/// these tasks have rows that are other frames now.
fn find_sources(
    target: &OutputSpec,
    parts: &[Part],
    existing: Option<&OutputFile>,
    last: &LatestFileStates,
) -> SourceFingerprints {
    let mut now = last.retain_current(&target.recorded_stamps());
    let mut rows = FramesOfRows::default();
    rows.add(&now);
    // A record that came later says so of a frame whose row is another frame now.
    let is_moved = |frame, stamp: &SourceFingerprint| {
        rows.is_of_another(frame, stamp) && target.is_absent_by_record(frame)
    };
    now.retain(|frame, stamp| !is_moved(frame, stamp));
    let of_task = |task: &Task| last.retain_current(&SourceFingerprints::new(&task.acquisition));
    let is_numbered_alike = |task: &Task| task.acquisition.frames == target.frames();
    let mut known = SourceFingerprints::default();
    let mut others = Vec::new();
    for task in parts.iter().map(|part| &part.metadata.task) {
        match is_numbered_alike(task) {
            true => known.add_newest_of(&of_task(task)),
            false => others.push(task),
        }
    }
    match existing.map(|existing| &existing.task) {
        Some(task) if is_numbered_alike(task) => {
            let mut stamps = of_task(task);
            // Finals of earlier versions kept such rows. Parts may be of records that are yet to come.
            stamps.retain(|frame, stamp| !is_moved(frame, stamp));
            known.add_newest_of(&stamps);
        }
        other => others.extend(other),
    }
    if !others.is_empty() {
        rows.add(&known);
    }
    for task in others {
        let mut stamps = of_task(task);
        stamps.retain(|frame, stamp| !rows.contradict(frame, stamp));
        known.add_newest_of(&stamps);
    }
    now.with_fallback(&known)
}

/// Returns where the sparse pixels of each frame with a pattern are: in the first part that has them
/// of the same raw bytes as the row, or else in the existing final file. Patterns and sparse pixels
/// of the same bytes and recipe belong together, whichever run has made them.
fn find_sparse_pixels(
    rows: &RowSources,
    parts: &[Part],
    existing: Option<&OutputFile>,
) -> Vec<RowSource> {
    let mut found = vec![RowSource::None; rows.sources.len()];
    let mut offer = |frame: usize, stored_digest: u64, source: RowSource| {
        if rows.status.get(frame) == Some(&Status::Ok)
            && rows.stored_digest[frame] == stored_digest
            && found[frame] == RowSource::None
        {
            found[frame] = source;
        }
    };
    for (part_index, part) in parts.iter().enumerate() {
        let Some(sparse) = &part.sparse else { continue };
        for (row, &frame) in part.frames.iter().enumerate() {
            if sparse.is_settled(row) {
                let source = RowSource::Part { part: part_index, row };
                offer(frame as usize, part.stored_digest[row], source);
            }
        }
    }
    if let Some((existing, sparse)) = existing.and_then(|file| Some((file, file.sparse.as_ref()?)))
    {
        for (frame, &stored_digest) in existing.stored_digest.iter().enumerate() {
            if sparse.is_settled(frame) {
                offer(frame, stored_digest, RowSource::Output);
            }
        }
    }
    found
}

/// Returns the rank of a row; the row with the lowest rank is chosen, whatever the tasks and their
/// order. `is_confirmed` says that its monitor is as it was.
fn rank(status: Status, is_confirmed: bool) -> u8 {
    match (status, is_confirmed) {
        (Status::Ok, true) => 0,
        (Status::Monitor, true) => 1,
        (Status::Geometry | Status::OutOfRange | Status::NoValidPixel, _) => 2,
        (Status::MonitorPending, _) => 2,
        (Status::Ok, false) => 3,
        (Status::Monitor, false) => 4,
        (Status::Absent, _) => 5,
        (Status::SourceChanged, _) => 6,
        (Status::Corrupt, _) => 7,
        (Status::FileMissing, _) => 8,
        (Status::Unreadable, _) => 9,
        (Status::NeverTaken, _) => 10,
        (Status::NotIntegrated, _) => 11,
    }
}

/// Returns whether two monitors are equal; any NaN equals any other.
fn is_same_reading(one: f64, other: f64) -> bool {
    one == other || (one.is_nan() && other.is_nan())
}

/// Returns for each part when the last one with the same axes and weights was written.
fn last_writes(parts: &[Part]) -> Vec<SystemTime> {
    let mut last = HashMap::new();
    for part in parts {
        let latest = last.entry(Arc::as_ptr(&part.shared)).or_insert(part.modified);
        *latest = part.modified.max(*latest);
    }
    parts.iter().map(|part| last[&Arc::as_ptr(&part.shared)]).collect()
}
