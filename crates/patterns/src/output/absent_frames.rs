//! [`AbsentFrames`]: the absent frames of a scan, put together from task records that each list the
//! absent frames of their own range.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use records::{Absent, AbsentKind, Acquisition, Span, Spans, Task};

use super::scan_progress::ScanProgress;
use crate::file_states::{FileStates, LatestFileStates};

/// Absent frames of a scan, each with one reason.
///
/// If two records contradict each other about a frame, these criteria decide in turn: the record
/// with the later state of the scan; the record whose task has the frame in its range; a source of
/// the frame over a frame that is yet to come; the record that was added last.
#[derive(Clone, Debug, Default)]
pub(super) struct AbsentFrames {
    /// Frames that a record mentions, by the first frame of each range. The ranges do not overlap.
    ranges: BTreeMap<u64, AbsentRange>,
    records: Vec<AbsenceRecord>,
    reasons: Vec<(AbsentKind, String)>,
    /// Index of each reason in `reasons`.
    reason_index: HashMap<(AbsentKind, String), usize>,
    /// Number of times that files were found to be written again. Records that were added since
    /// then take precedence.
    epoch: u32,
}

/// A range of frames about which one record decides.
#[derive(Clone, Copy, Debug)]
struct AbsentRange {
    end: u64,
    /// Index of the record.
    record: usize,
    /// True if the frames are in the range of the record's task.
    is_own: bool,
    /// Index of the reason why the frames are absent; `None` if a source has them.
    reason: Option<usize>,
}

/// A task record that mentions frames.
#[derive(Clone, Debug)]
struct AbsenceRecord {
    precedence: Precedence,
    /// Files that the record names, with their states.
    files: FileStates,
}

/// Rank of a record among those that contradict each other; the greatest is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Precedence {
    /// Value of [`AbsentFrames::epoch`] plus 1 when the record was added; 0 for a record that only
    /// fills gaps.
    epoch: u32,
    progress: ScanProgress,
}

impl AbsentFrames {
    /// Adds a task record: which of its frames have a source, and which are absent.
    pub fn add(&mut self, task: &Task) {
        self.add_with(task, self.epoch.saturating_add(1));
    }

    /// Adds a task record for frames that no other record mentions.
    pub fn add_fallback(&mut self, task: &Task) {
        self.add_with(task, 0);
    }

    /// Returns whether a record that does not only fill gaps decides about a frame.
    pub fn is_decided_by_record(&self, frame: u64) -> bool {
        self.range_by_record(frame).is_some()
    }

    /// Returns whether such a record says that a frame is absent.
    pub fn is_absent_by_record(&self, frame: u64) -> bool {
        self.range_by_record(frame).is_some_and(|range| range.reason.is_some())
    }

    fn range_by_record(&self, frame: u64) -> Option<&AbsentRange> {
        let (_, range) = self.ranges.range(..=frame).next_back()?;
        let is_by_record = self.records[range.record].precedence.epoch > 0;
        (frame < range.end && is_by_record).then_some(range)
    }

    fn add_with(&mut self, task: &Task, epoch: u32) {
        let precedence = Precedence { epoch, progress: ScanProgress::new(task) };
        let record = self.records.len();
        self.records.push(AbsenceRecord { precedence, files: FileStates::new(&task.acquisition) });
        let Acquisition { absent, sources, .. } = &task.acquisition;
        // The range of a final file's task is the whole scan, including frames that no record
        // mentioned.
        sources.iter().for_each(|source| {
            self.add_frames(&source.frames.intersection(&task.range), record, true, None)
        });
        for entry in absent {
            let reason = Some(self.reason_id(entry));
            self.add_frames(&entry.range.intersection(&task.range), record, true, reason);
            self.add_frames(&entry.range.difference(&task.range), record, false, reason);
        }
    }

    /// Removes the records of files in an earlier state. Records that are added from now on take
    /// precedence over the others.
    pub fn remove_outdated(&mut self, last: &LatestFileStates) {
        let is_outdated: Vec<bool> =
            self.records.iter().map(|record| last.are_outdated(&record.files)).collect();
        self.ranges.retain(|_, range| !is_outdated[range.record]);
        self.epoch = self.epoch.saturating_add(1);
    }

    fn reason_id(&mut self, entry: &Absent) -> usize {
        let next = self.reasons.len();
        let place = *self.reason_index.entry((entry.kind, entry.reason.clone())).or_insert(next);
        if place == next {
            self.reasons.push((entry.kind, entry.reason.clone()));
        }
        place
    }

