//! The rows of a final in the order of the frames, read from wherever they are.

use super::row_sources::{RowSource, RowSources};
use super::{OutputError, OutputFile, OutputRows};
use crate::normalize::Pattern;
use crate::part::{Part, PartRows};
use crate::variance::PhotonVariance;
use crate::{BinWeights, FrameRow, Normalizer, SharedBins, Status};

/// Parts whose files are open at a time; each holds a block of rows.
const MAX_OPEN_PARTS: usize = 16;

/// One frame of a final.
pub(super) struct OutputFrame {
    pub status: Status,
    /// Intensity and errors; `None` without a pattern.
    pub pattern: Option<Pattern>,
    /// The sums, where they are known and needed.
    pub sums: Option<FrameRow>,
    /// What the weights are multiplied by, where there is a pattern.
    pub scale: f64,
    /// The variance by the counts alone of so many members, where the frame is put together of several.
    pub counted: Option<(PhotonVariance, usize)>,
}

/// The frames of a final to be.
pub(super) trait FrameSource {
    /// Frame `read_frame` of the scan.
    ///
    /// # Errors
    /// A file that can't be read; parts that disagree.
    fn read_frame(&mut self, frame: usize) -> Result<OutputFrame, OutputError>;

    /// The weights of a frame that invalidates no pixel.
    fn shared_weights(&self) -> &BinWeights;

    /// The weights of a frame.
    fn weights<'b>(&'b self, row: &'b FrameRow) -> &'b BinWeights {
        row.weight_override.as_ref().unwrap_or(self.shared_weights())
    }
}

/// Reads frame after frame of one scan.
pub(super) struct ScanFrames<'a> {
    supply: &'a RowSources,
    parts: &'a [Part],
    shared: &'a SharedBins,
    finish: &'a Normalizer,
    existing: Option<OutputRows<'a>>,
    needs_sums: bool,
    /// The parts that are open, the one used last at the end.
    open: Vec<(usize, PartRows<'a>)>,
}

impl FrameSource for ScanFrames<'_> {
    fn read_frame(&mut self, frame: usize) -> Result<OutputFrame, OutputError> {
        let status = self.supply.status[frame];
        let (kept, sums) = match self.supply.sources[frame] {
            RowSource::None => (None, None),
            RowSource::Part { part, row } => match self.stored_pattern(frame, part, row)? {
                Some(pattern) => (Some(pattern), None),
                None => (None, Some(self.checked_row(frame, part, row)?)),
            },
            RowSource::Output => {
                let rows = self.existing.as_mut().expect("a final that gives rows is open");
                (Some(rows.pattern(frame)?), rows.sums(frame)?)
            }
        };
        let sums = sums.filter(FrameRow::has_sums);
        if status != Status::Ok {
            return Ok(OutputFrame { status, pattern: None, sums, scale: f64::NAN, counted: None });
        }
        let scale = self.finish.scale(self.supply.monitor[frame], self.supply.reference).unwrap_or(f64::NAN);
        let pattern = match &sums {
            Some(row) => self.finish.normalize(row, self.shared_weights(), self.supply.reference),
            None => kept,
        };
        Ok(OutputFrame { status, pattern, sums, scale, counted: None })
    }

    fn shared_weights(&self) -> &BinWeights {
        &self.shared.weights
    }
}

impl<'a> ScanFrames<'a> {
    /// Frames come without sums where nobody needs them and their patterns are at hand.
    pub fn new(
        supply: &'a RowSources,
        parts: &'a [Part],
        existing: Option<&'a OutputFile>,
        shared: &'a SharedBins,
        finish: &'a Normalizer,
        needs_sums: bool,
    ) -> Result<Self, OutputError> {
        let existing = match supply.sources.contains(&RowSource::Output) {
            true => existing.map(OutputFile::rows).transpose()?,
            false => None,
        };
        Ok(Self { supply, parts, shared, finish, existing, needs_sums, open: Vec::new() })
    }

    /// The pattern as the part has it, where that is all that is asked for.
    fn stored_pattern(&mut self, frame: usize, part: usize, row: usize) -> Result<Option<Pattern>, OutputError> {
        let is_single = !self.supply.duplicates.contains_key(&(frame as u64));
        match !self.needs_sums && is_single && self.supply.status[frame] == Status::Ok {
            true => Ok(self.part_rows(part)?.pattern(row)?),
            false => Ok(None),
        }
    }

    fn checked_row(&mut self, frame: usize, part: usize, row: usize) -> Result<FrameRow, OutputError> {
        let first = self.part_rows(part)?.row(row)?;
        for &(other, row) in self.supply.duplicates.get(&(frame as u64)).into_iter().flatten() {
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
