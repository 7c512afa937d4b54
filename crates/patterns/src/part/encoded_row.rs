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
    /// wait to be written need less memory without. A cake that was made of blocks has none.
    pub fn take_sums(&mut self) -> impl Iterator<Item = Vec<f64>> {
        let taken = self
            .is_pattern_enough
            .then(|| (Some(std::mem::take(&mut self.row.signal)), self.row.variance.take()));
        let lists =
            taken.into_iter().flat_map(|(signal, variance)| signal.into_iter().chain(variance));
        lists.filter(|list| !list.is_empty())
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

/// The pattern of a cake, which is made while the blocks of its sums are in the processor's cache.
pub struct PatternBuilder {
    normalizer: Normalizer,
    shared: Arc<SharedBins>,
    /// The factor of the weights; `None` if the frame has no pattern.
    scale: Option<f64>,
    pattern: Pattern,
}

impl PatternBuilder {
    /// Adds the next bins: their signal, and their variance if the recipe has errors. `own_norms` are
    /// W and W₂ of all bins, if the frame has its own.
    pub fn extend(
        &mut self,
        signal: &[f64],
        variance: Option<&[f64]>,
        own_norms: Option<[&[f64]; 2]>,
    ) {
        let Self { normalizer, shared, scale, pattern } = self;
        let bins = pattern.0.len()..pattern.0.len().saturating_add(signal.len());
        match scale {
            Some(scale) => {
                let weights = &shared.weights;
                let norms = own_norms.unwrap_or([&weights.norm, &weights.norm_sq]);
                let norms = norms.map(|norms| &norms[bins.clone()]);
                normalizer.extend_pattern(pattern, (signal, variance), norms, *scale);
            }
            None => {
                let lists = std::iter::once(&mut pattern.0).chain(&mut pattern.1);
                lists.for_each(|list| list.resize(bins.end, NAN32));
            }
        }
    }
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
    /// The last cake that was made of sums in lists.
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

    /// Returns whether rows can be made of [patterns](Self::begin_pattern) without their sums.
    pub fn needs_no_sums(&self) -> bool {
        let has_plain_variances = self.format.normalizer.variance_rule().keeps_variances();
        self.format.encodes_cakes() && !self.format.keeps_sums() && has_plain_variances
    }

    /// Begins the pattern of a frame whose sums come block by block. Its lists are taken from `spare`.
    pub fn begin_pattern(
        &self,
        status: Status,
        monitor: f64,
        spare: &mut Vec<Vec<f32>>,
    ) -> PatternBuilder {
        let RowFormat { normalizer, shared, .. } = &self.format;
        let reference = normalizer.reference(MonitorReadings::default());
        let scale = normalizer.scale(monitor, reference).filter(|_| status == Status::Ok);
        let bins = shared.weights.norm.len();
        let mut list = || {
            let mut list = spare.pop().unwrap_or_default();
            list.clear();
            list.reserve_exact(bins);
            list
        };
        PatternBuilder {
            normalizer: *normalizer,
            shared: Arc::clone(shared),
            scale,
            pattern: (list(), normalizer.has_errors().then(list)),
        }
    }

    /// Compresses a cake that was made of blocks of sums, and gives its lists to `spare`. `row` has no
    /// sums.
    ///
    /// # Errors
    /// Fails if there is no memory, or if not all bins came.
    pub fn encode_pattern(
        &mut self,
        row: FrameRow,
        cake: PatternBuilder,
        spare: &mut Vec<Vec<f32>>,
    ) -> io::Result<PartRow> {
        let PatternBuilder { scale, pattern, .. } = cake;
        let bins = self.format.shared.weights.norm.len();
        let expected = (bins, self.format.normalizer.has_errors().then_some(bins));
        let found = (pattern.0.len(), pattern.1.as_ref().map(Vec::len));
        let Some(shape) = self.format.cake().filter(|_| found == expected) else {
            let why = format!("a pattern of {found:?} values and errors; expected {expected:?}");
            return Err(io::Error::other(why));
        };
        let encoded = self.encode_cake(&row, scale.is_some(), &pattern, shape)?;
        spare.extend(std::iter::once(pattern.0).chain(pattern.1));
        let pattern = RowPattern::Encoded(encoded);
        Ok(PartRow { row, has_sums: true, pattern, is_pattern_enough: true })
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
            (true, Some(cake)) => {
                let mut pattern = std::mem::take(&mut self.pattern);
                let has_pattern = self.format.normalize(&row, &mut pattern);
                let encoded = self.encode_cake(&row, has_pattern, &pattern, cake);
                self.pattern = pattern;
                RowPattern::Encoded(encoded?)
            }
        };
        let is_pattern_enough =
            matches!(pattern, RowPattern::Encoded(_)) && !self.format.keeps_sums();
        Ok(PartRow { row, has_sums, pattern, is_pattern_enough })
    }

    /// Compresses the pattern of a row, NaN if the frame has none.
    fn encode_cake(
        &mut self,
        row: &FrameRow,
        has_pattern: bool,
        (intensity, errors): &Pattern,
        cake: [usize; 2],
    ) -> io::Result<EncodedPattern> {
        let Self { format, cakes, .. } = self;
        let encoder = match cakes {
            Some(encoder) => encoder,
            none => none.insert(CakeEncoder::new(format.storage.compression)?),
        };
        let status = if has_pattern { Status::Ok } else { row.status };
        Ok(EncodedPattern {
            digest: row_digest(status, intensity, errors.as_deref()),
            intensity: encoder.encode(intensity, cake)?,
            errors: errors.as_ref().map(|errors| encoder.encode(errors, cake)).transpose()?,
        })
    }
}
