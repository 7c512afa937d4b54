//! An LZ4 decoder that is optimized for blocks of bit planes:
//!
//! - A literal run or a match of up to a register's width is one load and one store without a
//!   branch, also if the length has an extra byte, and if the match overlaps itself (a byte
//!   permutation repeats the period).
//! - A long match with a short period stores one register repeatedly.
//! - Long runs of zeros are not written where the buffer is zero already, so that the many empty
//!   planes of a block cost nothing.
//! - If the upper planes of a block are identical, as with gaps and negative pixels, only the first
//!   of them is written.
#![allow(unsafe_code)]

use super::register::ByteRegister;
use super::{DecodedBlock, SLACK};

/// Decodes a block of `len` bytes to the front of `out`, which is zero from `dirty` on. Returns
/// `None` for an invalid block, and then the contents of `out` are arbitrary.
///
/// `len` is a multiple of `period`. If the block ends in a match of distance `period`, only one
/// period of the match is written; with 0, every block is written whole.
///
/// # Safety
/// The processor must have the instructions of `V`, and this function must be inlined into code
/// compiled for them.
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
    assert!(
        SLACK >= 2 * V::REGISTER_BYTES
            && out.len() >= len + SLACK
            && dirty + V::REGISTER_BYTES <= out.len()
    );
    let mut writer = BlockWriter {
        out: out.as_mut_ptr(),
        len,
        at: 0,
        zero_from: dirty,
        dirty_since_skip: false,
        // SAFETY: `zero` takes no pointer. The processor has the instructions of `V`, as this
        // function requires.
        tail: unsafe { V::zero() },
    };
    let ending = padded_block_end(block);
    // SAFETY of the unsafe blocks below: `i` bytes of the block are read, and `i <= end` where a
    // sequence starts. From `i` on, `MAX_UNCHECKED_READ` bytes of the source may be read: that many
    // are left, or the source is `ending`. The writer checks what is written.
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
        // SAFETY: the token and the byte after it are the first two of the `MAX_UNCHECKED_READ`
        // bytes that may be read from `i` on: fewer are left only in `ending`, which is that much
        // longer than `end`.
        let (token, extension) =
            unsafe { (usize::from(*source.add(i)), usize::from(*source.add(i + 1))) };
        let extended = usize::from(token >= 15 << 4);
        let mut literals = (token >> 4) + extension * extended;
        i += 1 + extended;
        if literals <= V::REGISTER_BYTES && i + literals < end {
            // SAFETY: `i` is at most two bytes after the start of the sequence, so a register's
            // width, at most 64 bytes, is left of `MAX_UNCHECKED_READ`. The processor has the
            // instructions of `V`.
            unsafe { writer.write_short_literals(source.add(i), literals) };
        } else {
            if literals == 15 + 255 {
                literals += read_length_extension(block, &mut i)?;
            }
            let rest = block.get(i..)?;
            if literals == rest.len() {
                return writer.write_last_literals(rest);
            }
            writer.write_long_literals(rest, literals)?;
        }
        i += literals;
        // A match is followed by one more token at least.
        if writer.at > len || end - i < 3 {
            return None;
        }
        // SAFETY: `end - i` is at least 3, and `source` holds `end` bytes. The read has no
        // alignment.
        let (distance, extension) =
            unsafe { (source.add(i).cast::<u16>().read_unaligned(), *source.add(i + 2)) };
        let distance = usize::from(u16::from_le(distance));
        if distance.wrapping_sub(1) >= writer.at {
            return None;
        }
        let extended = usize::from(token & 15 == 15);
        let mut length = (token & 15) + 4 + usize::from(extension) * extended;
        i += 2 + extended;
        if length <= V::REGISTER_BYTES {
            // SAFETY: the distance is not 0 and does not reach before the start: `distance - 1 <
            // writer.at`, which 0 wraps beyond. The processor has the instructions of `V`.
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
                // SAFETY: the distance, which is the period, is at most `writer.at`; the length is
                // at most `len - writer.at` and at least two periods, and a period is a register's
                // width or more: all compared above. The processor has the instructions of `V`.
                let repeated = unsafe { writer.copy_one_period(period, length, block.get(i..)?) };
                if repeated.is_some() {
                    return repeated;
                }
            }
            // SAFETY: the distance is between 1 and `writer.at`, and the length is at most `len -
            // writer.at`: both compared above. The processor has the instructions of `V`.
            unsafe { writer.copy_long_match(distance, length) };
        }
    }
}

/// How many bytes of a sequence are read without comparing with the block's end: a token, one extra
/// length byte, and a register.
const MAX_UNCHECKED_READ: usize = 2 + 64;

/// How many bytes of a block's end are copied to an array that may be read beyond them.
const BLOCK_END_BYTES: usize = 128;

