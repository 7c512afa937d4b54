//! One pattern of all frames of a scan, from their sums.

use crate::{Finish, Row, Weights};

/// How frames become one pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Average {
    /// Σ S / Σ W g: each frame counts by what it measured.
    Mean,
    /// The mean times the number of frames that have a pattern.
    Sum,
}

impl Average {
    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Sum => "sum",
        }
    }

    /// Reads its name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Mean, Self::Sum].into_iter().find(|average| average.name() == name)
    }
}

/// One pattern of many frames.
#[derive(Clone, Debug, PartialEq)]
pub struct Averaged {
    /// How it was made.
    pub average: Average,
    /// How many frames it was made of.
    pub frames: u64,
    /// Intensity of each bin.
    pub intensity: Vec<f64>,
    /// Standard error of each bin, where there is an error model.
    pub errors: Option<Vec<f64>>,
}

/// Sums over frames, in the frames' order.
pub(super) struct Accumulator {
    average: Average,
    frames: u64,
    signal: Vec<f64>,
    variance: Option<Vec<f64>>,
    norm: Vec<f64>,
}

impl Accumulator {
    pub fn new(average: Average, bins: usize, finish: &Finish) -> Self {
        let variance = finish.has_errors().then(|| vec![0.0; bins]);
        Self { average, frames: 0, signal: vec![0.0; bins], variance, norm: vec![0.0; bins] }
    }

    /// Adds a frame with a pattern, whose weights are multiplied by `scale`.
    pub fn add(&mut self, row: &Row, weights: &Weights, scale: f64) {
        self.frames += 1;
        self.signal.iter_mut().zip(&row.signal).for_each(|(sum, value)| *sum += value);
        self.norm.iter_mut().zip(&weights.norm).for_each(|(sum, norm)| *sum += norm * scale);
        if let (Some(sums), Some(values)) = (&mut self.variance, &row.variance) {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
    }

    pub fn finish(self, finish: &Finish) -> Averaged {
        let factor = match self.average {
            Average::Mean => 1.0,
            Average::Sum => self.frames as f64,
        };
        let times = |values: Vec<f64>| values.into_iter().map(|value| value * factor).collect();
        let intensity = times(finish.quotients(&self.signal, &self.norm, 1.0, |sum| sum));
        let errors = self.variance.map(|sums| times(finish.quotients(&sums, &self.norm, 1.0, f64::sqrt)));
        Averaged { average: self.average, frames: self.frames, intensity, errors }
    }
}
