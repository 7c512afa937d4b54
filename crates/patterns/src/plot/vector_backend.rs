//! [`VectorBackend`]: draws plots as filled and stroked outlines, for pages of PDF files and for
//! antialiased pixels.
//!
//! Text is drawn as the outlines of its letters, so that a file needs no font and a line of text
//! has the same place in each format.
#![allow(
    clippy::arithmetic_side_effects,
    reason = "coordinates of a plot are thousands at most, and points are numbers in floating point"
)]

use std::convert::Infallible;

use ab_glyph::{Font, FontRef, OutlineCurve, Point, ScaleFont, point};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    FontTransform,
};

/// Coordinates of outlines are whole numbers of these parts of a plot's units.
pub(super) const SCALE: u32 = 8;

/// Red, green and blue, from 0 to 1.
pub(super) type Color = [f32; 3];

/// Something that outlines are drawn on, in parts of a plot's units ([`SCALE`]).
pub(super) trait Surface {
    /// Fills the closed outlines that these curves form.
    fn fill(&mut self, outline: &[OutlineCurve], color: Color);

    /// Draws a line through these points.
    fn stroke(&mut self, path: &[Point], width: f32, color: Color);
}

/// Backend of plotters that draws on a surface.
pub(super) struct VectorBackend<'s, S> {
    surface: &'s mut S,
    size: (u32, u32),
    font: FontRef<'static>,
}

impl<'s, S: Surface> VectorBackend<'s, S> {
    /// Creates the backend of a surface of this size in parts of units.
    pub fn new(surface: &'s mut S, size: (u32, u32)) -> Result<Self, ab_glyph::InvalidFont> {
        Ok(Self { surface, size, font: FontRef::try_from_slice(dejavu::sans::regular())? })
    }
}

type BackendResult = Result<(), DrawingErrorKind<Infallible>>;

impl<S: Surface> DrawingBackend for VectorBackend<'_, S> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> BackendResult {
        Ok(())
    }

    fn present(&mut self) -> BackendResult {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> BackendResult {
        let next = (x.saturating_add(1), y.saturating_add(1));
        self.draw_rect((x, y), next, &color, true)
    }

    fn draw_line<T: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &T,
    ) -> BackendResult {
        self.draw_path([from, to], style)
    }

    fn draw_rect<T: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &T,
        fill: bool,
    ) -> BackendResult {
        let corners = [from, (to.0, from.1), to, (from.0, to.1)];
        if fill {
            self.fill_polygon(corners, style)
        } else {
            self.draw_path(corners.into_iter().chain([from]), style)
        }
    }

    fn draw_path<T: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &T,
    ) -> BackendResult {
        let points: Vec<Point> = path.into_iter().map(to_point).collect();
        if style.color().alpha > 0.0 {
            self.surface.stroke(&points, style.stroke_width() as f32, to_color(style.color()));
        }
        Ok(())
    }

    fn draw_circle<T: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &T,
        _fill: bool,
    ) -> BackendResult {
        // A line without length that is as wide as the circle, with round ends.
        let center = to_point(center);
        self.surface.stroke(&[center, center], 2.0 * radius as f32, to_color(style.color()));
        Ok(())
    }

    fn fill_polygon<T: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &T,
    ) -> BackendResult {
        let points: Vec<Point> = path.into_iter().map(to_point).collect();
        let next = points.iter().cycle().skip(1);
        let outline: Vec<OutlineCurve> =
            points.iter().zip(next).map(|(from, to)| OutlineCurve::Line(*from, *to)).collect();
        if style.color().alpha > 0.0 {
            self.surface.fill(&outline, to_color(style.color()));
        }
        Ok(())
    }

    fn draw_text<T: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &T,
        pos: BackendCoord,
    ) -> BackendResult {
        let size = style.size() as f32;
        let font = self.font.as_scaled(size);
        let width: f32 = text.chars().map(|char| font.h_advance(font.glyph_id(char))).sum();
        let mut x = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => -width / 2.0,
            HPos::Right => -width,
        };
        // As the SVG files of plotters place the base line.
        let em = size / 1.24;
        let baseline = match style.anchor().v_pos {
            VPos::Top => 0.76 * em,
            VPos::Center => 0.27 * em,
            VPos::Bottom => -0.27 * em,
        };
        let unit = size / font.font.height_unscaled();
        let origin = to_point(pos);
        let mut outline = Vec::new();
        for char in text.chars() {
            let glyph = font.glyph_id(char);
            // The y axis of a font points upwards.
            let place = |of_font: Point| {
                let (x, y) = (x + of_font.x * unit, baseline - of_font.y * unit);
                origin
                    + match style.transform() {
                        FontTransform::None => point(x, y),
                        FontTransform::Rotate90 => point(-y, x),
                        FontTransform::Rotate180 => point(-x, -y),
                        FontTransform::Rotate270 => point(y, -x),
                    }
            };
            let curves = font.font.outline(glyph).map(|outline| outline.curves).unwrap_or_default();
            outline.extend(curves.into_iter().map(|curve| match curve {
                OutlineCurve::Line(a, b) => OutlineCurve::Line(place(a), place(b)),
                OutlineCurve::Quad(a, b, c) => OutlineCurve::Quad(place(a), place(b), place(c)),
                OutlineCurve::Cubic(a, b, c, d) => {
                    OutlineCurve::Cubic(place(a), place(b), place(c), place(d))
                }
            }));
            x += font.h_advance(glyph);
        }
        self.surface.fill(&outline, to_color(style.color()));
        Ok(())
    }
}

fn to_point((x, y): BackendCoord) -> Point {
    point(x as f32, y as f32)
}

fn to_color(color: BackendColor) -> Color {
    let (red, green, blue) = color.rgb;
    [red, green, blue].map(|value| f32::from(value) / 255.0)
}
