//! An LZ4 decoder for blocks of bit planes.
//!
//! What makes it fast on them: a literal run or a match of up to a register's width is one load, one store and no
//! branch, also where a length takes an extra byte and where a match overlaps itself (a byte permutation repeats the
//! period); long periods are one register stored again and again; and long runs of zeros are not written at all where
//! the room is zero already, so that the many empty planes of a block cost nothing. Nor are the upper planes of a block
//! that are all alike, as those of gaps and of negative pixels.
#![allow(unsafe_code)]

use super::register::ByteRegister;
use super::{DecodedBlock, SLACK};

/// Decodes a block that must be `len` bytes long to the front of `out`, of which all from `dirty` on is zero; `None` for
/// a block that is not sound, with anything in `out`. Where the block ends in a match of distance `period`, which `len`
/// is a multiple of, only one period of it is written; 0 is no such distance.
///
/// # Safety
/// The processor must have what `V` stands for, and the function be inlined into code compiled for it.
///
/// # Panics
/// If `out` is not [`SLACK`] longer than `len`, or not a register longer than `dirty`.
#[inline(always)]
pub(crate) unsafe fn decode<V: ByteRegister>(
    block: &[u8],
    out: &mut [u8],
    len: usize,
    dirty: usize,
    period: usize,
) -> Option<DecodedBlock> {
    assert!(SLACK >= 2 * V::REGISTER_BYTES && out.len() >= len + SLACK && dirty + V::REGISTER_BYTES <= out.len());
    let mut writer = BlockWriter {
        out: out.as_mut_ptr(),
        len,
        at: 0,
        zero_from: dirty,
        dirty_since_skip: false,
        // SAFETY: no memory.
        tail: unsafe { V::zero() },
    };
    let ending = padded_block_end(block);
    // SAFETY of the unsafe blocks below: `i` bytes of the block are read, and `i <= end` where a sequence starts. Behind
    // `i` the source is good for `MAX_UNCHECKED_READ` bytes, for so many are left, or it is `ending`. The writer checks what is
    // written.
    let (mut block, mut source) = (block, block.as_ptr());
    let (mut i, mut end) = (0, block.len());
    let mut is_ending = false;
    loop {
        if end - i < MAX_UNCHECKED_READ && !is_ending {
            (i, end) = (BLOCK_END_BYTES - (end - i), BLOCK_END_BYTES);
            (block, source) = (&ending[..BLOCK_END_BYTES], ending.as_ptr());
            is_ending = true;
        }
        if i == end {
            return None;
        }
        // SAFETY: as above.
        let (token, extension) = unsafe { (usize::from(*source.add(i)), usize::from(*source.add(i + 1))) };
        let extended = usize::from(token >= 15 << 4);
        let mut literals = (token >> 4) + extension * extended;
        i += 1 + extended;
        if literals <= V::REGISTER_BYTES && i + literals < end {
            // SAFETY: a register's width is left, and what was read before it.
            unsafe { writer.write_short_literals(source.add(i), literals) };
        } else {
            if literals == 15 + 255 {
                literals += read_length_extension(block, &mut i)?;
            }
            let run = block.get(i..)?.get(..literals)?;
            if i + literals == end {
                return writer.write_last_literals(run);
            }
            writer.write_long_literals(run, end - i)?;
        }
        i += literals;
        // A match is followed by one more token at least.
        if writer.at > len || end - i < 3 {
            return None;
        }
        // SAFETY: at least three bytes are left.
        let (distance, extension) = unsafe { (source.add(i).cast::<u16>().read_unaligned(), *source.add(i + 2)) };
        let distance = usize::from(u16::from_le(distance));
        if distance.wrapping_sub(1) >= writer.at {
            return None;
        }
        let extended = usize::from(token & 15 == 15);
        let mut length = (token & 15) + 4 + usize::from(extension) * extended;
        i += 2 + extended;
        if length <= V::REGISTER_BYTES {
            // SAFETY: the distance is not 0 and does not reach before the start.
            unsafe { writer.copy_short_match(distance, length) };
            if writer.at > len {
                return None;
            }
        } else {
            if length == 19 + 255 {
                length += read_length_extension(block, &mut i)?;
            }
            if length > len - writer.at {
                return None;
            }
            if distance == period && period >= V::REGISTER_BYTES && length >= 2 * period {
                // SAFETY: the distance does not reach before the start; the length does not reach beyond the end.
                let repeated = unsafe { writer.copy_one_period(period, length, block.get(i..)?) };
                if repeated.is_some() {
                    return repeated;
                }
            }
            // SAFETY: the distance is not 0 and does not reach before the start; the length does not reach beyond the
            // end.
            unsafe { writer.copy_long_match(distance, length) };
        }
    }
}