/// Returns the last [`BLOCK_END_BYTES`] bytes of a block (a shorter block is preceded by zeros),
/// followed by [`MAX_UNCHECKED_READ`] zeros.
#[inline(always)]
fn padded_block_end(block: &[u8]) -> [u8; BLOCK_END_BYTES + MAX_UNCHECKED_READ] {
    let mut ending = [0; BLOCK_END_BYTES + MAX_UNCHECKED_READ];
    match block.last_chunk::<BLOCK_END_BYTES>() {
        Some(last) => ending[..BLOCK_END_BYTES].copy_from_slice(last),
        None => ending[BLOCK_END_BYTES - block.len()..BLOCK_END_BYTES].copy_from_slice(block),
    }
    ending
}

/// Adds up the bytes of a length that follow a byte of 255; returns `None` if the block ends before
/// a byte below 255.
#[inline(never)]
fn read_length_extension(block: &[u8], i: &mut usize) -> Option<usize> {
    let mut length = 0;
    loop {
        let byte = *block.get(*i)?;
        *i += 1;
        // No overflow: the length is at most 255 times the bytes of the block.
        length += usize::from(byte);
        if byte != 255 {
            return Some(length);
        }
    }
}

/// Writes the decoded bytes.
///
/// Invariants: `out` may be written for `len + SLACK` bytes, and for a register's width after
/// `zero_from`; `at <= len` before each write, and no register is stored to a place after `len`;
/// the bytes in `..at` are decoded; all bytes from `zero_from` on are zero, except those of the
/// last stored register, which may reach a register's width beyond `at`.
struct BlockWriter<V> {
    out: *mut u8,
    len: usize,
    at: usize,
    zero_from: usize,
    /// True if a register was stored since zeros were last skipped.
    dirty_since_skip: bool,
    /// The last bytes before `at`, for registers that can track them; see [`ByteRegister::append`].
    tail: V,
}

impl<V: ByteRegister> BlockWriter<V> {
    /// Writes a register's width of literals, and advances by `literals`.
    ///
    /// # Safety
    /// `from` may be read for a register's width; and as for [`decode`].
    #[inline(always)]
    unsafe fn write_short_literals(&mut self, from: *const u8, literals: usize) {
        self.dirty_since_skip = true;
        // SAFETY: the caller says that a register may be read from `from`. It is stored at `at <=
        // len`, after which `out` has a slack of two registers' width. The processor has the
        // instructions of `V`, as the caller's caller requires.
        unsafe {
            let bytes = V::load(from);
            bytes.store(self.out.add(self.at));
            self.tail = self.tail.append(bytes, literals);
        }
        self.at += literals;
    }

    /// Writes a run of literals of any length, and advances. `rest` is the block from the run's start
    /// on; near the block's end it can be shorter than the run and a register, or than the run, of
    /// which the block is invalid.
    #[inline(always)]
    fn write_long_literals(&mut self, rest: &[u8], literals: usize) -> Option<()> {
        if literals > self.len - self.at || literals > rest.len() {
            return None;
        }
        self.dirty_since_skip = true;
        let (from, to) = (rest.as_ptr(), self.out.wrapping_add(self.at));
        if rest.len() >= literals + V::REGISTER_BYTES {
            for k in (0..literals).step_by(V::REGISTER_BYTES) {
                // SAFETY: the last register starts within the run, after which the block goes on
                // for a register's width; and it starts before `len`.
                unsafe { V::load(from.add(k)).store(to.add(k)) };
            }
        } else {
            // SAFETY: the run fits, as compared above, and the block is not in `out`.
            unsafe { std::ptr::copy_nonoverlapping(from, to, literals) };
        }
        self.at += literals;
        self.reload_tail();
        Some(())
    }

    /// Writes the literals that end the block; returns `None` if the block is shorter or longer
    /// than `len`.
    #[inline(always)]
    fn write_last_literals(mut self, run: &[u8]) -> Option<DecodedBlock> {
        if run.len() != self.len - self.at {
            return None;
        }
        if run.iter().all(|&byte| byte == 0) {
            // SAFETY: `zero` takes no pointer; a writer is made by `decode` alone, on a processor
            // that has the instructions.
            self.skip_zeros(run.len(), unsafe { V::zero() });
            return Some(DecodedBlock::fully_written(self.zero_from));
        }
        // SAFETY: the run ends at `len`, and the block is not in `out`.
        unsafe { std::ptr::copy_nonoverlapping(run.as_ptr(), self.out.add(self.at), run.len()) };
        Some(DecodedBlock::fully_written(
            self.zero_from.max(self.at + V::REGISTER_BYTES.max(run.len())),
        ))
    }

