//! Ranges of frame numbers, in order or interleaved.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The frames `start`, `start + step`, … below `stop`. The wire format is `[start, stop]`, or
/// `[start, stop, step]` if the step is not 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    start: u64,
    stop: u64,
    step: u64,
}

impl Span {
    /// Creates the span from `start` up to, not including, `stop`; it is empty if `stop <= start`.
    pub fn new(start: u64, stop: u64) -> Self {
        Self { start, stop: stop.max(start), step: 1 }
    }

    /// Creates a span of one frame.
    fn one(frame: u64) -> Self {
        Self::strided(frame, 1, 1)
    }

    /// Creates a span of `count` frames from `start` on, `step` apart; a step of 0 counts as 1. The
    /// span is cut at the largest number, which no frame has: frame numbers in records stay below
    /// [`Spans::MAX_FRAMES`].
    pub fn strided(start: u64, count: u64, step: u64) -> Self {
        let step = if count < 2 { 1 } else { step.max(1) };
        let stop = match count.checked_sub(1) {
            Some(steps) => start.saturating_add(steps.saturating_mul(step)).saturating_add(1),
            None => start,
        };
        Self { start, stop, step }
    }

    /// Returns the number of frames.
    pub fn count(&self) -> u64 {
        self.stop.saturating_sub(self.start).div_ceil(self.step)
    }

    /// Returns the number of frames of a span whose step is not 1, and 0 otherwise.
    fn strided_count(&self) -> u64 {
        if self.step == 1 { 0 } else { self.count() }
    }

    /// Returns the distance between successive frames.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Returns the first frame of a span that is not empty.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the end: one more than the last frame of a span that is not empty.
    pub fn stop(&self) -> u64 {
        self.stop
    }

    pub(crate) fn contains(&self, frame: u64) -> bool {
        (self.start..self.stop).contains(&frame)
            && frame.abs_diff(self.start).is_multiple_of(self.step)
    }

    /// Iterates over the frames in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<> {
        (self.start..self.stop).step_by(self.step as usize)
    }

    /// Returns the frame at an index, without checking that the span is as long.
    fn frame_at(&self, index: u64) -> u64 {
        self.start.saturating_add(index.saturating_mul(self.step))
    }

    pub(crate) fn slice(&self, from: u64, count: u64) -> Self {
        Self::strided(self.frame_at(from), count, self.step)
    }

    /// Returns whether the ranges of two spans overlap, so that they may share frames.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.start < other.stop && other.start < self.stop
    }

    /// Returns the number of frames below `frame`.
    pub(crate) fn count_below(&self, frame: u64) -> u64 {
        frame.clamp(self.start, self.stop).abs_diff(self.start).div_ceil(self.step)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.step {
            1 => (self.start, self.stop).serialize(serializer),
            _ => (self.start, self.stop, self.step).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let (start, stop, step) = match Vec::<u64>::deserialize(deserializer)?[..] {
            [start, stop] => (start, stop, 1),
            [start, stop, step] => (start, stop, step),
            _ => {
                return Err(D::Error::custom(
                    "expected a frame range [start, stop] or [start, stop, step]",
                ));
            }
        };
        if stop < start || step == 0 {
            return Err(D::Error::custom(format!(
                "frame range [{start}, {stop}, {step}]: expected start <= stop and step >= 1"
            )));
        }
        Ok(Self::strided(start, stop.abs_diff(start).div_ceil(step), step))
    }
}

/// Explains why a list of frame ranges is refused. Ranges are cited as records write them: without
/// their end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpansError {
    /// A frame number is larger than any scan's.
    #[error("frame range [{start}, {stop}]: expected numbers up to {most}", most = Spans::MAX_FRAMES)]
    TooLarge {
        /// First frame of the range.
        start: u64,
        /// End of the range, which is one more than its last frame.
        stop: u64,
    },
    /// The ranges hold more frames than a record may have.
    #[error("frame ranges of {0} frames: expected at most {most}", most = Spans::MAX_FRAMES)]
    TooManyFrames(u64),
    /// The ranges with a step hold more frames than a record may have.
    #[error("frame ranges with a step that have {0} frames: expected at most {most}", most = Spans::MAX_STRIDED_FRAMES)]
    TooManyStrided(u64),
}

