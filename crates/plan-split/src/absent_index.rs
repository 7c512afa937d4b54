//! Selects the absent frames of a task from the absent frames of its scan. Each task lists only the
//! absent frames in its own range, so that the tasks of a scan together are no longer than its
//! record.

use std::collections::BTreeMap;

use records::{Absent, Span, Spans};

/// The absent frames of a scan, indexed by frame number.
pub struct AbsentIndex {
    /// Ranges in ascending order without overlap, each with the index of its entry.
    ranges: Vec<(Span, usize)>,
    /// The entries of the scan record, with the reasons.
    entries: Vec<Absent>,
}

impl AbsentIndex {
    /// Indexes the absent frames of a scan. Of several entries with the same frame, the first one
    /// counts.
    pub fn new(entries: Vec<Absent>) -> Self {
        let mut spans: Vec<(Span, usize)> = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            spans.extend(
                entry.range.as_slice().iter().flat_map(split_by_gaps).map(|span| (span, index)),
            );
        }
        spans.sort_by_key(|(span, index)| (span.start(), *index));
        let (mut ranges, mut from) = (Vec::with_capacity(spans.len()), 0);
        for (span, index) in spans {
            let rest = Span::new(from.max(span.start()), span.stop());
            if rest.count() > 0 {
                from = rest.stop();
                ranges.push((rest, index));
            }
        }
        Self { ranges, entries }
    }

    /// Returns the number of absent frames.
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|(span, _)| span.count()).sum()
    }

    /// Returns the absent frames within a range, with their reasons.
    pub fn select(&self, range: &Spans) -> Vec<Absent> {
        let mut selected: BTreeMap<usize, Vec<Span>> = BTreeMap::new();
        for span in range.as_slice().iter().flat_map(split_by_gaps) {
            let from = self.ranges.partition_point(|(absent, _)| absent.stop() <= span.start());
            for (absent, index) in
                self.ranges[from..].iter().take_while(|(absent, _)| absent.start() < span.stop())
            {
                let both =
                    Span::new(absent.start().max(span.start()), absent.stop().min(span.stop()));
                selected.entry(*index).or_default().push(both);
            }
        }
        let entry = |(index, spans): (usize, Vec<Span>)| {
            let mut range = Spans::default();
            for span in spans {
                // Single frames may be those of a span with a step, which `push` joins again.
                if span.count() == 1 { range.push(span.start()) } else { range.push_span(span) }
            }
            Absent { range, ..self.entries[index].clone() }
        };
        selected.into_iter().map(entry).collect()
    }
}

/// Splits a span into spans of step 1.
fn split_by_gaps(span: &Span) -> Box<dyn Iterator<Item = Span>> {
    match span.step() {
        1 => Box::new(std::iter::once(*span)),
        _ => Box::new(span.iter().map(|frame| Span::new(frame, frame + 1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::{AbsentKind, Acquisition};

    #[test]
    fn a_selection_equals_a_search_of_all_entries() {
        let entry = |range: Spans, reason: &str| Absent {
            range,
            kind: AbsentKind::Missing,
            reason: reason.to_owned(),
        };
        let two = [Span::new(20, 30), Span::new(50, 60)].into_iter().collect();
        let absent = vec![
            entry(two, "a"),
            entry(Span::new(3, 7).into(), "b"),
            entry(Span::strided(31, 6, 3).into(), "c"),
            entry(Span::new(100, 200).into(), "d"),
        ];
        let scan = Acquisition { absent: absent.clone(), ..Acquisition::default() };
        let index = AbsentIndex::new(absent);
        let ranges = [
            Span::new(0, 300),
            Span::new(5, 25),
            Span::new(25, 26),
            Span::new(60, 100),
            Span::strided(1, 80, 2),
            Span::strided(0, 40, 3),
            Span::new(199, 220),
        ];
        let frames = |list: Vec<Absent>| -> Vec<(Vec<u64>, String)> {
            list.into_iter().map(|entry| (entry.range.iter().collect(), entry.reason)).collect()
        };
        for range in ranges.map(Spans::from) {
            assert_eq!(
                frames(index.select(&range)),
                frames(scan.absent_within(&range)),
                "{range:?}"
            );
        }
    }
}
