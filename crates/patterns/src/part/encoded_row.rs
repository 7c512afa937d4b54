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
    /// True if the frame has sums, also once they are [taken](Self::take_sums).
    pub has_sums: bool,
    pub(super) pattern: RowPattern,
    /// True if the part needs the pattern and not the sums.
    is_pattern_enough: bool,
}

impl PartRow {
    /// Takes the lists of the signal and the variance, if the part does not keep them: rows that
    /// wait to be written need less memory without.
    pub fn take_sums(&mut self) -> impl Iterator<Item = Vec<f64>> {
        let taken = self
            .is_pattern_enough
            .then(|| (Some(std::mem::take(&mut self.row.signal)), self.row.variance.take()));
        taken.into_iter().flat_map(|(signal, variance)| signal.into_iter().chain(variance))
    }

    /// Returns whether the sums are [taken](Self::take_sums).
    pub(super) fn are_sums_taken(&self) -> bool {
        self.has_sums && !self.row.has_sums()
    }
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

    /// Replaces `pattern` by that of a frame, or by NaN, and returns whether the frame has one.
    fn normalize(&self, row: &FrameRow, pattern: &mut Pattern) -> bool {
        let (normalizer, weights) = (&self.normalizer, &self.shared.weights);
        let reference = normalizer.reference(MonitorReadings::default());
        let has_pattern = normalizer.normalize_into(row, weights, reference, pattern);
        if !has_pattern {
            let nothing = || vec![NAN32; weights.norm.len()];
            *pattern = (nothing(), normalizer.has_errors().then(nothing));
        }
        has_pattern
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
    /// The last cake.
    pattern: Pattern,
}

impl Clone for RowEncoder {
    fn clone(&self) -> Self {
        Self::new(self.format.clone())
    }
}

impl RowEncoder {
    pub(super) fn new(format: RowFormat) -> Self {
        Self { format, cakes: None, pattern: Pattern::default() }
    }

    /// Computes the pattern of a frame, and compresses a cake.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn encode(&mut self, row: FrameRow) -> io::Result<PartRow> {
        let normalizer = &self.format.normalizer;
        let has_sums = row.has_sums();
        let is_sound = !has_sums || self.format.fits(&row);
        let pattern = match (normalizer.needs_only_own_frame() && is_sound, self.format.cake()) {
            (false, _) => RowPattern::None,
            (true, None) => {
                let mut pattern = Pattern::default();
                self.format.normalize(&row, &mut pattern);
                RowPattern::Values(pattern)
            }
            (true, Some(cake)) => RowPattern::Encoded(self.encode_cake(&row, cake)?),
        };
        let is_pattern_enough =
            matches!(pattern, RowPattern::Encoded(_)) && !self.format.keeps_sums();
        Ok(PartRow { row, has_sums, pattern, is_pattern_enough })
    }

    fn encode_cake(&mut self, row: &FrameRow, cake: [usize; 2]) -> io::Result<EncodedPattern> {
        let Self { format, cakes, pattern } = self;
        let encoder = match cakes {
            Some(encoder) => encoder,
            none => none.insert(CakeEncoder::new(format.storage.compression)?),
        };
        let has_pattern = format.normalize(row, pattern);
        let status = if has_pattern { Status::Ok } else { row.status };
        let (intensity, errors) = &*pattern;
        Ok(EncodedPattern {
            digest: row_digest(status, intensity, errors.as_deref()),
            intensity: encoder.encode(intensity, cake)?,
            errors: errors.as_ref().map(|errors| encoder.encode(errors, cake)).transpose()?,
        })
    }
}
