//! Arranges the picture: title, image with axes in pixels and 2theta, colour bar, and the mean over
//! 2theta below.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, TextStyle, register_font};

use crate::contrast::{Contrast, grey};
use crate::screen::{BEAM, GAP, INVALID, MASKED, RING, Screen, draw_pixels, two_theta_at};
use crate::{DetectorImage, PixelKind};

const FONT: &str = "sans-serif";
const TEXT_COLOR: RGBColor = RGBColor(40, 40, 48);
const CURVE: RGBColor = RGBColor(40, 40, 48);
/// The longer side of the image, in pixels of the screen.
const IMAGE_SIZE: usize = 860;
const LEFT: i32 = 96;
/// Space right of the image: the axis of 2theta and the colour bar.
const RIGHT: i32 = 210;
const TITLE_HEIGHT: i32 = 44;
const LINE_HEIGHT: i32 = 24;
/// Space for the axis of 2theta above the image, and for that of columns below it.
const AXIS_HEIGHT: i32 = 60;
const PATTERN_HEIGHT: u32 = 300;
/// Least width of the picture, for the lines of text.
const LEAST_WIDTH: i32 = 1100;
/// Number of bins of the pattern.
const BINS: usize = 800;

type Drawn = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<BitMapBackend<'a>, Shift>;

/// Positions of the parts of the picture, in pixels.
struct Layout {
    screen: Screen,
    /// Left and top corner of the image.
    image: [i32; 2],
    size: (u32, u32),
}

impl Layout {
    fn new(image: &DetectorImage) -> Self {
        let screen = Screen::fit(image.shape, IMAGE_SIZE);
        let [width, height] = screen.size.map(|length| length as i32);
        // One more line for the legend.
        let lines = LINE_HEIGHT.saturating_mul((image.notes.len() as i32).saturating_add(1));
        let top = TITLE_HEIGHT.saturating_add(lines).saturating_add(AXIS_HEIGHT);
        let total_width = width.saturating_add(LEFT).saturating_add(RIGHT).max(LEAST_WIDTH);
        let below = top.saturating_add(height).saturating_add(AXIS_HEIGHT);
        let total_height = below.saturating_add(PATTERN_HEIGHT as i32);
        Self { screen, image: [LEFT, top], size: (total_width as u32, total_height as u32) }
    }

    fn right(&self) -> i32 {
        self.image[0].saturating_add(self.screen.size[0] as i32)
    }

    fn bottom(&self) -> i32 {
        self.image[1].saturating_add(self.screen.size[1] as i32)
    }
}

pub fn render_png(image: &DetectorImage) -> Result<Vec<u8>, Box<dyn Error>> {
    register_font(FONT, FontStyle::Normal, dejavu::sans::regular())
        .map_err(|_| "the built-in font is damaged")?;
    let layout = Layout::new(image);
    let (width, height) = layout.size;
    let mut bytes = vec![255; (width as usize).saturating_mul(height as usize).saturating_mul(3)];
    let integrated =
        image.counts.iter().zip(&image.kinds).filter(|(_, kind)| **kind == PixelKind::Valid);
    let contrast = Contrast::from_values(integrated.map(|(counts, _)| *counts));
    copy_image(&draw_pixels(image, &layout.screen, &contrast), &layout, &mut bytes);
    {
        let area = BitMapBackend::with_buffer(&mut bytes, layout.size).into_drawing_area();
        draw_text(&area, image)?;
        draw_axes(&area, image, &layout)?;
        draw_beam(&area, image, &layout)?;
        draw_color_bar(&area, &layout, &contrast)?;
        let (_, pattern) = area.split_vertically(height.saturating_sub(PATTERN_HEIGHT));
        draw_pattern(&pattern, image)?;
        area.present()?;
    }
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    // By this mark, a later run knows that the file is azpipe's own.
    encoder.add_text_chunk("Software".to_owned(), file_mark::unsealed_mark())?;
    encoder.write_header()?.write_image_data(&bytes)?;
    file_mark::PNG.seal(&mut file);
    Ok(file)
}

/// Copies the drawn image into the picture.
fn copy_image(pixels: &[RGBColor], layout: &Layout, bytes: &mut [u8]) {
    let [left, top] = layout.image.map(|position| position as usize);
    let line = (layout.size.0 as usize).saturating_mul(3);
    for (row, colors) in pixels.chunks(layout.screen.size[0].max(1)).enumerate() {
        let start =
            row.saturating_add(top).saturating_mul(line).saturating_add(left.saturating_mul(3));
        let Some(out) = bytes.get_mut(start..) else { return };
        for (out, color) in out.as_chunks_mut().0.iter_mut().zip(colors) {
            *out = [color.0, color.1, color.2];
        }
    }
}

