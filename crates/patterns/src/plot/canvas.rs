//! [`Canvas`]: draws a plot of a final file, with the map of all frames and its colour bar at the
//! top and the mean pattern below.
#![allow(
    clippy::arithmetic_side_effects,
    reason = "coordinates of a plot are thousands at most, and points are numbers in floating point"
)]

use std::error::Error;

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

use super::curve::Curve;
use super::palette_image::PaletteImage;
use super::plot_data::{IntensityMap, PlotData};
use super::value_scale::{ValueScale, format_tick};
use super::vector_backend::SCALE;

pub(super) const FONT: &str = "sans-serif";
const TEXT_COLOR: RGBColor = RGBColor(40, 40, 48);
const GRID_COLOR: RGBColor = RGBColor(222, 222, 226);
pub(super) const CURVE: RGBColor = RGBColor(31, 86, 156);
pub(super) const ERROR_BAND: RGBColor = RGBColor(168, 198, 232);
/// Left margin for the labels of the axes, in units of the plot.
const LEFT_MARGIN: i32 = 104;
const RIGHT_MARGIN: i32 = 110;

pub(super) type DrawResult = Result<(), Box<dyn Error>>;
type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<ValueScale, ValueScale>>;

/// Draws a plot, and collects the images of the plot, which each file format stores in its own way.
/// All coordinates are in parts of the plot's units ([`SCALE`]).
#[derive(Default)]
pub(super) struct Canvas {
    /// Left, top, width and height of each image, and the image.
    pub images: Vec<([i32; 4], PaletteImage)>,
}

impl Canvas {
    /// Draws the plot of one final file.
    pub fn draw_final<B: DrawingBackend>(
        &mut self,
        area: &DrawingArea<B, Shift>,
        picture: &PlotData,
    ) -> DrawResult
    where
        B::ErrorType: 'static,
    {
        let (done, total) = picture.frames;
        let caption = if done == total {
            format!("{}: {total} frame{}", picture.title, if total == 1 { "" } else { "s" })
        } else {
            format!("{}: {done} of {total} frames", picture.title)
        };
        let area = self.titled(area, &caption)?;
        let Some(map) = &picture.map else { return self.draw_mean(&area, picture) };
        let (above, below) =
            area.split_vertically((f64::from(area.dim_in_pixel().1) * 0.55) as u32);
        self.draw_map(&above, picture, map)?;
        self.draw_mean(&below, picture)
    }

