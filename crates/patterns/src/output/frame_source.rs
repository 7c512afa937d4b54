//! Reads the rows of a final file that is to be written, frame by frame, from parts and the
//! existing final file.

use std::sync::Arc;

use super::row_sources::{RowSource, RowSources};
use super::{OutputError, OutputFile, OutputRows};
use crate::agreement::patterns_agree;
use crate::normalize::Pattern;
use crate::part::{EncodedPattern, Part, PartRows};
use crate::sparse_pixels::SparseFrame;
use crate::variance::PhotonVariance;
use crate::{BinWeights, Compression, FrameRow, Normalizer, SharedBins, Status};

/// Maximum number of parts that are open at a time. Each holds a block of rows in memory.
const MAX_OPEN_PARTS: usize = 16;

/// One frame of a final file.
pub(super) struct OutputFrame {
    pub status: Status,
    /// Intensity and errors; `None` for a frame without a pattern, and if it is `encoded`.
    pub pattern: Option<Pattern>,
    /// The pattern in the compression of the final file, if no more than a copy of it is needed.
    pub encoded: Option<EncodedPattern>,
    /// Weights of a frame of which only the pattern is known, if they are its own.
    pub weight_override: Option<Arc<BinWeights>>,
    /// Sums, if they are known and needed.
    pub sums: Option<FrameRow>,
    /// Factor of the weights, `g` in [`crate::normalize`]; NaN for a frame without a pattern.
    pub scale: f64,
    /// Photon variance of a merged frame, summed over its members, and the number of members;
    /// `None` for a frame of one scan.
    pub counted: Option<(PhotonVariance, usize)>,
    /// Sparse pixels, if they are known.
    pub sparse: Option<SparseFrame>,
}

impl OutputFrame {
    /// Returns a frame without a pattern.
    pub fn without_pattern(status: Status) -> Self {
        Self {
            status,
            pattern: None,
            encoded: None,
            weight_override: None,
            sums: None,
            scale: f64::NAN,
            counted: None,
            sparse: None,
        }
    }
}

/// The pattern of a part's row.
enum StoredRow {
    Encoded(EncodedPattern),
    /// With the weights of the frame, if they are its own and needed.
    Pattern(Pattern, Option<Arc<BinWeights>>),
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
        row.weights(self.shared_weights())
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
    /// Compression in which cakes are copied as they are stored; `None` if they must be decoded.
    copied: Option<Compression>,
    /// Open parts, the most recently used one last.
    open: Vec<(usize, PartRows<'a>)>,
}

impl FrameSource for ScanFrames<'_> {
    fn read_frame(&mut self, frame: usize) -> Result<OutputFrame, OutputError> {
        let sparse = match self.row_sources.sparse[frame] {
            RowSource::None => None,
            RowSource::Part { part, row } => self.part_rows(part)?.sparse(row)?,
            RowSource::Output => {
                let rows = self.existing.as_ref().expect("a final that gives pixels is open");
                rows.sparse(frame)?
            }
        };
        Ok(OutputFrame { sparse, ..self.read_row(frame)? })
    }

    fn shared_weights(&self) -> &BinWeights {
        &self.shared.weights
    }
}

