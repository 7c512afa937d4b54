//! [`Pixels`]: an antialiased image of a plot, one pixel for each unit.
#![allow(
    clippy::arithmetic_side_effects,
    reason = "coordinates of a plot are thousands at most, and points are numbers in floating point"
)]

use ab_glyph::{OutlineCurve, Point, point};
use ab_glyph_rasterizer::Rasterizer;

use super::palette_image::PaletteImage;
use super::vector_backend::{Color, SCALE, Surface};

/// Number of corners of the round end of a line.
const CORNERS: usize = 12;

/// An image that is being drawn; white at first.
pub(super) struct Pixels {
    width: usize,
    height: usize,
    /// Red, green and blue of each pixel, row by row from the top.
    pub rgb: Vec<u8>,
}

impl Pixels {
    /// Creates a white image.
    pub fn new(width: usize, height: usize) -> Self {
        Self { width, height, rgb: vec![255; width.saturating_mul(height).saturating_mul(3)] }
    }

    /// Paints an image into a rectangle: left, top, width and height in parts of units.
    pub fn paint(&mut self, place: [i32; 4], image: &PaletteImage) {
        let palette = PaletteImage::palette();
        let [left, top, wide, high] =
            place.map(|parts| (f64::from(parts) / f64::from(SCALE)).round() as i32);
        let share = |at: i32, size: i32| (f64::from(at) + 0.5) / f64::from(size);
        for y in 0..high {
            for x in 0..wide {
                let color =
                    usize::from(image.index_at(share(x, wide), share(y, high))).saturating_mul(3);
                let color = palette.get(color..color.saturating_add(3));
                if let (Some(pixel), Some(color)) =
                    (self.pixel(left.saturating_add(x), top.saturating_add(y)), color)
                {
                    pixel.copy_from_slice(color);
                }
            }
        }
    }

    fn pixel(&mut self, x: i32, y: i32) -> Option<&mut [u8]> {
        let (x, y) = (usize::try_from(x).ok()?, usize::try_from(y).ok()?);
        if x >= self.width || y >= self.height {
            return None;
        }
        let at = y.saturating_mul(self.width).saturating_add(x).saturating_mul(3);
        self.rgb.get_mut(at..at.saturating_add(3))
    }

    /// Fills outlines whose points are in pixels. A part that several outlines of the same
    /// direction cover is filled once.
    fn fill_in_pixels(&mut self, outline: &[OutlineCurve], color: Color) {
        let points = outline.iter().flat_map(|curve| match *curve {
            OutlineCurve::Line(a, b) => vec![a, b],
            OutlineCurve::Quad(a, b, c) => vec![a, b, c],
            OutlineCurve::Cubic(a, b, c, d) => vec![a, b, c, d],
        });
        let bounds = points.fold(None, |bounds: Option<(Point, Point)>, at| {
            let (low, high) = bounds.unwrap_or((at, at));
            Some((
                point(low.x.min(at.x), low.y.min(at.y)),
                point(high.x.max(at.x), high.y.max(at.y)),
            ))
        });
        let Some((low, high)) = bounds else { return };
        let corner = point(low.x.floor(), low.y.floor());
        let size = |from: f32, to: f32| ((to - from).ceil().max(0.0) as usize).saturating_add(2);
        let (width, height) = (size(corner.x, high.x), size(corner.y, high.y));
        if width > self.width.saturating_add(99) || height > self.height.saturating_add(99) {
            return;
        }
        let mut rasterizer = Rasterizer::new(width, height);
        for curve in outline {
            match *curve {
                OutlineCurve::Line(a, b) => rasterizer.draw_line(a - corner, b - corner),
                OutlineCurve::Quad(a, b, c) => {
                    rasterizer.draw_quad(a - corner, b - corner, c - corner)
                }
                OutlineCurve::Cubic(a, b, c, d) => {
                    rasterizer.draw_cubic(a - corner, b - corner, c - corner, d - corner);
                }
            }
        }
        rasterizer.for_each_pixel_2d(|x, y, coverage| {
            let coverage = coverage.abs().min(1.0);
            if coverage > 0.0
                && let Some(pixel) =
                    self.pixel(corner.x as i32 + x.cast_signed(), corner.y as i32 + y.cast_signed())
            {
                for (value, color) in pixel.iter_mut().zip(color) {
                    let mixed = f32::from(*value) * (1.0 - coverage) + color * 255.0 * coverage;
                    *value = mixed.round() as u8;
                }
            }
        });
    }
}

impl Surface for Pixels {
    fn fill(&mut self, outline: &[OutlineCurve], color: Color) {
        let scale = |at: Point| point(at.x / SCALE as f32, at.y / SCALE as f32);
        let scaled = outline.iter().map(|curve| match *curve {
            OutlineCurve::Line(a, b) => OutlineCurve::Line(scale(a), scale(b)),
            OutlineCurve::Quad(a, b, c) => OutlineCurve::Quad(scale(a), scale(b), scale(c)),
            OutlineCurve::Cubic(a, b, c, d) => {
                OutlineCurve::Cubic(scale(a), scale(b), scale(c), scale(d))
            }
        });
        self.fill_in_pixels(&scaled.collect::<Vec<_>>(), color);
    }

    fn stroke(&mut self, path: &[Point], width: f32, color: Color) {
        let half = width / 2.0;
        // A rectangle around each piece of the line, and a round joint at each point, all in the
        // same direction.
        let mut outline = Vec::new();
        for piece in path.windows(2) {
            let (from, to) = (piece[0], piece[1]);
            let (dx, dy) = (to.x - from.x, to.y - from.y);
            let length = dx.hypot(dy);
            if length > 0.0 {
                let side = point(-dy / length * half, dx / length * half);
                add_polygon(&mut outline, &[from + side, from - side, to - side, to + side]);
            }
        }
        // A straight line ends where its points are.
        if path.len() > 2 || path.first() == path.last() {
            for center in path {
                let corner = |number: usize| {
                    let (sine, cosine) =
                        (number as f32 / CORNERS as f32 * std::f32::consts::TAU).sin_cos();
                    *center + point(cosine * half, sine * half)
                };
                add_polygon(&mut outline, &(0..CORNERS).map(corner).collect::<Vec<_>>());
            }
        }
        self.fill(&outline, color);
    }
}

/// Adds a closed polygon to an outline.
fn add_polygon(outline: &mut Vec<OutlineCurve>, corners: &[Point]) {
    let next = corners.iter().cycle().skip(1);
    outline.extend(corners.iter().zip(next).map(|(from, to)| OutlineCurve::Line(*from, *to)));
}