    /// Draws the title of a plot, and returns the rest of the area.
    pub fn titled<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        caption: &str,
    ) -> Result<DrawingArea<B, Shift>, Box<dyn Error>>
    where
        B::ErrorType: 'static,
    {
        register_font(FONT, FontStyle::Normal, dejavu::sans::regular())
            .map_err(|_| "the built-in font is damaged")?;
        let [top, side] = [10, 4].map(|margin| self.px(margin));
        let area = area.margin(top, side, side, side);
        // Smaller letters for a long title.
        let size = (26.0 * 80.0 / caption.chars().count().max(80) as f64).max(12.0);
        Ok(area.titled(caption, self.text(size))?)
    }

    /// Converts units of the plot to their parts.
    pub fn px(&self, units: i32) -> i32 {
        units.saturating_mul(SCALE.cast_signed())
    }

    /// Returns the style of text of a size in units of the plot.
    pub fn text(&self, size: f64) -> TextStyle<'static> {
        (FONT, size * f64::from(SCALE)).into_font().color(&TEXT_COLOR)
    }

    /// Returns the width of a line.
    pub fn stroke(&self, units: i32) -> u32 {
        self.px(units).max(1).cast_unsigned()
    }

    /// Draws axes with round ticks, and returns the chart.
    pub fn axes<'a, B: DrawingBackend>(
        &self,
        area: &'a DrawingArea<B, Shift>,
        (x, y): (ValueScale, ValueScale),
        (x_label, y_label): (&str, &str),
        has_grid: bool,
    ) -> Result<Chart<'a, B>, Box<dyn Error>>
    where
        B::ErrorType: 'static,
    {
        let mut chart = ChartBuilder::on(area)
            .margin(self.px(8))
            .x_label_area_size(self.px(if x_label.is_empty() { 34 } else { 56 }))
            .y_label_area_size(self.px(LEFT_MARGIN))
            .build_cartesian_2d(x, y)?;
        let mut mesh = chart.configure_mesh();
        if !has_grid {
            mesh.disable_mesh();
        }
        mesh.axis_style(TEXT_COLOR.stroke_width(self.stroke(1)))
            .bold_line_style(GRID_COLOR.stroke_width(self.stroke(1)))
            .light_line_style(TRANSPARENT)
            .set_all_tick_mark_size(self.px(5))
            .label_style(self.text(18.0))
            .x_label_formatter(&|value| format_tick(*value))
            .y_label_formatter(&|value| format_tick(*value))
            .x_desc(x_label)
            .y_desc(y_label)
            .axis_desc_style(self.text(20.0))
            .draw()?;
        Ok(chart)
    }

    /// Draws a curve and its error band. Both are interrupted at a bin without a value.
    pub fn draw_curve<B: DrawingBackend>(
        &self,
        chart: &mut Chart<B>,
        curve: &Curve,
        color: RGBColor,
        band: Option<RGBColor>,
    ) -> DrawResult
    where
        B::ErrorType: 'static,
    {
        let y = chart.plotting_area().as_coord_spec().y_spec().low;
        for piece in curve.pieces() {
            if let Some(band) = band {
                let above = piece.iter().map(|point| (point.x, point.y + point.error));
                let below =
                    piece.iter().rev().map(|point| (point.x, (point.y - point.error).max(y)));
                chart.draw_series([Polygon::new(
                    above.chain(below).collect::<Vec<_>>(),
                    band.filled(),
                )])?;
            }
            let line = piece.iter().map(|point| (point.x, point.y));
            match piece {
                // A line of one point would not be seen.
                [only] => drop(chart.draw_series([Circle::new(
                    (only.x, only.y),
                    self.px(2),
                    color.filled(),
                )])?),
                _ => drop(
                    chart.draw_series(LineSeries::new(line, color.stroke_width(self.stroke(2))))?,
                ),
            }
        }
        Ok(())
    }

    fn draw_map<B: DrawingBackend>(
        &mut self,
        area: &DrawingArea<B, Shift>,
        picture: &PlotData,
        map: &IntensityMap,
    ) -> DrawResult
    where
        B::ErrorType: 'static,
    {
        let (width, _) = area.dim_in_pixel();
        let (map_area, bar) =
            area.split_horizontally(width.saturating_sub(self.px(RIGHT_MARGIN).unsigned_abs()));
        let (left, right) = picture.radial_range;
        let (low, high) = map.range;
        let least_step = if map.counts_frames { 1.0 } else { 0.0 };
        let rows = ValueScale { least_step, ..ValueScale::linear(low, high) };
        let chart =
            self.axes(&map_area, (ValueScale::linear(left, right), rows), ("", &map.label), false)?;
        let scale = ValueScale::from_values(map.rows.iter().flatten().copied());
        let (x, y) = chart.plotting_area().get_pixel_range();
        // Beside the lines of the axes.
        let line = self.px(1);
        let place = [x.start + line, y.start, x.end - x.start - line, y.end - y.start - line];
        self.images
            .push((place, PaletteImage::from_rows(map.rows.iter().map(Vec::as_slice), &scale)));
        self.draw_color_bar(&bar, &scale, &picture.intensity)
    }

    fn draw_color_bar<B: DrawingBackend>(
        &mut self,
        area: &DrawingArea<B, Shift>,
        scale: &ValueScale,
        label: &str,
    ) -> DrawResult
    where
        B::ErrorType: 'static,
    {
        let (_, height) = area.dim_in_pixel();
        let (top, bottom) = (self.px(8), height.cast_signed() - self.px(42));
        let (x, y) = area.get_pixel_range();
        let place = [x.start + self.px(4), y.start + top, self.px(18), bottom - top];
        self.images.push((place, PaletteImage::color_bar(scale)));
        let line = TEXT_COLOR.stroke_width(self.stroke(1));
        for tick in scale.ticks() {
            let y = bottom - (f64::from(bottom - top) * scale.position(tick)) as i32;
            area.draw(&PathElement::new([(self.px(22), y), (self.px(26), y)], line))?;
            let style = self.text(16.0).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(format_tick(tick), (self.px(30), y), style))?;
        }
        let upright = self
            .text(18.0)
            .transform(FontTransform::Rotate270)
            .pos(Pos::new(HPos::Center, VPos::Top));
        area.draw(&Text::new(
            label.to_owned(),
            (self.px(84), i32::midpoint(top, bottom)),
            upright,
        ))?;
        Ok(())
    }

    fn draw_mean<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        picture: &PlotData,
    ) -> DrawResult
    where
        B::ErrorType: 'static,
    {
        let (width, _) = area.dim_in_pixel();
        let right_margin = self.px(if picture.map.is_some() { RIGHT_MARGIN } else { 20 });
        let (area, _) = area.split_horizontally(width.saturating_sub(right_margin.unsigned_abs()));
        let (left, right) = picture.radial_range;
        let curve = Curve::new(&picture.radial.centers, &picture.mean, &picture.error);
        let y = ValueScale::of_axis(curve.values_with_errors());
        let mean = if picture.frames.1 == 1 {
            picture.intensity.clone()
        } else {
            format!("Mean {}", picture.intensity.replacen('I', "i", 1))
        };
        let labels = (picture.radial.plot_label(), mean);
        let mut chart =
            self.axes(&area, (ValueScale::linear(left, right), y), (&labels.0, &labels.1), true)?;
        self.draw_curve(&mut chart, &curve.thinned(), CURVE, Some(ERROR_BAND))
    }
}
