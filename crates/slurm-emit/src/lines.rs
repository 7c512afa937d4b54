//! The lines of a plan, kept compressed: a task is some kilobytes of text, of which all but a few bytes are as in the one before.

use std::io::{self, BufRead as _, BufReader, BufWriter, Read, Write};
use std::ops::Range;

/// Bytes of text that are compressed together.
const BLOCK: usize = 256 << 10;

/// zstd's fastest.
const LEVEL: i32 = 1;

/// Lines in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Full blocks, compressed.
    blocks: Vec<Box<[u8]>>,
    /// The line that each full block begins with.
    starts: Vec<usize>,
    /// The lines behind the full blocks, each with its line break.
    open: Vec<u8>,
    /// The line that `open` begins with.
    open_start: usize,
    count: usize,
}

/// Reads lines of a plan, which is quick where they are asked for in their order.
pub struct Reader<'a> {
    lines: &'a Lines,
    /// The block that was decompressed last, by its number.
    last: Option<(usize, Vec<u8>)>,
}

impl Lines {
    /// Adds a line.
    pub fn push(&mut self, line: &str) {
        self.open.extend_from_slice(line.as_bytes());
        self.open.push(b'\n');
        self.count += 1;
        if self.open.len() >= BLOCK {
            let block = zstd::bulk::compress(&self.open, LEVEL).expect("memory is compressed without an error");
            // Its buffer is made for a block that can't be compressed.
            self.blocks.push(block.as_slice().into());
            self.starts.push(self.open_start);
            self.open.clear();
            self.open_start = self.count;
        }
    }

    /// Returns how many lines there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns a reader.
    pub fn reader(&self) -> Reader<'_> {
        Reader { lines: self, last: None }
    }
}

impl Reader<'_> {
    /// Writes these lines to `out`, each with its line break.
    ///
    /// # Errors
    /// Those of `out`; no memory is left to decompress the lines.
    pub fn copy(&mut self, range: Range<usize>, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::new(out);
        pieces(range).try_for_each(|piece| out.write_all(&self.text(piece)?))?;
        out.flush()
    }

    /// Returns whether `there` has these lines and nothing else.
    ///
    /// # Errors
    /// Those of `there`; no memory is left to decompress the lines.
    pub fn are_all_of(&mut self, range: Range<usize>, there: impl Read) -> io::Result<bool> {
        let mut there = BufReader::new(there);
        for piece in pieces(range) {
            let text = self.text(piece)?;
            let mut found = Vec::with_capacity(text.len());
            there.by_ref().take(text.len() as u64).read_to_end(&mut found)?;
            if found != text {
                return Ok(false);
            }
        }
        Ok(there.fill_buf()?.is_empty())
    }

    fn text(&mut self, range: Range<usize>) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let mut next = range.start;
        while next < range.end {
            let (start, block) = self.block_of(next)?;
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

    /// Returns the block that holds a line, and the line that it begins with.
    fn block_of(&mut self, line: usize) -> io::Result<(usize, &[u8])> {
        let Lines { blocks, starts, open, open_start, .. } = self.lines;
        if line >= *open_start {
            return Ok((*open_start, open));
        }
        let number = starts.partition_point(|start| *start <= line) - 1;
        if self.last.as_ref().is_none_or(|(last, _)| *last != number) {
            self.last = Some((number, zstd::stream::decode_all(&blocks[number][..])?));
        }
        let block = self.last.as_ref().map_or(&[][..], |(_, block)| block);
        Ok((starts[number], block))
    }
}

/// A range in pieces that are handled at a time: a plan may have more bytes than there is memory.
fn pieces(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    const PIECE: usize = 100;
    let end = range.end;
    range.step_by(PIECE).map(move |from| from..end.min(from + PIECE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_in_any_ranges() {
        let line = |number: usize| format!("{number} {}", "x".repeat(number * 37 % 5000));
        let mut lines = Lines::default();
        (0..1000).for_each(|number| lines.push(&line(number)));
        assert!(lines.blocks.len() > 5 && lines.len() == 1000);
        let mut reader = lines.reader();
        for (from, to) in [(0, 1000), (0, 1), (999, 1000), (17, 400), (200, 201), (5, 5), (150, 160), (3, 700)] {
            let expected: String = (from..to).map(|number| line(number) + "\n").collect();
            let mut text = Vec::new();
            reader.copy(from..to, &mut text).unwrap();
            assert!(text == expected.as_bytes(), "{from}..{to}");
            assert!(reader.are_all_of(from..to, &text[..]).unwrap());
            assert_eq!(
                reader.are_all_of(from..to, text.split_last().map_or(&[][..], |(_, most)| most)).unwrap(),
                from == to
            );
            text.push(b'\n');
            assert!(!reader.are_all_of(from..to, &text[..]).unwrap());
        }
        assert!(Lines::default().reader().are_all_of(0..0, &b""[..]).unwrap());
    }

    #[test]
    fn tasks_that_are_alike_take_little_memory() {
        let mut lines = Lines::default();
        let same = "\"counters\":{\"monitor\":\"/1.1/measurement/monitor\"},".repeat(80);
        (0..5000).for_each(|number| lines.push(&format!("{{\"id\":\"{number:016x}\",{same}}}")));
        let bytes: usize = lines.blocks.iter().map(|block| block.len()).sum();
        assert!(bytes < 5000 * 100, "{bytes} bytes");
    }
}