impl<'a> ScanFrames<'a> {
    /// Reads a frame without its sparse pixels.
    fn read_row(&mut self, frame: usize) -> Result<OutputFrame, OutputError> {
        let status = self.row_sources.status[frame];
        let mut own = None;
        let (kept, sums) = match self.row_sources.sources[frame] {
            RowSource::None => (None, None),
            RowSource::Part { part, row } => {
                self.check_duplicates(frame, part, row)?;
                match self.stored_pattern(frame, part, row)? {
                    Some(StoredRow::Encoded(encoded)) => {
                        let encoded = Some(encoded);
                        return Ok(OutputFrame { encoded, ..OutputFrame::without_pattern(status) });
                    }
                    Some(StoredRow::Pattern(pattern, weights)) => {
                        own = weights;
                        (Some(pattern), None)
                    }
                    None => (None, Some(self.part_rows(part)?.row(row)?)),
                }
            }
            RowSource::Output => {
                let rows = self.existing.as_mut().expect("a final that gives rows is open");
                let reads_sums = self.needs_sums && status.may_have_sums();
                let sums = if reads_sums { rows.sums(frame)? } else { None };
                (Some(rows.pattern(frame)?), sums)
            }
        };
        let sums = sums.filter(FrameRow::has_sums);
        if status != Status::Ok {
            return Ok(OutputFrame { sums, ..OutputFrame::without_pattern(status) });
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
        let weight_override = own;
        Ok(OutputFrame {
            pattern,
            sums,
            scale,
            weight_override,
            ..OutputFrame::without_pattern(status)
        })
    }

    /// Creates a reader. Without `needs_sums`, frames have no sums if their patterns are stored and
    /// don't depend on the mean of the monitor. Cakes that parts have in the compression `copied`
    /// are not decoded.
    pub fn new(
        row_sources: &'a RowSources,
        parts: &'a [Part],
        existing: Option<&'a OutputFile>,
        shared: &'a SharedBins,
        normalizer: &'a Normalizer,
        needs_sums: bool,
        copied: Option<Compression>,
    ) -> Result<Self, OutputError> {
        let all = [&row_sources.sources, &row_sources.sparse];
        let existing = if all.iter().any(|sources| sources.contains(&RowSource::Output)) {
            existing.map(OutputFile::rows).transpose()?
        } else {
            None
        };
        let needs_sums = needs_sums || !normalizer.needs_only_own_frame();
        let open = Vec::new();
        Ok(Self { row_sources, parts, shared, normalizer, existing, needs_sums, copied, open })
    }

    /// Reads the pattern of a frame from its part, if that is all that is needed, or all that the
    /// part has.
    fn stored_pattern(
        &mut self,
        frame: usize,
        part: usize,
        row: usize,
    ) -> Result<Option<StoredRow>, OutputError> {
        let Part { has_sums, compression, .. } = self.parts[part];
        let is_single = !self.row_sources.duplicates.contains_key(&(frame as u64));
        let takes_sums = has_sums && (self.needs_sums || !is_single);
        if takes_sums || self.row_sources.status[frame] != Status::Ok {
            return Ok(None);
        }
        let (copied, needs_weights) = (self.copied, self.needs_sums);
        let rows = self.part_rows(part)?;
        if copied.is_some()
            && copied == compression
            && let Some(encoded) = rows.encoded(row)?
        {
            return Ok(Some(StoredRow::Encoded(encoded)));
        }
        let Some(pattern) = rows.pattern(row)? else { return Ok(None) };
        let own = if needs_weights { rows.row(row)?.weight_override } else { None };
        Ok(Some(StoredRow::Pattern(pattern, own)))
    }

    /// Checks that further parts with a frame have the same row.
    fn check_duplicates(
        &mut self,
        frame: usize,
        part: usize,
        row: usize,
    ) -> Result<(), OutputError> {
        let row_sources = self.row_sources;
        let Some(others) = row_sources.duplicates.get(&(frame as u64)) else { return Ok(()) };
        for &(other, other_row) in others {
            if !self.have_same_row((part, row), (other, other_row))? {
                let (one, two) = (self.parts[part].path.clone(), self.parts[other].path.clone());
                return Err(OutputError::ConflictingParts { frame: frame as u64, one, two });
            }
        }
        Ok(())
    }

    /// Returns whether two parts have the same row of a frame, but for rounding: the same sums or, if
    /// one of them has no sums, the same pattern.
    fn have_same_row(
        &mut self,
        one: (usize, usize),
        other: (usize, usize),
    ) -> Result<bool, OutputError> {
        let rows = [self.part_rows(one.0)?.row(one.1)?, self.part_rows(other.0)?.row(other.1)?];
        if self.parts[one.0].has_sums && self.parts[other.0].has_sums {
            return Ok(rows[0].agrees_with(&rows[1]));
        }
        let mut patterns = Vec::new();
        for ((part, at), row) in [one, other].into_iter().zip(&rows) {
            patterns.push(match self.part_rows(part)?.pattern(at)? {
                Some(pattern) => pattern,
                None => {
                    let weights = self.shared_weights();
                    let pattern =
                        self.normalizer.normalize(row, weights, self.row_sources.reference);
                    pattern.unwrap_or_default()
                }
            });
        }
        let [first, second] =
            rows.map(|row| FrameRow { signal: Vec::new(), variance: None, ..row });
        Ok(first.agrees_with(&second) && patterns_agree(&patterns[0], &patterns[1]))
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
