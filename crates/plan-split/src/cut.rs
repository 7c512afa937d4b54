//! Cuts a scan into tasks' frame ranges.

use std::fmt;
use std::str::FromStr;

use records::{Acquisition, Source, Spans};

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
        let frames = sources.iter().flat_map(|source| source.frames.as_slice().iter().copied());
        Self { range: frames.collect::<Spans>().sorted(), sources }
    }

    /// Stored bytes of the range.
    pub fn bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.bytes).sum()
    }
}

/// The cuts of a scan: each of its frames is in exactly one of them, absent frames too. At least one.
pub fn cut(scan: &Acquisition, by: By) -> Vec<Cut> {
    let mut cuts = match by {
        By::Scan => vec![Cut::of(scan.sources.clone())],
        By::File => scan.sources.iter().map(|source| Cut::of(vec![source.clone()])).collect(),
        By::Bytes(limit) => by_bytes(scan, limit),
        By::Frames(count) => return by_frames(scan, count),
        By::Workers(count) => return by_frames(scan, scan.frames.div_ceil(count)),
    };
    add_orphans(scan, &mut cuts);
    cuts
}

fn by_frames(scan: &Acquisition, count: u64) -> Vec<Cut> {
    let all = Spans::all(scan.frames);
    let count = count.max(1);
    let ranges = (0..scan.frames.div_ceil(count).max(1)).map(|index| all.slice(index * count, count));
    let cut =
        |range: Spans| Cut { sources: scan.sources.iter().filter_map(|source| source.within(&range)).collect(), range };
    ranges.map(cut).collect()
}

fn by_bytes(scan: &Acquisition, limit: u64) -> Vec<Cut> {
    let frames_a_chunk = scan.chunk.first().copied().unwrap_or(1).max(1);
    let mut cuts = Vec::new();
    let mut open: Vec<Source> = Vec::new();
    let mut held = 0;
    for source in scan.sources.iter().flat_map(|source| pieces(source, limit, frames_a_chunk)) {
        if !open.is_empty() && held + source.bytes > limit {
            cuts.push(Cut::of(std::mem::take(&mut open)));
            held = 0;
        }
        held += source.bytes;
        open.push(source);
    }
    if !open.is_empty() {
        cuts.push(Cut::of(open));
    }
    cuts
}

/// A source in pieces of about equal size, none much over `limit`, cut only where a chunk ends.
fn pieces(source: &Source, limit: u64, frames_a_chunk: u64) -> Vec<Source> {
    let count = source.frames.count();
    let wanted = source.bytes.div_ceil(limit).clamp(1, count.max(1));
    if wanted == 1 {
        return vec![source.clone()];
    }
    let (least, mut from) = (count.div_ceil(wanted), 0);
    let mut pieces = Vec::new();
    for (at, row) in source.rows.iter().enumerate().map(|(at, row)| (at as u64, row)) {
        if at - from >= least && row % frames_a_chunk == 0 {
            pieces.extend(source.within(&source.frames.slice(from, at - from)));
            from = at;
        }
    }
    pieces.extend(source.within(&source.frames.slice(from, count - from)));
    pieces
}

/// Frames that no source holds go to the last cut, so that every frame is somebody's.
fn add_orphans(scan: &Acquisition, cuts: &mut Vec<Cut>) {
    let held: Spans = cuts.iter().flat_map(|cut| cut.range.as_slice().iter().copied()).collect();
    let orphans = Spans::all(scan.frames).minus(&held);
    if cuts.is_empty() {
        cuts.push(Cut::default());
    }
    if let Some(last) = cuts.last_mut()
        && !orphans.is_empty()
    {
        let both = last.range.as_slice().iter().chain(orphans.as_slice()).copied();
        last.range = both.collect::<Spans>().sorted();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::Span;

    fn source(first: u64, count: u64, bytes: u64) -> Source {
        Source { frames: Span::new(first, first + count).into(), rows: Spans::all(count), bytes, ..Source::default() }
    }

    fn scan() -> Acquisition {
        let sources = vec![source(0, 10, 1000), source(10, 10, 1000), source(20, 5, 500)];
        Acquisition { frames: 27, chunk: vec![1, 4, 4], sources, ..Acquisition::default() }
    }

    fn ranges(scan: &Acquisition, by: &str) -> Vec<String> {
        let cuts = cut(scan, by.parse().unwrap());
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
    fn a_large_source_is_cut_on_chunk_borders() {
        let mut scan = scan();
        scan.chunk[0] = 4;
        assert_eq!(ranges(&scan, "bytes=500")[..3], ["[[0,8]]", "[[8,10]]", "[[10,18]]"]);
    }

    #[test]
    fn interleaved_sources_stay_whole() {
        let even =
            Source { frames: Span::strided(0, 5, 2).into(), rows: Spans::all(5), bytes: 50, ..Source::default() };
        let odd = Source { frames: Span::strided(1, 5, 2).into(), rows: Spans::all(5), bytes: 50, ..Source::default() };
        let scan = Acquisition { frames: 10, sources: vec![even, odd], ..Acquisition::default() };
        assert_eq!(ranges(&scan, "file"), ["[[0,9,2]]", "[[1,10,2]]"]);
        assert_eq!(ranges(&scan, "scan"), ["[[0,10]]"]);
        let cuts = cut(&scan, By::Frames(4));
        assert_eq!(cuts[1].sources[0].rows, Span::new(2, 4).into());
        assert_eq!(cuts[1].bytes(), 40);
    }

    #[test]
    fn a_scan_without_sources_is_still_a_task() {
        let scan = Acquisition { frames: 3, ..Acquisition::default() };
        assert_eq!(ranges(&scan, "file"), ["[[0,3]]"]);
        assert_eq!(ranges(&scan, "bytes=2G"), ["[[0,3]]"]);
    }

    #[test]
    fn sizes_are_read_as_other_tools_read_them() {
        assert_eq!("bytes=2G".parse(), Ok(By::Bytes(2 << 30)));
        for bad in ["bytes=0", "bytes=", "frames=0", "frames", "scans", "bytes=2X", "workers=-1"] {
            assert!(bad.parse::<By>().is_err(), "{bad}");
        }
    }
}
