//! Splits a scan into the frame ranges of tasks.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::iter::{from_fn, once};
use std::str::FromStr;

use records::{Acquisition, Source, Span, Spans};

/// How to split a scan into tasks: the value of `--by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitBy {
    /// Consecutive sources up to this many stored bytes; a larger source is split between chunks.
    Bytes(u64),
    /// One task per source.
    File,
    /// One task per scan.
    Scan,
    /// This many frames per task.
    Frames(u64),
    /// This many tasks per scan, of equal numbers of frames.
    Workers(u64),
}

impl FromStr for SplitBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().ok().filter(|&count: &u64| count > 0);
        let by = match text.split_once('=') {
            None if text == "file" => Some(Self::File),
            None if text == "scan" => Some(Self::Scan),
            Some(("bytes", size)) => filter::byte_count(size).ok().map(Self::Bytes),
            Some(("frames", count)) => number(count).map(Self::Frames),
            Some(("workers", count)) => number(count).map(Self::Workers),
            _ => None,
        };
        by.ok_or_else(|| {
            "expected file, scan, bytes=N (such as bytes=2G), frames=N or workers=N, with N at least 1".to_owned()
        })
    }
}

impl fmt::Display for SplitBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "bytes={bytes}"),
            Self::File => f.write_str("file"),
            Self::Scan => f.write_str("scan"),
            Self::Frames(count) => write!(f, "frames={count}"),
            Self::Workers(count) => write!(f, "workers={count}"),
        }
    }
}

/// The frames of one task, and the sources that hold them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskFrames {
    /// Frame numbers in ascending order.
    pub range: Spans,
    /// The sources, reduced to `range`. Frames of `range` that no source holds are absent.
    pub sources: Vec<Source>,
}

impl TaskFrames {
    fn from_sources(sources: Vec<Source>) -> Self {
        Self { range: frames_of_sources(&sources), sources }
    }

    /// Returns the stored size of the frames in bytes.
    pub fn bytes(&self) -> u64 {
        self.sources.iter().fold(0, |sum, source| sum.saturating_add(source.bytes))
    }
}

/// Splits a scan lazily into the frames of its tasks. There is at least one task, and each frame,
/// absent or not, is in exactly one of them.
pub fn split_scan(scan: &Acquisition, by: SplitBy) -> Box<dyn Iterator<Item = TaskFrames>> {
    let sources = disjoint_sources(scan);
    let frames = scan.frames;
    let without_source = Spans::first_n(frames).difference(&frames_of_sources(&sources));
    match by {
        SplitBy::Scan => Box::new(add_frames_without_source(
            once(TaskFrames::from_sources(sources)),
            &without_source,
        )),
        SplitBy::File => {
            let tasks = sources.into_iter().map(|source| TaskFrames::from_sources(vec![source]));
            Box::new(add_frames_without_source(tasks, &without_source))
        }
        SplitBy::Bytes(limit) => {
            let frames_per_chunk = scan.chunk.first().copied().unwrap_or(1).max(1);
            Box::new(add_frames_without_source(
                split_by_bytes(sources, limit, frames_per_chunk),
                &without_source,
            ))
        }
        SplitBy::Frames(count) => Box::new(split_by_frames(sources, frames, count)),
        SplitBy::Workers(count) => {
            Box::new(split_by_frames(sources, frames, frames.div_ceil(count).max(1)))
        }
    }
}

/// Returns the scan's sources without frames beyond its end, and without frames that another source
/// holds, too. The source that was modified last keeps such a frame; of two modified at the same
/// time, the first in the list.
fn disjoint_sources(scan: &Acquisition) -> Vec<Source> {
    let all = Spans::first_n(scan.frames);
    let mut sources: Vec<Source> =
        scan.sources.iter().filter_map(|source| source.restricted_to(&all)).collect();
    let count: u64 = sources.iter().map(|source| source.frames.count()).sum();
    if frames_of_sources(&sources).count() == count {
        return sources;
    }
    let mut newest: Vec<&mut Source> = sources.iter_mut().collect();
    newest.sort_by_key(|source| Reverse(source.mtime));
    let mut taken = Spans::default();
    for source in newest {
        let left = source.frames.difference(&taken);
        taken = taken.union(&left);
        *source = source.restricted_to(&left).unwrap_or_default();
    }
    sources.retain(|source| !source.frames.is_empty());
    sources
}

fn frames_of_sources(sources: &[Source]) -> Spans {
    Spans::union_all(sources.iter().map(|source| &source.frames))
}

