//! The frames of a scan that records say are absent: each task speaks for its own frames, and the list of the scan is put
//! together from all that were heard.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use records::{Absent, AbsentKind, Acquisition, Span, Spans, Task};

use super::output_spec::completeness;
use crate::source_fingerprint::{FileStates, LatestFileStates};

/// The absent frames of a scan, each with one reason, united over the tasks of the scan.
///
/// Of two records that speak of one frame, the one that knows more of the scan counts, then the one whose task has the
/// frame in its range, then the one that has a source for a frame which the other says is yet to come, then the later one.
#[derive(Clone, Debug, Default)]
pub(super) struct AbsentFrames {
    /// What is known of each range of frames, by its first frame. The ranges do not overlap.
    ranges: BTreeMap<u64, AbsentRange>,
    records: Vec<StatedBy>,
    reasons: Vec<(AbsentKind, String)>,
    /// The place of each reason in the list.
    reason_index: HashMap<(AbsentKind, String), usize>,
    /// How often files were found to be written anew: what was said since counts more than what was said before.
    epoch: u32,
}

/// Frames of which one record says one thing.
#[derive(Clone, Copy, Debug)]
struct AbsentRange {
    end: u64,
    /// The place of the record.
    record: usize,
    /// Whether the frames are in the range of the record's task.
    is_own: bool,
    /// The place of the reason why the frames are absent; `None` where a source has them.
    reason: Option<usize>,
}

/// A record that said something of frames.
#[derive(Clone, Debug)]
struct StatedBy {
    authority: Precedence,
    /// The files that it names, and their states.
    files: FileStates,
}

/// How much a record's word counts against another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Precedence {
    /// 0 for what only fills the gaps of others.
    epoch: u32,
    /// As [`completeness`] has it.
    knowledge: (u64, bool, bool),
}

impl AbsentFrames {
    /// Adds what a task says: which frames a source has, and which are absent.
    pub fn add(&mut self, task: &Task) {
        self.add_with(task, self.epoch.saturating_add(1));
    }

    /// Adds what a task says of frames that no other one speaks of.
    pub fn add_fallback(&mut self, task: &Task) {
        self.add_with(task, 0);
    }

    fn add_with(&mut self, task: &Task, epoch: u32) {
        let authority = Precedence { epoch, knowledge: completeness(task) };
        let record = self.records.len();
        self.records.push(StatedBy { authority, files: FileStates::new(&task.acquisition) });
        let Acquisition { absent, sources, .. } = &task.acquisition;
        // Of a final that lacks results, the range has frames of which nothing was said.
        sources.iter().for_each(|source| self.add_frames(&source.frames.intersection(&task.range), record, true, None));
        for entry in absent {
            let reason = Some(self.reason_id(entry));
            self.add_frames(&entry.range.intersection(&task.range), record, true, reason);
            self.add_frames(&entry.range.difference(&task.range), record, false, reason);
        }
    }

    /// Removes what was said by records of files in an earlier state, and has what comes count more than the rest.
    pub fn remove_outdated(&mut self, last: &LatestFileStates) {
        let is_outdated: Vec<bool> = self.records.iter().map(|record| last.are_outdated(&record.files)).collect();
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
                self.insert_range(span.start(), AbsentRange { end: span.stop(), record, is_own, reason });
            } else {
                span.iter().for_each(|frame| {
                    self.insert_range(frame, AbsentRange { end: frame.saturating_add(1), record, is_own, reason })
                });
            }
        }
    }

    /// Puts a range among those that there are. Where it meets another, the one that counts more stays.
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

    /// Cuts the range that has frames on both sides of `read_frame`.
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
            // What is absent, though a source claims to have it, and for the reason that was given first.
            return old.reason.is_none();
        }
        let authority = |range: &AbsentRange| (self.records[range.record].authority, range.is_own);
        match authority(new).cmp(&authority(old)) {
            Ordering::Less => false,
            Ordering::Greater => true,
            // A frame that is there was taken: who says that it is yet to come has looked earlier.
            Ordering::Equal if old.reason.is_none() => !self.is_pending(new),
            Ordering::Equal => true,
        }
    }

    /// Returns whether the frames are said not to be there yet, as all frames of a scan once were.
    fn is_pending(&self, range: &AbsentRange) -> bool {
        let kind = range.reason.map(|reason| self.reasons[reason].0);
        matches!(kind, Some(AbsentKind::NeverTaken | AbsentKind::NotWritten))
    }

    /// Returns the ranges of absent frames, rising, with the place of each one's reason. Where the scan `is_over`, frames that
    /// were to come while it ran are not among them: nobody has said what became of them.
    fn absent_ranges(&self, is_over: bool) -> impl Iterator<Item = (Span, usize)> {
        let is_told = move |range: &AbsentRange| {
            let (_, _, was_over) = self.records[range.record].authority.knowledge;
            !is_over || was_over || !self.is_pending(range)
        };
        let told = self.ranges.iter().filter(move |(_, range)| is_told(range));
        told.filter_map(|(first, range)| Some((Span::new(*first, range.end), range.reason?)))
    }

    /// Returns the absent frames, each in one entry, in the order of the entries' first frames.
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
                // Ranges with a step are kept frame by frame, and are ranges again in a list.
                1 => list[place].range.push(span.start()),
                _ => list[place].range.push_span(span),
            }
        }
        list
    }

    /// Returns whether all these frames are absent.
    pub fn are_all_absent(&self, frames: &Spans, is_over: bool) -> bool {
        let is_absent = |span: &Span| {
            let before = self.ranges.range(..=span.start()).next_back().map_or(span.start(), |(first, _)| *first);
            let mut from = span.start();
            for (first, range) in self.ranges.range(before..span.stop()) {
                let is_to_be_told = is_over && !self.records[range.record].authority.knowledge.2;
                if *first > from || range.reason.is_none() || (is_to_be_told && self.is_pending(range)) {
                    return false;
                }
                from = range.end;
            }
            from >= span.stop()
        };
        frames.as_slice().iter().all(is_absent)
    }
}
