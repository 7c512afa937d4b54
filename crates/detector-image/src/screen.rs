//! The image in the pixels of the screen: averaged or enlarged counts, the shares of masked pixels,
//! and smooth rings.

use std::f64::consts::TAU;

use crate::contrast::{Contrast, grey};
use crate::{DetectorImage, PixelKind};
use plotters::style::RGBColor;

pub const GAP: RGBColor = RGBColor(186, 200, 216);
pub const MASKED: RGBColor = RGBColor(240, 150, 40);
pub const INVALID: RGBColor = RGBColor(200, 40, 180);
pub const RING: RGBColor = RGBColor(20, 110, 250);
pub const BEAM: RGBColor = RGBColor(215, 25, 40);

/// Half the width of a ring in pixels of the screen.
const HALF_WIDTH: f64 = 0.8;
/// Length of a dash and the gap after it, in pixels of the screen. The peak is seen in the gap.
const DASH_PERIOD: f64 = 56.0;
/// The least distance of rings in pixels of the screen; of closer ones, only the first is drawn.
const LEAST_DISTANCE: f64 = 5.0;

/// Maps between pixels of the detector and of the screen. Row 0 is at the bottom, as in pyFAI and
/// silx.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Width and height on the screen.
    pub size: [usize; 2],
    /// Rows and columns of the detector.
    shape: [usize; 2],
}

impl Screen {
    /// Fits an image of the shape into a square, enlarged by at most 8 and at least 60 pixels wide
    /// and high.
    pub fn fit([rows, columns]: [usize; 2], most: usize) -> Self {
        let most_float = most as f64;
        let scale = (most_float / rows.max(columns).max(1) as f64).min(8.0);
        let fit = |length: usize| ((length as f64 * scale).round() as usize).clamp(60, most);
        Self { size: [fit(columns), fit(rows)], shape: [rows, columns] }
    }

    /// Returns the column of the detector at a position from the left of the screen.
    pub fn column(&self, x: f64) -> f64 {
        x * self.shape[1] as f64 / self.size[0] as f64
    }

    /// Returns the row of the detector at a position from the top of the screen.
    pub fn row(&self, y: f64) -> f64 {
        (self.size[1] as f64 - y) * self.shape[0] as f64 / self.size[1] as f64
    }

    /// Returns the position from the left of the screen.
    pub fn x(&self, column: f64) -> f64 {
        column * self.size[0] as f64 / self.shape[1].max(1) as f64
    }

    /// Returns the position from the top of the screen.
    pub fn y(&self, row: f64) -> f64 {
        self.size[1] as f64 - row * self.size[1] as f64 / self.shape[0].max(1) as f64
    }

    /// Returns the detector's columns or rows that a pixel of the screen covers, at least one.
    fn covered(from: f64, to: f64, length: usize) -> std::ops::Range<usize> {
        let first = (from.min(to).round().max(0.0) as usize).min(length.saturating_sub(1));
        let last = (from.max(to).round() as usize).min(length);
        if last > first.saturating_add(1) {
            return first..last;
        }
        // Enlarged: the one in the middle.
        let middle = (((from + to) / 2.0).max(0.0) as usize).min(length.saturating_sub(1));
        middle..middle.saturating_add(1)
    }
}

/// Draws the image; returns the colours of the screen's pixels, row by row from the top.
pub fn draw_pixels(image: &DetectorImage, screen: &Screen, contrast: &Contrast) -> Vec<RGBColor> {
    let [width, height] = screen.size;
    let [rows, columns] = image.shape;
    let mut pixels = Vec::with_capacity(width.saturating_mul(height));
    for y in (0..height).map(|y| y as f64) {
        let covered_rows = Screen::covered(screen.row(y + 1.0), screen.row(y), rows);
        for x in (0..width).map(|x| x as f64) {
            let covered_columns =
                Screen::covered(screen.column(x), screen.column(x + 1.0), columns);
            let covered = covered_rows.clone().flat_map(|row| {
                let start = row.saturating_mul(columns);
                covered_columns.clone().map(move |column| start.saturating_add(column))
            });
            pixels.push(blend_covered(image, contrast, covered));
        }
    }
    draw_rings(image, screen, &mut pixels);
    pixels
}

