//! A dataset of frames, traced to the rows of the files that hold them.

use std::path::{Path, PathBuf};

use records::{Absent, AbsentKind, Acquisition, Source, Spans};

use super::catalog::{FILE_MISSING, FILE_UNREADABLE};
use super::lima::BEING_WRITTEN;
use crate::coding::Coding;
use crate::grid::DAMAGED_INDEX;
use crate::stack::{dimensions, shown};
use crate::store::NOT_WRITTEN;

/// Where the frames of one dataset are.
#[derive(Clone, Debug)]
pub(crate) struct Traced {
    /// Of the dataset, in as many dimensions as it has.
    pub extents: Vec<u64>,
    pub frames: u64,
    /// Rows and columns of a frame.
    pub shape: [u64; 2],
    /// Of the first source, or the dataset's own where it has none.
    pub coding: Coding,
    /// How the first source is stored, as records name it.
    pub codec: String,
    /// Frames, rows and columns of the first source's chunks; empty where it is not chunked.
    pub chunk: Vec<u64>,
    pub sources: Vec<Source>,
    pub absent: Vec<Absent>,
    /// Every file that was opened on the way.
    pub files: Vec<PathBuf>,
    /// Frames that have a source or a reason.
    settled: Vec<bool>,
}

impl Traced {
    /// A dataset none of whose frames has been traced yet.
    pub(crate) fn new(file: &Path, extents: Vec<u64>, coding: Coding) -> Result<Self, String> {
        let [frames, rows, columns] = dimensions(&extents)?;
        Ok(Self {
            extents,
            frames,
            shape: [rows, columns],
            coding,
            codec: "unknown".to_owned(),
            chunk: Vec::new(),
            sources: Vec::new(),
            absent: Vec::new(),
            files: vec![file.to_owned()],
            settled: vec![false; frames as usize],
        })
    }

    /// Bytes of a frame, decoded.
    pub(crate) fn frame_bytes(&self) -> u64 {
        self.shape[0] * self.shape[1] * self.coding.dtype.size() as u64
    }

    /// Adds a source that holds these frames.
    ///
    /// # Errors
    /// A frame has a source already.
    pub(crate) fn add(&mut self, source: Source) -> Result<(), String> {
        self.settle(&source.frames)?;
        if source.frames.count() > 0 {
            self.sources.push(source);
        }
        Ok(())
    }

    /// Says that these frames can't be had.
    ///
    /// # Errors
    /// A frame has a source already.
    pub(crate) fn lose(&mut self, range: &Spans, reason: &str) -> Result<(), String> {
        self.settle(range)?;
        if range.count() > 0 {
            self.absent.push(absent(range.clone(), reason));
        }
        Ok(())
    }

    /// Adds the frames `there` of another dataset as the frames `here` of this one, in this order.
    ///
    /// # Errors
    /// A frame has a source already.
    pub(crate) fn take(&mut self, here: &Spans, other: &Self, there: &Spans) -> Result<(), String> {
        if let Some(why) = self.unlike(other) {
            return self.lose(here, &why);
        }
        if self.sources.is_empty() {
            (self.coding, self.codec, self.chunk) = (other.coding.clone(), other.codec.clone(), other.chunk.clone());
        }
        match &other.sources[..] {
            [only] if other.absent.is_empty() && only.frames == *there && here.count() == there.count() => {
                self.add(Source { frames: here.clone(), ..only.clone() })
            }
            _ => self.take_each(here, other, there),
        }
    }

    /// Frames without a source and a reason have not been written. Sources go in the order of their
    /// first frame, reasons too, those of one reason together.
    pub(crate) fn finish(mut self) -> Self {
        let left: Spans = (0..).zip(&self.settled).filter(|(_, settled)| !**settled).map(|(frame, _)| frame).collect();
        if left.count() > 0 {
            self.absent.push(absent(left, NOT_WRITTEN));
        }
        self.settled = Vec::new();
        self.sources.sort_by_key(|source| first(&source.frames));
        let mut by_reason: Vec<Absent> = Vec::new();
        for absent in std::mem::take(&mut self.absent) {
            match by_reason.iter_mut().find(|other| other.reason == absent.reason) {
                Some(other) => other.range = other.range.iter().chain(absent.range.iter()).collect::<Spans>().sorted(),
                None => by_reason.push(absent),
            }
        }
        by_reason.sort_by_key(|absent| first(&absent.range));
        self.absent = by_reason;
        self
    }

