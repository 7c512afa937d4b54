//! Cuts a scan into tasks' frame ranges.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::iter::{from_fn, once};
use std::str::FromStr;

use records::{Acquisition, Source, Span, Spans};

/// How scans are cut into tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Consecutive sources up to this many stored bytes; a larger source is cut on chunk borders.
    Bytes(u64),
    /// One task a source.
    File,
    /// One task a scan.
    Scan,
    /// This many frames a task.
    Frames(u64),
    /// This many tasks a scan, equal in frames.
    Workers(u64),
}

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().ok().filter(|&count: &u64| count > 0);
        let by = match text.split_once('=') {
            None if text == "file" => Some(Self::File),
            None if text == "scan" => Some(Self::Scan),
            Some(("bytes", size)) => byte_count(size).map(Self::Bytes),
            Some(("frames", count)) => number(count).map(Self::Frames),
            Some(("workers", count)) => number(count).map(Self::Workers),
            _ => None,
        };
        by.ok_or_else(|| {
            format!("`{text}`: expected bytes=N (N may end in K, M, G or T), file, scan, frames=N or workers=N")
        })
    }
}

/// As `sort -S` and `split -b` count: K is 1024.
fn byte_count(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().last()? {
        (at, 'K' | 'k') => (&text[..at], 10),
        (at, 'M' | 'm') => (&text[..at], 20),
        (at, 'G' | 'g') => (&text[..at], 30),
        (at, 'T' | 't') => (&text[..at], 40),
        _ => (text, 0),
    };
    let count: u64 = digits.parse().ok()?;
    count.checked_mul(1 << shift).filter(|&bytes| bytes > 0)
}

impl fmt::Display for By {
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

/// One cut: frames, and the sources that hold them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cut {
    /// The scan's frames, rising.
    pub range: Spans,
    /// What holds them; frames that no source holds are absent.
    pub sources: Vec<Source>,
}

impl Cut {
    fn of(sources: Vec<Source>) -> Self {
        Self { range: frames_of(&sources), sources }
    }

    /// Stored bytes of the range.
    pub fn bytes(&self) -> u64 {
        self.sources.iter().fold(0, |sum, source| sum.saturating_add(source.bytes))
    }
}

/// The cuts of a scan, made as they are asked for: each of its frames is in exactly one of them, absent
/// frames too. At least one.
pub fn cut(scan: &Acquisition, by: By) -> Box<dyn Iterator<Item = Cut>> {
    let sources = apart(scan);
    let frames = scan.frames;
    let orphans = Spans::first_n(frames).difference(&frames_of(&sources));
    match by {
        By::Scan => Box::new(with_orphans(once(Cut::of(sources)), &orphans)),
        By::File => Box::new(with_orphans(sources.into_iter().map(|source| Cut::of(vec![source])), &orphans)),
        By::Bytes(limit) => {
            let frames_a_chunk = scan.chunk.first().copied().unwrap_or(1).max(1);
            Box::new(with_orphans(by_bytes(sources, limit, frames_a_chunk), &orphans))
        }
        By::Frames(count) => Box::new(by_frames(sources, frames, count)),
        By::Workers(count) => Box::new(by_frames(sources, frames, frames.div_ceil(count).max(1))),
    }
}

/// The scan's sources, each without frames that the scan does not have, or that another source has too.
/// As everywhere, the file that was changed last counts, and of two changed at once the one that stands
/// first.
fn apart(scan: &Acquisition) -> Vec<Source> {
    let all = Spans::first_n(scan.frames);
    let mut sources: Vec<Source> = scan.sources.iter().filter_map(|source| source.restricted_to(&all)).collect();
    let count: u64 = sources.iter().map(|source| source.frames.count()).sum();
    if frames_of(&sources).count() == count {
        return sources;
    }
    let mut newest: Vec<&mut Source> = sources.iter_mut().collect();
    newest.sort_by_key(|source| Reverse(source.mtime));
    let mut taken = Spans::default();
    for source in newest {
        let left = source.frames.difference(&taken);
        taken = union([&taken, &left]);
        *source = source.restricted_to(&left).unwrap_or_default();
    }
    sources.retain(|source| !source.frames.is_empty());
    sources
}

fn frames_of(sources: &[Source]) -> Spans {
    union(sources.iter().map(|source| &source.frames))
}

fn union<'a>(all: impl IntoIterator<Item = &'a Spans>) -> Spans {
    all.into_iter().flat_map(|spans| spans.as_slice().iter().copied()).collect::<Spans>().to_sorted()
}

