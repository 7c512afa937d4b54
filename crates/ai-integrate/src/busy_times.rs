//! How long the engines were busy in each stage of a run, which says what limited its speed.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for tasks from the input.
    Input,
    /// Setting up a task: recipe, matrix, monitor, what is done already, an empty part.
    Setup,
    /// Reading stored frames.
    Read,
    /// Decoding and integrating, which happen in one pass.
    Integrate,
    /// Writing, syncing and renaming parts.
    Write,
}

impl Stage {
    const ALL: [Self; 5] = [Self::Input, Self::Setup, Self::Read, Self::Integrate, Self::Write];

    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Setup => "setup",
            Self::Read => "read",
            Self::Integrate => "integrate",
            Self::Write => "write",
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Input => "waiting for tasks",
            Self::Setup => "setting up tasks",
            Self::Read => "reading",
            Self::Integrate => "decoding and integrating",
            Self::Write => "writing",
        }
    }
}

/// The times of all engines. A stage that several threads of an engine work in was busy for their
/// mean time.
pub struct BusyTimes {
    began: Instant,
    engines: usize,
    seconds: Mutex<[f64; Stage::ALL.len()]>,
}

impl BusyTimes {
    /// Starts the clock of a run with this number of engines.
    pub fn start(engines: usize) -> Self {
        Self { began: Instant::now(), engines, seconds: Mutex::default() }
    }

    /// Adds a time that an engine spent in a stage.
    pub fn add(&self, stage: Stage, seconds: f64) {
        self.seconds.lock().unwrap_or_else(PoisonError::into_inner)[stage as usize] += seconds;
    }

    /// Runs `work` as a stage.
    pub fn measure<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        self.add(stage, began.elapsed().as_secs_f64());
        done
    }

    /// Returns the stage that was busiest, which limited the speed, and a text that says how busy
    /// each was.
    pub fn describe(&self) -> (Stage, String) {
        let seconds = *self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        describe_busy(&seconds, self.began.elapsed() * self.engines as u32)
    }
}

fn describe_busy(seconds: &[f64; Stage::ALL.len()], all: Duration) -> (Stage, String) {
    let percent =
        |stage: Stage| (100.0 * seconds[stage as usize] / all.as_secs_f64()).round() as u64;
    let busiest =
        Stage::ALL.into_iter().max_by_key(|stage| percent(*stage)).unwrap_or(Stage::Integrate);
    // Waiting and setting up are mentioned only where they count.
    let is_told = |stage: &Stage| {
        *stage != busiest
            && (!matches!(stage, Stage::Input | Stage::Setup) || percent(*stage) >= 10)
    };
    let others: Vec<String> = Stage::ALL
        .into_iter()
        .filter(is_told)
        .map(|stage| format!("{} {} %", stage.describe(), percent(stage)))
        .collect();
    let text = format!(
        "limited by {}, {} % of the time ({})",
        busiest.describe(),
        percent(busiest),
        others.join(", ")
    );
    (busiest, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_stage_limits_the_speed() {
        let text = |seconds| describe_busy(seconds, Duration::from_secs(10)).1;
        assert_eq!(
            text(&[0.2, 0.1, 1.2, 9.31, 0.4]),
            "limited by decoding and integrating, 93 % of the time (reading 12 %, writing 4 %)"
        );
        assert_eq!(
            text(&[6.0, 2.0, 0.0, 1.0, 1.0]),
            "limited by waiting for tasks, 60 % of the time (setting up tasks 20 %, reading 0 %, decoding and integrating 10 %, \
             writing 10 %)"
        );
    }
}
