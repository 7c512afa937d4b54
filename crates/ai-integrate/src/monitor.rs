//! The monitor of each frame.

use frames::hdf5_array::{ArrayError, read_numbers};
use records::Task;

use crate::task::Refusal;

/// The monitor's values, one a frame of the scan.
pub enum Monitor {
    /// The recipe asks for none: every frame counts the same.
    None,
    /// The counter's values; it may be shorter than the scan.
    Counter(Vec<f64>),
}

impl Monitor {
    /// Reads the counter `name` of the task's scan.
    ///
    /// # Errors
    /// The scan has no such counter, or it can't be read.
    pub fn read(task: &Task, name: Option<&str>) -> Result<Self, Refusal> {
        let Some(name) = name else { return Ok(Self::None) };
        let scan = &task.acquisition;
        let Some(dataset) = scan.counters.get(name) else {
            let known: Vec<&str> = scan.counters.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let why = format!("entry {} has no counter `{name}`; it has: {known}", scan.entry);
            return Err(Refusal { why, retryable: false });
        };
        let unreadable = |why: ArrayError| Refusal { why: why.to_string(), retryable: true };
        read_numbers(&scan.file, dataset).map(Self::Counter).map_err(unreadable)
    }

    /// The monitor of a frame: 1 where there is none, NaN where the counter has no value.
    pub fn of(&self, frame: u64) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Counter(values) => values.get(frame as usize).copied().unwrap_or(f64::NAN),
        }
    }

    /// Whether a frame with this monitor can be normalized.
    pub fn is_usable(value: f64) -> bool {
        value.is_finite() && value != 0.0
    }
}
