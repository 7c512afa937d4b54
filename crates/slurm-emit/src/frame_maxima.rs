//! The largest frame sizes in a plan.

use memory_model::{DEFAULT_BATCH_FRAMES, decoded_bytes_per_thread, longest_batch};
use records::Task;

/// The largest frame sizes in the tasks of a plan, each on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameMaxima {
    /// Pixels of a frame.
    pub pixels: u64,
    /// Stored bytes of a frame, averaged over a task.
    pub stored_bytes: u64,
    /// Bytes that a thread needs for decoded data.
    pub decoded_bytes: u64,
    /// Frames of the longest batch of a thread.
    pub longest_batch: usize,
}

impl FrameMaxima {
    /// Returns the maxima of these and a task's sizes.
    pub fn with_task(self, task: &Task) -> Self {
        let scan = &task.acquisition;
        let [rows, columns] = scan.shape;
        let stored_bytes = task.bytes / task.range.count().max(1);
        let batch = DEFAULT_BATCH_FRAMES.into();
        Self {
            pixels: self.pixels.max(rows * columns),
            stored_bytes: self.stored_bytes.max(stored_bytes),
            decoded_bytes: self.decoded_bytes.max(decoded_bytes_per_thread(
                scan,
                batch,
                stored_bytes,
            )),
            longest_batch: self.longest_batch.max(longest_batch(scan, batch)),
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
            acquisition: Acquisition {
                shape: [2167, 2070],
                dtype: "u32".to_owned(),
                ..Acquisition::default()
            },
            ..Task::default()
        }
    }

    #[test]
    fn the_largest_frame_counts() {
        let small = Task {
            acquisition: Acquisition {
                shape: [10, 10],
                dtype: "u8".to_owned(),
                ..Default::default()
            },
            ..eiger()
        };
        let maxima = FrameMaxima::default().with_task(&small).with_task(&eiger()).with_task(&small);
        let (pixels, frame) = (4_485_690, 17_942_760);
        let expected = FrameMaxima {
            pixels,
            stored_bytes: 2_560_000,
            decoded_bytes: frame,
            longest_batch: 16,
        };
        assert_eq!(maxima, expected);
        let mut deep = eiger();
        deep.acquisition.chunk = vec![10, 2167, 2070];
        let maxima = FrameMaxima::default().with_task(&deep);
        assert_eq!(maxima.longest_batch, 25);
        assert!(maxima.decoded_bytes > 10 * (2 * frame + 2_560_000), "{maxima:?}");
    }
}
