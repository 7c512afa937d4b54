//! An input, taken apart into the choices that a target makes.

/// The bytes of an input that have not been used. Behind the end, all are 0.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Begins at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns whether all bytes have been used.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a byte.
    pub fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or_default()
    }

    /// Takes eight bytes as a number.
    pub fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        bytes.fill_with(|| self.byte());
        u64::from_le_bytes(bytes)
    }

    /// Takes a number below `end` in as many bytes as it needs; 0 where there is none below.
    pub fn below(&mut self, end: usize) -> usize {
        let mut number = 0;
        let mut most = end.saturating_sub(1);
        while most > 0 {
            number = number << 8 | usize::from(self.byte());
            most >>= 8;
        }
        number % end.max(1)
    }

    /// Takes one of these.
    pub fn one_of<'b, T>(&mut self, all: &'b [T]) -> Option<&'b T> {
        let index = self.below(all.len());
        all.get(index)
    }

    /// Takes up to `most` bytes, whose count stands before them.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let len = self.below(most + 1).min(self.0.len());
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    /// Takes a number that is likely to be wrong somewhere: a limit, something small, or any.
    pub fn odd_number(&mut self) -> u64 {
        let kind = self.byte();
        match kind {
            0..48 => u64::from(kind),
            48..64 => u64::MAX - u64::from(kind - 48),
            64..128 => 1 << (kind - 64),
            128..192 => (1 << (kind - 128)) - 1,
            192 => f64::NAN.to_bits(),
            193 => f64::INFINITY.to_bits(),
            194 => f64::MIN_POSITIVE.to_bits(),
            195 => (-1.0_f64).to_bits(),
            196 => f64::MAX.to_bits(),
            197 => 1e-320_f64.to_bits(),
            _ => self.number(),
        }
    }
}
