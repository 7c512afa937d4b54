//! A dataset of frames, traced to the rows of the files that hold them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use records::{Absent, AbsentKind, Acquisition, Source, Spans};

use super::error::DiscoverError;
use crate::coding::PixelCoding;
use crate::frame_shape::{format_shape, frame_dimensions};
use crate::source::NOT_WRITTEN;

/// How many pixels a frame may have: as many as a record may speak of.
const MAX_FRAME_PIXELS: u64 = 1 << 27;

/// Where the frames of one dataset are.
#[derive(Clone, Debug)]
pub(crate) struct FrameMap {
    /// Of the dataset, in as many dimensions as it has.
    pub extents: Vec<u64>,
    pub frames: u64,
    /// Rows and columns of a frame.
    pub shape: [u64; 2],
    /// Of the first source, or the dataset's own where it has none.
    pub coding: PixelCoding,
    /// How the first source is stored, as records name it.
    pub codec: String,
    /// Frames, rows and columns of the first source's chunks; empty where it is not chunked.
    pub chunk: Vec<u64>,
    pub sources: Vec<Source>,
    pub absent: Vec<Absent>,
    /// Every file that was opened on the way.
    pub files: Vec<PathBuf>,
    /// Frames that have a source or a reason.
    assigned: Vec<bool>,
}

impl FrameMap {
    /// A dataset none of whose frames has been traced yet.
    ///
    /// # Errors
    /// Its extents are not those of frames, or no detector's.
    pub(crate) fn new(file: &Path, extents: Vec<u64>, coding: PixelCoding) -> Result<Self, DiscoverError> {
        let [frames, rows, columns] = frame_dimensions(&extents).map_err(DiscoverError::Unusable)?;
        if frames > Spans::MAX_FRAMES {
            return Err(DiscoverError::Unusable(format!(
                "{frames} frames: expected {} at the most",
                Spans::MAX_FRAMES
            )));
        }
        if rows.checked_mul(columns).is_none_or(|pixels| pixels > MAX_FRAME_PIXELS) {
            let why = format!("frames of {rows} x {columns} pixels: expected {MAX_FRAME_PIXELS} at the most");
            return Err(DiscoverError::Unusable(why));
        }
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
            assigned: vec![false; frames as usize],
        })
    }

    /// Bytes of a frame, decoded.
    pub(crate) fn frame_bytes(&self) -> u64 {
        self.coding.dtype.frame_bytes(self.shape)
    }

    /// Adds a source that holds these frames.
    ///
    /// # Errors
    /// A frame has a source already.
    pub(crate) fn add_source(&mut self, source: Source) -> Result<(), DiscoverError> {
        self.assign(&source.frames)?;
        if source.frames.count() > 0 {
            self.sources.push(source);
        }
        Ok(())
    }

    /// Says that these frames can't be had.
    ///
    /// # Errors
    /// A frame has a source already.
    pub(crate) fn add_absent(&mut self, range: &Spans, kind: AbsentKind, reason: &str) -> Result<(), DiscoverError> {
        self.assign(range)?;
        if range.count() > 0 {
            self.absent.push(Absent { range: range.clone(), kind, reason: reason.to_owned() });
        }
        Ok(())
    }

    /// Says that these frames can't be had because of an error about `file_bytes`, which is called `name` by the one that names it.
    ///
    /// # Errors
    /// A frame has a source already.
    pub(crate) fn add_absent_for_error(
        &mut self,
        range: &Spans,
        error: &DiscoverError,
        file: &Path,
        name: &Path,
    ) -> Result<(), DiscoverError> {
        // It belongs to the scan all the same.
        self.files.extend(error.file().map(Path::to_owned));
        self.add_absent(range, error.absent_kind(), &error.reason(file, name))
    }

    /// Adds the frames `there` of another dataset as the frames `here` of this one, in this order.
    ///
    /// # Errors
    /// A frame has a source already.
    pub(crate) fn add_mapped_frames(&mut self, here: &Spans, other: &Self, there: &Spans) -> Result<(), DiscoverError> {
        if let Some(why) = self.describe_mismatch(other) {
            return self.add_absent(here, AbsentKind::Corrupt, &why);
        }
        if self.sources.is_empty() {
            (self.coding, self.codec, self.chunk) = (other.coding.clone(), other.codec.clone(), other.chunk.clone());
        }
        match &other.sources[..] {
            [only] if other.absent.is_empty() && only.frames == *there && here.count() == there.count() => {
                self.add_source(Source { frames: here.clone(), ..only.clone() })
            }
            _ => self.add_frames_singly(here, other, there),
        }
    }

    /// Frames without a source and a reason have not been written. Sources go in the order of their
    /// first frame, reasons too, those of one reason together.
    pub(crate) fn complete(mut self) -> Self {
        let left: Spans = (0..).zip(&self.assigned).filter(|(_, settled)| !**settled).map(|(frame, _)| frame).collect();
        if left.count() > 0 {
            self.absent.push(Absent { range: left, kind: AbsentKind::NotWritten, reason: NOT_WRITTEN.to_owned() });
        }
        self.assigned = Vec::new();
        self.sources.sort_by_key(|source| first_frame(&source.frames));
        self.absent = merge_reasons(std::mem::take(&mut self.absent));
        self
    }

    /// What a record says of these frames; the rest of it is for those who know the scan.
    pub(crate) fn to_acquisition(&self) -> Acquisition {
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

    fn assign(&mut self, frames: &Spans) -> Result<(), DiscoverError> {
        for frame in frames.iter() {
            let why = match self.assigned.get_mut(frame as usize) {
                Some(settled) if !*settled => {
                    *settled = true;
                    continue;
                }
                Some(_) => format!("frame {frame} is mapped twice"),
                None => format!("frame {frame} is mapped, and the dataset has {}", self.frames),
            };
            return Err(DiscoverError::Unusable(why));
        }
        Ok(())
    }

    /// Why the frames of another dataset can't stand beside those of this one.
    pub(crate) fn describe_mismatch(&self, other: &Self) -> Option<String> {
        if other.shape != self.shape {
            return Some(format!(
                "frames of {} among frames of {}",
                format_shape(&other.shape),
                format_shape(&self.shape)
            ));
        }
        let differs = !self.sources.is_empty() && other.coding.dtype != self.coding.dtype;
        differs.then(|| format!("pixels of {} among pixels of {}", other.coding.dtype, self.coding.dtype))
    }

    fn add_frames_singly(&mut self, here: &Spans, other: &Self, there: &Spans) -> Result<(), DiscoverError> {
        let not_written = Absent { kind: AbsentKind::NotWritten, reason: NOT_WRITTEN.to_owned(), ..Absent::default() };
        let reasons: Vec<&Absent> = other.absent.iter().chain([&not_written]).collect();
        let mut places: Vec<FrameOrigin> = vec![FrameOrigin::Lost(other.absent.len()); other.frames as usize];
        for (index, source) in other.sources.iter().enumerate() {
            for (frame, row) in source.frames.iter().zip(source.rows.iter()) {
                places[frame as usize] = FrameOrigin::Row(index, row);
            }
        }
        for (index, absent) in other.absent.iter().enumerate() {
            absent.range.iter().for_each(|frame| places[frame as usize] = FrameOrigin::Lost(index));
        }
        let mut found: Vec<(Vec<u64>, Vec<u64>)> = vec![Default::default(); other.sources.len()];
        let mut lost: Vec<Vec<u64>> = vec![Vec::new(); reasons.len()];
        let mut theirs = there.iter();
        for frame in here.iter() {
            let place = theirs.next().and_then(|their| places.get(their as usize).copied());
            match place.unwrap_or(FrameOrigin::Lost(other.absent.len())) {
                FrameOrigin::Row(index, row) => {
                    found[index].0.push(frame);
                    found[index].1.push(row);
                }
                FrameOrigin::Lost(reason) => lost[reason].push(frame),
            }
        }
        for ((frames, rows), source) in found.into_iter().zip(&other.sources) {
            // Neither factor has more than 64 bits.
            let of_all = u128::from(source.bytes).saturating_mul(frames.len() as u128);
            let share = of_all.checked_div(u128::from(source.frames.count())).unwrap_or_default();
            let (frames, rows) = (frames.into_iter().collect(), rows.into_iter().collect());
            self.add_source(Source { frames, rows, bytes: share as u64, ..source.clone() })?;
        }
        let lost = lost.into_iter().zip(reasons);
        lost.into_iter()
            .try_for_each(|(frames, why)| self.add_absent(&frames.into_iter().collect(), why.kind, &why.reason))
    }
}