/// So many bytes are read of a sequence without a look at the end: a token, one more of a length, and a register.
const MAX_UNCHECKED_READ: usize = 2 + 64;

/// Bytes of a block's ending, which is copied to where more may be read.
const BLOCK_END_BYTES: usize = 128;

/// The last [`BLOCK_END_BYTES`] bytes of a block, or all that it has behind some zeros; and [`MAX_UNCHECKED_READ`] zeros.
#[inline(always)]
fn padded_block_end(block: &[u8]) -> [u8; BLOCK_END_BYTES + MAX_UNCHECKED_READ] {
    let mut ending = [0; BLOCK_END_BYTES + MAX_UNCHECKED_READ];
    match block.last_chunk::<BLOCK_END_BYTES>() {
        Some(last) => ending[..BLOCK_END_BYTES].copy_from_slice(last),
        None => ending[BLOCK_END_BYTES - block.len()..BLOCK_END_BYTES].copy_from_slice(block),
    }
    ending
}

/// The bytes of a length after one of 255.
#[inline(never)]
fn read_length_extension(block: &[u8], i: &mut usize) -> Option<usize> {
    let mut length = 0;
    loop {
        let byte = *block.get(*i)?;
        *i += 1;
        // No overflow: a length has 255 times the bytes of the block at most.
        length += usize::from(byte);
        if byte != 255 {
            return Some(length);
        }
    }
}

/// Where the decoded bytes go.
///
/// Invariants: `out` is good for `len + SLACK` bytes, and for a register's width behind `zero_from`; `at <= len` before
/// each write, and no register is stored from behind `len`; what was decoded is right in `..at`; all bytes from
/// `zero_from` on are zero, but, where one was stored, for a register's width from `at`.
struct BlockWriter<V> {
    out: *mut u8,
    len: usize,
    at: usize,
    zero_from: usize,
    /// Whether a register was stored since the last zeros were skipped.
    dirty_since_skip: bool,
    /// The last bytes before `at`, where the register can tell them.
    tail: V,
}

impl<V: ByteRegister> BlockWriter<V> {
    /// Writes a register's width of literals, and moves on by as many as there are.
    ///
    /// # Safety
    /// `from` is good for a register's width; and as for [`codec`].
    #[inline(always)]
    unsafe fn write_short_literals(&mut self, from: *const u8, literals: usize) {
        self.dirty_since_skip = true;
        // SAFETY: `at <= len`, and the slack is at least a register's width.
        unsafe {
            let bytes = V::load(from);
            bytes.store(self.out.add(self.at));
            self.tail = self.tail.append(bytes, literals);
        }
        self.at += literals;
    }

    /// Writes a run of more literals than a register holds, behind the first of which `readable` bytes of the block are left, or of
    /// fewer where the block ends soon; and moves on.
    #[inline(always)]
    fn write_long_literals(&mut self, run: &[u8], readable: usize) -> Option<()> {
        if run.len() > self.len - self.at {
            return None;
        }
        self.dirty_since_skip = true;
        let (from, to) = (run.as_ptr(), self.out.wrapping_add(self.at));
        if readable >= run.len() + V::REGISTER_BYTES {
            for k in (0..run.len()).step_by(V::REGISTER_BYTES) {
                // SAFETY: the last register starts within the run, behind which the block goes on for a register's
                // width; and it starts before `len`.
                unsafe { V::load(from.add(k)).store(to.add(k)) };
            }
        } else {
            // SAFETY: the run fits, as compared above, and the block is not in `out`.
            unsafe { std::ptr::copy_nonoverlapping(from, to, run.len()) };
        }
        self.at += run.len();
        self.reload_tail();
        Some(())
    }

    /// The end of the block: where the room is zero from, if the block is whole.
    #[inline(always)]
    fn write_last_literals(mut self, run: &[u8]) -> Option<DecodedBlock> {
        if run.len() != self.len - self.at {
            return None;
        }
        if run.iter().all(|&byte| byte == 0) {
            // SAFETY: no memory.
            self.skip_zeros(run.len(), unsafe { V::zero() });
            return Some(DecodedBlock::fully_written(self.zero_from));
        }
        // SAFETY: the run ends at `len`, and the block is not in `out`.
        unsafe { std::ptr::copy_nonoverlapping(run.as_ptr(), self.out.add(self.at), run.len()) };
        Some(DecodedBlock::fully_written(self.zero_from.max(self.at + V::REGISTER_BYTES.max(run.len()))))
    }