    /// What a record says of these frames; the rest of it is for those who know the scan.
    pub(crate) fn acquisition(&self) -> Acquisition {
        Acquisition {
            frames: self.frames,
            shape: self.shape,
            dtype: self.coding.dtype.name().to_owned(),
            chunk: self.chunk.clone(),
            codec: self.codec.clone(),
            sources: self.sources.clone(),
            absent: self.absent.clone(),
            ..Acquisition::default()
        }
    }

    fn settle(&mut self, frames: &Spans) -> Result<(), String> {
        for frame in frames.iter() {
            match self.settled.get_mut(frame as usize) {
                Some(settled) if !*settled => *settled = true,
                Some(_) => return Err(format!("frame {frame} is mapped twice")),
                None => return Err(format!("frame {frame} is mapped, and the dataset has {}", self.frames)),
            }
        }
        Ok(())
    }

    /// Why the frames of another dataset can't stand beside those of this one.
    pub(crate) fn unlike(&self, other: &Self) -> Option<String> {
        if other.shape != self.shape {
            return Some(format!("frames of {} among frames of {}", shown(&other.shape), shown(&self.shape)));
        }
        let differs = !self.sources.is_empty() && other.coding.dtype != self.coding.dtype;
        differs.then(|| format!("pixels of {} among pixels of {}", other.coding.dtype, self.coding.dtype))
    }

    fn take_each(&mut self, here: &Spans, other: &Self, there: &Spans) -> Result<(), String> {
        let mut places: Vec<Option<(usize, u64)>> = vec![None; other.frames as usize];
        for (index, source) in other.sources.iter().enumerate() {
            for (frame, row) in source.frames.iter().zip(source.rows.iter()) {
                places[frame as usize] = Some((index, row));
            }
        }
        let mut found: Vec<(Vec<u64>, Vec<u64>)> = vec![Default::default(); other.sources.len()];
        let mut lost: Vec<Vec<u64>> = vec![Vec::new(); other.absent.len() + 1];
        let mut theirs = there.iter();
        for frame in here.iter() {
            let their = theirs.next();
            match their.and_then(|their| places.get(their as usize).copied().flatten()) {
                Some((index, row)) => {
                    found[index].0.push(frame);
                    found[index].1.push(row);
                }
                None => lost[reason_of(other, their)].push(frame),
            }
        }
        for ((frames, rows), source) in found.into_iter().zip(&other.sources) {
            let share = u128::from(source.bytes) * frames.len() as u128 / u128::from(source.frames.count().max(1));
            let (frames, rows) = (frames.into_iter().collect(), rows.into_iter().collect());
            self.add(Source { frames, rows, bytes: share as u64, ..source.clone() })?;
        }
        let reasons = other.absent.iter().map(|absent| absent.reason.as_str()).chain([NOT_WRITTEN]);
        lost.into_iter().zip(reasons).try_for_each(|(frames, why)| self.lose(&frames.into_iter().collect(), why))
    }
}

/// Which of a dataset's reasons is that of a frame; the one behind the last where the dataset has no
/// such frame.
fn reason_of(other: &Traced, frame: Option<u64>) -> usize {
    let holds = |absent: &Absent| frame.is_some_and(|frame| absent.range.iter().any(|lost| lost == frame));
    other.absent.iter().position(holds).unwrap_or(other.absent.len())
}

/// Absent frames; the kind is told by how the reason begins.
fn absent(range: Spans, reason: &str) -> Absent {
    let kind = match reason {
        reason if reason.starts_with(FILE_MISSING) => AbsentKind::Missing,
        reason if reason.starts_with(FILE_UNREADABLE) => AbsentKind::Unreadable,
        BEING_WRITTEN => AbsentKind::NeverTaken,
        DAMAGED_INDEX => AbsentKind::Corrupt,
        _ => AbsentKind::NotWritten,
    };
    Absent { range, kind, reason: reason.to_owned() }
}

fn first(frames: &Spans) -> u64 {
    frames.as_slice().first().map_or(u64::MAX, records::Span::first)
}
