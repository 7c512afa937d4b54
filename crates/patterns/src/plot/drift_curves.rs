//! Draws the drift of beam and detector over the frames of a scan.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::canvas::{CURVE, Canvas, DrawResult, ERROR_BAND};
use super::curve::Curve;
use super::value_scale::ValueScale;
use crate::export::Drift;

impl Canvas {
    /// Draws a curve with its error band for each component that is known: x, y and distance.
    pub fn draw_drift<B: DrawingBackend>(
        &mut self,
        area: &DrawingArea<B, Shift>,
        drift: &Drift,
    ) -> DrawResult
    where
        B::ErrorType: 'static,
    {
        let (known, all) = (drift.known_frames(), drift.frames.len());
        let title = format!("Displacement by {}: {known} of {all} frames", drift.calibrant);
        let area = self.titled(area, &title)?;
        let components: Vec<(&str, usize)> = drift.components().collect();
        let frames: Vec<f64> = (0..all).map(|frame| frame as f64).collect();
        let x = || ValueScale {
            least_step: 1.0,
            ..ValueScale::linear(-0.5, frames.len() as f64 - 0.5)
        };
        for (panel, (name, axis)) in
            area.split_evenly((components.len(), 1)).iter().zip(&components)
        {
            let micrometres = |values: &[f64; 3]| values[*axis] * 1e6;
            let values: Vec<f64> =
                drift.frames.iter().map(|frame| micrometres(&frame.value)).collect();
            let errors: Vec<f64> =
                drift.frames.iter().map(|frame| micrometres(&frame.error)).collect();
            let curve = Curve::new(&frames, &values, &errors);
            let y = ValueScale::of_axis(curve.values_with_errors()).to_linear();
            let mut chart = self.axes(panel, (x(), y), ("frame", &format!("{name} (µm)")), true)?;
            self.draw_curve(&mut chart, &curve.thinned(), CURVE, Some(ERROR_BAND))?;
        }
        Ok(())
    }
}
