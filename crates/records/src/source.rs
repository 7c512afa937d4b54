//! Files that hold frames of a scan.

use serde::{Deserialize, Serialize};

use crate::error::FieldError;
use crate::valid::check_absolute;
use crate::{Extra, RawPath, Span, Spans};

/// A file that holds frames of a scan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The path of the file, absolute.
    pub file: RawPath,
    /// The path of the dataset in the file; empty for an image file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dataset: String,
    /// The file's size in bytes when it was found; a change of `size` or `mtime` shows that the
    /// file has changed.
    pub size: u64,
    /// The file's modification time in nanoseconds since 1970, on the wire as text:
    /// `"1772616030.000000001"`.
    #[serde(with = "crate::mtime")]
    pub mtime: i64,
    /// The frames of the scan that the file holds, in the order of `rows`.
    pub frames: Spans,
    /// The rows of the dataset that hold the frames: entry k of `rows` holds entry k of `frames`.
    pub rows: Spans,
    /// The stored size of the frames in bytes.
    pub bytes: u64,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Source {
    pub(crate) fn check(&self) -> Result<(), FieldError> {
        check_absolute("sources: file", &self.file)?;
        let (frames, rows) = (self.frames.count(), self.rows.count());
        if frames != rows {
            return Err(FieldError::UnevenSource { file: self.file.to_path_buf(), frames, rows });
        }
        if self.frames.to_sorted().count() != frames {
            return Err(FieldError::RepeatedFrame(self.file.to_path_buf()));
        }
        Ok(())
    }

    /// Returns the part of this source within `range`, with a proportional share of its bytes;
    /// `None` if there is none.
    pub fn restricted_to(&self, range: &Spans) -> Option<Self> {
        let range = range.to_sorted();
        let (mut frames, mut rows) = (Spans::default(), Spans::default());
        for (frame, row) in self.paired_spans() {
            for wanted in range.as_slice().iter().filter(|wanted| frame.overlaps(wanted)) {
                if wanted.step() == 1 {
                    let (from, to) =
                        (frame.count_below(wanted.start()), frame.count_below(wanted.stop()));
                    // The count of frames below a limit never decreases as the limit grows.
                    let count = to.saturating_sub(from);
                    frames.push_span(frame.slice(from, count));
                    rows.push_span(row.slice(from, count));
                    continue;
                }
                for (frame, row) in
                    frame.iter().zip(row.iter()).filter(|(frame, _)| wanted.contains(*frame))
                {
                    frames.push(frame);
                    rows.push(row);
                }
            }
        }
        (!frames.is_empty()).then_some(())?;
        // The product of two 64-bit factors fits, and the divisor is not 0: some of the source's
        // frames are in the range.
        let of_all = u128::from(self.bytes).saturating_mul(u128::from(frames.count()));
        let share = of_all.checked_div(u128::from(self.frames.count())).unwrap_or_default();
        Some(Self {
            file: self.file.clone(),
            dataset: self.dataset.clone(),
            size: self.size,
            mtime: self.mtime,
            frames,
            rows,
            bytes: share as u64,
            extra: self.extra.clone(),
        })
    }

    /// Returns the frames and their rows in pairs of spans of equal length.
    fn paired_spans(&self) -> impl Iterator<Item = (Span, Span)> {
        let (mut frames, mut rows) =
            (self.frames.as_slice().iter().copied(), self.rows.as_slice().iter().copied());
        let (mut frame, mut row) = (frames.next(), rows.next());
        std::iter::from_fn(move || {
            let (run, held) = (frame?, row?);
            let count = run.count().min(held.count());
            let rest = |span: Span| {
                Some(span.slice(count, span.count().checked_sub(count).filter(|left| *left > 0)?))
            };
            frame = rest(run).or_else(|| frames.next());
            row = rest(held).or_else(|| rows.next());
            Some((run.slice(0, count), held.slice(0, count)))
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn source(frames: &str, rows: &str) -> Source {
        let spans = |json| serde_json::from_str(json).unwrap();
        Source {
            file: "/p3.h5".into(),
            frames: spans(frames),
            rows: spans(rows),
            bytes: 1000,
            ..Source::default()
        }
    }

    #[test]
    fn what_a_source_holds_of_a_range_is_what_a_plain_list_says() {
        let sources = [
            source("[[0,10]]", "[[5,15]]"),
            source("[[1,20,4]]", "[[0,5]]"),
            source("[[8,12],[0,3]]", "[[0,14,2]]"),
            source("[[3,3],[3,9,3],[20,22]]", "[[7,8],[1,4]]"),
        ];
        let ranges = [
            "[[0,100]]",
            "[[2,9]]",
            "[[4,5]]",
            "[[8,9],[1,3]]",
            "[[0,20,3]]",
            "[[0,9,4],[1,10,4]]",
            "[]",
        ];
        for (source, range) in sources.iter().flat_map(|source| ranges.map(|range| (source, range)))
        {
            let wanted: Spans = serde_json::from_str(range).unwrap();
            let pairs = source.frames.iter().zip(source.rows.iter());
            let expected: Vec<(u64, u64)> =
                pairs.filter(|(frame, _)| wanted.iter().any(|wanted| wanted == *frame)).collect();
            let found = source.restricted_to(&wanted).unwrap_or_default();
            let found: Vec<(u64, u64)> = found.frames.iter().zip(found.rows.iter()).collect();
            assert_eq!(found, expected, "{source:?} within {range}");
        }
        assert_eq!(
            source("[[0,10]]", "[[0,10]]").restricted_to(&Span::new(0, 5).into()).unwrap().bytes,
            500
        );
    }
}
