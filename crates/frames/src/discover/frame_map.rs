//! Maps each frame of a dataset to the file, dataset and row that holds it, or to the reason why
//! none does.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use records::{Absent, AbsentKind, Acquisition, Source, Spans};

use super::error::DiscoverError;
use super::unusable::UnusableError;
use crate::chunk::NOT_WRITTEN;
use crate::coding::PixelCoding;
use crate::frame_shape::{MAX_FRAME_PIXELS, frame_dimensions};

/// The sources of a dataset's frames, and the reasons of its absent frames.
#[derive(Clone, Debug)]
pub(crate) struct FrameMap {
    /// Extents of the dataset, in its own number of dimensions.
    pub extents: Vec<u64>,
    pub frames: u64,
    /// Rows and columns of a frame.
    pub shape: [u64; 2],
    /// Coding of the first source, or of the dataset itself if it has no source.
    pub coding: PixelCoding,
    /// Name of the first source's coding in records.
    pub codec: String,
    /// Chunk shape (frames, rows, columns) of the first source; empty if it is not chunked.
    pub chunk: Vec<u64>,
    pub sources: Vec<Source>,
    pub absent: Vec<Absent>,
    /// All files that were opened to build the map.
    pub files: Vec<PathBuf>,
    /// The number of the first frame in its series, by the attribute that Dectris detectors write.
    pub first_image_number: Option<u64>,
    /// The number of frames that the detector was configured to take, if the file says so.
    pub planned_frames: Option<u64>,
    /// For each frame: whether it has a source or a reason already.
    assigned: Vec<bool>,
}

