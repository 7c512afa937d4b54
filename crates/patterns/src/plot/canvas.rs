//! Draws a plot: the map of all frames with its colour bar at the top, and the mean pattern below.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

use super::color_scale::{ColorScale, format_tick};
use super::plot_data::{IntensityMap, PlotData};
use crate::axes::ends;

const FONT: &str = "sans-serif";
const TEXT_COLOR: RGBColor = RGBColor(40, 40, 48);
const CURVE: RGBColor = RGBColor(31, 86, 156);
const ERROR_BAND: RGBColor = RGBColor(168, 198, 232);
const NO_DATA: RGBColor = RGBColor(214, 214, 218);
/// Left margin for the labels of the axes, in pixels.
const LEFT_MARGIN: u32 = 84;
const RIGHT_MARGIN: u32 = 110;

/// Bytes near the start of each PNG file of azpipe.
pub(super) const PNG_MARK: &[u8] = b"tEXtSoftware\0azpipe ";
/// Text near the start of each SVG file of azpipe.
pub(super) const SVG_MARK: &str = "<!-- azpipe ";

type DrawResult = Result<(), Box<dyn Error>>;

/// Returns the bytes of a PNG file.
pub(super) fn render_png(picture: &PlotData, size: (u32, u32)) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut pixels = vec![0; (size.0 as usize).saturating_mul(size.1 as usize).saturating_mul(3)];
    draw(&BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area(), picture)?;
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size.0, size.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.add_text_chunk("Software".to_owned(), format!("azpipe {}", env!("CARGO_PKG_VERSION")))?;
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(bytes)
}

/// Returns the bytes of an SVG file.
pub(super) fn render_svg(picture: &PlotData, size: (u32, u32)) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut text = String::new();
    draw(&SVGBackend::with_string(&mut text, size).into_drawing_area(), picture)?;
    // The mark follows the opening tag, which is the first line.
    let tag_end = text.split_inclusive('\n').next().map_or(0, str::len);
    text.insert_str(tag_end, &format!("{SVG_MARK}{} -->\n", env!("CARGO_PKG_VERSION")));
    Ok(text.into_bytes())
}

fn draw<B: DrawingBackend>(area: &DrawingArea<B, Shift>, picture: &PlotData) -> DrawResult
where
    B::ErrorType: 'static,
{
    register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).map_err(|_| "the built-in font is damaged")?;
    area.fill(&WHITE)?;
    let area = area.margin(10, 4, 4, 4);
    let (done, total) = picture.frames;
    let caption = if done == total {
        format!("{}: {total} frames", picture.title)
    } else {
        format!("{}: {done} of {total} frames", picture.title)
    };
    let area = area.titled(&caption, (FONT, 26).into_font().color(&TEXT_COLOR))?;
    match &picture.map {
        Some(map) => {
            let (above, below) = area.split_vertically((area.dim_in_pixel().1 as f64 * 0.55) as u32);
            draw_map(&above, picture, map)?;
            draw_mean(&below, picture)?;
        }
        None => draw_mean(&area, picture)?,
    }
    area.present().map_err(Into::into)
}

fn draw_map<B: DrawingBackend>(area: &DrawingArea<B, Shift>, picture: &PlotData, map: &IntensityMap) -> DrawResult
where
    B::ErrorType: 'static,
{
    let (width, _) = area.dim_in_pixel();
    let (map_area, bar) = area.split_horizontally(width.saturating_sub(RIGHT_MARGIN));
    let (left, right) = ends(&picture.columns);
    let (from, to) = ends(&map.edges);
    let mut chart = ChartBuilder::on(&map_area)
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(LEFT_MARGIN)
        .build_cartesian_2d(left..right, from..to)?;
    let scale = ColorScale::from_values(map.rows.iter().flatten().copied());
    for (row, lines) in map.rows.iter().zip(map.edges.windows(2)) {
        chart.draw_series(row.iter().zip(picture.columns.windows(2)).map(|(&value, columns)| {
            Rectangle::new([(columns[0], lines[0]), (columns[1], lines[1])], cell_color(&scale, value).filled())
        }))?;
    }
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(TEXT_COLOR)
        .label_style((FONT, 18).into_font().color(&TEXT_COLOR))
        .x_label_formatter(&|value| format_tick(*value))
        .y_label_formatter(&|value| format_tick(*value))
        .y_desc(map.label.as_str())
        .axis_desc_style((FONT, 20).into_font().color(&TEXT_COLOR))
        .draw()?;
    draw_color_bar(&bar, &scale, &picture.intensity)
}

