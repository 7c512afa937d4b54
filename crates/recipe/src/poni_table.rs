//! Tables of PONI files: the geometry of each range of frames.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use records::{RawPath, Spans};
use serde::{Deserialize, Serialize};

use crate::{RecipeError, poni_text};

/// The most ranges of frames of a recipe, which has the PONI text of each.
pub const MAX_PONI_RANGES: usize = 50_000;

/// The most bytes of the PONI texts of a recipe, of which all files with patterns have a copy.
const MAX_PONI_BYTES: usize = 32 << 20;

/// A range of frames, and the geometry that they have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PoniRange {
    /// First frame.
    pub first: u64,
    /// Last frame, which is included.
    pub last: u64,
    /// Text of the PONI file; empty if it is the recipe's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub poni: String,
    /// Path of the PONI file; empty if it is the recipe's own. Not part of the digest.
    pub poni_file: RawPath,
    /// Incident angle of the sample in degrees, if it is that of a motor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident_angle: Option<f64>,
}

impl PoniRange {
    /// Returns the part of the range that is in the digest of the recipe: the frames, and a digest of
    /// the values in the PONI text.
    pub(crate) fn without_path(&self) -> Self {
        Self {
            poni: poni_text::content_digest(&self.poni),
            poni_file: RawPath::default(),
            ..self.clone()
        }
    }
}

/// Reads a table and its PONI files. Each line has a frame, or the first and the last of several as
/// in `0,99`, and the path of a PONI file, relative to the table. Returns the ranges in ascending
/// order.
///
/// # Errors
/// A file can't be read, a line has another form, two ranges overlap, or there is no range.
pub(crate) fn read_poni_table(path: &Path) -> Result<Vec<PoniRange>, RecipeError> {
    let text = read_text(path)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let syntax_error = |why: String| RecipeError::Syntax { path: path.to_path_buf(), why };
    let mut texts: HashMap<PathBuf, String> = HashMap::new();
    let mut ranges: Vec<PoniRange> = Vec::new();
    let mut bytes = 0_usize;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((first, last, file)) = parse_line(line) else {
            return Err(syntax_error(format!(
                "line {number}: {line:?}: expected frames and a PONI file, as in `0,99 near.poni`: \
                 one frame, or the first and the last"
            )));
        };
        if last >= Spans::MAX_FRAMES {
            return Err(syntax_error(format!(
                "line {number}: frame {last}: expected frames below {}",
                Spans::MAX_FRAMES
            )));
        }
        let file = directory.join(file);
        let poni = match texts.get(&file) {
            Some(text) => text.clone(),
            None => texts.entry(file.clone()).or_insert(read_text(&file)?).clone(),
        };
        let poni_file = std::path::absolute(&file)
            .map_err(|why| RecipeError::Io { path: file.clone(), why })?
            .into();
        bytes = bytes.saturating_add(poni.len());
        if bytes > MAX_PONI_BYTES || ranges.len() == MAX_PONI_RANGES {
            return Err(syntax_error(format!(
                "line {number}: expected at most {MAX_PONI_RANGES} lines whose PONI files have {} MiB together; \
                 join consecutive frames with one geometry",
                MAX_PONI_BYTES >> 20
            )));
        }
        ranges.push(PoniRange { first, last, poni, poni_file, incident_angle: None });
    }
    if ranges.is_empty() {
        return Err(syntax_error("no line with frames and a PONI file".to_owned()));
    }
    ranges.sort_by_key(|range| range.first);
    match find_overlap(&ranges) {
        Some((one, two)) => Err(syntax_error(format!(
            "frames {},{} and {},{} overlap; expected each frame at most once",
            one.first, one.last, two.first, two.last
        ))),
        None => Ok(ranges),
    }
}

/// Returns the first two ranges that share a frame, of ranges in ascending order of their first
/// frames.
pub(crate) fn find_overlap(ranges: &[PoniRange]) -> Option<(&PoniRange, &PoniRange)> {
    let pairs = ranges.windows(2).map(|pair| (&pair[0], &pair[1]));
    pairs.into_iter().find(|(one, two)| two.first <= one.last)
}

fn parse_line(line: &str) -> Option<(u64, u64, &str)> {
    let (frames, file) = line.split_once(char::is_whitespace)?;
    let (first, last) = frames.split_once(',').unwrap_or((frames, frames));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last, file.trim()))
}

fn read_text(path: &Path) -> Result<String, RecipeError> {
    system::untrusted_file::read_text(path)
        .map_err(|why| RecipeError::Io { path: path.to_path_buf(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(table: &str) -> Result<Vec<PoniRange>, String> {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.poni", "b c.poni"] {
            std::fs::write(dir.path().join(name), format!("Distance: 1\n# {name}\n")).unwrap();
        }
        std::fs::write(dir.path().join("table"), table).unwrap();
        read_poni_table(&dir.path().join("table"))
            .map_err(|why| why.to_string().replace(&format!("{}/", dir.path().display()), ""))
    }

    #[test]
    fn lines_are_frames_and_a_file_in_any_order() {
        let ranges = read("# positions\n10,19 b c.poni\n\n 0,4\ta.poni \n7 a.poni\n").unwrap();
        let frames: Vec<_> = ranges.iter().map(|range| (range.first, range.last)).collect();
        assert_eq!(frames, [(0, 4), (7, 7), (10, 19)]);
        assert!(ranges[2].poni_file.ends_with("b c.poni") && ranges[2].poni.contains("b c"));
    }

    #[test]
    fn wrong_lines_are_refused_with_their_number() {
        let expected = "expected frames and a PONI file, as in `0,99 near.poni`: one frame, or the first and the last";
        for line in ["0", "a.poni", "0;4 a.poni", "4,0 a.poni", "-1 a.poni", "0,1,2 a.poni"] {
            let error = read(&format!("0 a.poni\n{line}\n")).unwrap_err();
            assert_eq!(error, format!("table: line 2: {line:?}: {expected}"));
        }
        assert_eq!(read("# nothing\n").unwrap_err(), "table: no line with frames and a PONI file");
        assert_eq!(
            read("5,9 a.poni\n0,5 a.poni").unwrap_err(),
            "table: frames 0,5 and 5,9 overlap; expected each frame at most once"
        );
        let last = Spans::MAX_FRAMES;
        assert_eq!(
            read(&format!("0,{last} a.poni")).unwrap_err(),
            format!("table: line 1: frame {last}: expected frames below {last}")
        );
        let many: String = (0..=MAX_PONI_RANGES).map(|frame| format!("{frame} a.poni\n")).collect();
        let error = read(&many).unwrap_err();
        assert!(error.starts_with("table: line 50001: expected at most 50000 lines"), "{error}");
        assert_eq!(read("0 c.poni").unwrap_err(), "c.poni: No such file or directory (os error 2)");
    }
}