fn text(size: u32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&TEXT_COLOR)
}

/// Draws the title, the notes, and the legend of colours with the share of pixels of each.
fn draw_text(area: &Area, image: &DetectorImage) -> Drawn {
    area.draw(&Text::new(image.title.clone(), (LEFT, 12), text(24)))?;
    let mut y = TITLE_HEIGHT;
    for note in &image.notes {
        area.draw(&Text::new(note.clone(), (LEFT, y), text(17)))?;
        y = y.saturating_add(LINE_HEIGHT);
    }
    let kinds = [
        (GAP, PixelKind::Gap, "gaps of the detector"),
        (MASKED, PixelKind::Masked, "masks and regions"),
        (INVALID, PixelKind::Invalid, "invalid values"),
    ];
    let mut x = LEFT;
    let mut entry = |color: RGBColor, name: &str| -> Drawn {
        let middle = y.saturating_add(9);
        let swatch =
            [(x, middle.saturating_sub(7)), (x.saturating_add(14), middle.saturating_add(7))];
        area.draw(&Rectangle::new(swatch, color.filled()))?;
        area.draw(&Text::new(name.to_owned(), (x.saturating_add(20), y), text(17)))?;
        let (width, _) = area.estimate_text_size(name, &text(17))?;
        x = x.saturating_add(width as i32).saturating_add(48);
        Ok(())
    };
    for (color, kind, name) in kinds {
        let count = image.kinds.iter().filter(|held| **held == kind).count();
        let share = 100.0 * count as f64 / image.kinds.len().max(1) as f64;
        if count > 0 {
            entry(color, &format!("{name}: {}", format_share(share)))?;
        }
    }
    if image.rings.is_empty() {
        return Ok(());
    }
    entry(RING, &format!("rings of {}", image.ring_name))
}

fn format_share(percent: f64) -> String {
    if percent >= 0.01 { format!("{percent:.2} %") } else { "below 0.01 %".to_owned() }
}

