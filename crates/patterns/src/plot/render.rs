//! Bytes of PNG, SVG and PDF files of plots.

use std::error::Error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use file_mark::MarkedFormat;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::canvas::{Canvas, DrawResult};
use super::pdf::{self, PdfPage};
use super::pixels::Pixels;
use super::plot_data::PlotData;
use super::scan_curves::ScanCurves;
use super::vector_backend::{SCALE, VectorBackend};
use crate::export::Drift;

/// Width and height of a plot in its units, which are pixels of a PNG file.
const PLOT_SIZE: (u32, u32) = (1200, 900);
/// SVG files of azpipe: the mark is a comment after the opening tag.
pub(super) const SVG: MarkedFormat =
    MarkedFormat { start: b"<svg", mark: b"<!-- azpipe ", is_png: false };

type Bytes = Result<Vec<u8>, Box<dyn Error>>;

/// Content of a plot.
pub(super) enum Picture<'a> {
    /// The frames of one final file.
    Final(&'a PlotData),
    /// The mean patterns of several scans.
    Scans(&'a ScanCurves),
    /// The drift of beam and detector over the frames of a scan.
    Drift(&'a Drift),
}

impl Picture<'_> {
    fn draw<B: DrawingBackend>(
        &self,
        canvas: &mut Canvas,
        area: &DrawingArea<B, Shift>,
    ) -> DrawResult
    where
        B::ErrorType: 'static,
    {
        area.fill(&WHITE)?;
        match self {
            Self::Final(data) => canvas.draw_final(area, data)?,
            Self::Scans(curves) => canvas.draw_scans(area, curves)?,
            Self::Drift(drift) => canvas.draw_drift(area, drift)?,
        }
        area.present().map_err(Into::into)
    }

    /// Returns the bytes of a PNG file.
    pub fn to_png(&self) -> Bytes {
        let mut pixels = Pixels::new(PLOT_SIZE.0 as usize, PLOT_SIZE.1 as usize);
        let mut canvas = Canvas::default();
        self.draw(
            &mut canvas,
            &VectorBackend::new(&mut pixels, size_in_parts())?.into_drawing_area(),
        )?;
        for (place, image) in &canvas.images {
            pixels.paint(*place, image);
        }
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, PLOT_SIZE.0, PLOT_SIZE.1);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.add_text_chunk("Software".to_owned(), file_mark::unsealed_mark())?;
        encoder.write_header()?.write_image_data(&pixels.rgb)?;
        file_mark::PNG.seal(&mut bytes);
        Ok(bytes)
    }

    /// Returns the bytes of an SVG file.
    pub fn to_svg(&self) -> Bytes {
        let mut text = String::new();
        let mut canvas = Canvas::default();
        self.draw(
            &mut canvas,
            &SVGBackend::with_string(&mut text, size_in_parts()).into_drawing_area(),
        )?;
        let (tag, rest) = text.split_once('\n').ok_or("the picture has no opening tag")?;
        let (width, height) = size_in_parts();
        let tag = tag.replacen(
            &format!("width=\"{width}\" height=\"{height}\""),
            &format!("width=\"{}\" height=\"{}\"", PLOT_SIZE.0, PLOT_SIZE.1),
            1,
        );
        let body =
            rest.trim_end().strip_suffix("</svg>").ok_or("the picture has no closing tag")?;
        // The mark follows the opening tag, which is the first line.
        let mut text = format!("{tag}\n<!-- {} -->\n{body}", file_mark::unsealed_mark());
        for ([x, y, width, height], image) in &canvas.images {
            let pixels = STANDARD.encode(image.to_png()?);
            text += &format!(
                "<image x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" preserveAspectRatio=\"none\" \
                 style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{pixels}\"/>\n"
            );
        }
        text += "</svg>\n";
        let mut bytes = replace_non_xml(text).into_bytes();
        SVG.seal(&mut bytes);
        Ok(bytes)
    }

    /// Returns the bytes of a PDF file.
    pub fn to_pdf(&self) -> Bytes {
        let mut page = PdfPage::new(size_in_parts());
        let mut canvas = Canvas::default();
        self.draw(
            &mut canvas,
            &VectorBackend::new(&mut page, size_in_parts())?.into_drawing_area(),
        )?;
        let mut bytes = page.into_file(&canvas.images)?;
        pdf::FORMAT.seal(&mut bytes);
        Ok(bytes)
    }
}

/// Replaces the characters that XML 1.0 forbids, escaped or not. Titles may have any.
fn replace_non_xml(text: String) -> String {
    let is_forbidden = |char: char| match char {
        '\t' | '\n' | '\r' => false,
        '\u{fffe}' | '\u{ffff}' => true,
        char => char < ' ',
    };
    match text.contains(is_forbidden) {
        true => text.replace(is_forbidden, "\u{fffd}"),
        false => text,
    }
}

/// Returns the size of a plot in parts of its units.
fn size_in_parts() -> (u32, u32) {
    (PLOT_SIZE.0.saturating_mul(SCALE), PLOT_SIZE.1.saturating_mul(SCALE))
}
