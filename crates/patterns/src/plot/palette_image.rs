//! Images of up to 256 colours: heat maps and colour bars.

use plotters::prelude::{RGBColor, ViridisRGB};

use super::value_scale::ValueScale;

/// Number of colours of the colour map; one more colour marks cells without data.
const MAP_COLORS: u8 = 255;
const NO_DATA: RGBColor = RGBColor(214, 214, 218);

/// Image whose pixels are indices of [`PaletteImage::palette`].
pub(super) struct PaletteImage {
    pub width: usize,
    pub height: usize,
    /// Indices, row by row from the top.
    pub indices: Vec<u8>,
}

impl PaletteImage {
    /// Creates the image of rows of values, of which the first row is the lowest one.
    pub fn from_rows<'v>(
        rows: impl DoubleEndedIterator<Item = &'v [f64]>,
        scale: &ValueScale,
    ) -> Self {
        let (mut indices, mut height, mut width) = (Vec::new(), 0_usize, 0);
        for row in rows.rev() {
            indices.extend(row.iter().map(|value| color_index(*value, scale)));
            (height, width) = (height.saturating_add(1), row.len());
        }
        Self { width, height, indices }
    }

    /// Creates the colour bar of a scale, with the lowest value at the bottom.
    pub fn color_bar(scale: &ValueScale) -> Self {
        let position = |index: u8| (f64::from(index) + 0.5) / f64::from(MAP_COLORS);
        let indices = (0..MAP_COLORS)
            .rev()
            .map(|index| color_index(scale.value(position(index)), scale))
            .collect();
        Self { width: 1, height: usize::from(MAP_COLORS), indices }
    }

    /// Returns red, green and blue of each colour.
    pub fn palette() -> Vec<u8> {
        let color = |index: u8| {
            ViridisRGB::get_color_normalized(f64::from(index), 0.0, f64::from(MAP_COLORS - 1))
        };
        let colors = (0..MAP_COLORS).map(color).chain([NO_DATA]);
        colors.flat_map(|RGBColor(red, green, blue)| [red, green, blue]).collect()
    }

    /// Returns the bytes of a PNG file.
    ///
    /// # Errors
    /// Fails if the image has no pixels.
    pub fn to_png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_palette(Self::palette());
        encoder.set_compression(png::Compression::High);
        // Differences of indices are no smaller than the indices.
        encoder.set_filter(png::Filter::NoFilter);
        encoder.write_header()?.write_image_data(&self.indices)?;
        Ok(bytes)
    }

    /// Returns the index at a point of the image; both coordinates are from 0 to 1, `y` from the
    /// top.
    pub fn index_at(&self, x: f64, y: f64) -> u8 {
        let at =
            |share: f64, size: usize| ((share * size as f64) as usize).min(size.saturating_sub(1));
        let row = at(y, self.height).saturating_mul(self.width);
        self.indices.get(row.saturating_add(at(x, self.width))).copied().unwrap_or(MAP_COLORS)
    }
}

fn color_index(value: f64, scale: &ValueScale) -> u8 {
    if value.is_finite() {
        (scale.position(value) * f64::from(MAP_COLORS - 1)).round() as u8
    } else {
        MAP_COLORS
    }
}