    /// Writes a match up to the end of the first whole period, counted from the block's start, where nothing but the
    /// last literals follows and they go on with it. `None` where it is not so, and all is still to be done.
    ///
    /// # Safety
    /// `V::REGISTER_BYTES <= period <= at`, `2 * period <= length <= len - at`; and as for [`codec`].
    #[inline(always)]
    unsafe fn copy_one_period(&mut self, period: usize, length: usize, rest: &[u8]) -> Option<DecodedBlock> {
        let (&token, run) = rest.split_first()?;
        if usize::from(token >> 4) != run.len() || run.len() >= 15 || self.at + length + run.len() != self.len {
            return None;
        }
        let start = (self.at - period).next_multiple_of(period);
        let end = start + period;
        for k in (self.at..end).step_by(V::REGISTER_BYTES) {
            // SAFETY: a register is stored from before `end`, which lies in the match, and read from what was decoded.
            unsafe { V::load(self.out.add(k - period)).store(self.out.add(k)) };
        }
        // SAFETY: all up to `end` is decoded, and a run is shorter than a period.
        let last = unsafe { std::slice::from_raw_parts(self.out.add(end - run.len()), run.len()) };
        self.dirty_since_skip = true;
        let zero_from = self.zero_from.max(end + V::REGISTER_BYTES);
        (last == run).then_some(DecodedBlock { zero_from, repeats_from: Some(start) })
    }

    /// Writes a register's width of a match, and moves on by its length.
    ///
    /// # Safety
    /// `1 <= distance <= at`; and as for [`codec`].
    #[inline(always)]
    unsafe fn copy_short_match(&mut self, distance: usize, length: usize) {
        self.dirty_since_skip = true;
        // SAFETY: the read starts at or behind the start and before `at <= len`, the write at `at`; the slack is at
        // least a register's width.
        unsafe {
            let to = self.out.add(self.at);
            let bytes = self.tail.load_match(to, distance);
            bytes.store(to);
            self.tail = self.tail.append(bytes, length);
        }
        self.at += length;
    }

    /// Writes a match of any length, and moves on.
    ///
    /// # Safety
    /// `1 <= distance <= at` and `length <= len - at`; and as for [`codec`].
    #[inline(always)]
    unsafe fn copy_long_match(&mut self, distance: usize, length: usize) {
        let (from, to) = (self.out.wrapping_add(self.at - distance), self.out.wrapping_add(self.at));
        if distance >= V::REGISTER_BYTES {
            self.dirty_since_skip = true;
            for k in (0..length).step_by(V::REGISTER_BYTES) {
                // SAFETY: both registers start before `len`; the one read ends at or before the one written.
                unsafe { V::load(from.add(k)).store(to.add(k)) };
            }
            self.at += length;
            self.reload_tail();
            return;
        }
        // SAFETY: as for a short match.
        let period = unsafe { self.tail.load_match(to, distance) };
        // SAFETY: no memory.
        if unsafe { period.is_zero() } {
            self.skip_zeros(length, period);
            self.tail = period;
            return;
        }
        self.dirty_since_skip = true;
        let (mut k, step) = (0, usize::from(V::PERIOD_STEPS[distance]));
        while k < length {
            // SAFETY: the register starts before `len`.
            unsafe { period.store(to.add(k)) };
            k += step;
        }
        self.at += length;
        self.reload_tail();
    }

    /// Takes the last bytes from where they were written.
    #[inline(always)]
    fn reload_tail(&mut self) {
        // SAFETY: the bytes before `at` are part of `out`, which is good for a register's width at its start.
        self.tail = unsafe {
            match self.at.checked_sub(V::REGISTER_BYTES) {
                Some(from) => V::load(self.out.add(from)),
                None => V::zero().append(V::load(self.out), self.at),
            }
        };
    }

    /// Moves on by zeros, of which there is a register. They are written where the room is not zero yet; and as much
    /// again behind them, if after that all from there on is zero.
    #[inline(always)]
    fn skip_zeros(&mut self, length: usize, zeros: V) {
        let until =
            if self.dirty_since_skip { self.zero_from.max(self.at + V::REGISTER_BYTES) } else { self.zero_from };
        let clears = until <= self.at + (2 * length).max(V::REGISTER_BYTES);
        if self.at < until {
            let (mut k, until) = (self.at, if clears { until } else { self.at + length });
            while k < until {
                // SAFETY: `out` is good for a register's width behind `zero_from`, and for two behind `len`.
                unsafe { zeros.store(self.out.add(k)) };
                k += V::REGISTER_BYTES;
            }
            if clears {
                self.zero_from = self.at;
            }
        }
        self.dirty_since_skip = false;
        self.at += length;
    }
}