/// Returns the colour of some pixels of the detector: the grey of their mean, mixed with the
/// colours of those that are masked.
fn blend_covered(
    image: &DetectorImage,
    contrast: &Contrast,
    pixels: impl Iterator<Item = usize>,
) -> RGBColor {
    let (mut sum, mut values, mut masked, mut all) = (0.0, 0.0, [0.0; 3], 0.0);
    for pixel in pixels {
        let (Some(&kind), Some(&counts)) = (image.kinds.get(pixel), image.counts.get(pixel)) else {
            continue;
        };
        all += 1.0;
        match kind {
            PixelKind::Gap => masked[0] += 1.0,
            PixelKind::Masked => masked[1] += 1.0,
            PixelKind::Invalid => masked[2] += 1.0,
            PixelKind::Valid => (),
        }
        if kind != PixelKind::Gap && counts.is_finite() {
            sum += counts;
            values += 1.0;
        }
    }
    let base =
        if values > 0.0 { grey(contrast.position(sum / values)) } else { RGBColor(255, 255, 255) };
    // Counts shine through masks that a user gave, which show whether the mask covers what it
    // should.
    let kinds = [(GAP, masked[0], 1.0), (MASKED, masked[1], 0.6), (INVALID, masked[2], 0.8)];
    kinds.into_iter().fold(base, |color, (mask, count, strength)| {
        // A single masked pixel among many must be seen.
        let share: f64 = if count > 0.0 { f64::max(count / all, 0.35) } else { 0.0 };
        mix(color, mask, share * strength)
    })
}

fn mix(base: RGBColor, over: RGBColor, share: f64) -> RGBColor {
    let channel =
        |a: u8, b: u8| (f64::from(a) * (1.0 - share) + f64::from(b) * share).round() as u8;
    RGBColor(channel(base.0, over.0), channel(base.1, over.1), channel(base.2, over.2))
}

/// Draws the rings over the image, dashed so that the counts below them are seen.
fn draw_rings(image: &DetectorImage, screen: &Screen, pixels: &mut [RGBColor]) {
    let center = image.beam_center().map(|[row, column]| [screen.x(column), screen.y(row)]);
    let mut last_drawn = f64::NEG_INFINITY;
    for (ring, on_ring) in image.rings.iter().zip(find_ring_pixels(image, screen)) {
        let Some(pixels_per_degree) =
            on_ring.iter().map(|pixel| pixel.pixels_per_degree).reduce(f64::max)
        else {
            continue;
        };
        if (ring - last_drawn) * pixels_per_degree < LEAST_DISTANCE {
            continue;
        }
        last_drawn = *ring;
        let offset = |pixel: &RingPixel, [x, y]: [f64; 2]| [pixel.x - x, pixel.y - y];
        // The dashes of a ring have one angle, so that they join.
        let farthest = center.map(|center| {
            on_ring
                .iter()
                .map(|pixel| offset(pixel, center))
                .map(|[x, y]| x.hypot(y))
                .fold(0.0, f64::max)
        });
        let dashes = farthest.map(|radius| (radius * TAU / DASH_PERIOD).round().max(6.0));
        for pixel in &on_ring {
            let phase = match (center, dashes) {
                (Some(center), Some(dashes)) => {
                    let [x, y] = offset(pixel, center);
                    y.atan2(x) / TAU * dashes
                }
                _ => (pixel.x + pixel.y) / DASH_PERIOD,
            };
            if let Some(color) =
                pixels.get_mut(pixel.index).filter(|_| phase.rem_euclid(1.0) < 0.55)
            {
                *color = mix(*color, RING, pixel.coverage);
            }
        }
    }
}

/// A pixel of the screen that a ring passes through.
struct RingPixel {
    index: usize,
    x: f64,
    y: f64,
    /// Share of the pixel that the line covers.
    coverage: f64,
    pixels_per_degree: f64,
}

