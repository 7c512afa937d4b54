//! Reads the rows of a final file that is to be written, frame by frame, from parts and the
//! existing final file.

use super::row_sources::{RowSource, RowSources};
use super::{OutputError, OutputFile, OutputRows};
use crate::normalize::Pattern;
use crate::part::{Part, PartRows};
use crate::variance::PhotonVariance;
use crate::{BinWeights, FrameRow, Normalizer, SharedBins, Status};

/// Maximum number of parts that are open at a time. Each holds a block of rows in memory.
const MAX_OPEN_PARTS: usize = 16;

/// One frame of a final file.
pub(super) struct OutputFrame {
    pub status: Status,
    /// Intensity and errors; `None` for a frame without a pattern.
    pub pattern: Option<Pattern>,
    /// Sums, if they are known and needed.
    pub sums: Option<FrameRow>,
    /// Factor of the weights, `g` in [`crate::normalize`]; NaN for a frame without a pattern.
    pub scale: f64,
    /// Photon variance of a merged frame, summed over its members, and the number of members;
    /// `None` for a frame of one scan.
    pub counted: Option<(PhotonVariance, usize)>,
}

/// Frames of a final file that is to be written.
pub(super) trait FrameSource {
    /// Reads a frame of the scan.
    ///
    /// # Errors
    /// Fails if a file can't be read, or if two parts contradict each other.
    fn read_frame(&mut self, frame: usize) -> Result<OutputFrame, OutputError>;

    /// Returns the weights of frames without a weight override.
    fn shared_weights(&self) -> &BinWeights;

    /// Returns the weights of a frame.
    fn weights<'b>(&'b self, row: &'b FrameRow) -> &'b BinWeights {
        row.weight_override.as_ref().unwrap_or(self.shared_weights())
    }
}

/// Frames of one scan, from its parts and the existing final file.
pub(super) struct ScanFrames<'a> {
    row_sources: &'a RowSources,
    parts: &'a [Part],
    shared: &'a SharedBins,
    normalizer: &'a Normalizer,
    existing: Option<OutputRows<'a>>,
    needs_sums: bool,
    /// Open parts, the most recently used one last.
    open: Vec<(usize, PartRows<'a>)>,
}

impl FrameSource for ScanFrames<'_> {
    fn read_frame(&mut self, frame: usize) -> Result<OutputFrame, OutputError> {
        let status = self.row_sources.status[frame];
        let (kept, sums) = match self.row_sources.sources[frame] {
            RowSource::None => (None, None),
            RowSource::Part { part, row } => match self.stored_pattern(frame, part, row)? {
                Some(pattern) => (Some(pattern), None),
                None => (None, Some(self.checked_row(frame, part, row)?)),
            },
            RowSource::Output => {
                let rows = self.existing.as_mut().expect("a final that gives rows is open");
                let sums = if self.needs_sums { rows.sums(frame)? } else { None };
                (Some(rows.pattern(frame)?), sums)
            }
        };
        let sums = sums.filter(FrameRow::has_sums);
        if status != Status::Ok {
            return Ok(OutputFrame { status, pattern: None, sums, scale: f64::NAN, counted: None });
        }
        let scale = self
            .normalizer
            .scale(self.row_sources.monitor[frame], self.row_sources.reference)
            .unwrap_or(f64::NAN);
        let pattern = match &sums {
            Some(row) => {
                self.normalizer.normalize(row, self.shared_weights(), self.row_sources.reference)
            }
            None => kept,
        };
        Ok(OutputFrame { status, pattern, sums, scale, counted: None })
    }

    fn shared_weights(&self) -> &BinWeights {
        &self.shared.weights
    }
}

impl<'a> ScanFrames<'a> {
    /// Creates a reader. Without `needs_sums`, frames have no sums if their patterns are stored and
    /// don't depend on the mean of the monitor.
    pub fn new(
        row_sources: &'a RowSources,
        parts: &'a [Part],
        existing: Option<&'a OutputFile>,
        shared: &'a SharedBins,
        normalizer: &'a Normalizer,
        needs_sums: bool,
    ) -> Result<Self, OutputError> {
        let existing = if row_sources.sources.contains(&RowSource::Output) {
            existing.map(OutputFile::rows).transpose()?
        } else {
            None
        };
        let needs_sums = needs_sums || !normalizer.needs_only_own_frame();
        Ok(Self { row_sources, parts, shared, normalizer, existing, needs_sums, open: Vec::new() })
    }

    /// Reads the pattern of a frame from its part, if that is all that is needed.
    fn stored_pattern(
        &mut self,
        frame: usize,
        part: usize,
        row: usize,
    ) -> Result<Option<Pattern>, OutputError> {
        let is_single = !self.row_sources.duplicates.contains_key(&(frame as u64));
        if !self.needs_sums && is_single && self.row_sources.status[frame] == Status::Ok {
            Ok(self.part_rows(part)?.pattern(row)?)
        } else {
            Ok(None)
        }
    }

    fn checked_row(
        &mut self,
        frame: usize,
        part: usize,
        row: usize,
    ) -> Result<FrameRow, OutputError> {
        let first = self.part_rows(part)?.row(row)?;
        for &(other, row) in self.row_sources.duplicates.get(&(frame as u64)).into_iter().flatten()
        {
            if !self.part_rows(other)?.row(row)?.is_bit_identical(&first) {
                let (one, two) = (self.parts[part].path.clone(), self.parts[other].path.clone());
                return Err(OutputError::ConflictingParts { frame: frame as u64, one, two });
            }
        }
        Ok(first)
    }

    fn part_rows(&mut self, part: usize) -> Result<&mut PartRows<'a>, OutputError> {
        let opened = match self.open.iter().position(|(open, _)| *open == part) {
            Some(at) => self.open.remove(at),
            None => (part, self.parts[part].open()?),
        };
        if self.open.len() >= MAX_OPEN_PARTS {
            self.open.remove(0);
        }
        self.open.push(opened);
        let (_, rows) = self.open.last_mut().expect("one was pushed just now");
        Ok(rows)
    }
}