    /// Writes the first whole period of a match (whole periods are counted from the block's start),
    /// if only the last literals follow and they continue the period. Otherwise returns `None`, and
    /// the match is still to be written.
    ///
    /// # Safety
    /// `V::REGISTER_BYTES <= period <= at`, `2 * period <= length <= len - at`; and as for
    /// [`decode`].
    #[inline(always)]
    unsafe fn copy_one_period(
        &mut self,
        period: usize,
        length: usize,
        rest: &[u8],
    ) -> Option<DecodedBlock> {
        let (&token, run) = rest.split_first()?;
        if usize::from(token >> 4) != run.len()
            || run.len() >= 15
            || self.at + length + run.len() != self.len
        {
            return None;
        }
        let start = (self.at - period).next_multiple_of(period);
        let end = start + period;
        for k in (self.at..end).step_by(V::REGISTER_BYTES) {
            // SAFETY: a register is stored from before `end`, which lies in the match, and read
            // from what was decoded.
            unsafe { V::load(self.out.add(k - period)).store(self.out.add(k)) };
        }
        // SAFETY: all bytes up to `end` are decoded, and the run is shorter than a period.
        let last = unsafe { std::slice::from_raw_parts(self.out.add(end - run.len()), run.len()) };
        self.dirty_since_skip = true;
        let zero_from = self.zero_from.max(end + V::REGISTER_BYTES);
        (last == run).then_some(DecodedBlock { zero_from, repeats_from: Some(start) })
    }

    /// Writes a register's width of a match, and advances by its length.
    ///
    /// # Safety
    /// `1 <= distance <= at`; and as for [`decode`].
    #[inline(always)]
    unsafe fn copy_short_match(&mut self, distance: usize, length: usize) {
        self.dirty_since_skip = true;
        // SAFETY: the read starts in `out` and before `at <= len`, the write at `at`; the slack is
        // at least a register's width.
        unsafe {
            let to = self.out.add(self.at);
            let bytes = self.tail.load_match(to, distance);
            bytes.store(to);
            self.tail = self.tail.append(bytes, length);
        }
        self.at += length;
    }

    /// Writes a match of any length, and advances.
    ///
    /// # Safety
    /// `1 <= distance <= at` and `length <= len - at`; and as for [`decode`].
    #[inline(always)]
    unsafe fn copy_long_match(&mut self, distance: usize, length: usize) {
        let (from, to) =
            (self.out.wrapping_add(self.at - distance), self.out.wrapping_add(self.at));
        if distance >= V::REGISTER_BYTES {
            self.dirty_since_skip = true;
            for k in (0..length).step_by(V::REGISTER_BYTES) {
                // SAFETY: both registers start before `len`; the one read ends at or before the one
                // written.
                unsafe { V::load(from.add(k)).store(to.add(k)) };
            }
            self.at += length;
            self.reload_tail();
            return;
        }
        // SAFETY: the read starts in `out`, at most a register's width before `at <= len`, and ends
        // in the slack.
        let period = unsafe { self.tail.load_match(to, distance) };
        // SAFETY: `is_zero` takes no pointer; a writer is made by `decode` alone, on a processor
        // that has the instructions.
        if unsafe { period.is_zero() } {
            self.skip_zeros(length, period);
            self.tail = period;
            return;
        }
        self.dirty_since_skip = true;
        let (mut k, step) = (0, usize::from(V::PERIOD_STEPS[distance]));
        while k < length {
            // SAFETY: `k < length <= len - at`, so the register starts before `len` and ends in the
            // slack.
            unsafe { period.store(to.add(k)) };
            k += step;
        }
        self.at += length;
        self.reload_tail();
    }

    /// Reads the last bytes before `at` back from `out`.
    #[inline(always)]
    fn reload_tail(&mut self) {
        // SAFETY: `out` is at least a register's width long, which is its slack. The first register
        // read ends at `at`, the second is the first of `out`. Bytes after `at` that are read have
        // been initialized: `out` was a slice.
        self.tail = unsafe {
            match self.at.checked_sub(V::REGISTER_BYTES) {
                Some(from) => V::load(self.out.add(from)),
                None => V::zero().append(V::load(self.out), self.at),
            }
        };
    }

    /// Advances by `length` zeros. They are written only where the buffer is not zero yet. Up to as
    /// many more are written after them if then all the rest of the buffer is zero.
    #[inline(always)]
    fn skip_zeros(&mut self, length: usize, zeros: V) {
        let until = if self.dirty_since_skip {
            self.zero_from.max(self.at + V::REGISTER_BYTES)
        } else {
            self.zero_from
        };
        let clears = until <= self.at + (2 * length).max(V::REGISTER_BYTES);
        if self.at < until {
            let (mut k, until) = (self.at, if clears { until } else { self.at + length });
            while k < until {
                // SAFETY: `out` may be written for a register's width after `zero_from`, and for
                // two after `len`.
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
