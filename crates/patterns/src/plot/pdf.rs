//! [`PdfPage`]: a page of a PDF file.

use std::io::Write as _;

use ab_glyph::{OutlineCurve, Point};
use file_mark::MarkedFormat;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::types::{LineCapStyle, LineJoinStyle};
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Rect, Ref, TextStr};

use super::palette_image::PaletteImage;
use super::vector_backend::{Color, SCALE, Surface};

/// Size of a part of a plot's unit on the page, in points (1/72 inch): a plot of 1200 units is 7
/// inches wide.
const POINTS: f32 = 0.42 / SCALE as f32;

/// PDF files of azpipe: the mark is the entry `Creator` of the document information.
pub(super) const FORMAT: MarkedFormat =
    MarkedFormat { start: b"%PDF", mark: b"/Creator (azpipe ", is_png: false };

/// A page that is being drawn.
pub(super) struct PdfPage {
    content: Content,
    size: (u32, u32),
}

impl Surface for PdfPage {
    fn fill(&mut self, outline: &[OutlineCurve], [red, green, blue]: Color) {
        self.content.set_fill_rgb(red, green, blue);
        let mut last = None;
        for curve in outline {
            let (OutlineCurve::Line(from, to)
            | OutlineCurve::Quad(from, _, to)
            | OutlineCurve::Cubic(from, _, _, to)) = curve;
            if last != Some(*from) {
                self.content.move_to(from.x, from.y);
            }
            last = Some(*to);
            // Pages have cubic curves only.
            let third = |end: &Point, control: &Point| {
                (end.x / 3.0 + control.x / 1.5, end.y / 3.0 + control.y / 1.5)
            };
            match curve {
                OutlineCurve::Line(..) => self.content.line_to(to.x, to.y),
                OutlineCurve::Quad(_, control, _) => {
                    let (one, two) = (third(from, control), third(to, control));
                    self.content.cubic_to(one.0, one.1, two.0, two.1, to.x, to.y)
                }
                OutlineCurve::Cubic(_, one, two, _) => {
                    self.content.cubic_to(one.x, one.y, two.x, two.y, to.x, to.y)
                }
            };
        }
        self.content.fill_nonzero();
    }

    fn stroke(&mut self, path: &[Point], width: f32, [red, green, blue]: Color) {
        self.content.set_stroke_rgb(red, green, blue);
        self.content.set_line_width(width);
        for (index, point) in path.iter().enumerate() {
            if index == 0 {
                self.content.move_to(point.x, point.y);
            } else {
                self.content.line_to(point.x, point.y);
            }
        }
        self.content.stroke();
    }
}

impl PdfPage {
    /// Creates an empty page of this size in parts of units.
    pub fn new(size: (u32, u32)) -> Self {
        let mut content = Content::new();
        // The y axis of a page points upwards.
        content.transform([POINTS, 0.0, 0.0, -POINTS, 0.0, POINTS * size.1 as f32]);
        content.set_line_join(LineJoinStyle::RoundJoin);
        content.set_line_cap(LineCapStyle::RoundCap);
        Self { content, size }
    }

    /// Returns the bytes of a PDF file of this page and images.
    ///
    /// # Errors
    /// Fails if the content can't be compressed.
    pub fn into_file(self, images: &[([i32; 4], PaletteImage)]) -> std::io::Result<Vec<u8>> {
        let Self { mut content, size: (width, height) } = self;
        let (catalog, pages, page_id, stream, info) =
            (Ref::new(1), Ref::new(2), Ref::new(3), Ref::new(4), Ref::new(5));
        let image_id =
            |index: usize| Ref::new(i32::try_from(index).unwrap_or_default().saturating_add(6));
        let names: Vec<String> = (0..images.len()).map(|index| format!("Image{index}")).collect();
        for (([left, top, width, height], _), name) in images.iter().zip(&names) {
            let [left, top, width, height] =
                [*left, *top, *width, *height].map(|number| number as f32);
            content.save_state();
            content.transform([width, 0.0, 0.0, -height, left, top + height]);
            content.x_object(Name(name.as_bytes()));
            content.restore_state();
        }
        let mut pdf = Pdf::new();
        let creator = file_mark::unsealed_mark();
        pdf.document_info(info).creator(TextStr(&creator));
        pdf.catalog(catalog).pages(pages);
        pdf.pages(pages).kids([page_id]).count(1);
        let mut page = pdf.page(page_id);
        page.media_box(Rect::new(0.0, 0.0, width as f32 * POINTS, height as f32 * POINTS));
        page.parent(pages).contents(stream);
        let mut resources = page.resources();
        let mut objects = resources.x_objects();
        for (index, name) in names.iter().enumerate() {
            objects.pair(Name(name.as_bytes()), image_id(index));
        }
        objects.finish();
        resources.finish();
        page.finish();
        for (index, (_, image)) in images.iter().enumerate() {
            let pixels = compress(&image.indices)?;
            let mut object = pdf.image_xobject(image_id(index), &pixels);
            object.filter(Filter::FlateDecode);
            object.width(image.width as i32).height(image.height as i32);
            object.color_space().indexed(Name(b"DeviceRGB"), 255, &PaletteImage::palette());
            object.bits_per_component(8);
        }
        pdf.stream(stream, &compress(&content.finish())?).filter(Filter::FlateDecode);
        Ok(pdf.finish())
    }
}

fn compress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}