/// Returns a number without the zeros at its end.
fn format_number(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns about `count` round numbers within a range.
fn round_ticks(low: f64, high: f64, count: f64) -> Vec<f64> {
    let rough = (high - low) / count;
    if rough.is_nan() || rough <= 0.0 {
        return Vec::new();
    }
    let decade = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    let first = (low / step).ceil();
    (0..100)
        .map(|index| (first + f64::from(index)) * step)
        .take_while(|tick| *tick <= high * (1.0 + 1e-12))
        .collect()
}

/// Draws the frame of the image, rows and columns left and below, and 2theta above and right.
fn draw_axes(area: &Area, image: &DetectorImage, layout: &Layout) -> Drawn {
    let ([left, top], screen) = (layout.image, &layout.screen);
    let (right, bottom) = (layout.right(), layout.bottom());
    area.draw(&Rectangle::new(
        [(left.saturating_sub(1), top.saturating_sub(1)), (right, bottom)],
        TEXT_COLOR,
    ))?;
    let [rows, columns] = image.shape.map(|length| length as f64);
    let [width, height] = screen.size.map(|length| length as f64);
    let tick = |at: (i32, i32), to: (i32, i32), label: &str, pos: Pos| -> Drawn {
        area.draw(&PathElement::new([at, to], TEXT_COLOR))?;
        let beyond = |a: i32, b: i32| b.saturating_add(b.saturating_sub(a));
        let place = (beyond(at.0, to.0), beyond(at.1, to.1));
        area.draw(&Text::new(label.to_owned(), place, text(17).pos(pos)))?;
        Ok(())
    };
    let (below, above) = (Pos::new(HPos::Center, VPos::Top), Pos::new(HPos::Center, VPos::Bottom));
    let (beside, behind) =
        (Pos::new(HPos::Right, VPos::Center), Pos::new(HPos::Left, VPos::Center));
    for column in round_ticks(0.0, columns, (width / 110.0).max(1.0)) {
        let x = left.saturating_add(screen.x(column) as i32);
        tick((x, bottom), (x, bottom.saturating_add(6)), &format!("{column}"), below)?;
    }
    for row in round_ticks(0.0, rows, (height / 80.0).max(1.0)) {
        let y = top.saturating_add(screen.y(row) as i32);
        tick((left, y), (left.saturating_sub(6), y), &format!("{row}"), beside)?;
    }
    // The axes of 2theta run through the beam centre, or through the point of the image that is
    // nearest to it.
    let [row, column] = axis_origin(image);
    let along_row = |x: f64| two_theta_at(image, screen, x, screen.y(row));
    for (x, value) in find_crossings(along_row, width) {
        let x = left.saturating_add(x as i32);
        tick((x, top), (x, top.saturating_sub(6)), &format_number(value), above)?;
    }
    let along_column = |y: f64| two_theta_at(image, screen, screen.x(column), y);
    for (y, value) in find_crossings(along_column, height) {
        let y = top.saturating_add(y as i32);
        tick((right, y), (right.saturating_add(6), y), &format_number(value), behind)?;
    }
    let label = |text_of: String, at: (i32, i32), pos: Pos| -> Drawn {
        area.draw(&Text::new(text_of, at, text(18).pos(pos)))?;
        Ok(())
    };
    let middle_x = left.saturating_add(screen.size[0] as i32 / 2);
    let middle_y = top.saturating_add(screen.size[1] as i32 / 2);
    label("column (pixels)".to_owned(), (middle_x, bottom.saturating_add(32)), below)?;
    let line = format!("2θ (°) along row {}", row.floor());
    label(line, (middle_x, top.saturating_sub(30)), above)?;
    let upright =
        |size| (FONT, size).into_font().transform(FontTransform::Rotate270).color(&TEXT_COLOR);
    let rows_label = upright(18).pos(Pos::new(HPos::Center, VPos::Top));
    area.draw(&Text::new("row (pixels)".to_owned(), (14, middle_y), rows_label))?;
    let column_label = upright(18).pos(Pos::new(HPos::Center, VPos::Top));
    let line = format!("2θ (°) along column {}", column.floor());
    area.draw(&Text::new(line, (right.saturating_add(52), middle_y), column_label))?;
    Ok(())
}

/// Returns row and column of the beam centre, or of the pixel with the least 2theta.
fn axis_origin(image: &DetectorImage) -> [f64; 2] {
    if let Some(center) = image.beam_center() {
        return center;
    }
    let least = (0..image.two_theta.len())
        .min_by(|a, b| image.two_theta[*a].total_cmp(&image.two_theta[*b]));
    let (least, columns) = (least.unwrap_or(0), image.shape[1].max(1));
    [least.div_euclid(columns) as f64 + 0.5, least.rem_euclid(columns) as f64 + 0.5]
}

/// Returns the positions at which a function of the position takes round values, with these. Labels
/// that would overlap are left out.
fn find_crossings(value_at: impl Fn(f64) -> f64, length: f64) -> Vec<(f64, f64)> {
    let values: Vec<f64> =
        (0..=length as usize).map(|position| value_at(position as f64)).collect();
    let ends = values.iter().fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), value| {
        (low.min(*value), high.max(*value))
    });
    let mut found: Vec<(f64, f64)> = Vec::new();
    let ticks = round_ticks(ends.0, ends.1, (length / 160.0).max(2.0));
    for (position, pair) in values.windows(2).enumerate() {
        let [here, next] = pair else { continue };
        let crossed = ticks.iter().find(|tick| (here.min(*next)..here.max(*next)).contains(tick));
        // Zero is touched, not crossed.
        let is_zero = *here < 3.0 * (ends.1 - ends.0) / length && *here == ends.0;
        let tick = if is_zero { Some(&0.0) } else { crossed };
        if let Some(tick) = tick {
            let position = position as f64;
            match found.last() {
                Some((last, _)) if position - last < 40.0 => (),
                _ => found.push((position, *tick)),
            }
        }
    }
    found
}

/// Draws a cross at the beam centre.
fn draw_beam(area: &Area, image: &DetectorImage, layout: &Layout) -> Drawn {
    let Some([row, column]) = image.beam_center() else { return Ok(()) };
    let x = layout.image[0].saturating_add(layout.screen.x(column) as i32);
    let y = layout.image[1].saturating_add(layout.screen.y(row) as i32);
    let around = |center: i32| (center.saturating_sub(14), center.saturating_add(14));
    let ((left, right), (top, bottom)) = (around(x), around(y));
    let style = BEAM.stroke_width(2);
    area.draw(&PathElement::new([(left, y), (right, y)], style))?;
    area.draw(&PathElement::new([(x, top), (x, bottom)], style))?;
    Ok(())
}

fn draw_color_bar(area: &Area, layout: &Layout, contrast: &Contrast) -> Drawn {
    let [_, top] = layout.image;
    let left = layout.right().saturating_add(94);
    let (height, bottom) = (layout.screen.size[1] as i32, layout.bottom());
    for step in 0..height {
        let y = bottom.saturating_sub(step).saturating_sub(1);
        let color = grey(f64::from(step) / f64::from(height));
        area.draw(&PathElement::new([(left, y), (left.saturating_add(18), y)], color))?;
    }
    area.draw(&Rectangle::new([(left, top), (left.saturating_add(18), bottom)], TEXT_COLOR))?;
    let style = text(16).pos(Pos::new(HPos::Left, VPos::Center));
    let mut last = i32::MAX;
    for tick in contrast.ticks() {
        let y = bottom.saturating_sub((f64::from(height) * contrast.position(tick)) as i32);
        if last.saturating_sub(y) >= 22 {
            last = y;
            area.draw(&Text::new(
                format_number(tick),
                (left.saturating_add(24), y),
                style.clone(),
            ))?;
        }
    }
    let title = text(17).pos(Pos::new(HPos::Center, VPos::Bottom));
    area.draw(&Text::new(
        "counts".to_owned(),
        (left.saturating_add(18), top.saturating_sub(10)),
        title,
    ))?;
    Ok(())
}