fn draw_color_bar<B: DrawingBackend>(area: &DrawingArea<B, Shift>, scale: &ColorScale, label: &str) -> DrawResult
where
    B::ErrorType: 'static,
{
    const STEPS: usize = 128;
    let (_, height) = area.dim_in_pixel();
    let (top, bottom) = (8_i32, (height as i32).saturating_sub(42));
    let at = |position: f64| bottom.saturating_sub((f64::from(bottom.saturating_sub(top)) * position) as i32);
    let share = |step: usize| step as f64 / STEPS as f64;
    for (step, next) in (0..STEPS).zip(1..) {
        let (from, to) = (share(step), share(next));
        let cell = Rectangle::new([(4, at(to)), (22, at(from))], cell_color(scale, scale.value(from)).filled());
        area.draw(&cell)?;
    }
    let style = (FONT, 16).into_font().color(&TEXT_COLOR);
    for tick in scale.ticks() {
        let y = at(scale.position(tick));
        area.draw(&PathElement::new([(22, y), (26, y)], TEXT_COLOR))?;
        area.draw(&Text::new(format_tick(tick), (30, y.saturating_sub(8)), style.clone()))?;
    }
    let upright = (FONT, 18).into_font().transform(FontTransform::Rotate270).color(&TEXT_COLOR);
    let centered = upright.pos(Pos::new(HPos::Center, VPos::Top));
    area.draw(&Text::new(label.to_owned(), (84, bottom.saturating_add(top) / 2), centered))?;
    Ok(())
}

fn draw_mean<B: DrawingBackend>(area: &DrawingArea<B, Shift>, picture: &PlotData) -> DrawResult
where
    B::ErrorType: 'static,
{
    let (width, _) = area.dim_in_pixel();
    let (area, _) = area.split_horizontally(width.saturating_sub(RIGHT_MARGIN));
    let (centers, (left, right)) = (&picture.radial.centers, ends(&picture.columns));
    let band = |index: usize| picture.error.get(index).copied().filter(|error| error.is_finite()).unwrap_or_default();
    let ends_of_band = |(index, value): (usize, &f64)| [value - band(index), value + band(index)];
    let there = picture.mean.iter().enumerate().filter(|(_, value)| value.is_finite()).flat_map(ends_of_band);
    let (low, high) =
        there.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let (low, high) = if low < high { (low, high) } else { (low.min(1.0) - 1.0, low.min(1.0) + 1.0) };
    let room = (high - low) * 0.05;
    let mut chart = ChartBuilder::on(&area)
        .margin(8)
        .x_label_area_size(56)
        .y_label_area_size(LEFT_MARGIN)
        .build_cartesian_2d(left..right, low - room..high + room)?;
    chart
        .configure_mesh()
        .axis_style(TEXT_COLOR)
        .bold_line_style(RGBColor(222, 222, 226))
        .light_line_style(TRANSPARENT)
        .label_style((FONT, 18).into_font().color(&TEXT_COLOR))
        .x_label_formatter(&|value| format_tick(*value))
        .y_label_formatter(&|value| format_tick(*value))
        .x_desc(picture.radial.plot_label())
        .y_desc(format!("mean {}", picture.intensity.replacen('I', "i", 1)))
        .axis_desc_style((FONT, 18).into_font().color(&TEXT_COLOR))
        .draw()?;
    // Curve and band are interrupted at a bin without a value.
    let points: Vec<(f64, f64, f64)> =
        centers.iter().zip(&picture.mean).enumerate().map(|(index, (&x, &y))| (x, y, band(index))).collect();
    for piece in points.split(|(_, value, _)| !value.is_finite()).filter(|piece| !piece.is_empty()) {
        let above = piece.iter().map(|(x, y, error)| (*x, y + error));
        let below = piece.iter().rev().map(|(x, y, error)| (*x, y - error));
        chart.draw_series([Polygon::new(above.chain(below).collect::<Vec<_>>(), ERROR_BAND.filled())])?;
        chart.draw_series(LineSeries::new(piece.iter().map(|(x, y, _)| (*x, *y)), CURVE.stroke_width(2)))?;
    }
    Ok(())
}

fn cell_color(scale: &ColorScale, value: f64) -> RGBColor {
    if value.is_finite() { ViridisRGB.get_color(scale.position(value)) } else { NO_DATA }
}