/// Returns the pixels of the screen that each ring covers, by their distance from it: the
/// difference of 2theta over its gradient.
fn find_ring_pixels(image: &DetectorImage, screen: &Screen) -> Vec<Vec<RingPixel>> {
    let mut found: Vec<Vec<RingPixel>> = image.rings.iter().map(|_| Vec::new()).collect();
    let [width, height] = screen.size;
    let at = |x: f64, y: f64| two_theta_at(image, screen, x, y);
    for (index, (x, y)) in
        (0..height).flat_map(|y| (0..width).map(move |x| (x as f64, y as f64))).enumerate()
    {
        let here = at(x + 0.5, y + 0.5);
        let after = image.rings.partition_point(|ring| *ring < here);
        let neighbours = [after.checked_sub(1), Some(after)].into_iter().flatten();
        for (number, ring) in
            neighbours.filter_map(|number| Some((number, image.rings.get(number)?)))
        {
            let gradient = (at(x + 1.0, y + 0.5) - at(x, y + 0.5))
                .hypot(at(x + 0.5, y + 1.0) - at(x + 0.5, y));
            let distance = (here - ring).abs() / gradient;
            if distance < HALF_WIDTH + 0.5
                && let Some(on_ring) = found.get_mut(number)
            {
                let coverage = (HALF_WIDTH + 0.5 - distance).clamp(0.0, 1.0);
                on_ring.push(RingPixel {
                    index,
                    x,
                    y,
                    coverage,
                    pixels_per_degree: gradient.recip(),
                });
            }
        }
    }
    found
}

/// Returns 2theta at a position on the screen, interpolated between the centres of pixels.
pub fn two_theta_at(image: &DetectorImage, screen: &Screen, x: f64, y: f64) -> f64 {
    let [rows, columns] = image.shape;
    let locate = |position: f64, length: usize| {
        let position = (position - 0.5).clamp(0.0, length.saturating_sub(1) as f64);
        let index = (position as usize).min(length.saturating_sub(2));
        (index, position - index as f64)
    };
    let ((row, down), (column, right)) =
        (locate(screen.row(y), rows), locate(screen.column(x), columns));
    let value = |row: usize, column: usize| {
        let row = row.min(rows.saturating_sub(1));
        let index =
            row.saturating_mul(columns).saturating_add(column.min(columns.saturating_sub(1)));
        image.two_theta.get(index).copied().unwrap_or(f64::NAN)
    };
    let across = |row: usize| {
        value(row, column) * (1.0 - right) + value(row, column.saturating_add(1)) * right
    };
    across(row) * (1.0 - down) + across(row.saturating_add(1)) * down
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an image of a detector of 40 x 60 pixels, on which 2theta is a degree per pixel from
    /// the beam centre.
    fn image() -> DetectorImage {
        let two_theta =
            |pixel: usize| ((pixel / 60) as f64 - 10.0).hypot((pixel % 60) as f64 - 20.0);
        DetectorImage {
            shape: [40, 60],
            counts: vec![1.0; 2400],
            kinds: vec![PixelKind::Valid; 2400],
            two_theta: (0..2400).map(two_theta).collect(),
            rings: vec![5.0, 8.0],
            ring_name: String::new(),
            title: String::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn rings_are_where_two_theta_puts_them() {
        let (image, screen) = (image(), Screen::fit([40, 60], 600));
        assert_eq!(screen.size, [480, 320]);
        let found = find_ring_pixels(&image, &screen);
        for (ring, pixels) in image.rings.iter().zip(found) {
            // The centre of pixel (10, 20) is half a pixel further.
            let radius = |pixel: &RingPixel| {
                (screen.column(pixel.x + 0.5) - 20.5).hypot(screen.row(pixel.y + 0.5) - 10.5)
            };
            assert!(
                pixels.len() > 200 && pixels.iter().all(|pixel| (radius(pixel) - ring).abs() < 0.4),
                "{ring}"
            );
        }
    }

    #[test]
    fn a_single_masked_pixel_is_seen_in_a_large_image() {
        let mut large = image();
        (large.shape, large.rings) = ([2000, 2000], Vec::new());
        let pixels = 4_000_000;
        (large.counts, large.two_theta) = (vec![1.0; pixels], vec![50.0; pixels]);
        large.kinds = vec![PixelKind::Valid; pixels];
        large.kinds[1_234_567] = PixelKind::Masked;
        let contrast = Contrast::from_values([0.0, 1.0].into_iter());
        let drawn = draw_pixels(&large, &Screen::fit([2000, 2000], 800), &contrast);
        assert_eq!(drawn.iter().filter(|color| color.0 != color.2).count(), 1);
    }
}
