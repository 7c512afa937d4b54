//! Which of a scan's absent frames belong to a task: each task carries those of its own range alone, so that a plan of many
//! tasks is no longer than the scan.

use std::collections::BTreeMap;

use records::{Absent, Span, Spans};

/// The absent frames of a scan, by frame.
pub struct AbsentIndex {
    /// Ranges that do not overlap, rising, each with the place of its entry.
    ranges: Vec<(Span, usize)>,
    /// What each entry says.
    entries: Vec<Absent>,
}

impl AbsentIndex {
    /// Indexes the absent frames of a scan. A frame that stands in several entries is one of the first.
    pub fn new(entries: Vec<Absent>) -> Self {
        let spans = |(place, entry): (usize, &Absent)| {
            entry.range.as_slice().iter().flat_map(each_gapless).map(move |span| (span, place)).collect::<Vec<_>>()
        };
        let mut all: Vec<(Span, usize)> = entries.iter().enumerate().flat_map(spans).collect();
        all.sort_by_key(|(span, place)| (span.start(), *place));
        let (mut ranges, mut from) = (Vec::with_capacity(all.len()), 0);
        for (span, place) in all {
            let left = Span::new(from.max(span.start()), span.stop());
            if left.count() > 0 {
                from = left.stop();
                ranges.push((left, place));
            }
        }
        Self { ranges, entries }
    }

    /// Returns how many frames are absent.
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|(span, _)| span.count()).sum()
    }

    /// Returns the absent frames of a range, each entry of the scan with what is left of its own.
    pub fn select(&self, range: &Spans) -> Vec<Absent> {
        let mut selected: BTreeMap<usize, Vec<Span>> = BTreeMap::new();
        for span in range.as_slice().iter().flat_map(each_gapless) {
            let from = self.ranges.partition_point(|(absent, _)| absent.stop() <= span.start());
            for (absent, place) in self.ranges[from..].iter().take_while(|(absent, _)| absent.start() < span.stop()) {
                let both = Span::new(absent.start().max(span.start()), absent.stop().min(span.stop()));
                selected.entry(*place).or_default().push(both);
            }
        }
        let entry = |(place, spans): (usize, Vec<Span>)| {
            let mut range = Spans::default();
            for span in spans {
                // Ranges with a step have been taken apart.
                if span.count() == 1 { range.push(span.start()) } else { range.push_span(span) }
            }
            Absent { range, ..self.entries[place].clone() }
        };
        selected.into_iter().map(entry).collect()
    }
}

/// The span, in spans of step 1.
fn each_gapless(span: &Span) -> Box<dyn Iterator<Item = Span>> {
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
    fn a_range_has_what_a_look_at_all_entries_gives() {
        let entry = |range: Spans, reason: &str| Absent { range, kind: AbsentKind::Missing, reason: reason.to_owned() };
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
            assert_eq!(frames(index.select(&range)), frames(scan.absent_within(&range)), "{range:?}");
        }
    }
}
