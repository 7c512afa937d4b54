//! Which way frames took through the kernels, so that nobody has to guess why a codec is slow.

use std::fmt;
use std::ops::AddAssign;

/// How many frames took each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodePathCounts {
    /// Summed block by block from their bit planes, as they were decompressed: the fastest.
    pub planes: u64,
    /// Block by block too, but unshuffled first: the invalid values share no bit that is set, or no block holds whole
    /// tiles.
    pub unshuffled: u64,
    /// Summed as they are stored.
    pub native: u64,
    /// Decoded whole, and then summed.
    pub decoded: u64,
    /// Decoded whole, and put in the order of the bins.
    pub csr: u64,
}

impl AddAssign for DecodePathCounts {
    fn add_assign(&mut self, more: DecodePathCounts) {
        self.planes += more.planes;
        self.unshuffled += more.unshuffled;
        self.native += more.native;
        self.decoded += more.decoded;
        self.csr += more.csr;
    }
}

impl fmt::Display for DecodePathCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.planes, "from bit planes"),
            (
                self.unshuffled,
                "from unshuffled blocks (slower: no bit is common to the invalid values, or no block holds whole tiles)",
            ),
            (self.native, "as stored"),
            (self.decoded, "decoded whole (slower: the codec does not come block by block)"),
            (self.csr, "by bin (the method looks at all pixels of a bin)"),
        ];
        let taken = all.iter().filter(|(frames, _)| *frames > 0);
        let taken: Vec<String> = taken.map(|(frames, way)| format!("{frames} frames {way}")).collect();
        f.write_str(if taken.is_empty() { "no frames" } else { "" })?;
        f.write_str(&taken.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ways_that_were_taken_are_told() {
        let mut ways = DecodePathCounts { planes: 30, ..DecodePathCounts::default() };
        ways += DecodePathCounts { planes: 2, decoded: 1, ..DecodePathCounts::default() };
        let told = ways.to_string();
        assert!(told.starts_with("32 frames from bit planes, 1 frames decoded whole (slower: "), "{told}");
        assert_eq!(DecodePathCounts::default().to_string(), "no frames");
    }
}