/// Where a frame of a dataset is.
#[derive(Clone, Copy)]
enum FrameOrigin {
    /// In a row of a source.
    Row(usize, u64),
    /// Nowhere, by the reason of this number.
    Lost(usize),
}

/// Puts the frames of one kind and reason together, in the order of their first frames.
fn merge_reasons(absent: Vec<Absent>) -> Vec<Absent> {
    let mut merged: Vec<(AbsentKind, String, Vec<Spans>)> = Vec::new();
    let mut known: HashMap<(AbsentKind, String), usize> = HashMap::new();
    for Absent { range, kind, reason } in absent {
        let next = merged.len();
        match *known.entry((kind, reason.clone())).or_insert(next) {
            index if index == next => merged.push((kind, reason, vec![range])),
            index => merged[index].2.push(range),
        }
    }
    let joined = merged.into_iter().map(|(kind, reason, ranges)| {
        let range = match &ranges[..] {
            [one] => one.clone(),
            all => all.iter().flat_map(Spans::iter).collect::<Spans>().to_sorted(),
        };
        Absent { range, kind, reason }
    });
    let mut joined: Vec<Absent> = joined.collect();
    joined.sort_by_key(|absent| first_frame(&absent.range));
    joined
}

fn first_frame(frames: &Spans) -> u64 {
    frames.as_slice().first().map_or(u64::MAX, records::Span::start)
}
