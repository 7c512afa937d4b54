//! Counts how many frames took which decode path; result records report it as `decode_path`.
//!
//! The path explains the speed: a codec that must be decoded whole is slower than bitshuffled
//! blocks.

use std::fmt;
use std::ops::AddAssign;

/// How many frames took each decode path. `Display` gives a sentence with the paths that were
/// taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodePathCounts {
    /// Frames that were decompressed block by block and read from the bit planes: the fastest path.
    pub planes: u64,
    /// Frames that were decompressed and unshuffled block by block, because pixels are floating-point
    /// numbers or because tiles cross the borders of blocks.
    pub unshuffled: u64,
    /// Frames that are stored as uncompressed native pixels.
    pub native: u64,
    /// Frames that were decoded whole and then summed.
    pub decoded: u64,
    /// Frames that were decoded whole for a method that needs all pixels of a bin at once.
    pub csr: u64,
    /// Frames that were sent to an OpenCL device as they are stored, and decoded there.
    pub on_device: u64,
    /// Frames that the CPU decoded and sent to an OpenCL device as pixels.
    pub sent_decoded: u64,
}

impl DecodePathCounts {
    /// Returns `true` if frames were decoded on an OpenCL device, and none by the CPU.
    pub fn is_all_on_device(&self) -> bool {
        self.on_device > 0 && Self { on_device: 0, ..*self } == Self::default()
    }
}

impl AddAssign for DecodePathCounts {
    fn add_assign(&mut self, more: DecodePathCounts) {
        self.planes += more.planes;
        self.unshuffled += more.unshuffled;
        self.native += more.native;
        self.decoded += more.decoded;
        self.csr += more.csr;
        self.on_device += more.on_device;
        self.sent_decoded += more.sent_decoded;
    }
}

impl fmt::Display for DecodePathCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.planes, "from bit planes"),
            (
                self.unshuffled,
                "from unshuffled blocks (slower: pixels are floating-point numbers, or tiles cross blocks)",
            ),
            (self.native, "as stored"),
            (self.decoded, "decoded whole (slower: the codec can't be decoded block by block)"),
            (
                self.csr,
                "decoded for sums by bin (slower: the method needs all pixels of a bin at once)",
            ),
            (self.on_device, "decoded on the device"),
            (
                self.sent_decoded,
                "decoded for the device (slower: it decodes blocks of bitshuffled LZ4 only)",
            ),
        ];
        let taken = all.iter().filter(|(frames, _)| *frames > 0);
        let noun = |frames: u64| if frames == 1 { "frame" } else { "frames" };
        let taken: Vec<String> =
            taken.map(|&(frames, path)| format!("{frames} {} {path}", noun(frames))).collect();
        f.write_str(if taken.is_empty() { "no frames" } else { "" })?;
        f.write_str(&taken.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_were_taken_are_shown() {
        let mut counts = DecodePathCounts { planes: 30, ..DecodePathCounts::default() };
        counts += DecodePathCounts { planes: 2, decoded: 1, ..DecodePathCounts::default() };
        let shown = counts.to_string();
        assert!(
            shown.starts_with("32 frames from bit planes, 1 frame decoded whole (slower: "),
            "{shown}"
        );
        assert_eq!(DecodePathCounts::default().to_string(), "no frames");
        let device = DecodePathCounts { on_device: 3, ..DecodePathCounts::default() };
        assert_eq!(device.to_string(), "3 frames decoded on the device");
        assert!(device.is_all_on_device() && !DecodePathCounts::default().is_all_on_device());
        assert!(!DecodePathCounts { sent_decoded: 1, ..device }.is_all_on_device());
    }
}