/// Ranges of `count` of the scan's `frames`. Ranges that no source has a frame of belong to the cut before them, those at the
/// beginning to the first: nothing is to be done for them but to be told of.
fn by_frames(mut sources: Vec<Source>, frames: u64, count: u64) -> impl Iterator<Item = Cut> {
    let end = |source: &Source| source.frames.as_slice().iter().map(Span::stop).max().unwrap_or(0);
    let first = |source: &Source| source.frames.as_slice().iter().map(Span::start).min().unwrap_or(0);
    sources.sort_by_key(first);
    let ends: Vec<u64> = sources.iter().map(end).collect();
    // Sources before this one end before the ranges to come: 10^5 images in 10^5 tasks are looked at
    // about once each.
    let mut from = 0;
    let mut start = 0;
    let mut held = from_fn(move || {
        while start < frames {
            let stop = frames.min(start.saturating_add(count));
            let range = Spans::from(Span::new(start, stop));
            while ends.get(from).is_some_and(|&end| end <= start) {
                from += 1;
            }
            let near = sources[from..].iter().take_while(|source| first(source) < stop);
            let near: Vec<Source> = near.filter_map(|source| source.restricted_to(&range)).collect();
            let begin = start;
            start = stop;
            if !near.is_empty() {
                return Some((begin, near));
            }
            // Where no source reaches in between, the next range is that of the next source.
            let next = sources[from..].iter().map(first).next().unwrap_or(frames);
            start = start.max(next / count * count);
        }
        None
    })
    .peekable();
    let mut begin = 0;
    let mut is_first = true;
    from_fn(move || {
        let next = held.next();
        if next.is_none() && !std::mem::take(&mut is_first) {
            return None;
        }
        is_first = false;
        let stop = held.peek().map_or(frames, |(start, _)| *start);
        let range = Span::new(std::mem::replace(&mut begin, stop), stop).into();
        Some(Cut { range, sources: next.map(|(_, sources)| sources).unwrap_or_default() })
    })
}

/// Consecutive sources, or pieces of them, up to `limit` bytes.
fn by_bytes(sources: Vec<Source>, limit: u64, frames_a_chunk: u64) -> impl Iterator<Item = Cut> {
    let mut pieces = sources.into_iter().flat_map(move |source| pieces(source, limit, frames_a_chunk)).peekable();
    from_fn(move || {
        let mut cut = vec![pieces.next()?];
        let mut held = cut[0].bytes;
        while let Some(piece) = pieces.next_if(|piece| held.saturating_add(piece.bytes) <= limit) {
            held += piece.bytes;
            cut.push(piece);
        }
        Some(Cut::of(cut))
    })
}

/// A source in pieces of about equal size, none much over `limit`, cut only where a chunk ends.
fn pieces(source: Source, limit: u64, frames_a_chunk: u64) -> impl Iterator<Item = Source> {
    let count = source.frames.count();
    let least = count.div_ceil(source.bytes.div_ceil(limit).clamp(1, count.max(1)));
    let mut from = 0;
    from_fn(move || {
        let rest = source.frames.slice(from, count - from);
        let rows = source.rows.slice(from, count - from);
        let ends_here = |row: u64| row.is_multiple_of(frames_a_chunk);
        let longer = rows.iter().skip(least as usize).take_while(|&row| !ends_here(row)).count() as u64;
        let length = (least + longer).min(count - from);
        from += length;
        source.restricted_to(&rest.slice(0, length))
    })
}

/// Frames that no source holds go to the cut with the frame before them, those at the beginning to the first cut, so that every
/// frame is somebody's, and no cut has all of them to tell of.
fn with_orphans<C: Iterator<Item = Cut>>(mut cuts: C, orphans: &Spans) -> impl Iterator<Item = Cut> + use<C> {
    let mut behind: BTreeMap<u64, Span> = BTreeMap::new();
    let mut leading = None;
    for run in runs(orphans) {
        match run.start().checked_sub(1) {
            Some(before) => drop(behind.insert(before, run)),
            None => leading = Some(run),
        }
    }
    // A scan without sources is a task all the same.
    let mut first = Some(cuts.next().unwrap_or_default());
    from_fn(move || {
        let mut cut = first.take().or_else(|| cuts.next())?;
        let mut own: Vec<Span> = leading.take().into_iter().collect();
        for span in cut.range.as_slice() {
            let near = behind.range(span.start()..span.stop()).map(|(before, _)| *before);
            let is_in_span = |before: &u64| (before - span.start()).is_multiple_of(span.step());
            let near: Vec<u64> = near.filter(is_in_span).collect();
            own.extend(near.into_iter().filter_map(|before| behind.remove(&before)));
        }
        if !own.is_empty() {
            cut.range = union([&cut.range, &own.into_iter().collect()]);
        }
        Some(cut)
    })
}