/// Frame numbers in a given order, in as few spans as that order allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<Span>")]
pub struct Spans(Vec<Span>);

impl TryFrom<Vec<Span>> for Spans {
    type Error = SpansError;

    /// Refuses numbers that no scan has, so that listing the frames of a record takes limited
    /// memory.
    fn try_from(spans: Vec<Span>) -> Result<Self, SpansError> {
        if let Some(&Span { start, stop, .. }) =
            spans.iter().find(|span| span.stop > Self::MAX_FRAMES)
        {
            return Err(SpansError::TooLarge { start, stop });
        }
        // Each span counts at most MAX_FRAMES frames: the sum of fewer than 2^37 spans can't
        // overflow.
        let count: u64 = spans.iter().map(Span::count).sum();
        if count > Self::MAX_FRAMES {
            return Err(SpansError::TooManyFrames(count));
        }
        let apart: u64 = spans.iter().map(Span::strided_count).sum();
        if apart > Self::MAX_STRIDED_FRAMES {
            return Err(SpansError::TooManyStrided(apart));
        }
        Ok(Self(spans))
    }
}

impl Spans {
    /// The largest number of frames in a record; frame numbers are below it.
    pub const MAX_FRAMES: u64 = 1 << 27;

    /// The largest number of frames in spans with a step, which set operations list one by one.
    pub const MAX_STRIDED_FRAMES: u64 = 1 << 24;

    /// Returns the frames 0 to `count` - 1.
    pub fn first_n(count: u64) -> Self {
        Self::from(Span::new(0, count))
    }

    /// Returns the spans in order.
    pub fn as_slice(&self) -> &[Span] {
        &self.0
    }

    /// Returns the number of frames.
    pub fn count(&self) -> u64 {
        self.0.iter().map(Span::count).sum()
    }

    /// Returns the number of frames in spans with a step.
    pub(crate) fn strided_count(&self) -> u64 {
        self.0.iter().map(Span::strided_count).sum()
    }