/// Splits a scan of `frames` frames into ranges of `count` frames. A range that no source holds a
/// frame of is added to the task before it, or at the beginning to the first task, because there is
/// nothing to integrate in it.
fn split_by_frames(
    mut sources: Vec<Source>,
    frames: u64,
    count: u64,
) -> impl Iterator<Item = TaskFrames> {
    let end = |source: &Source| source.frames.as_slice().iter().map(Span::stop).max().unwrap_or(0);
    let first =
        |source: &Source| source.frames.as_slice().iter().map(Span::start).min().unwrap_or(0);
    sources.sort_by_key(first);
    let ends: Vec<u64> = sources.iter().map(end).collect();
    // All sources before this index end before the next range, so each of 10^5 images is looked at
    // about once.
    let mut from = 0;
    let mut start = 0;
    let mut ranges_with_sources = from_fn(move || {
        while start < frames {
            let stop = frames.min(start.saturating_add(count));
            let range = Spans::from(Span::new(start, stop));
            while ends.get(from).is_some_and(|&end| end <= start) {
                from += 1;
            }
            let near = sources[from..].iter().take_while(|source| first(source) < stop);
            let near: Vec<Source> =
                near.filter_map(|source| source.restricted_to(&range)).collect();
            let begin = start;
            start = stop;
            if !near.is_empty() {
                return Some((begin, near));
            }
            // Skips to the range of the next source.
            let next = sources[from..].iter().map(first).next().unwrap_or(frames);
            start = start.max(next / count * count);
        }
        None
    })
    .peekable();
    let mut begin = 0;
    let mut is_first = true;
    from_fn(move || {
        let next = ranges_with_sources.next();
        if next.is_none() && !std::mem::take(&mut is_first) {
            return None;
        }
        is_first = false;
        let stop = ranges_with_sources.peek().map_or(frames, |(start, _)| *start);
        let range = Span::new(std::mem::replace(&mut begin, stop), stop).into();
        Some(TaskFrames { range, sources: next.map(|(_, sources)| sources).unwrap_or_default() })
    })
}

/// Groups consecutive sources, or pieces of them, up to `limit` bytes.
fn split_by_bytes(
    sources: Vec<Source>,
    limit: u64,
    frames_per_chunk: u64,
) -> impl Iterator<Item = TaskFrames> {
    let pieces =
        sources.into_iter().flat_map(move |source| split_source(source, limit, frames_per_chunk));
    let mut pieces = pieces.peekable();
    from_fn(move || {
        let mut sources = vec![pieces.next()?];
        let mut bytes = sources[0].bytes;
        while let Some(piece) = pieces.next_if(|piece| bytes.saturating_add(piece.bytes) <= limit) {
            bytes += piece.bytes;
            sources.push(piece);
        }
        Some(TaskFrames::from_sources(sources))
    })
}

/// Splits a source between chunks into pieces of about equal size, none much larger than `limit`.
fn split_source(source: Source, limit: u64, frames_per_chunk: u64) -> impl Iterator<Item = Source> {
    let count = source.frames.count();
    let min_length = count.div_ceil(source.bytes.div_ceil(limit).clamp(1, count.max(1)));
    let mut from = 0;
    from_fn(move || {
        let rest = source.frames.slice(from, count - from);
        let rows = source.rows.slice(from, count - from);
        let ends_here = |row: u64| row.is_multiple_of(frames_per_chunk);
        let to_chunk_end =
            rows.iter().skip(min_length as usize).take_while(|&row| !ends_here(row)).count() as u64;
        let length = (min_length + to_chunk_end).min(count - from);
        from += length;
        source.restricted_to(&rest.slice(0, length))
    })
}

/// Adds frames that no source holds to the task with the frame before them, or at the beginning to
/// the first task. So every frame belongs to a task, and no task has to list all of them.
fn add_frames_without_source<T: Iterator<Item = TaskFrames>>(
    mut tasks: T,
    without_source: &Spans,
) -> impl Iterator<Item = TaskFrames> + use<T> {
    // Each run of frames, by the frame before it.
    let mut runs_after: BTreeMap<u64, Span> = BTreeMap::new();
    let mut first_run = None;
    for run in contiguous_runs(without_source) {
        match run.start().checked_sub(1) {
            Some(before) => drop(runs_after.insert(before, run)),
            None => first_run = Some(run),
        }
    }
    // A scan without sources has a task, too.
    let mut first_task = Some(tasks.next().unwrap_or_default());
    from_fn(move || {
        let mut task = first_task.take().or_else(|| tasks.next())?;
        let mut added: Vec<Span> = first_run.take().into_iter().collect();
        for span in task.range.as_slice() {
            let before = runs_after.range(span.start()..span.stop()).map(|(before, _)| *before);
            let is_in_span = |before: &u64| (before - span.start()).is_multiple_of(span.step());
            let before: Vec<u64> = before.filter(is_in_span).collect();
            added.extend(before.into_iter().filter_map(|before| runs_after.remove(&before)));
        }
        if !added.is_empty() {
            task.range = task.range.union(&added.into_iter().collect());
        }
        Some(task)
    })
}

