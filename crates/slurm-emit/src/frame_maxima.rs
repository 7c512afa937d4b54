//! The largest frame sizes in a plan.

use records::Task;

/// The largest frame sizes in the tasks of a plan, each on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameMaxima {
    /// Pixels of a frame.
    pub pixels: u64,
    /// Bytes of a decoded frame.
    pub bytes: u64,
    /// Stored bytes of a frame, averaged over a task.
    pub stored_bytes: u64,
    /// Bytes for a chunk of several frames: stored, decoded, and between two codecs. 0 if each chunk is one frame.
    pub chunk_bytes: u64,
}

impl FrameMaxima {
    /// Returns the maxima of these and a task's sizes.
    pub fn with_task(self, task: &Task) -> Self {
        let [rows, columns] = task.acquisition.shape;
        let pixels = rows * columns;
        // `u32` has 32 bits, `f64` has 64.
        let bits = task
            .acquisition
            .dtype
            .trim_start_matches(|char: char| char.is_ascii_alphabetic())
            .parse()
            .unwrap_or(64_u64);
        let (bytes, stored_bytes) = (pixels * bits / 8, task.bytes / task.range.count().max(1));
        let chunk_bytes = match task.acquisition.chunk.first() {
            Some(&frames) if frames > 1 => bytes.saturating_mul(2).saturating_add(stored_bytes).saturating_mul(frames),
            _ => 0,
        };
        Self {
            pixels: self.pixels.max(pixels),
            bytes: self.bytes.max(bytes),
            stored_bytes: self.stored_bytes.max(stored_bytes),
            chunk_bytes: self.chunk_bytes.max(chunk_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use records::{Acquisition, Span};

    use super::*;

    /// Creates a task of 100 frames of an Eiger 4M, compressed sevenfold.
    fn eiger() -> Task {
        Task {
            range: Span::new(0, 100).into(),
            bytes: 256_000_000,
            acquisition: Acquisition { shape: [2167, 2070], dtype: "u32".to_owned(), ..Acquisition::default() },
            ..Task::default()
        }
    }

    #[test]
    fn the_largest_frame_counts() {
        let small = Task {
            acquisition: Acquisition { shape: [10, 10], dtype: "u8".to_owned(), ..Default::default() },
            ..eiger()
        };
        let maxima = FrameMaxima::default().with_task(&small).with_task(&eiger()).with_task(&small);
        let expected = FrameMaxima { pixels: 4_485_690, bytes: 17_942_760, stored_bytes: 2_560_000, chunk_bytes: 0 };
        assert_eq!(maxima, expected);
        let mut deep = eiger();
        deep.acquisition.chunk = vec![10, 2167, 2070];
        assert_eq!(FrameMaxima::default().with_task(&deep).chunk_bytes, 10 * (2 * 17_942_760 + 2_560_000));
    }
}
