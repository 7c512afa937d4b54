//! The lines of a plan, kept compressed. A task is some kilobytes of text, of which only a few
//! bytes differ from the task before it.

use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write};
use std::ops::Range;

/// Bytes of text that are compressed together.
const BLOCK_BYTES: usize = 256 << 10;

/// zstd's fastest level.
const COMPRESSION_LEVEL: i32 = 1;

/// Lines in the order in which they were added, compressed in blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompressedLines {
    /// Full blocks, compressed.
    blocks: Vec<Box<[u8]>>,
    /// The first line of each full block.
    starts: Vec<usize>,
    /// The lines after the full blocks, not compressed, each with its line break.
    tail: Vec<u8>,
    /// The first line in `tail`.
    tail_start: usize,
    count: usize,
}

/// Reads ranges of [`CompressedLines`]. Ascending ranges are fast, because the reader keeps the
/// last block that it decompressed.
pub struct CompressedLinesReader<'a> {
    lines: &'a CompressedLines,
    /// The number and the text of the block that was decompressed last.
    last: Option<(usize, Vec<u8>)>,
}

impl CompressedLines {
    /// Adds a line, which is given without its line break.
    pub fn push(&mut self, line: &str) {
        self.tail.extend_from_slice(line.as_bytes());
        self.tail.push(b'\n');
        self.count += 1;
        if self.tail.len() >= BLOCK_BYTES {
            let block = zstd::bulk::compress(&self.tail, COMPRESSION_LEVEL)
                .expect("memory is compressed without an error");
            // A copy, because zstd's buffer has the capacity for a block that can't be compressed.
            self.blocks.push(block.as_slice().into());
            self.starts.push(self.tail_start);
            self.tail.clear();
            self.tail_start = self.count;
        }
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns a reader that has decompressed nothing yet.
    pub fn reader(&self) -> CompressedLinesReader<'_> {
        CompressedLinesReader { lines: self, last: None }
    }
}

impl CompressedLinesReader<'_> {
    /// Writes the lines of `range` to `out`, each with its line break.
    ///
    /// # Errors
    /// Fails if `out` can't be written, or if memory is short.
    pub fn copy(&mut self, range: Range<usize>, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::new(out);
        split_range(range).try_for_each(|piece| out.write_all(&self.read(piece)?))?;
        out.flush()
    }

    /// Returns whether `file` holds the lines of `range` and nothing else.
    ///
    /// # Errors
    /// Fails if `file` can't be read, or if memory is short.
    pub fn equals(&mut self, range: Range<usize>, file: impl Read) -> io::Result<bool> {
        let mut file = BufReader::new(file);
        for piece in split_range(range) {
            let text = self.read(piece)?;
            let mut found = Vec::with_capacity(text.len());
            file.by_ref().take(text.len() as u64).read_to_end(&mut found)?;
            if found != text {
                return Ok(false);
            }
        }
        Ok(file.fill_buf()?.is_empty())
    }

    fn read(&mut self, range: Range<usize>) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let mut next = range.start;
        while next < range.end {
            let (start, block) = self.block_with_line(next)?;
            let mut lines = block.split_inclusive(|byte| *byte == b'\n').skip(next - start);
            let before = next;
            while let Some(line) = lines.next().filter(|_| next < range.end) {
                text.extend_from_slice(line);
                next += 1;
            }
            assert!(next > before, "line {next} of {}", self.lines.count);
        }
        Ok(text)
    }

    /// Returns the first line of the block that holds `line`, and the block's text.
    fn block_with_line(&mut self, line: usize) -> io::Result<(usize, &[u8])> {
        let CompressedLines { blocks, starts, tail, tail_start, .. } = self.lines;
        if line >= *tail_start {
            return Ok((*tail_start, tail));
        }
        let number = starts.partition_point(|start| *start <= line) - 1;
        if self.last.as_ref().is_none_or(|(last, _)| *last != number) {
            self.last = Some((number, zstd::stream::decode_all(&blocks[number][..])?));
        }
        let block = self.last.as_ref().map_or(&[][..], |(_, block)| block);
        Ok((starts[number], block))
    }
}

/// Splits a range into short ones: a plan may be larger than memory.
fn split_range(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    const LINES: usize = 100;
    let end = range.end;
    range.step_by(LINES).map(move |from| from..end.min(from + LINES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_of_lines_is_read_unchanged() {
        let line = |number: usize| format!("{number} {}", "x".repeat(number * 37 % 5000));
        let mut lines = CompressedLines::default();
        (0..1000).for_each(|number| lines.push(&line(number)));
        assert!(lines.blocks.len() > 5 && lines.len() == 1000);
        let mut reader = lines.reader();
        for (from, to) in
            [(0, 1000), (0, 1), (999, 1000), (17, 400), (200, 201), (5, 5), (150, 160), (3, 700)]
        {
            let expected: String = (from..to).map(|number| line(number) + "\n").collect();
            let mut text = Vec::new();
            reader.copy(from..to, &mut text).unwrap();
            assert!(text == expected.as_bytes(), "{from}..{to}");
            assert!(reader.equals(from..to, &text[..]).unwrap());
            let all_but_last_byte = text.split_last().map_or(&[][..], |(_, most)| most);
            assert_eq!(reader.equals(from..to, all_but_last_byte).unwrap(), from == to);
            text.push(b'\n');
            assert!(!reader.equals(from..to, &text[..]).unwrap());
        }
        assert!(CompressedLines::default().reader().equals(0..0, &b""[..]).unwrap());
    }

    #[test]
    fn similar_tasks_take_little_memory() {
        let mut lines = CompressedLines::default();
        let same = "\"counters\":{\"monitor\":\"/1.1/measurement/monitor\"},".repeat(80);
        (0..5000).for_each(|number| lines.push(&format!("{{\"id\":\"{number:016x}\",{same}}}")));
        let bytes: usize = lines.blocks.iter().map(|block| block.len()).sum();
        assert!(bytes < 5000 * 100, "{bytes} bytes");
    }
}