/// The frames in spans of step 1, as long as they are in a row.
fn runs(frames: &Spans) -> impl Iterator<Item = Span> + use<> {
    let gapless = |span: &Span| -> Vec<Span> {
        match span.step() {
            1 => vec![*span],
            _ => span.iter().map(|frame| Span::new(frame, frame + 1)).collect(),
        }
    };
    let mut spans = frames.to_sorted().as_slice().iter().flat_map(gapless).collect::<Vec<_>>().into_iter().peekable();
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
        let cuts: Vec<Cut> = cut(scan, by.parse().unwrap()).collect();
        let mut all: Vec<u64> = cuts.iter().flat_map(|cut| cut.range.iter().collect::<Vec<_>>()).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..scan.frames), "{by}: every frame once");
        cuts.iter().map(|cut| serde_json::to_string(&cut.range).unwrap()).collect()
    }

    #[test]
    fn every_way_covers_every_frame_once() {
        assert_eq!(ranges(&scan(), "scan"), ["[[0,27]]"]);
        assert_eq!(ranges(&scan(), "file"), ["[[0,10]]", "[[10,20]]", "[[20,27]]"]);
        assert_eq!(ranges(&scan(), "frames=12"), ["[[0,12]]", "[[12,24]]", "[[24,27]]"]);
        assert_eq!(ranges(&scan(), "workers=2"), ["[[0,14]]", "[[14,27]]"]);
        assert_eq!(ranges(&scan(), "bytes=2000"), ["[[0,20]]", "[[20,27]]"]);
        assert_eq!(ranges(&scan(), "bytes=400").len(), 8);
    }

    #[test]
    fn frames_of_no_source_belong_to_the_cut_before_them() {
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
            assert_eq!(ranges(&scan, by), ["[[0,27]]"], "{by}: those at the beginning are the first cut's");
        }
        assert_eq!(ranges(&scan, "frames=4"), ["[[0,24]]", "[[24,27]]"]);
        let third =
            |from| Source { frames: Span::strided(from, 10, 3).into(), rows: Spans::first_n(10), ..source(0, 1, 9) };
        scan.sources = vec![third(0), third(1)];
        for by in ["file", "scan", "bytes=10", "frames=7", "workers=4"] {
            let count = ranges(&scan, by).len();
            assert_eq!(cut(&scan, by.parse().unwrap()).filter(|cut| !cut.sources.is_empty()).count(), count, "{by}");
        }
    }

    #[test]
    fn a_large_source_is_cut_on_chunk_borders() {
        let mut scan = scan();
        scan.chunk[0] = 4;
        assert_eq!(ranges(&scan, "bytes=500")[..3], ["[[0,8]]", "[[8,10]]", "[[10,18]]"]);
    }

    #[test]
    fn interleaved_sources_stay_whole() {
        let even =
            Source { frames: Span::strided(0, 5, 2).into(), rows: Spans::first_n(5), bytes: 50, ..Source::default() };
        let odd =
            Source { frames: Span::strided(1, 5, 2).into(), rows: Spans::first_n(5), bytes: 50, ..Source::default() };
        let scan = Acquisition { frames: 10, sources: vec![even, odd], ..Acquisition::default() };
        assert_eq!(ranges(&scan, "file"), ["[[0,9,2]]", "[[1,10,2]]"]);
        assert_eq!(ranges(&scan, "scan"), ["[[0,10]]"]);
        let cuts: Vec<Cut> = cut(&scan, By::Frames(4)).collect();
        assert_eq!(cuts[1].sources[0].rows, Span::new(2, 4).into());
        assert_eq!(cuts[1].bytes(), 40);
    }

    #[test]
    fn a_scan_without_sources_is_still_a_task() {
        let scan = Acquisition { frames: 3, ..Acquisition::default() };
        assert_eq!(ranges(&scan, "file"), ["[[0,3]]"]);
        assert_eq!(ranges(&scan, "bytes=2G"), ["[[0,3]]"]);
        assert_eq!(ranges(&scan, "frames=1"), ["[[0,3]]"]);
        let scan = Acquisition { frames: 1 << 60, ..scan };
        assert_eq!(cut(&scan, By::Frames(1)).count(), 1, "in no time");
    }

    #[test]
    fn a_frame_in_two_sources_is_that_of_the_newest_file() {
        let mut scan = scan();
        scan.sources[0].frames = Span::new(0, 12).into();
        scan.sources[0].rows = Spans::first_n(12);
        scan.sources[1].mtime = 1;
        scan.sources.push(source(20, 9, 100));
        for by in ["file", "scan", "frames=5", "workers=3", "bytes=300"] {
            ranges(&scan, by);
            let held: Vec<Source> = cut(&scan, by.parse().unwrap()).flat_map(|cut| cut.sources).collect();
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
    fn a_hundred_thousand_images_are_cut_in_no_time() {
        let sources = (0..100_000).map(|frame| source(frame, 1, 1_000_000)).collect();
        let mut scan = Acquisition { frames: 100_000, sources, ..Acquisition::default() };
        assert_eq!(cut(&scan, By::Frames(1)).count(), 100_000);
        assert_eq!(cut(&scan, By::Bytes(1)).count(), 100_000);
        scan.sources = vec![source(0, 100_000, u64::MAX)];
        assert_eq!(cut(&scan, By::Bytes(1)).count(), 100_000);
        scan.frames = 1 << 60;
        assert_eq!(cut(&scan, By::Frames(1)).nth(1000).unwrap().range, Span::new(1000, 1001).into());
    }

    #[test]
    fn sizes_are_read_as_other_tools_read_them() {
        assert_eq!("bytes=2G".parse(), Ok(By::Bytes(2 << 30)));
        for bad in ["bytes=0", "bytes=", "frames=0", "frames", "scans", "bytes=2X", "workers=-1"] {
            assert!(bad.parse::<By>().is_err(), "{bad}");
        }
    }
}