impl FrameMap {
    /// Creates the map of a dataset with no frame assigned yet.
    ///
    /// # Errors
    /// Fails if the extents don't fit a stack of frames, or exceed the size of any detector.
    pub(crate) fn new(
        file: &Path,
        extents: Vec<u64>,
        coding: PixelCoding,
    ) -> Result<Self, DiscoverError> {
        let [frames, rows, columns] = frame_dimensions(&extents)?;
        if frames > Spans::MAX_FRAMES {
            return Err(UnusableError::TooManyFrames(frames).into());
        }
        if rows.checked_mul(columns).is_none_or(|pixels| pixels > MAX_FRAME_PIXELS) {
            return Err(UnusableError::TooManyPixels([rows, columns]).into());
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
            first_image_number: None,
            planned_frames: None,
            assigned: vec![false; frames as usize],
        })
    }

    /// Returns the decoded size of a frame in bytes.
    pub(crate) fn frame_bytes(&self) -> u64 {
        self.coding.dtype.frame_bytes(self.shape)
    }

    /// Adds a source that holds the frames it lists.
    ///
    /// # Errors
    /// A frame is assigned already.
    pub(crate) fn add_source(&mut self, source: Source) -> Result<(), DiscoverError> {
        self.assign(&source.frames)?;
        if source.frames.count() > 0 {
            self.sources.push(source);
        }
        Ok(())
    }

    /// Marks frames as absent, with a kind and a reason.
    ///
    /// # Errors
    /// A frame is assigned already.
    pub(crate) fn add_absent(
        &mut self,
        range: &Spans,
        kind: AbsentKind,
        reason: &str,
    ) -> Result<(), DiscoverError> {
        self.assign(range)?;
        if range.count() > 0 {
            self.absent.push(Absent { range: range.clone(), kind, reason: reason.to_owned() });
        }
        Ok(())
    }

    /// Marks frames as absent because of an error of `file`. The reason calls the file `name`.
    ///
    /// # Errors
    /// A frame is assigned already.
    pub(crate) fn add_absent_for_error(
        &mut self,
        range: &Spans,
        error: &DiscoverError,
        file: &Path,
        name: &Path,
    ) -> Result<(), DiscoverError> {
        // An unreadable file still belongs to the scan.
        self.files.extend(error.file().map(Path::to_owned));
        self.add_absent(range, error.absent_kind(), &error.reason(file, name))
    }

    /// Assigns the frames `there` of another map to the frames `here` of this one, in order.
    ///
    /// # Errors
    /// A frame is assigned already.
    pub(crate) fn add_mapped_frames(
        &mut self,
        here: &Spans,
        other: &Self,
        there: &Spans,
    ) -> Result<(), DiscoverError> {
        if let Some(why) = self.find_mismatch(other) {
            return self.add_absent(here, AbsentKind::Corrupt, &why.to_string());
        }
        if self.sources.is_empty() {
            (self.coding, self.codec, self.chunk) =
                (other.coding.clone(), other.codec.clone(), other.chunk.clone());
        }
        match &other.sources[..] {
            [only]
                if other.absent.is_empty()
                    && only.frames == *there
                    && here.count() == there.count() =>
            {
                self.add_source(Source { frames: here.clone(), ..only.clone() })
            }
            _ => self.add_frames_singly(here, other, there),
        }
    }

    /// Completes the map: frames without a source or reason become absent as not written. Sources
    /// are sorted by their first frame; absent frames with the same reason are merged, and sorted,
    /// too.
    pub(crate) fn complete(mut self) -> Self {
        let left: Spans = (0..)
            .zip(&self.assigned)
            .filter(|(_, is_assigned)| !**is_assigned)
            .map(|(frame, _)| frame)
            .collect();
        if left.count() > 0 {
            self.absent.push(Absent {
                range: left,
                kind: AbsentKind::NotWritten,
                reason: NOT_WRITTEN.to_owned(),
            });
        }
        self.assigned = Vec::new();
        self.sources.sort_by_key(|source| first_frame(&source.frames));
        self.absent = merge_reasons(std::mem::take(&mut self.absent));
        self
    }

    /// Returns the part of a scan's record that the map determines; the caller fills in the rest.
    pub(crate) fn to_acquisition(&self) -> Acquisition {
        Acquisition {
            frames: self.frames,
            shape: self.shape,
            dtype: self.coding.dtype.name().to_owned(),
            chunk: self.chunk.clone(),
            codec: self.codec.clone(),
            sources: self.sources.clone(),
            absent: self.absent.clone(),
            planned_frames: self.planned_frames.filter(|planned| *planned > self.frames),
            ..Acquisition::default()
        }
    }

    fn assign(&mut self, frames: &Spans) -> Result<(), DiscoverError> {
        for frame in frames.iter() {
            let why = match self.assigned.get_mut(frame as usize) {
                Some(is_assigned) if !*is_assigned => {
                    *is_assigned = true;
                    continue;
                }
                Some(_) => UnusableError::MappedTwice(frame),
                None => UnusableError::MappedBeyondEnd { frame, frames: self.frames },
            };
            return Err(why.into());
        }
        Ok(())
    }

    /// Returns why the frames of another dataset can't be combined with the frames of this one, if
    /// so.
    pub(crate) fn find_mismatch(&self, other: &Self) -> Option<UnusableError> {
        if other.shape != self.shape {
            return Some(UnusableError::OtherShape { found: other.shape, expected: self.shape });
        }
        let (found, expected) = (other.coding.dtype, self.coding.dtype);
        let differs = !self.sources.is_empty() && found != expected;
        differs.then_some(UnusableError::OtherPixelType { found, expected })
    }

    fn add_frames_singly(
        &mut self,
        here: &Spans,
        other: &Self,
        there: &Spans,
    ) -> Result<(), DiscoverError> {
        let not_written = Absent {
            kind: AbsentKind::NotWritten,
            reason: NOT_WRITTEN.to_owned(),
            ..Absent::default()
        };
        let reasons: Vec<&Absent> = other.absent.iter().chain([&not_written]).collect();
        let mut origins: Vec<FrameOrigin> =
            vec![FrameOrigin::Lost(other.absent.len()); other.frames as usize];
        for (index, source) in other.sources.iter().enumerate() {
            for (frame, row) in source.frames.iter().zip(source.rows.iter()) {
                origins[frame as usize] = FrameOrigin::Row(index, row);
            }
        }
        for (index, absent) in other.absent.iter().enumerate() {
            absent
                .range
                .iter()
                .for_each(|frame| origins[frame as usize] = FrameOrigin::Lost(index));
        }
        let mut found: Vec<(Vec<u64>, Vec<u64>)> = vec![Default::default(); other.sources.len()];
        let mut lost: Vec<Vec<u64>> = vec![Vec::new(); reasons.len()];
        let mut theirs = there.iter();
        for frame in here.iter() {
            let origin = theirs.next().and_then(|their| origins.get(their as usize).copied());
            match origin.unwrap_or(FrameOrigin::Lost(other.absent.len())) {
                FrameOrigin::Row(index, row) => {
                    found[index].0.push(frame);
                    found[index].1.push(row);
                }
                FrameOrigin::Lost(reason) => lost[reason].push(frame),
            }
        }
        for ((frames, rows), source) in found.into_iter().zip(&other.sources) {
            // Both factors are u64, so the product fits in u128.
            let weighted_bytes = u128::from(source.bytes).saturating_mul(frames.len() as u128);
            let share =
                weighted_bytes.checked_div(u128::from(source.frames.count())).unwrap_or_default();
            let (frames, rows) = (frames.into_iter().collect(), rows.into_iter().collect());
            self.add_source(Source { frames, rows, bytes: share as u64, ..source.clone() })?;
        }
        let lost = lost.into_iter().zip(reasons);
        lost.into_iter().try_for_each(|(frames, why)| {
            self.add_absent(&frames.into_iter().collect(), why.kind, &why.reason)
        })
    }
}

/// The origin of a frame of a dataset.
#[derive(Clone, Copy)]
enum FrameOrigin {
    /// A row of a source: index of the source, and row.
    Row(usize, u64),
    /// Nowhere: index of the reason.
    Lost(usize),
}

/// Merges absent frames of the same kind and reason, in the order of their first frames.
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
    let joined = merged.into_iter().map(|(kind, reason, ranges)| Absent {
        range: Spans::union_all(&ranges),
        kind,
        reason,
    });
    let mut joined: Vec<Absent> = joined.collect();
    joined.sort_by_key(|absent| first_frame(&absent.range));
    joined
}

fn first_frame(frames: &Spans) -> u64 {
    frames.as_slice().first().map_or(u64::MAX, records::Span::start)
}