    fn add_frames(&mut self, frames: &Spans, record: usize, is_own: bool, reason: Option<usize>) {
        for span in frames.as_slice() {
            if span.step() == 1 {
                self.insert_range(
                    span.start(),
                    AbsentRange { end: span.stop(), record, is_own, reason },
                );
            } else {
                span.iter().for_each(|frame| {
                    self.insert_range(
                        frame,
                        AbsentRange { end: frame.saturating_add(1), record, is_own, reason },
                    )
                });
            }
        }
    }

    /// Inserts a range. Frames that another range has already go to the range of higher precedence.
    fn insert_range(&mut self, start: u64, new: AbsentRange) {
        if start >= new.end {
            return;
        }
        self.split_at(start);
        self.split_at(new.end);
        let met: Vec<(u64, AbsentRange)> =
            self.ranges.range(start..new.end).map(|(first, old)| (*first, *old)).collect();
        let mut from = start;
        for (first, old) in met {
            if from < first {
                self.ranges.insert(from, AbsentRange { end: first, ..new });
            }
            if self.takes_precedence(&new, &old) {
                self.ranges.insert(first, AbsentRange { end: old.end, ..new });
            }
            from = old.end;
        }
        if from < new.end {
            self.ranges.insert(from, new);
        }
    }

    /// Splits the range that contains `frame` in two, so that the second one starts at `frame`.
    fn split_at(&mut self, frame: u64) {
        if let Some((_, range)) = self.ranges.range_mut(..frame).next_back()
            && range.end > frame
        {
            let tail = *range;
            range.end = frame;
            self.ranges.insert(frame, tail);
        }
    }

    fn takes_precedence(&self, new: &AbsentRange, old: &AbsentRange) -> bool {
        if new.record == old.record {
            // Within one record, absence overrides a source, and the first reason stays.
            return old.reason.is_none();
        }
        let precedence =
            |range: &AbsentRange| (self.records[range.record].precedence, range.is_own);
        match precedence(new).cmp(&precedence(old)) {
            Ordering::Less => false,
            Ordering::Greater => true,
            // An existing frame was taken, so the record that says it is yet to come is the older
            // one.
            Ordering::Equal if old.reason.is_none() => !self.is_pending(new),
            Ordering::Equal => true,
        }
    }

    /// Returns whether the frames are said to be yet to come.
    fn is_pending(&self, range: &AbsentRange) -> bool {
        let kind = range.reason.map(|reason| self.reasons[reason].0);
        matches!(kind, Some(AbsentKind::NeverTaken | AbsentKind::NotWritten))
    }

    /// Returns the ranges of absent frames in ascending order, each with the index of its reason.
    /// If the scan `is_over`, frames that a record of the running scan says are yet to come are
    /// left out: whether they were taken is unknown.
    fn absent_ranges(&self, is_over: bool) -> impl Iterator<Item = (Span, usize)> {
        let is_known = move |range: &AbsentRange| {
            let was_over = self.records[range.record].precedence.progress.is_over;
            !is_over || was_over || !self.is_pending(range)
        };
        let known = self.ranges.iter().filter(move |(_, range)| is_known(range));
        known.filter_map(|(first, range)| Some((Span::new(*first, range.end), range.reason?)))
    }

    /// Returns the absent frames, one entry per reason, ordered by the first frames of the entries.
    pub fn list(&self, is_over: bool) -> Vec<Absent> {
        let mut places: HashMap<usize, usize> = HashMap::new();
        let mut list: Vec<Absent> = Vec::new();
        for (span, reason) in self.absent_ranges(is_over) {
            let place = *places.entry(reason).or_insert(list.len());
            if place == list.len() {
                let (kind, reason) = self.reasons[reason].clone();
                list.push(Absent { range: Spans::default(), kind, reason });
            }
            match span.count() {
                // Ranges with a step were inserted frame by frame; a list joins them again.
                1 => list[place].range.push(span.start()),
                _ => list[place].range.push_span(span),
            }
        }
        list
    }

    /// Returns whether all frames of a list are absent.
    pub fn are_all_absent(&self, frames: &Spans, is_over: bool) -> bool {
        let is_absent = |span: &Span| {
            let before = self
                .ranges
                .range(..=span.start())
                .next_back()
                .map_or(span.start(), |(first, _)| *first);
            let mut from = span.start();
            for (first, range) in self.ranges.range(before..span.stop()) {
                let is_unknown = is_over && !self.records[range.record].precedence.progress.is_over;
                if *first > from || range.reason.is_none() || (is_unknown && self.is_pending(range))
                {
                    return false;
                }
                from = range.end;
            }
            from >= span.stop()
        };
        frames.as_slice().iter().all(is_absent)
    }
}