/// Returns the frames as spans of step 1, each as long as possible.
fn contiguous_runs(frames: &Spans) -> impl Iterator<Item = Span> + use<> {
    let gapless = |span: &Span| -> Vec<Span> {
        match span.step() {
            1 => vec![*span],
            _ => span.iter().map(|frame| Span::new(frame, frame + 1)).collect(),
        }
    };
    let mut spans = frames
        .to_sorted()
        .as_slice()
        .iter()
        .flat_map(gapless)
        .collect::<Vec<_>>()
        .into_iter()
        .peekable();
    from_fn(move || {
        let mut run = spans.next()?;
        while let Some(next) = spans.next_if(|next| next.start() == run.stop()) {
            run = Span::new(run.start(), next.stop());
        }
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::Span;

    fn source(first: u64, count: u64, bytes: u64) -> Source {
        Source {
            frames: Span::new(first, first + count).into(),
            rows: Spans::first_n(count),
            bytes,
            ..Source::default()
        }
    }

    fn scan() -> Acquisition {
        let sources = vec![source(0, 10, 1000), source(10, 10, 1000), source(20, 5, 500)];
        Acquisition { frames: 27, chunk: vec![1, 4, 4], sources, ..Acquisition::default() }
    }

    fn ranges(scan: &Acquisition, by: &str) -> Vec<String> {
        let tasks: Vec<TaskFrames> = split_scan(scan, by.parse().unwrap()).collect();
        let mut all: Vec<u64> =
            tasks.iter().flat_map(|task| task.range.iter().collect::<Vec<_>>()).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..scan.frames), "{by}: every frame once");
        tasks.iter().map(|task| serde_json::to_string(&task.range).unwrap()).collect()
    }

    #[test]
    fn every_rule_puts_every_frame_into_one_task() {
        assert_eq!(ranges(&scan(), "scan"), ["[[0,27]]"]);
        assert_eq!(ranges(&scan(), "file"), ["[[0,10]]", "[[10,20]]", "[[20,27]]"]);
        assert_eq!(ranges(&scan(), "frames=12"), ["[[0,12]]", "[[12,24]]", "[[24,27]]"]);
        assert_eq!(ranges(&scan(), "workers=2"), ["[[0,14]]", "[[14,27]]"]);
        assert_eq!(ranges(&scan(), "bytes=2000"), ["[[0,20]]", "[[20,27]]"]);
        assert_eq!(ranges(&scan(), "bytes=400").len(), 8);
    }

    #[test]
    fn frames_without_a_source_belong_to_the_task_before_them() {
        let mut scan = scan();
        scan.sources.remove(1);
        assert_eq!(ranges(&scan, "file"), ["[[0,20]]", "[[20,27]]"]);
        assert_eq!(ranges(&scan, "frames=5"), ["[[0,5]]", "[[5,20]]", "[[20,27]]"]);
        assert_eq!(ranges(&scan, "frames=6"), ["[[0,6]]", "[[6,18]]", "[[18,24]]", "[[24,27]]"]);
        assert_eq!(
            ranges(&scan, "workers=9"),
            ["[[0,3]]", "[[3,6]]", "[[6,9]]", "[[9,18]]", "[[18,21]]", "[[21,24]]", "[[24,27]]"]
        );
        assert_eq!(ranges(&scan, "bytes=600"), ["[[0,5]]", "[[5,20]]", "[[20,27]]"]);
        scan.sources.remove(0);
        for by in ["file", "scan", "bytes=600"] {
            assert_eq!(
                ranges(&scan, by),
                ["[[0,27]]"],
                "{by}: frames at the beginning belong to the first task"
            );
        }
        assert_eq!(ranges(&scan, "frames=4"), ["[[0,24]]", "[[24,27]]"]);
        let third = |from| Source {
            frames: Span::strided(from, 10, 3).into(),
            rows: Spans::first_n(10),
            ..source(0, 1, 9)
        };
        scan.sources = vec![third(0), third(1)];
        for by in ["file", "scan", "bytes=10", "frames=7", "workers=4"] {
            let count = ranges(&scan, by).len();
            assert_eq!(
                split_scan(&scan, by.parse().unwrap())
                    .filter(|task| !task.sources.is_empty())
                    .count(),
                count,
                "{by}"
            );
        }
    }

    #[test]
    fn a_large_source_is_split_between_chunks() {
        let mut scan = scan();
        scan.chunk[0] = 4;
        assert_eq!(ranges(&scan, "bytes=500")[..3], ["[[0,8]]", "[[8,10]]", "[[10,18]]"]);
    }

    #[test]
    fn interleaved_sources_stay_whole() {
        let even = Source {
            frames: Span::strided(0, 5, 2).into(),
            rows: Spans::first_n(5),
            bytes: 50,
            ..Source::default()
        };
        let odd = Source {
            frames: Span::strided(1, 5, 2).into(),
            rows: Spans::first_n(5),
            bytes: 50,
            ..Source::default()
        };
        let scan = Acquisition { frames: 10, sources: vec![even, odd], ..Acquisition::default() };
        assert_eq!(ranges(&scan, "file"), ["[[0,9,2]]", "[[1,10,2]]"]);
        assert_eq!(ranges(&scan, "scan"), ["[[0,10]]"]);
        let tasks: Vec<TaskFrames> = split_scan(&scan, SplitBy::Frames(4)).collect();
        assert_eq!(tasks[1].sources[0].rows, Span::new(2, 4).into());
        assert_eq!(tasks[1].bytes(), 40);
    }

    #[test]
    fn a_scan_without_sources_has_a_task() {
        let scan = Acquisition { frames: 3, ..Acquisition::default() };
        assert_eq!(ranges(&scan, "file"), ["[[0,3]]"]);
        assert_eq!(ranges(&scan, "bytes=2G"), ["[[0,3]]"]);
        assert_eq!(ranges(&scan, "frames=1"), ["[[0,3]]"]);
        let scan = Acquisition { frames: 1 << 60, ..scan };
        assert_eq!(split_scan(&scan, SplitBy::Frames(1)).count(), 1, "in no time");
    }

    #[test]
    fn a_frame_in_two_sources_is_read_from_the_newest_file() {
        let mut scan = scan();
        scan.sources[0].frames = Span::new(0, 12).into();
        scan.sources[0].rows = Spans::first_n(12);
        scan.sources[1].mtime = 1;
        scan.sources.push(source(20, 9, 100));
        for by in ["file", "scan", "frames=5", "workers=3", "bytes=300"] {
            ranges(&scan, by);
            let held: Vec<Source> =
                split_scan(&scan, by.parse().unwrap()).flat_map(|task| task.sources).collect();
            let rows_of_11: Vec<u64> = held
                .iter()
                .flat_map(|source| source.frames.iter().zip(source.rows.iter()))
                .filter_map(|(frame, row)| (frame == 11).then_some(row))
                .collect();
            assert_eq!(rows_of_11, [1], "{by}: once, from the file that was changed last");
        }
        assert_eq!(ranges(&scan, "file"), ["[[0,10]]", "[[10,20]]", "[[20,25]]", "[[25,27]]"]);
    }

    #[test]
    fn a_hundred_thousand_images_are_split_quickly() {
        let sources = (0..100_000).map(|frame| source(frame, 1, 1_000_000)).collect();
        let mut scan = Acquisition { frames: 100_000, sources, ..Acquisition::default() };
        assert_eq!(split_scan(&scan, SplitBy::Frames(1)).count(), 100_000);
        assert_eq!(split_scan(&scan, SplitBy::Bytes(1)).count(), 100_000);
        scan.sources = vec![source(0, 100_000, u64::MAX)];
        assert_eq!(split_scan(&scan, SplitBy::Bytes(1)).count(), 100_000);
        scan.frames = 1 << 60;
        assert_eq!(
            split_scan(&scan, SplitBy::Frames(1)).nth(1000).unwrap().range,
            Span::new(1000, 1001).into()
        );
    }

    #[test]
    fn sizes_are_read_as_in_other_tools() {
        assert_eq!("bytes=2G".parse(), Ok(SplitBy::Bytes(2 << 30)));
        for bad in ["bytes=0", "bytes=", "frames=0", "frames", "scans", "bytes=2X", "workers=-1"] {
            assert!(bad.parse::<SplitBy>().is_err(), "{bad}");
        }
    }
}