    /// Returns whether there are no frames.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Iterates over the frames in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().flat_map(Span::iter)
    }

    /// Returns `count` entries from index `from` on, in order.
    pub fn slice(&self, from: u64, count: u64) -> Self {
        let (mut skip, mut left, mut out) = (from, count, Self::default());
        for span in &self.0 {
            let here = span.count();
            // The numbers of frames of this span to skip and to take.
            let skipped = skip.min(here);
            let taken = left.min(here.abs_diff(skipped));
            out.push_span(span.slice(skipped, taken));
            (skip, left) = (skip.abs_diff(skipped), left.abs_diff(taken));
            if left == 0 {
                break;
            }
        }
        out
    }

    /// Appends a frame, and extends the last span if the frame continues it.
    pub fn push(&mut self, frame: u64) {
        if let Some(last) = self.0.last_mut() {
            let count = last.count();
            if count == 1 && frame > last.start {
                *last = Span::strided(last.start, 2, frame.abs_diff(last.start));
                return;
            }
            if count > 1 && frame == last.frame_at(count) {
                *last = Span::strided(last.start, count.saturating_add(1), last.step);
                return;
            }
        }
        self.0.push(Span::one(frame));
    }

    /// Appends a span, and merges it with the last span if it continues that.
    pub fn push_span(&mut self, span: Span) {
        if span.count() == 0 {
            return;
        }
        if let Some(last) = self.0.last_mut()
            && last.step == span.step
            && last.frame_at(last.count()) == span.start
        {
            *last = Span::strided(last.start, last.count().saturating_add(span.count()), last.step);
            return;
        }
        self.0.push(span);
    }

    /// Returns the same frames in ascending order, each once.
    pub fn to_sorted(&self) -> Self {
        if self.0.windows(2).all(|pair| pair[0].stop <= pair[1].start) {
            return self.0.iter().copied().collect();
        }
        if self.has_unit_steps() {
            let mut spans = self.0.clone();
            spans.sort_unstable();
            let mut out: Vec<Span> = Vec::with_capacity(spans.len());
            for span in spans.into_iter().filter(|span| span.count() > 0) {
                match out.last_mut() {
                    Some(last) if span.start <= last.stop => last.stop = last.stop.max(span.stop),
                    _ => out.push(span),
                }
            }
            return Self(out);
        }
        let mut frames: Vec<u64> = self.iter().collect();
        frames.sort_unstable();
        frames.dedup();
        frames.into_iter().collect()
    }

    /// Returns whether every span has step 1, so that comparing the ends of spans suffices.
    fn has_unit_steps(&self) -> bool {
        self.0.iter().all(|span| span.step == 1)
    }

    /// Returns the frames that are in `self`, in `other` or in both, in ascending order.
    pub fn union(&self, other: &Self) -> Self {
        Self::union_all([self, other])
    }

    /// Returns the frames that are in at least one of the sets, in ascending order.
    pub fn union_all<'a>(sets: impl IntoIterator<Item = &'a Self>) -> Self {
        sets.into_iter().flat_map(|set| &set.0).copied().collect::<Self>().to_sorted()
    }

    /// Returns the frames of `self` that are not in `other`, in ascending order.
    pub fn difference(&self, other: &Self) -> Self {
        self.retain_members(other, false)
    }

    /// Returns the frames of `self` that are also in `other`, in ascending order.
    pub fn intersection(&self, other: &Self) -> Self {
        self.retain_members(other, true)
    }

    fn retain_members(&self, other: &Self, inside: bool) -> Self {
        let (mine, theirs) = (self.to_sorted(), other.to_sorted());
        if mine.has_unit_steps() && theirs.has_unit_steps() {
            return mine.retain_unit_steps(&theirs, inside);
        }
        let mut others = theirs.iter().peekable();
        let mut out = Self::default();
        for frame in mine.iter() {
            while others.next_if(|&other| other < frame).is_some() {}
            if (others.peek() == Some(&frame)) == inside {
                out.push(frame);
            }
        }
        out.split_strided_pairs()
    }

    /// Keeps the frames inside or outside `other`. Both must be sorted and have step 1.
    fn retain_unit_steps(&self, other: &Self, inside: bool) -> Self {
        let mut out = Self::default();
        let mut others = other.0.iter().peekable();
        for span in &self.0 {
            let mut from = span.start;
            while others.next_if(|other| other.stop <= from).is_some() {}
            while let Some(other) = others.peek().filter(|other| other.start < span.stop) {
                let (start, stop) = (other.start.max(from), other.stop.min(span.stop));
                out.push_span(if inside { Span::new(start, stop) } else { Span::new(from, start) });
                from = stop;
                if other.stop > span.stop {
                    break;
                }
                others.next();
            }
            if !inside {
                out.push_span(Span::new(from, span.stop));
            }
        }
        out
    }

    /// Splits spans of two frames with a wide step. [`push`](Self::push) may read two neighbouring
    /// runs, such as 0 2 3 4, as strided pairs first; after the split, the frames that follow read
    /// as a range.
    pub(crate) fn split_strided_pairs(self) -> Self {
        let mut out = Self::default();
        let mut spans = self.0.iter().peekable();
        while let Some(span) = spans.next() {
            let is_pair = span.step > 1 && span.count() == 2;
            if is_pair && spans.peek().is_some_and(|next| next.start == span.stop && next.step == 1)
            {
                out.push_span(Span::one(span.start));
                out.push_span(Span::one(span.frame_at(1)));
            } else {
                out.push_span(*span);
            }
        }
        out
    }
}

impl From<Span> for Spans {
    fn from(span: Span) -> Self {
        let mut out = Self::default();
        out.push_span(span);
        out
    }
}

impl FromIterator<u64> for Spans {
    fn from_iter<I: IntoIterator<Item = u64>>(frames: I) -> Self {
        let mut out = Self::default();
        frames.into_iter().for_each(|frame| out.push(frame));
        out.split_strided_pairs()
    }
}

impl FromIterator<Span> for Spans {
    fn from_iter<I: IntoIterator<Item = Span>>(spans: I) -> Self {
        let mut out = Self::default();
        spans.into_iter().for_each(|span| out.push_span(span));
        out
    }
}

#[cfg(test)]
mod tests;
