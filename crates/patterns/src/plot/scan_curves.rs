//! [`ScanCurves`]: the mean patterns of several scans in one plot.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::canvas::{Canvas, DrawResult};
use super::curve::Curve;
use super::plot_data::PlotData;
use super::value_scale::ValueScale;
use crate::PatternAxis;
use crate::output::{OutputError, OutputFile};

/// Largest number of scans that are named; of more, some are.
const MAX_NAMES: usize = 20;
/// Largest number of letters of a name.
const MAX_LETTERS: usize = 30;
/// Width of the names beside the plot, in units of the plot.
const NAMES_WIDTH: i32 = 290;

/// How the curves of several scans share a plot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScanArrangement {
    /// All on one axis.
    #[default]
    Overlaid,
    /// Each above the one before it.
    Stacked,
}

/// The mean patterns of several scans.
pub struct ScanCurves {
    arrangement: ScanArrangement,
    radial: Option<(PatternAxis, (f64, f64))>,
    intensity: String,
    curves: Vec<(String, Curve)>,
}

impl ScanCurves {
    /// Creates a plot without curves.
    pub fn new(arrangement: ScanArrangement) -> Self {
        Self { arrangement, radial: None, intensity: String::new(), curves: Vec::new() }
    }

    /// Adds the mean pattern of a final file, and returns true. Returns false if its radial axis
    /// has another quantity or unit than that of the first final file, which can't be drawn in one
    /// plot.
    ///
    /// # Errors
    /// Fails if the final file can't be read.
    pub fn add(&mut self, output: &OutputFile) -> Result<bool, OutputError> {
        let axis = &output.shared.axes.radial;
        if self
            .radial
            .as_ref()
            .is_some_and(|(radial, _)| (&radial.name, &radial.units) != (&axis.name, &axis.units))
        {
            return Ok(false);
        }
        let data = PlotData::from_output(output, (1, 1))?;
        let (low, high) = data.radial_range;
        self.radial = Some(match self.radial.take() {
            Some((axis, (least, most))) => (axis, (least.min(low), most.max(high))),
            None => (data.radial.clone(), (low, high)),
        });
        if self.curves.is_empty() {
            self.intensity = data.intensity;
        } else if self.intensity != data.intensity {
            // Differently normalized; the unit of one of them would be wrong for others.
            self.intensity = "Intensity".to_owned();
        }
        let name = output.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        self.curves.push((name, Curve::new(&data.radial.centers, &data.mean, &data.error)));
        Ok(true)
    }

    /// Returns the number of curves.
    pub fn len(&self) -> usize {
        self.curves.len()
    }

    /// Returns whether there are no curves.
    pub fn is_empty(&self) -> bool {
        self.curves.is_empty()
    }

    /// Returns how far each curve is shifted above the one before it: half of the height of the
    /// highest curve, as a round number.
    fn shift(&self) -> f64 {
        if self.arrangement == ScanArrangement::Overlaid || self.curves.len() < 2 {
            return 0.0;
        }
        let height = |(_, curve): &(String, Curve)| {
            let range = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
            let (low, high) =
                curve.values_with_errors().fold((f64::INFINITY, f64::NEG_INFINITY), range);
            if low < high { high - low } else { 0.0 }
        };
        let half = self.curves.iter().map(height).fold(0.0, f64::max) / 2.0;
        let decade = 10_f64.powf(half.log10().floor());
        if half > 0.0 { (half / decade).round() * decade } else { 1.0 }
    }
}

impl Canvas {
    /// Draws the mean patterns of several scans, with their names beside them.
    pub fn draw_scans<B: DrawingBackend>(
        &mut self,
        area: &DrawingArea<B, Shift>,
        scans: &ScanCurves,
    ) -> DrawResult
    where
        B::ErrorType: 'static,
    {
        let Some((axis, (left, right))) = &scans.radial else {
            return Err("no pattern to draw".into());
        };
        let count = scans.curves.len();
        let area =
            self.titled(area, &format!("{count} scan{}", if count == 1 { "" } else { "s" }))?;
        let (width, height) = area.dim_in_pixel();
        let (plot, names) =
            area.split_horizontally(width.saturating_sub(self.px(NAMES_WIDTH).unsigned_abs()));
        let shift = scans.shift();
        let shifted: Vec<Curve> = scans
            .curves
            .iter()
            .enumerate()
            .map(|(number, (_, curve))| curve.shifted(shift * number as f64))
            .collect();
        let intensity = scans.intensity.replacen('I', "i", 1);
        let label = if shift > 0.0 {
            format!(
                "Mean {intensity}, each {} above the last",
                super::value_scale::format_tick(shift)
            )
        } else {
            format!("Mean {intensity}")
        };
        let y = ValueScale::of_axis(shifted.iter().flat_map(Curve::values_with_errors));
        // Equal distances are not equal on a logarithmic scale.
        let y = if shift > 0.0 { y.to_linear() } else { y };
        let mut chart = self.axes(
            &plot,
            (ValueScale::linear(*left, *right), y),
            (&axis.plot_label(), &label),
            true,
        )?;
        let color = |number: usize| {
            ViridisRGB.get_color(0.92 * number as f64 / count.saturating_sub(1).max(1) as f64)
        };
        for (number, curve) in shifted.into_iter().enumerate() {
            self.draw_curve(&mut chart, &curve.thinned(), color(number), None)?;
        }
        // From the top to the bottom in the order of stacked curves.
        let every = count.div_ceil(MAX_NAMES).max(1);
        let named: Vec<usize> = (0..count).step_by(every).collect();
        let line_height = self.px(26).min((height / 21).cast_signed());
        for (line, number) in named.into_iter().rev().enumerate() {
            let y = self.px(24).saturating_add(line_height.saturating_mul(line as i32));
            let stroke = color(number).stroke_width(self.stroke(3));
            names.draw(&PathElement::new([(self.px(4), y), (self.px(28), y)], stroke))?;
            let style = self.text(16.0).pos(Pos::new(HPos::Left, VPos::Center));
            names.draw(&Text::new(shorten(&scans.curves[number].0), (self.px(36), y), style))?;
        }
        Ok(())
    }
}

/// Returns the end of a long name, by which scans differ.
fn shorten(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    match letters.len().checked_sub(MAX_LETTERS) {
        Some(more) if more > 0 => format!("…{}", letters[more..].iter().collect::<String>()),
        _ => name.to_owned(),
    }
}