/// Draws the mean counts of the integrated pixels over 2theta, and the rings as lines.
fn draw_pattern(area: &Area, image: &DetectorImage) -> Drawn {
    let (low, high, pattern) = average_over_two_theta(image);
    let values = || pattern.iter().map(|(_, value)| *value);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let is_log = least > 0.0 && most > 50.0 * least;
    let (bottom, top) =
        if is_log { (least * 0.8, most * 1.4) } else { (least.min(0.0), most.max(1e-9) * 1.06) };
    let scale = |value: f64| if is_log { value.log10() } else { value };
    let (bottom, top) = (scale(bottom), scale(top));
    let mut chart = ChartBuilder::on(area)
        .margin_left(8)
        .margin_right(40)
        .margin_bottom(8)
        .x_label_area_size(50)
        .y_label_area_size(LEFT.saturating_sub(8))
        .build_cartesian_2d(low..high, bottom..top)?;
    let lines = image.rings.iter().filter(|ring| (low..high).contains(ring));
    chart.draw_series(
        lines.map(|ring| PathElement::new([(*ring, bottom), (*ring, top)], RING.mix(0.75))),
    )?;
    let title = if is_log { "mean counts (log)" } else { "mean counts" };
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(TEXT_COLOR)
        .label_style(text(17))
        .x_label_formatter(&|value| format_number(*value))
        .y_labels(5)
        .y_label_formatter(&|value| {
            format_number(if is_log { round_to_two_digits(10_f64.powf(*value)) } else { *value })
        })
        .x_desc("2θ (°)")
        .y_desc(title)
        .axis_desc_style(text(18))
        .draw()?;
    chart.draw_series(LineSeries::new(
        pattern.iter().map(|(x, y)| (*x, scale(*y))),
        CURVE.stroke_width(2),
    ))?;
    Ok(())
}

fn round_to_two_digits(value: f64) -> f64 {
    let unit = 10_f64.powf(value.abs().log10().floor() - 1.0);
    (value / unit).round() * unit
}

/// Returns the range of 2theta, and the mean counts in bins that have integrated pixels.
fn average_over_two_theta(image: &DetectorImage) -> (f64, f64, Vec<(f64, f64)>) {
    let integrated = || {
        let pixels = image.two_theta.iter().zip(&image.counts).zip(&image.kinds);
        pixels
            .filter(|((_, counts), kind)| **kind == PixelKind::Valid && counts.is_finite())
            .map(|(pixel, _)| pixel)
    };
    let (low, high) = integrated()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (position, _)| {
            (low.min(*position), high.max(*position))
        });
    if low.is_nan() || low >= high {
        return (0.0, 1.0, Vec::new());
    }
    let width = (high - low) / BINS as f64;
    let mut bins = vec![(0.0, 0.0); BINS];
    for (position, counts) in integrated() {
        let bin = (((position - low) / width) as usize).min(BINS.saturating_sub(1));
        bins[bin].0 += counts;
        bins[bin].1 += 1.0;
    }
    let centers = (0..BINS).map(|bin| low + (bin as f64 + 0.5) * width);
    let filled = centers.zip(bins).filter(|(_, (_, count))| *count > 0.0);
    (low, high, filled.map(|(center, (sum, count))| (center, sum / count)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_range() {
        assert_eq!(round_ticks(0.0, 487.0, 5.0), [0.0, 100.0, 200.0, 300.0, 400.0]);
        assert_eq!(round_ticks(2.5, 8.0, 5.0), [4.0, 6.0, 8.0]);
        assert!(
            round_ticks(1.0, 1.0, 5.0).is_empty() && round_ticks(f64::NAN, 1.0, 5.0).is_empty()
        );
    }

    #[test]
    fn two_theta_is_labelled_on_both_sides_of_the_beam() {
        let found = find_crossings(|x| (x - 205.0).abs() * 0.1, 510.0);
        let labels: Vec<f64> = found.iter().map(|(_, value)| *value).collect();
        assert_eq!(labels, [20.0, 10.0, 0.0, 10.0, 20.0, 30.0]);
    }
}
