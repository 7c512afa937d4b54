//! Rows of a part as they are stored. The threads that integrate make them, so that the thread that
//! writes the part has only to copy, and gather, too.

use std::io;
use std::sync::Arc;

use records::MonitorReadings;

use super::PartStorage;
use crate::compress::CakeEncoder;
use crate::normalize::Pattern;
use crate::rounding::NAN32;
use crate::row_digest::row_digest;
use crate::{FrameRow, Normalizer, SharedBins, Status};

/// A row of a part: the sums of a frame, and its pattern as it is stored.
pub struct PartRow {
    /// Sums of the frame.
    pub row: FrameRow,
    pub(super) pattern: RowPattern,
}

/// Pattern of a row.
pub(super) enum RowPattern {
    /// None: it depends on more than its own frame, or the row doesn't fit the bins.
    None,
    /// A pattern of one dimension.
    Values(Pattern),
    /// A cake.
    Encoded(EncodedPattern),
}

/// A cake in the compression of its part or final file.
pub(crate) struct EncodedPattern {
    /// Stored bytes of the chunks of the intensities.
    pub intensity: Vec<Vec<u8>>,
    /// Stored bytes of the chunks of the errors; `None` without an error model.
    pub errors: Option<Vec<Vec<u8>>>,
    /// Digest of status and pattern, which the final file has, too.
    pub digest: u64,
}

/// Settings by which the rows of a part are made.
#[derive(Clone)]
pub(super) struct RowFormat {
    pub normalizer: Normalizer,
    pub shared: Arc<SharedBins>,
    pub storage: PartStorage,
}

impl RowFormat {
    /// Returns the shape of a cake; `None` for patterns of one dimension.
    pub fn cake(&self) -> Option<[usize; 2]> {
        let axes = &self.shared.axes;
        axes.chi.as_ref().map(|chi| [chi.centers.len(), axes.radial.centers.len()])
    }

    /// Returns whether the part holds cakes.
    pub fn encodes_cakes(&self) -> bool {
        self.cake().is_some() && self.normalizer.needs_only_own_frame()
    }

    /// Returns whether the part holds the sums. Those of cakes are three times as large as all the
    /// rest, so they are kept only where patterns can't take their place: if patterns depend on the
    /// mean of the monitor, if empty bins are 0, which averages can't tell from measured zeros, and
    /// if errors hold a variance that was adjusted, from which that of the pixels doesn't follow.
    pub fn keeps_sums(&self) -> bool {
        self.storage.keep_sums
            || self.cake().is_none()
            || !self.normalizer.needs_only_own_frame()
            || self.normalizer.empty_value() == 0.0
            || self.normalizer.variance_rule().adjusts_bins()
    }

    /// Returns whether the values of a row fit the bins and the error model.
    fn fits(&self, row: &FrameRow) -> bool {
        let bins = self.shared.weights.norm.len();
        let variance = row.variance.as_ref().map(Vec::len);
        let own = row.weight_override.as_ref();
        row.signal.len() == bins
            && variance == self.normalizer.has_errors().then_some(bins)
            && own
                .is_none_or(|own| [own.norm.len(), own.norm_sq.len(), own.count.len()] == [bins; 3])
    }
}

/// Makes the rows of a part. Each thread has its own, with buffers that are reused.
pub struct RowEncoder {
    format: RowFormat,
    cakes: Option<CakeEncoder>,
}

impl Clone for RowEncoder {
    fn clone(&self) -> Self {
        Self::new(self.format.clone())
    }
}

impl RowEncoder {
    pub(super) fn new(format: RowFormat) -> Self {
        Self { format, cakes: None }
    }

    /// Computes the pattern of a frame, and compresses a cake.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn encode(&mut self, row: FrameRow) -> io::Result<PartRow> {
        let Self { format, cakes } = self;
        let normalizer = &format.normalizer;
        let is_sound = !row.has_sums() || format.fits(&row);
        if !normalizer.needs_only_own_frame() || !is_sound {
            return Ok(PartRow { row, pattern: RowPattern::None });
        }
        let weights = &format.shared.weights;
        let reference = normalizer.reference(MonitorReadings::default());
        let nothing = || vec![NAN32; weights.norm.len()];
        let pattern = normalizer.normalize(&row, weights, reference);
        let has_pattern = pattern.is_some();
        let (intensity, errors) =
            pattern.unwrap_or_else(|| (nothing(), normalizer.has_errors().then(nothing)));
        let Some(cake) = format.cake() else {
            return Ok(PartRow { row, pattern: RowPattern::Values((intensity, errors)) });
        };
        let encoder = match cakes {
            Some(encoder) => encoder,
            none => none.insert(CakeEncoder::new(format.storage.compression)?),
        };
        let status = if has_pattern { Status::Ok } else { row.status };
        let encoded = EncodedPattern {
            digest: row_digest(status, &intensity, errors.as_deref()),
            intensity: encoder.encode(&intensity, cake)?,
            errors: errors.map(|errors| encoder.encode(&errors, cake)).transpose()?,
        };
        Ok(PartRow { row, pattern: RowPattern::Encoded(encoded) })
    }
}
